"""Checks the invariants after every write and records violations. It never writes and never stops the simulation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from kube_embedded.base.store import Event, Record
from spinney.api.labels import SCHEDULER_KAI
from spinney.core.scheduling.plan import Plan
from spinney.sim.invariants import properties
from spinney.sim.invariants.facts import (
    LONE_LEAF,
    GangFacts,
    Key,
    NodeFacts,
    Part,
    PodFacts,
    RecordedState,
    read_amounts,
    read_gang,
    read_pod,
)
from spinney.sim.invariants.queue_shares import read_queue
from spinney.sim.invariants.reclaim import inv7_within_limits, queue_of
from spinney.sim.objects import Json, condition
from spinney.sim.world import World

PODS, NODES, CLASSES = "/pods", "/nodes", "scheduling.k8s.io/priorityclasses"
PODGROUPS, TOPOLOGIES = "scheduling.run.ai/podgroups", "kai.scheduler/topologies"
QUEUES = "scheduling.run.ai/queues"
WATCHED_RESOURCES = (CLASSES, QUEUES, TOPOLOGIES, NODES, PODGROUPS, PODS)
"""In the order in which existing objects are processed first: those that others refer to come first."""

LATE_S = 120.0
"""Allowed age of a cache where watches break and are late."""

FRESH_S = 1.0
"""A cache that is younger shows what is stored: shares of queues are judged by that alone."""


class Watchdog:
    """`violations` are sentences, each with the number of the write after which it was found.

    `late_s`: the allowed age of a scheduler's cache. `records_come_late`: a plan may be recorded after its scheduler
    has given it up, so the reservations of plans may exceed capacity; binds may not. `elects`: the epochs are counted
    by a Lease. A scheduler without leader election takes the next epoch after those it finds on PodGroups: an epoch is
    lost with the last PodGroup that carries it, and the next scheduler continues from those that are left. It does not
    fence either, so a plan that a killed one had sent may be recorded after a plan of the next one: it counts as no
    plan, and whoever binds or evicts for it breaks a promise.
    `record_keys`: the keys that plans are signed with; without keys every plan is accepted.
    """

    def __init__(
        self,
        now: Callable[[], float],
        schedulers: Iterable[str] = (SCHEDULER_KAI,),
        *,
        late_s: float = LATE_S,
        records_come_late: bool = False,
        elects: bool = True,
        record_keys: Sequence[bytes] = (),
    ) -> None:
        self.violations: list[str] = []
        self.writes = 0
        self.binds = 0
        self.plans = 0
        self.ground = RecordedState()
        self._now = now
        self._schedulers = frozenset(schedulers)
        self.late_s = late_s
        self._records_come_late = records_come_late
        self._elects = elects
        self._newest = properties.Epochs()
        self._record_keys = record_keys
        self._since: dict[Key, float] = {}
        self._leaf_of: dict[str, str] = {}  # by uid
        self._left: dict[str, float] = {}  # when pods ended or began to terminate, by uid
        self._needed: dict[str, float] = {}  # when an eviction of a pod was last justified, by uid
        self._deleted: dict[str, tuple[GangFacts, float]] = {}  # gang and time of a deleted plan, by pod uid
        self._planned_parts: dict[Key, tuple[Part, ...]] = {}  # the parts of a gang when its plan was recorded
        self._assigned_by: dict[str, tuple[str, int, float]] = {}  # the last plan that assigned a pod, by uid
        self._decided: dict[Key, tuple[frozenset[tuple[str, str]], float]] = {}  # assignments of a plan and their time
        self._sent: dict[tuple[Key, Plan], float] = {}  # when a plan that is not recorded yet was first sent
        self._reserved: dict[str, float] = {}  # when capacity was last reserved for a pod, by uid
        self._void: set[tuple[Key, Plan]] = set()  # plans of killed schedulers that nobody fences, recorded too late
        self._newest_s = 0.0  # when the newest epoch first wrote
        self._lost: dict[Key, Counter[str]] = defaultdict(Counter)  # lost bound or assigned members, by leaf
        self._repaired: set[Key] = set()  # partly bound gangs: completing them may pass through partial states
        self._whole: set[Key] = set()
        self._last_loss_s: dict[Key, float] = {}  # when the last bound member of a gang was lost
        self._handlers: dict[str, Callable[[Key, Json | None], None]] = {
            PODS: self._check_pod,
            PODGROUPS: self._check_gang,
            NODES: self._check_node,
            TOPOLOGIES: self._check_topology,
            CLASSES: self._check_class,
            QUEUES: self._check_queue,
        }

    @classmethod
    def over(cls, world: World, **options: float | bool) -> Watchdog:
        """A watchdog over a world: the current state is accepted, later writes are checked."""
        watchdog = cls(world.clock.monotonic, record_keys=world.record_keys, **options)  # type: ignore[arg-type]
        collections = world.server.kernel.store.collections
        for name in WATCHED_RESOURCES:
            for key, record in collections[name].records.items() if name in collections else ():
                watchdog.see(name, key, msgspec.json.decode(record.body))
        watchdog.violations.clear()
        watchdog.writes = 0

        def handler(collection: str, event: Event) -> None:
            record = event.new or event.last or event.old
            assert record is not None
            watchdog.see(collection, record.key, _decoded(event.new))

        world.on_write(handler)
        return watchdog

    def see(self, collection: str, key: Key, obj: Json | None) -> None:
        """Process one write: the object as it is now, None if it was deleted."""
        self.writes += 1
        handler = self._handlers.get(collection)
        if handler is not None:
            handler(key, obj)

    def sends(self, gang: Key, plan: Plan) -> None:
        """To be called when a scheduler sends a plan, before anything delays it; else the time of its record counts.

        The plans of one cycle are decided in one order and recorded in any.
        """
        self._sent.setdefault((gang, plan), self._now())

    def reserves(self, uid: str) -> None:
        """To be called when a scheduler reserves capacity for a pod: the next decisions count it as used.

        The plan may be sent later in the same cycle, when the pods above the minimum have been placed as well.
        """
        self._reserved[uid] = self._now()

    def evicts(self, victim: Key, uid: str = "") -> None:
        """Must be called for every eviction by the scheduler, when it reaches the server. `uid`: whom it names.

        One that arrives late may find another pod of that name: the server refuses it.
        """
        pod = self.ground.pods.get(victim)
        if pod is not None and uid not in ("", pod.uid):
            return
        needed_s = self._needed.get(pod.uid, -self.late_s) if pod is not None else 0.0
        if pod is not None and pod.is_live and needed_s + self.late_s < self._now():
            self._report(properties.inv7_lawful_eviction(self.ground, pod))

    def check_at_rest(self) -> list[str]:
        """All violations so far, and those of the state in which nothing changes any more."""
        found = [
            *properties.inv5_nobody_is_forgotten(self.ground, self._schedulers),
            *properties.inv6_nothing_is_reserved_for_nothing(self.ground),
        ]
        for gang in self.ground.gangs.values():
            found += self._check_all_or_nothing(gang)
        return [*self.violations, *(f"at rest: {text}" for text in found)]

    def forget(self) -> None:
        """Drop what is too old to excuse or to forbid anything, so that memory stays bounded on a long run."""
        before_s = self._now() - self.late_s
        ground = self.ground
        ground.forget(before_s)
        live = {pod.uid for pod in ground.pods.values()}
        gangs = ground.gangs.keys() | {pod.group for pod in ground.pods.values() if pod.group is not None}
        self._left = {uid: at_s for uid, at_s in self._left.items() if uid in live or at_s >= before_s}
        self._needed = {uid: at_s for uid, at_s in self._needed.items() if at_s >= before_s}
        self._deleted = {uid: each for uid, each in self._deleted.items() if each[1] >= before_s}
        self._sent = {plan: at_s for plan, at_s in self._sent.items() if at_s >= before_s}
        self._reserved = {uid: at_s for uid, at_s in self._reserved.items() if at_s >= before_s}
        self._void = {each for each in self._void if each in self._sent}
        for by_uid in (self._leaf_of, self._assigned_by):
            for uid in [uid for uid in by_uid if uid not in live and uid not in self._left]:
                del by_uid[uid]
        for by_gang in (self._since, self._planned_parts, self._decided, self._lost, self._last_loss_s):
            for key in [key for key in by_gang if key not in gangs]:
                del by_gang[key]
        self._repaired &= gangs
        self._whole &= gangs

    def _check_pod(self, key: Key, obj: Json | None) -> None:
        was = self.ground.remove_pod(key)
        pod = read_pod(obj) if obj is not None else None
        if was is not None and (pod is None or was.uid != pod.uid):
            if was.group in self.ground.gangs:
                self.ground.gone.append((was, queue_of(self.ground.gangs[was.group]), self._now()))
            self._left.setdefault(was.uid, self._now())
            self._record_loss(was, None)
            was = None
        if pod is None:
            return
        self.ground.put_pod(pod)
        self._leaf_of[pod.uid] = pod.leaf or LONE_LEAF
        if not pod.is_live:
            self._left.setdefault(pod.uid, self._now())
        if was is not None:
            self._record_loss(was, pod)
        if was is not None and pod.node != was.node and pod.scheduler in self._schedulers:
            self._check_bind(pod, was)

    def _record_loss(self, was: PodFacts, pod: PodFacts | None) -> None:
        """Count a member that was bound or had an assignment and is deleted, terminating or failed."""
        if was.group is None or not was.is_live or not (was.node or self._is_assigned(was)):
            return
        if pod is None or not pod.is_live:
            self._lost[was.group][was.leaf or LONE_LEAF] += 1
        if was.node and not any(one.node and one.is_live for one in self.ground.members(was.group)):
            self._reset_losses(was.group)

    def _is_assigned(self, pod: PodFacts) -> bool:
        gang = self.ground.gangs.get(pod.group) if pod.group is not None else None
        return (
            gang is not None
            and gang.plan is not None
            and any(assignment.uid == pod.uid for assignment in gang.plan.assignments)
        )

    def _reset_losses(self, key: Key) -> None:
        """No bound member is left: once the current plan is over, the gang is checked like one that was never bound."""
        gang = self.ground.gangs.get(key)
        self._whole.discard(key)
        self._last_loss_s[key] = self._now()
        if gang is None or gang.plan is None:
            self._forget_losses(key)

    def _forget_losses(self, key: Key) -> None:
        self._lost.pop(key, None)
        self._repaired.discard(key)

    def _check_bind(self, pod: PodFacts, was: PodFacts) -> None:
        self.binds += 1
        gang = self.ground.gangs.get(pod.group) if pod.group is not None else None
        lost = self._lost_records()
        if gang is None and pod.group is not None:
            gang = lost.get(pod.uid)
            self._repaired.add(pod.group)  # a recreated PodGroup finds its gang partly bound
        since_s = self._since.get(pod.group, self._now()) - self.late_s if pod.group is not None else 0.0
        self._report(properties.inv4_bound_as_recorded(self.ground, pod, was, _assigned_nodes(lost)))
        self._report(properties.inv1_no_overcommit(self.ground, pod.node, (pod,), since_s))
        if gang is not None:
            self._report(properties.inv3_required_topology(self.ground, gang, pod, since_s))

    def _lost_records(self) -> dict[str, GangFacts]:
        """Gangs, by pod uid, whose plan was deleted with their PodGroup within the last `late_s` seconds."""
        since_s = self._now() - self.late_s
        return {uid: gang for uid, (gang, gone_s) in self._deleted.items() if gone_s >= since_s}

    def _check_gang(self, key: Key, obj: Json | None) -> None:
        if obj is None:
            self._forget(key)
            return
        was, gang = self.ground.gangs.get(key), self._without_void_plan(read_gang(obj, self._record_keys))
        self.ground.put_gang(gang)
        if was is not None and was.plan is not None:
            self._needed.update(dict.fromkeys(was.plan.leaving, self._now()))
        if was is not None and properties.is_ended_as_stale(self.ground, was):
            self._needed.update((pod.uid, self._now()) for pod in self.ground.members(key))
        self._report(properties.inv10_fenced(gang, was, self._newest))
        if gang.epoch > self._newest.epoch:
            self._newest_s = self._now()
        self._newest.note(gang.lease, gang.epoch)
        if gang.plan is not None and (was is None or was.plan != gang.plan):
            self._check_new_plan(gang)
        if gang.plan is None and was is not None and was.plan is not None:
            self._check_ended_plan(gang, was.plan)

    def _without_void_plan(self, gang: GangFacts) -> GangFacts:
        """Without an election: the gang without a plan of an older epoch that was sent before the newest one wrote."""
        plan = gang.plan
        if plan is None or self._elects or plan.epoch >= self._newest.epoch:
            return gang
        sent_s = self._sent.get((gang.key, plan))
        if sent_s is not None and sent_s < self._newest_s:
            self._void.add((gang.key, plan))
        return replace(gang, plan=None, is_broken=True) if (gang.key, plan) in self._void else gang

    def _forget(self, key: Key) -> None:
        """A PodGroup was deleted: its plan counts while its writes may be in flight; a new one starts afresh.

        Binds and evictions name a pod and nothing else, so neither can fail because the PodGroup was deleted.
        """
        gang = self.ground.remove_gang(key)
        if gang is not None and gang.plan is not None:
            self._needed.update(dict.fromkeys(gang.plan.leaving, self._now()))
        if gang is not None and gang.plan is not None and gang.plan.state == "bind":
            self._deleted.update({assignment.uid: (gang, self._now()) for assignment in gang.plan.assignments})
        if not any(pod.node and pod.is_live for pod in self.ground.members(key)):
            self._forget_losses(key)
            self._whole.discard(key)
            self._last_loss_s.pop(key, None)
        if not self._elects:  # a scheduler that starts now takes the epoch after those that it finds
            found = max((each.epoch for each in self.ground.gangs.values()), default=0)
            self._newest.epoch = min(self._newest.epoch, found + 1)

    def _check_new_plan(self, gang: GangFacts) -> None:
        plan = gang.plan
        assert plan is not None
        self.plans += 1
        self._since[gang.key] = self._now()
        self._planned_parts[gang.key] = gang.parts
        since_s = self._now() - self.late_s
        self._report(properties.inv4_seats_are_taken_by_members(self.ground, gang, plan, self._left, since_s))
        self._lost[gang.key].update(
            self._leaf_of[assignment.uid] for assignment in plan.assignments if assignment.uid in self._left
        )
        if self._last_loss_s.get(gang.key, since_s - 1) >= since_s and self._repairs(gang, plan):
            self._repaired.add(gang.key)
        is_fresh = self.late_s < FRESH_S
        sent = frozenset(
            assignment.uid
            for (_, other), sent_s in self._sent.items()
            if sent_s >= since_s
            for assignment in other.assignments
        ) | {uid for uid, at_s in self._reserved.items() if at_s >= since_s}
        self._report(properties.inv7_lawful_plan(self.ground, gang, plan, since_s, exact=is_fresh, sent=sent))
        self._report(properties.inv7_lawful_moves(self.ground, gang, plan, exact=is_fresh))
        if is_fresh:
            self._report(inv7_within_limits(self.ground, gang, plan))
        decided_s = self._decided_at(gang.key, plan)
        if plan.state != "bind":
            return
        self._report(properties.inv3_ties(self.ground, gang, plan, self._assigned_by, since_s, decided_s))
        term = (gang.lease, plan.epoch, self._now())
        self._assigned_by.update(dict.fromkeys((assignment.uid for assignment in plan.assignments), term))
        self._report(properties.inv1_open(self.ground, plan, min(since_s, decided_s - self.late_s)))
        if not self._records_come_late:
            for node in sorted({assignment.node for assignment in plan.assignments}):
                uids = [assignment.uid for assignment in plan.assignments if assignment.node == node]
                new = self.ground.pods_with(uids)
                self._report(properties.inv1_no_overcommit(self.ground, node, new, since_s, reserved=True))

    def _decided_at(self, key: Key, plan: Plan) -> float:
        """When a plan with these assignments was first recorded, or sent if that is known."""
        assignments = frozenset((assignment.uid, assignment.node) for assignment in plan.assignments)
        sent_s = self._sent.pop((key, plan), self._now())
        if key not in self._decided or self._decided[key][0] != assignments:
            self._decided[key] = (assignments, sent_s)
        return self._decided[key][1]

    def _repairs(self, gang: GangFacts, plan: Plan) -> bool:
        """Whether a plan assigns too few pods for a gang without bound members: its maker still saw others bound."""
        uids = {assignment.uid for assignment in plan.assignments}
        assigned = Counter(pod.leaf or LONE_LEAF for pod in self.ground.members(gang.key) if pod.uid in uids)
        return not gang.is_whole(gang.root, assigned)

    def _check_ended_plan(self, gang: GangFacts, plan: Plan) -> None:
        """A plan is over. Assignments to nodes that changed meanwhile count as lost members, not as forgotten ones.

        So do those that would split a required domain now, because the node of another member has another place in it.
        The plan was made for what the gang asked when it was recorded: a gang that has that, and asks for more now, is
        repaired.
        """
        since_s = self._since[gang.key] - self.late_s
        waiting = {pod.uid: pod for pod in self.ground.members(gang.key) if pod.is_live and not pod.node}
        nodes = {assignment.uid: assignment.node for assignment in plan.assignments}
        together = [
            replace(pod, node=pod.node or nodes[pod.uid])
            for pod in self.ground.members(gang.key)
            if pod.is_live and (pod.node or pod.uid in nodes)
        ]
        left = [
            assignment
            for assignment in plan.assignments
            if assignment.uid in waiting
            and (
                not self._is_unchanged(assignment.node, since_s)
                or properties.was_split(self.ground, gang, waiting[assignment.uid], together, since_s, self._now())
                or self._has_left_domain(gang, waiting[assignment.uid], assignment.node, since_s)
            )
        ]
        self._lost[gang.key].update(waiting[assignment.uid].leaf or LONE_LEAF for assignment in left)
        self._decided.pop(gang.key, None)
        for assignment in plan.assignments:
            self._deleted.pop(assignment.uid, None)
        self._check_all_or_nothing(replace(gang, parts=self._planned_parts[gang.key]))
        self._report(self._check_all_or_nothing(gang))
        if not any(pod.node and pod.is_live for pod in self.ground.members(gang.key)):
            self._forget_losses(gang.key)

    def _has_left_domain(self, gang: GangFacts, pod: PodFacts, node: str, since_s: float) -> bool:
        """Whether the node was in the domains of the bound members since that moment, and is not now."""
        there = replace(pod, node=node)
        was, now = (
            not any(properties.inv3_required_topology(self.ground, gang, there, at_s))
            for at_s in (since_s, self._now())
        )
        return was and not now

    def _is_unchanged(self, node: str, since_s: float) -> bool:
        """Whether nothing changed on a node that could invalidate an assignment there; growing capacity does not."""
        versions = list(self.ground.nodes[node].since(since_s))
        first = versions[0] if versions else None
        return first is not None and all(
            one is not None
            and (one.labels, one.is_open) == (first.labels, first.is_open)
            and all(one.amounts.get(name, 0) >= amount for name, amount in first.amounts.items())
            for one in versions
        )

    def _check_all_or_nothing(self, gang: GangFacts) -> list[str]:
        """INV2, checked when no plan is open. A gang that lost members, or was whole and now asks more, is repaired."""
        if gang.plan is not None or gang.key in self._whole:
            return []
        has_begun = any(pod.node for pod in self.ground.members(gang.key))
        if has_begun and not any(properties.inv2_all_or_nothing(self.ground, gang)):
            self._whole.add(gang.key)
            self._forget_losses(gang.key)
        if gang.key in self._repaired:
            return []
        return list(properties.inv2_all_or_nothing(self.ground, gang, self._lost[gang.key]))

    def _check_node(self, key: Key, obj: Json | None) -> None:
        history = self.ground.nodes[key[1]]
        if obj is None:
            history.put(self._now(), None)
            return
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        ready = condition(tuple(status.get("conditions") or ()), "Ready")
        facts = NodeFacts(
            labels=obj["metadata"].get("labels") or {},
            amounts=read_amounts(status.get("allocatable")),
            is_open=not spec.get("unschedulable") and ready in ("", "True"),
        )
        history.put(self._now(), facts)

    def _check_topology(self, key: Key, obj: Json | None) -> None:
        levels = tuple(one["nodeLabel"] for one in obj["spec"]["levels"]) if obj is not None else None
        self.ground.levels[key[1]].put(self._now(), levels)

    def _check_class(self, key: Key, obj: Json | None) -> None:
        if obj is None:
            self.ground.priorities.pop(key[1], None)
        else:
            self.ground.priorities[key[1]] = obj.get("value", 0)

    def _check_queue(self, key: Key, obj: Json | None) -> None:
        self.ground.queues[key[1]].put(self._now(), read_queue(obj) if obj is not None else None)

    def _report(self, texts: Iterable[str]) -> None:
        self.violations += [f"write {self.writes}: {text}" for text in texts]


def _assigned_nodes(records: Mapping[str, GangFacts]) -> dict[str, str]:
    """The assigned node per pod uid, according to the plans of the given records."""
    plans = {uid: gang.plan for uid, gang in records.items() if gang.plan is not None}
    return {
        uid: assignment.node for uid, plan in plans.items() for assignment in plan.assignments if assignment.uid == uid
    }


def _decoded(record: Record | None) -> Json | None:
    return msgspec.json.decode(record.body) if record is not None else None
