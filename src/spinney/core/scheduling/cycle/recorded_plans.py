"""Recorded plans: reviewed when an earlier leader made them; made, continued or dropped while they wait for victims.

A plan is recorded before its first victim is evicted, and its assignments stay reserved until it is bound or dropped.
No pod is evicted for a plan that can no longer succeed, or that can be bound without the eviction.

A plan of an earlier leader is reviewed by the rules for a decision made now: the cluster has changed since, and the
record may be an old one that was written again. A review changes nothing: an objection is a sentence, and the caller
gives the plan up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.placement.problem import ANY_NODE, Gang, Group, NodeFilter, PodSet
from spinney.core.inventory.filters import why_not
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.scheduling.cluster import ReservedCapacity
from spinney.core.scheduling.cycle.actions import BindNow, DropPlan, EvictionTarget, EvictRemaining, Nominate, PlanTask
from spinney.core.scheduling.cycle.gang_reader import GangReader, beside_scaled_gangs
from spinney.core.scheduling.cycle.grace_periods import MinRuntime
from spinney.core.scheduling.cycle.preemption import Budgets, VictimSelection
from spinney.core.scheduling.cycle.reservations import Reservations
from spinney.core.scheduling.cycle.scheduling_queue import Planned, QueuedGang, VictimsAwaited
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import Key, Snapshot, group_of
from spinney.core.scheduling.gang.members import shortage, starts_whole
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.gang.pod_shape import shapes_on
from spinney.core.scheduling.plan import Assignment, Move, Plan
from spinney.core.scheduling.plan_records import RecordReader
from spinney.core.scheduling.queues.reclaim import Unit
from spinney.core.scheduling.queues.tree import Shares
from spinney.core.scheduling.reporting.messages import consolidated, preempted, reclaimed
from spinney.core.scheduling.reporting.report import Event

Domain = tuple[str, ...]
_Part = tuple[str, str | None, str | None]
"""A part of the gang: path prefix of what is below it, topology, and required level."""
_Claim = tuple[str, str, str]
"""What only one pod can have: ("", node, host port), or (path of a pod set, node label, value)."""


@dataclass(frozen=True, slots=True)
class _Progress:
    """`still`: victims to evict yet; `is_ready`: all capacity is free and within limits; `is_lost`: it never can be."""

    still: list[Pod]
    is_allowed: bool
    is_ready: bool
    is_lost: bool


class PlanReview:
    """Works on everything that a cycle has read."""

    def __init__(self, session: Session, snapshot: Snapshot, gang_reader: GangReader, min_runtime: MinRuntime) -> None:
        self._session = session
        self._snapshot = snapshot
        self._gang_reader = gang_reader
        self._min_runtime = min_runtime

    def assignments(
        self, entry: QueuedGang, assignments: Sequence[Assignment], leaving: Container[str] = ()
    ) -> dict[str, str]:
        """Why assignments of pending pods are not valid, by uid. Free capacity is checked when they are reserved.

        Must be called before they are reserved: other pods are counted as they are. `leaving`: uids of the plan's
        victims.
        """
        assert entry.reading is not None
        reading = self._gang_reader.with_affinity(entry)
        gang, members, sets = reading.gang, reading.members, pod_sets(reading.gang)
        base = self._session.scheduling_queue.entries.get(_key(gang.tied_to.gang)) if gang.tied_to is not None else None
        other = base.reading.gang if base is not None and base.reading is not None else None
        found = misplaced(
            gang, members, self._filters(entry.key, members, sets), assignments, self._session.cluster.inventory, other
        )
        rest = [assignment for assignment in assignments if assignment.uid not in found]
        found |= crowded(members, sets, rest, self._session.cluster.inventory, leaving)
        return self._affinity_lost(entry.reading, sets, assignments) | found

    def _filters(self, key: Key, members: Mapping[str, str], sets: Mapping[str, PodSet]) -> dict[str, NodeFilter]:
        """Node filters by uid: that of its pod set, volumes included, for a member of the gang; else the pod's own."""
        shapes = shapes_on(self._session.cluster.inventory.resources)
        pods = self._snapshot.pods_of(key)
        own = {pod.metadata.uid: shapes.of(pod).filter for pod in pods if not pod.spec.node_name}
        return own | {uid: sets[path].filter for uid, path in members.items() if path in sets}

    def _affinity_lost(
        self, reading: ParsedGang, now: Mapping[str, PodSet], assignments: Sequence[Assignment]
    ) -> dict[str, str]:
        """Assignments of pods whose pod affinity cannot be met anywhere now."""
        before, paths = pod_sets(reading.gang), reading.members
        reported = {
            path: pods.unsupported for path, pods in now.items() if pods.unsupported != before[path].unsupported
        }
        return {
            assignment.uid: reported[paths[assignment.uid]]
            for assignment in assignments
            if paths.get(assignment.uid) in reported
        }

    def leaving(self, entry: QueuedGang, plan: Plan) -> str:
        """Why the plan's victims may not be evicted; empty: a decision could select them now (INV7)."""
        held = [pod for uid in plan.leaving if (pod := self._session.cluster.running_pod(uid)) is not None]
        still = [pod for pod in held if pod.metadata.deletion_timestamp is None]
        victims = frozenset(plan.victims)
        reasons = (self._objection_to_victim(entry, pod, is_victim=pod.metadata.uid in victims) for pod in still)
        found = next((reason for reason in reasons if reason), "") or self._too_many(entry, plan)
        return found or self._below_minimum(still, victims) or self._budget_protected(still)

    def _objection_to_victim(self, entry: QueuedGang, pod: Pod, *, is_victim: bool) -> str:
        """Why one pod may not be disturbed."""
        name = f"pod {pod.metadata.namespace}/{pod.metadata.name}"
        other, reading = self._session.scheduling_queue.entries.get(group_of(pod)), entry.reading
        if other is None or other.reading is None or reading is None or other is entry:
            return f"{name} is in no other gang"
        theirs, mine = other.reading.gang, reading.gang.priority
        is_reclaimed = is_victim and other.reading.queue != reading.queue
        is_less = theirs.priority < mine or is_reclaimed or (not is_victim and theirs.priority == mine)
        if not theirs.preemptible or not is_less:
            return f"{name} is not less important, or can not be preempted"
        if is_victim and not reading.preempts:
            return f"{entry.name} does not preempt"
        if other.in_flight:
            return f"{name} is of a gang whose own plan is carried out"
        parting = self._session.reclaim(reading).parting(other.reading.queue) if is_reclaimed else ""
        if is_victim and self._min_runtime.is_protected(other, parting):
            return f"{name} has run too short a time for its queue"
        return "" if is_victim or pod.metadata.controller is not None else f"{name} would not be recreated"

    def _too_many(self, entry: QueuedGang, plan: Plan) -> str:
        """Pods are moved only for a gang that is allowed to move them."""
        if not plan.moves:
            return ""
        if entry.limits is None:
            return f"nothing may be moved for {entry.name}"
        most, found = entry.limits.max_moves, len(plan.moves)
        if found > most:
            return f"{found} pods would be moved, allowed are {most}"
        gpus, most_gpus = self._moved_gpus(plan), entry.limits.max_gpus
        return "" if most_gpus is None or gpus <= most_gpus else f"{gpus} GPUs would be moved, allowed are {most_gpus}"

    def _moved_gpus(self, plan: Plan) -> int:
        inventory, shares_of = self._session.cluster.inventory, self._session.queue_accounting.queues.shares_of
        moved = [pod for move in plan.moves if (pod := inventory.pod(move.uid)) is not None]
        return sum(shares_of(pod.request).gpu_m for pod in moved) // 1000

    def _below_minimum(self, still: Iterable[Pod], victims: frozenset[str]) -> str:
        """A gang that has its minimum is evicted whole or keeps its minimum."""
        going = [pod for pod in still if pod.metadata.uid in victims]
        for key in sorted({group_of(pod) for pod in going}):
            group, pods = self._snapshot.podgroup(key), self._snapshot.pods_of(key)
            left = [pod for pod in pods if pod.metadata.uid not in victims]
            if group is not None and not self._is_short(key, pods) and self._is_short(key, left):
                return f"gang {'/'.join(key)} would be left below its minimum"
        return ""

    def _is_short(self, key: Key, pods: Sequence[Pod]) -> bool:
        group, has_node = self._snapshot.podgroup(key), self._session.cluster.inventory.find
        return group is not None and shortage(group, pods, lambda name: has_node(name) is not None) is not None

    def _budget_protected(self, still: Sequence[Pod]) -> str:
        kept = sorted(Budgets(self._snapshot.budgets).protected(still)) if still else []
        return f"{len(kept)} pods are protected by a disruption budget" if kept else ""


def _key(name: str) -> Key:
    namespace, _, short = name.partition("/")
    return namespace, short


def misplaced(
    gang: Gang,
    members: Mapping[str, str],
    filters: Mapping[str, NodeFilter],
    assignments: Sequence[Assignment],
    inventory: Inventory,
    base: Gang | None = None,
) -> dict[str, str]:
    """Why assignments are not valid, by uid. `members`: pod set of each pod; `filters`: its node filter; both by uid.

    `base`: the gang that it is tied to. Domains are checked for pods whose part of the gang is known.
    """
    reasons = {
        assignment.uid: _excluded(filters.get(assignment.uid, ANY_NODE), assignment, inventory)
        for assignment in assignments
    }
    found = {
        assignment.uid: f"node {assignment.node}: {reasons[assignment.uid]}"
        for assignment in assignments
        if reasons[assignment.uid]
    }
    paths = {
        assignment.uid: members[assignment.uid]
        for assignment in assignments
        if assignment.uid in members and assignment.uid not in found
    }
    placed = [assignment for assignment in assignments if assignment.uid in paths]
    for part in _parts(gang.root, "", None):
        found |= _outside(
            part, gang, [assignment for assignment in placed if _is_in(paths[assignment.uid], part)], inventory
        )
    return found | _untied(gang, base, placed, inventory)


def crowded(
    members: Mapping[str, str],
    sets: Mapping[str, PodSet],
    assignments: Sequence[Assignment],
    inventory: Inventory,
    leaving: Container[str] = (),
) -> dict[str, str]:
    """Assignments, by uid, that conflict with each other or with a pod that is not a victim (ports, anti-affinity; K8).

    Of two that conflict the first one stays. `members`: paths of pod sets by uid; `sets`: pod sets by path.
    """
    own = {assignment.uid for assignment in assignments}
    placed = [
        assignment
        for assignment in assignments
        if members.get(assignment.uid) in sets and inventory.find(assignment.node) is not None
    ]
    taken: set[_Claim] = set()
    for node in {assignment.node for assignment in placed}:
        stay = [uid for uid in inventory.pods_on(node) if uid not in own and uid not in leaving]
        taken |= {
            ("", node, str(port)) for uid in stay if (pod := inventory.pod(uid)) is not None for port in pod.ports
        }
    found = {}
    apart, present = _apart(sets), set[_Claim]()
    for assignment in placed:
        claims = _claims(members[assignment.uid], sets[members[assignment.uid]], assignment, inventory)
        labels = inventory.node(inventory.slot(assignment.node)).labels
        beside = {
            (other, key, labels[key]) for own, key, other in apart if own == members[assignment.uid] and key in labels
        }
        if claims & taken or beside & present:
            found[assignment.uid] = f"node {assignment.node}: pod anti-affinity or a host port that is in use"
        taken |= claims
        present |= {(members[assignment.uid], key, labels[key]) for own, key, _ in apart if key in labels}
    return found


def _claims(path: str, pods: PodSet, assignment: Assignment, inventory: Inventory) -> set[_Claim]:
    """Host ports, and domains that no other pod of the set may be in."""
    labels = inventory.node(inventory.slot(assignment.node)).labels
    domains = {(path, key, labels[key]) for key in pods.anti_affinity if key in labels}
    return domains | {("", assignment.node, str(port)) for port in pods.host_ports}


def _apart(sets: Mapping[str, PodSet]) -> set[tuple[str, str, str]]:
    """Pairs of pod sets that keep apart by a label, in both directions."""
    pairs = {
        (path, term.key, other)
        for path, pods in sets.items()
        for term in pods.pod_anti_affinity
        for other in term.pods
        if other != path
    }
    return pairs | {(other, key, path) for path, key, other in pairs}


def _excluded(wanted: NodeFilter, assignment: Assignment, inventory: Inventory) -> str:
    if inventory.find(assignment.node) is None:
        return "is not there"
    node = inventory.node(inventory.slot_for(assignment.node, assignment.zone))
    return why_not(wanted, msgspec.structs.replace(node, zones=())) or ""


def _parts(group: Group | PodSet, prefix: str, inherited: str | None) -> Iterator[_Part]:
    """The root, groups and pod sets that require a level."""
    topology = group.topology or inherited
    if group.required:
        yield prefix, topology, group.required
    if isinstance(group, Group):
        for kid in group.groups:
            yield from _parts(kid, f"{prefix}{kid.name}/", topology)
        for pods in group.pods:
            yield from _parts(pods, prefix + pods.name, topology)


def _is_in(path: str, part: _Part) -> bool:
    prefix = part[0]
    return path.startswith(prefix) if not prefix or prefix.endswith("/") else path == prefix


def _outside(part: _Part, gang: Gang, assignments: Sequence[Assignment], inventory: Inventory) -> dict[str, str]:
    """Assignments outside the domain of the running members; if none runs, all of them if they span several domains."""
    _, topology, level = part
    theirs = {_domain(inventory, topology, level, one.node, one.zone) for one in gang.running if _is_in(one.pods, part)}
    mine = {
        assignment.uid: _domain(inventory, topology, level, assignment.node, assignment.zone)
        for assignment in assignments
    }
    held = theirs - {None}
    allowed = held or (set(mine.values()) if len(set(mine.values())) == 1 else set())
    return {
        uid: f"required level {level}: not in one domain with the others"
        for uid, domain in mine.items()
        if domain is None or domain not in allowed
    }


def _untied(gang: Gang, base: Gang | None, assignments: Sequence[Assignment], inventory: Inventory) -> dict[str, str]:
    if base is None or gang.tied_to is None:
        return {}
    topology, level = base.root.topology or gang.root.topology, gang.tied_to.level
    theirs = {_domain(inventory, topology, level, one.node, one.zone) for one in base.running} - {None}
    if not theirs:
        return {}
    return {
        assignment.uid: f"tied to {base.name} at {level}: in another domain"
        for assignment in assignments
        if _domain(inventory, topology, level, assignment.node, assignment.zone) not in theirs
    }


def _domain(inventory: Inventory, topology: str | None, level: str | None, node: str, zone: str) -> Domain | None:
    """None: the node is in no domain of that level."""
    tree = inventory.tree(topology) if topology else None
    if tree is None or level not in tree.levels or inventory.find(node) is None:
        return None
    path = tree.locate(inventory.node(inventory.slot_for(node, zone)).labels)
    depth = list(tree.levels).index(level) + 1
    return tuple(path[:depth]) if len(path) >= depth else None


class NominatedPlans:
    """Works on everything that a cycle has read."""

    def __init__(
        self,
        session: Session,
        snapshot: Snapshot,
        gang_reader: GangReader,
        reservations: Reservations,
        plan_review: PlanReview,
        records: RecordReader,
    ) -> None:
        self._session = session
        self._snapshot = snapshot
        self._gang_reader = gang_reader
        self._reservations = reservations
        self._plan_review = plan_review
        self._records = records
        self._epoch = records.term.epoch

    def nominate(self, entry: QueuedGang, selection: VictimSelection) -> Nominate:
        """Turn the reserved assignments into a plan; gangs that are decided later count its victims as gone."""
        victims = tuple(pod.metadata.uid for pod in selection.victims)
        moves = tuple(Move(pod.metadata.uid, node) for pod, node in selection.moves)
        plan_task = self._reservations.plan_task(
            entry, selection.decision, selection.decision.placements, victims, moves
        )
        self._session.scheduling_queue.apply(entry, Planned())
        self._mark_victims(entry, plan_task.plan)
        self._session.queue_accounting.charge(entry)  # events say what the queues hold then
        return Nominate(entry.key, plan_task, self._targets(entry, plan_task.plan, selection.leaving))

    def resume(
        self, entry: QueuedGang, group: PodGroup, plan: Plan, pods: Sequence[Pod]
    ) -> EvictRemaining | BindNow | DropPlan | None:
        """The action for a recorded plan that waits; None: wait on.

        Victims are charged to their queues until they are gone: the plan waits while a limit does not allow it beside
        them. Terminating victims on a node that is not ready are not waited for, because no kubelet reports their end.
        """
        there = {pod.metadata.uid: pod for pod in pods}
        keys = {uid: (pod.metadata.namespace, pod.metadata.name) for uid, pod in there.items()}
        plan_task = PlanTask(group.metadata, plan, keys)
        assert entry.reading is not None
        is_complete = all(assignment.uid in there and _waits(there[assignment.uid]) for assignment in plan.assignments)
        coming = {assignment.uid for assignment in plan.assignments}
        is_enough = bool(entry.reading.gang.running) or starts_whole(group, pods, coming)
        if not (is_complete and is_enough and entry.reading.ready):
            # Its minimum may have been raised since: what is bound is recorded anew, and has to be enough then (INV2).
            return self._drop_plan(entry, plan_task, there)
        why = self._objection(entry, group, plan)
        if why:
            return self._drop_plan(entry, plan_task, there, why)
        self._reservations.reserve_again(entry, plan, there)
        self._mark_victims(entry, plan)
        self._session.queue_accounting.charge(entry)
        progress = self._progress(entry, plan)
        still = progress.still
        is_lawful = all(self._is_lawful(entry, plan, pod) for pod in still) and self._may_reclaim(entry, plan, still)
        if progress.is_lost or not is_lawful:
            return self._drop_plan(entry, plan_task, there)
        self._session.scheduling_queue.apply(entry, VictimsAwaited())
        if still:
            return EvictRemaining(entry.key, plan_task, self._targets(entry, plan, still))
        if not progress.is_ready:
            assignments = [assignment.uid for assignment in plan.assignments]
            return self._better_placement(entry, plan, assignments) if progress.is_allowed else None
        self._reservations.unmark_victims(entry)
        bind = msgspec.structs.replace(plan, epoch=self._epoch, state="bind", victims=(), moves=())
        return BindNow(entry.key, PlanTask(group.metadata, bind, keys))

    def _progress(self, entry: QueuedGang, plan: Plan) -> _Progress:
        """What has become of the victims, the reserved capacity and the queue limits of a plan that waits."""
        cluster, accounting = self._session.cluster, self._session.queue_accounting
        rooms = {
            cluster.reserved_capacity(assignment.node, cluster.ports(assignment.uid)) for assignment in plan.assignments
        }
        assignments = [assignment.uid for assignment in plan.assignments]
        held = [pod for uid in plan.victims if (pod := cluster.running_pod(uid)) is not None]
        lingering = self._gang_reader.charges(
            pod for pod in held if not _is_terminating(pod) or self._is_node_ready(pod.spec.node_name)
        )
        is_allowed = accounting.allows(entry, assignments, lingering)
        is_ready = is_allowed and rooms <= {ReservedCapacity.READY}
        leaving = [pod for uid in plan.leaving if (pod := cluster.running_pod(uid)) is not None]
        still = [pod for pod in leaving if not _is_terminating(pod)]
        if is_ready:
            still = [pod for pod in still if self._is_below_minimum(group_of(pod))]
        is_lost = (
            ReservedCapacity.LOST in rooms
            or not accounting.allows(entry, assignments)
            or self._base_has_moved(entry, plan)
        )
        return _Progress(still, is_allowed, is_ready, is_lost)

    def _base_has_moved(self, entry: QueuedGang, plan: Plan) -> bool:
        """Whether the base gang has moved elsewhere while this one waited (INV3)."""
        assert entry.reading is not None
        assignments = [(assignment.node, assignment.zone) for assignment in plan.assignments]
        return not self._session.placement.is_beside_its_base(entry.reading.gang, assignments)

    def _objection(self, entry: QueuedGang, group: PodGroup, plan: Plan) -> str:
        """Why a plan of an earlier leader is not valid; checked before anything is done for it."""
        if not self._records.is_taken_over(group.metadata.uid):
            return ""
        self._reservations.release(entry)
        misplaced = self._plan_review.assignments(entry, plan.assignments, frozenset(plan.leaving))
        why = next(iter(misplaced.values()), "") or self._plan_review.leaving(entry, plan)
        if not why:
            self._records.accept(group.metadata.uid)
        return why

    def _better_placement(self, entry: QueuedGang, plan: Plan, assignments: Sequence[str]) -> BindNow | None:
        """Bind at once to free capacity that is as good as the awaited one, which may never become free."""
        if plan.moves:
            return None
        asking = beside_scaled_gangs(
            self._gang_reader.with_affinity(entry),
            self._session.scheduling_queue.scaled_gangs(entry.name),
            self._session.cluster,
        )
        found = self._session.placement.without(asking.gang, assignments)
        if found.outcome != "placed" or found.waits or (1.0 if found.score is None else found.score) < plan.score:
            return None
        plan_task = self._reservations.plan_task(entry, found, found.placements)
        if {assignment.uid for assignment in plan_task.plan.assignments} != set(assignments):
            return None
        self._reservations.release(entry)
        self._reservations.reserve(entry, found.placements)
        return BindNow(entry.key, plan_task)

    def _drop_plan(self, entry: QueuedGang, plan_task: PlanTask, there: Mapping[str, Pod], why: str = "") -> DropPlan:
        stay = [
            pod
            for move in plan_task.plan.moves
            if (pod := self._session.cluster.running_pod(move.uid)) and not _is_terminating(pod)
        ]
        self._reservations.moves.withdraw(stay)
        self._reservations.release(entry)
        free = frozenset(
            assignment.uid
            for assignment in plan_task.plan.assignments
            if assignment.uid in there and _waits(there[assignment.uid])
        )
        return DropPlan(entry.key, PlanTask(plan_task.group, plan_task.plan, plan_task.keys, free), why)

    def _mark_victims(self, entry: QueuedGang, plan: Plan) -> None:
        held = [pod for uid in plan.leaving if (pod := self._session.cluster.running_pod(uid)) is not None]
        fresh = [pod for pod in held if not self._session.cluster.is_victim(pod.metadata.uid)]
        entry.victims = plan.leaving
        self._session.cluster.mark_victims(plan.leaving)
        moved = {move.uid: move.node for move in plan.moves}
        self._reservations.moves.keep((pod, moved[pod.metadata.uid]) for pod in fresh if pod.metadata.uid in moved)
        for group in sorted({group_of(pod) for pod in fresh}):
            self._reread(group)

    def _is_node_ready(self, node: str) -> bool:
        slot = self._session.cluster.inventory.find(node)
        return slot is not None and self._session.cluster.inventory.node(slot).ready

    def _reread(self, key: Key) -> None:
        """Read a gang whose members were marked as victims, and update what its queue is charged."""
        self._gang_reader.reread(key)
        entry = self._session.scheduling_queue.entries.get(key)
        if entry is not None:
            self._session.queue_accounting.charge(entry)

    def _is_below_minimum(self, group: Key) -> bool:
        """Whether the gang has lost so many pods already that all the others are evicted as well."""
        found = self._snapshot.podgroup(group)
        if found is None:
            return True
        has_node = self._session.cluster.inventory.find
        return shortage(found, self._snapshot.pods_of(group), lambda name: has_node(name) is not None) is not None

    def _is_lawful(self, entry: QueuedGang, plan: Plan, pod: Pod) -> bool:
        """Whether the pod may still be a victim: priorities and queues may have changed since the plan (INV7)."""
        victim = self._session.scheduling_queue.entries.get(group_of(pod))
        if victim is None or victim.reading is None or entry.reading is None:
            return False
        mine, theirs = entry.reading.gang.priority, victim.reading.gang
        if pod.metadata.uid not in plan.victims:
            return theirs.preemptible and theirs.priority <= mine
        is_reclaimed = victim.reading.queue != entry.reading.queue
        return theirs.preemptible and (is_reclaimed or theirs.priority < mine)

    def _may_reclaim(self, entry: QueuedGang, plan: Plan, still: Iterable[Pod]) -> bool:
        """Whether the victims in other queues that are left may still be taken (Q5); they are not charged any more.

        A gang that has lost so much that it can not go on is evicted whole in any case.
        """
        assert entry.reading is not None
        left: dict[Key, list[Pod]] = {}
        for pod in still:
            if pod.metadata.uid in plan.victims:
                left.setdefault(group_of(pod), []).append(pod)
        units = [unit for group, pods in left.items() for unit in self._units(entry.reading.queue, group, pods)]
        reclaim = self._session.reclaim_of_plan(entry)
        return not units or reclaim.is_lawful(units, are_charged=False)

    def _units(self, taker: str, group: Key, pods: Sequence[Pod]) -> list[Unit]:
        """What one gang still has to lose: nothing if it is of the same queue."""
        reading = self._session.scheduling_queue.entries[group].reading
        if reading is None or reading.queue == taker or self._is_below_minimum(group):
            return []
        charges = self._gang_reader.charges(pods)
        sizes = [self._session.queue_accounting.queues.shares_of(charge.amounts) for charge in charges]
        if reading.gang.running:
            return [Unit(reading.queue, size) for size in sizes]
        return [Unit(reading.queue, Shares(*map(sum, zip(*sizes, strict=True))))] if sizes else []

    def _targets(self, entry: QueuedGang, plan: Plan, pods: Iterable[Pod]) -> tuple[EvictionTarget, ...]:
        budgets = Budgets(self._snapshot.budgets)
        everybody = [pod for uid in plan.leaving if (pod := self._session.cluster.running_pod(uid)) is not None]
        losses = Counter(group_of(pod) for pod in everybody)
        found = []
        for pod in pods:
            key, group = group_of(pod), self._snapshot.podgroup(group_of(pod))
            reported = self._event_for(entry, key) if pod.metadata.uid in plan.victims else consolidated
            event = reported(f"{pod.metadata.namespace}/{pod.metadata.name}", entry.key, losses[key])
            found.append(EvictionTarget(pod, group.metadata if group is not None else None, event, budgets.guards(pod)))
        return tuple(found)

    def _event_for(self, entry: QueuedGang, victim: Key) -> Callable[[str, Key, int], Event]:
        """What a victim is told."""
        other = self._session.scheduling_queue.entries.get(victim)
        if (
            other is None
            or other.reading is None
            or entry.reading is None
            or other.reading.queue == entry.reading.queue
        ):
            return preempted
        reclaim = self._session.reclaim_of_plan(entry)
        mine, theirs = entry.reading.queue, other.reading.queue
        detail = f"Queue {mine} gets {reclaim.figures(mine)}; queue {theirs} keeps {reclaim.figures(theirs)}"
        return partial(reclaimed, detail=detail)


def _waits(pod: Pod) -> bool:
    return pod.is_here and not pod.spec.node_name


def _is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None
