"""Gangs read from the caches and made known to the engine: where their members run, and how they are to be decided.

Pods that have to go for others are members no more, though they hold their capacity until they are gone. A base gang
that begins anew while its scaled gangs still run goes to where they are (G12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.placement.problem import Tie
from spinney.core.scheduling.affinity.gang_affinity import AffinityContext, with_affinity
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.gang.parsed_gang import Context, ParsedGang, read_gang
from spinney.core.scheduling.queues.tree import QueueUsage
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.caches import SchedulerCaches, group_of
from spinney.drive.scheduler.cycle.min_runtime import MinRuntime
from spinney.drive.scheduler.cycle.preemption import RunningGang
from spinney.drive.scheduler.cycle.scheduling_queue import GangState, SchedulingQueue


class GangReader:
    """Over all views; `context` are the look-ups that a reading needs now."""

    def __init__(
        self,
        views: SchedulerCaches,
        cluster: Cluster,
        scheduling_queue: SchedulingQueue,
        session: PlacementSession,
        min_runtime: MinRuntime,
        context: Callable[[], Context],
    ) -> None:
        self._views = views
        self._cluster = cluster
        self._scheduling_queue = scheduling_queue
        self._session = session
        self._min_runtime = min_runtime
        self._context = context

    def read(self, entry: GangState, group: PodGroup, pods: Sequence[Pod], context: Context) -> None:
        """Where the members of a gang are now, for itself and for those tied to it."""
        before, reading = entry.reading, read_gang(group, self._members(pods), context)
        entry.reading = reading
        self._session.put_gang(reading.gang)
        self._scheduling_queue.set_base(entry, reading.gang.tied_to.gang if reading.gang.tied_to is not None else "")
        if before is None or before.gang.running != reading.gang.running:
            self._scheduling_queue.requeue_tied(entry.name)
            self._scheduling_queue.requeue_base(entry)
        if before is not None and reading.gang.running and _became_preemptible(before, reading):
            self._cluster.touch()

    def with_affinity(self, entry: GangState) -> ParsedGang:
        """A gang as it is to be decided beside the pods that have their places now."""
        assert entry.reading is not None
        there = self._cluster
        return with_affinity(
            entry.reading,
            AffinityContext(there.affinity_index, there.inventory, there.topologies, self._views.pods.get),
        )

    def reread(self, key: Key) -> None:
        """Members of a gang have to go, or need not go any more."""
        entry, group = self._scheduling_queue.entries.get(key), self._views.podgroups.get(key)
        if entry is not None and entry.reading is not None and group is not None:
            self.read(entry, group, self._views.pods_of(key), self._context())
        self._scheduling_queue.touch(key)

    def running_gang(self, name: str) -> RunningGang | None:
        """A gang by its name, as far as it may be disturbed."""
        namespace, _, short = name.partition("/")
        entry = self._scheduling_queue.entries.get((namespace, short))
        if entry is None or entry.reading is None:
            return None
        return RunningGang(
            entry.reading,
            lambda: self._members(self._views.pods_of(entry.key)),
            entry.in_flight,
            lambda: self._min_runtime.is_protected(entry),
        )

    def has_victims_leaving(self, key: Key) -> bool:
        """Whether members have to go and are not on their way yet: who stays, and where, is known when they are.

        The plan that they have to go for may never be recorded, or be given up; then they hold the others (INV3).
        """
        if not self._cluster.has_victims:
            return False
        return any(
            self._cluster.is_victim(pod.metadata.uid) and pod.metadata.deletion_timestamp is None
            for pod in self._views.pods_of(key)
        )

    def charges(self, pods: Iterable[Pod]) -> list[QueueUsage]:
        """What pods that hold room use of the queues of their gangs."""
        found = []
        for pod in pods:
            entry, held = (
                self._scheduling_queue.entries.get(group_of(pod)),
                self._cluster.inventory.pod(pod.metadata.uid),
            )
            if entry is not None and entry.reading is not None and held is not None:
                found.append(QueueUsage(entry.reading.queue, held.request, entry.reading.gang.preemptible))
        return found

    def finish_plan(self, entry: GangState) -> None:
        """Nothing of a plan is left: from now on its members may be victims, and those refused meanwhile ask again.

        So do those tied to it: members that were given a node and have none are nobody's company any more.
        """
        if not entry.in_flight or entry.reading is None:
            return
        entry.in_flight = False
        self._scheduling_queue.requeue_tied(entry.name)
        self._scheduling_queue.requeue_base(entry)
        gang = entry.reading.gang
        if gang.preemptible and gang.running and self._scheduling_queue.outranks(entry.decided, gang.priority):
            self._cluster.touch()

    def _members(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        if not self._cluster.has_victims:
            return pods
        return [pod for pod in pods if not self._cluster.is_victim(pod.metadata.uid)]


def _became_preemptible(before: ParsedGang, now: ParsedGang) -> bool:
    """Whether a gang that was in somebody's way may not be any more, though it stands where it stood."""
    is_weaker = now.gang.priority < before.gang.priority
    return is_weaker or now.gang.preemptible > before.gang.preemptible or now.queue != before.queue


def beside_scaled_gangs(reading: ParsedGang, scaled_gangs: Iterable[GangState], cluster: Cluster) -> ParsedGang:
    """The reading, tied for once to the one of its followers that has most members."""
    gang = reading.gang
    if gang.running or gang.tied_to is not None:
        return reading
    topology = cluster.topologies.get(gang.root.topology or "")
    standing = [
        each.reading.gang
        for each in scaled_gangs
        if each.reading is not None and each.reading.gang.running and each.reading.gang.tied_to is not None
    ]
    known = [each for each in standing if topology is not None and _tie_level(each.tied_to) in topology.levels]
    if not known:
        return reading
    most = max(known, key=lambda each: len(each.running))
    return replace(reading, gang=msgspec.structs.replace(gang, tied_to=Tie(most.name, _tie_level(most.tied_to))))


def _tie_level(tie: Tie | None) -> str:
    return tie.level if tie is not None else ""
