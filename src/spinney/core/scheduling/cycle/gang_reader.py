"""Parses gangs from the caches and passes them to the engine: where members run, and what is to be placed.

Pods that are victims no longer count as members, though they hold their capacity until they are gone. A base gang that
starts anew while its scaled gangs still run is placed beside them, and it is placed with those in mind that are to
follow it (G12).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.placement.problem import Gang, Tie
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.scheduling.affinity.gang_affinity import AffinityContext, with_affinity
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.grace_periods import MinRuntime
from spinney.core.scheduling.cycle.preemption import RunningGang
from spinney.core.scheduling.cycle.scheduling_queue import PlanEnded, QueuedGang, SchedulingQueue
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import Key, Snapshot, group_of
from spinney.core.scheduling.gang.parsed_gang import Context, ParsedGang, read_gang
from spinney.core.scheduling.gang.predecessors import attempts
from spinney.core.scheduling.gang.ranks import first_topology
from spinney.core.scheduling.gang.scaled_gangs import expected_gangs
from spinney.core.scheduling.queues.tree import QueueUsage


class GangReader:
    """Parses gangs into the session, for whoever decides them."""

    def __init__(self, session: Session, snapshot: Snapshot, min_runtime: MinRuntime) -> None:
        self._session = session
        self._snapshot = snapshot
        self._min_runtime = min_runtime

    def read(self, entry: QueuedGang, group: PodGroup, pods: Sequence[Pod], context: Context) -> None:
        """Parse a gang and update the state that it and the gangs tied to it depend on."""
        before, reading = entry.reading, read_gang(group, self._members(pods), context)
        entry.reading = reading
        self._session.placement.put_gang(reading.gang)
        self._session.scheduling_queue.set_base(
            entry, reading.gang.tied_to.gang if reading.gang.tied_to is not None else ""
        )
        if before is None or before.gang.running != reading.gang.running:
            self._session.scheduling_queue.requeue_tied(entry.name)
            self._session.scheduling_queue.requeue_base(entry)
        if before is not None and reading.gang.running and _became_preemptible(before, reading):
            self._session.cluster.touch()

    def with_affinity(self, entry: QueuedGang) -> ParsedGang:
        """The gang with its affinity terms resolved against the pods that have a node or a reservation now."""
        assert entry.reading is not None
        return self._with_affinity(entry.reading)

    def _with_affinity(self, reading: ParsedGang) -> ParsedGang:
        there = self._session.cluster
        return with_affinity(
            reading, AffinityContext(there.affinity_index, there.inventory, there.topologies, self._snapshot.pod)
        )

    def returning(self, entry: QueuedGang) -> Iterator[tuple[ParsedGang, bool]]:
        """The gang with its replacements limited to places near those of their predecessors, the nearest first (G13).

        And whether it may wait there for pods to terminate. At most two for each level of its topology.
        """
        group, reading = entry.group, entry.reading
        assert group is not None and reading is not None
        pods = self._members(self._snapshot.pods_of(entry.key))
        waiting = {pod.uid for some in reading.waiting.values() for pod in some}
        nodes = {uid: node for uid, node in entry.homes.items() if uid in waiting}
        cluster, context = self._session.cluster, self._session.context(self._snapshot)
        leaves = pod_sets(reading.gang)
        asked = [(uid, node, leaves[reading.members[uid]].request) for uid, node in nodes.items()]
        fit = self._session.placement.returnable(reading.gang, asked) if asked else ()
        paths = {node: cluster.path_above(first_topology(reading.gang.root), node) for node in nodes.values()}
        for homes in attempts(nodes, fit, paths):
            may_wait = any(home.fields for home in homes.values())
            yield self._with_affinity(read_gang(group, pods, replace(context, homes=homes))), may_wait

    def reread(self, key: Key) -> None:
        """Read a gang whose members were marked as victims or unmarked."""
        entry, group = self._session.scheduling_queue.entries.get(key), self._snapshot.podgroup(key)
        if entry is not None and entry.reading is not None and group is not None:
            self.read(entry, group, self._snapshot.pods_of(key), self._session.context(self._snapshot))
        self._session.scheduling_queue.touch(key)

    def running_gang(self, name: str) -> RunningGang | None:
        """A gang by its name, with what victim selection has to know of it."""
        namespace, _, short = name.partition("/")
        entry = self._session.scheduling_queue.entries.get((namespace, short))
        if entry is None or entry.reading is None:
            return None
        return RunningGang(
            entry.reading,
            lambda: self._members(self._snapshot.pods_of(entry.key)),
            entry.in_flight,
            lambda parting: self._min_runtime.is_protected(entry, parting),
            entry.group.metadata.creation_timestamp or "" if entry.group is not None else "",
        )

    def has_victims_leaving(self, key: Key) -> bool:
        """Whether victims of the gang are not terminating yet: who stays, and where, is known only once they are.

        The plan that they were selected for may never be recorded, or be dropped; then they stay and bind the others
        (INV3).
        """
        if not self._session.cluster.has_victims:
            return False
        return any(
            self._session.cluster.is_victim(pod.metadata.uid) and pod.metadata.deletion_timestamp is None
            for pod in self._snapshot.pods_of(key)
        )

    def charges(self, pods: Iterable[Pod]) -> list[QueueUsage]:
        """The queue usage of running pods, each charged to the queue of its gang."""
        found = []
        for pod in pods:
            entry, held = (
                self._session.scheduling_queue.entries.get(group_of(pod)),
                self._session.cluster.inventory.pod(pod.metadata.uid),
            )
            if entry is not None and entry.reading is not None and held is not None:
                found.append(QueueUsage(entry.reading.queue, held.request, entry.reading.gang.preemptible))
        return found

    def finish_plan(self, entry: QueuedGang) -> None:
        """No plan is left: the gang's members may be victims again, and gangs that were refused meanwhile are retried.

        Gangs tied to it are decided again too: a member whose assignment was given up no longer determines their
        domain.
        """
        if not entry.in_flight or entry.reading is None:
            return
        self._session.scheduling_queue.apply(entry, PlanEnded())
        self._session.scheduling_queue.requeue_tied(entry.name)
        self._session.scheduling_queue.requeue_base(entry)
        gang = entry.reading.gang
        if not gang.preemptible or not gang.running:
            return
        self._session.queue_accounting.queues.touch()  # gangs of other queues may take from it now
        if self._session.scheduling_queue.outranks(entry.decided, gang.priority):
            self._session.cluster.touch()

    def _members(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        if not self._session.cluster.has_victims:
            return pods
        return [pod for pod in pods if not self._session.cluster.is_victim(pod.metadata.uid)]


def _became_preemptible(before: ParsedGang, now: ParsedGang) -> bool:
    """Whether a gang may now be a victim where it could not before, though its members run on the same nodes."""
    is_weaker = now.gang.priority < before.gang.priority
    return is_weaker or now.gang.preemptible > before.gang.preemptible or now.queue != before.queue


def beside_scaled_gangs(reading: ParsedGang, scaled_gangs: Iterable[QueuedGang], cluster: Cluster) -> ParsedGang:
    """The gang tied, for this decision only, to the one of its scaled gangs that has the most running members."""
    gang = reading.gang
    if gang.running or gang.tied_to is not None:
        return reading
    topology = cluster.topologies.get(gang.root.topology or "")
    running_gangs = [
        each.reading.gang
        for each in scaled_gangs
        if each.reading is not None and each.reading.gang.running and each.reading.gang.tied_to is not None
    ]
    known = [each for each in running_gangs if topology is not None and _tie_level(each.tied_to) in topology.levels]
    if not known:
        return reading
    most = max(known, key=lambda each: len(each.running))
    return replace(reading, gang=msgspec.structs.replace(gang, tied_to=Tie(most.name, _tie_level(most.tied_to))))


def followers_of(entry: QueuedGang, reading: ParsedGang, queue: SchedulingQueue, cluster: Cluster) -> list[Gang]:
    """The gangs that are to share the domain of a gang and have no places yet: its scaled gangs, or their other ones.

    A gang that its set asks for is taken as the base gang tells it, so that it does not matter whether it was seen.
    """
    base = queue.base_of(entry) if entry.base else entry
    of_base = reading if base is entry else base.reading if base is not None else None
    if base is None or of_base is None:
        return []
    known = queue.scaled_gangs(base.name)
    found = expected_gangs(of_base.gang, of_base.scaled_gangs) if of_base.scaled_gangs else {}
    for each in known:
        if each.reading is not None and each.reading.ready and any(each.reading.waiting.values()):
            found.setdefault(each.name, each.reading.gang)
    placed = {each.name for each in known if _has_places(each)} | {entry.name}
    return [gang for name, gang in found.items() if name not in placed and not cluster.keeps_room_for(name)]


def _has_places(entry: QueuedGang) -> bool:
    runs = entry.reading is not None and bool(entry.reading.gang.running)
    return runs or entry.in_flight or bool(entry.assignments)


def _tie_level(tie: Tie | None) -> str:
    return tie.level if tie is not None else ""
