"""Plans that wait for their victims to terminate: made, resumed, dropped, and turned into plans to bind.

A plan is recorded before its first victim is evicted, and its assignments stay reserved until it is bound or dropped.
No pod is evicted for a plan that can no longer succeed, or that can be bound without the eviction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.scheduling.cluster import Cluster, ReservedCapacity
from spinney.core.scheduling.cycle.actions import BindNow, DropPlan, EvictionTarget, EvictRemaining, Nominate, PlanTask
from spinney.core.scheduling.cycle.gang_reader import GangReader, beside_scaled_gangs
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.cycle.plan_review import PlanReview
from spinney.core.scheduling.cycle.preemption import Budgets, VictimSelection
from spinney.core.scheduling.cycle.queue_accounting import QueueAccounting
from spinney.core.scheduling.cycle.reservations import MoveReservations, Reservations
from spinney.core.scheduling.cycle.scheduling_queue import GangState, SchedulingQueue
from spinney.core.scheduling.cycle.snapshot import Key, Snapshot, group_of
from spinney.core.scheduling.gang.members import shortage
from spinney.core.scheduling.plan import Move, Plan
from spinney.core.scheduling.plan_records import RecordReader
from spinney.core.scheduling.reporting.messages import consolidated, preempted


class NominatedPlans:
    """Works on everything that a cycle has read."""

    def __init__(
        self,
        snapshot: Snapshot,
        cluster: Cluster,
        scheduling_queue: SchedulingQueue,
        reservations: Reservations,
        move_reservations: MoveReservations,
        gang_reader: GangReader,
        queue_accounting: QueueAccounting,
        session: PlacementSession,
        plan_review: PlanReview,
        records: RecordReader,
    ) -> None:
        self._snapshot = snapshot
        self._cluster = cluster
        self._scheduling_queue = scheduling_queue
        self._reservations = reservations
        self._move_reservations = move_reservations
        self._gang_reader = gang_reader
        self._queue_accounting = queue_accounting
        self._session = session
        self._plan_review = plan_review
        self._records = records
        self._epoch = records.term.epoch

    def nominate(self, entry: GangState, selection: VictimSelection) -> Nominate:
        """Turn the reserved assignments into a plan; gangs that are decided later count its victims as gone."""
        victims = tuple(pod.metadata.uid for pod in selection.victims)
        moves = tuple(Move(pod.metadata.uid, node) for pod, node in selection.moves)
        plan_task = self._reservations.plan_task(
            entry, selection.decision, selection.decision.placements, victims, moves
        )
        self._scheduling_queue.dequeue(entry)
        self._mark_victims(entry, plan_task.plan)
        return Nominate(entry.key, plan_task, self._targets(entry, plan_task.plan, selection.leaving))

    def resume(
        self, entry: GangState, group: PodGroup, plan: Plan, pods: Sequence[Pod]
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
        if not is_complete or not entry.reading.ready:
            # Its minimum may have been raised since: what is bound is recorded anew, and has to be enough then (INV2).
            return self._drop_plan(entry, plan_task, there)
        why = self._objection(entry, group, plan)
        if why:
            return self._drop_plan(entry, plan_task, there, why)
        self._reservations.reserve_again(entry, plan, there)
        self._mark_victims(entry, plan)
        rooms = {
            self._cluster.reserved_capacity(assignment.node, self._cluster.ports(assignment.uid))
            for assignment in plan.assignments
        }
        still = [
            pod
            for uid in plan.leaving
            if (pod := self._cluster.running_pod(uid)) is not None and not _is_terminating(pod)
        ]
        assignments = [assignment.uid for assignment in plan.assignments]
        held = [pod for uid in plan.victims if (pod := self._cluster.running_pod(uid)) is not None]
        lingering = self._gang_reader.charges(
            pod for pod in held if not _is_terminating(pod) or self._is_node_ready(pod.spec.node_name)
        )
        is_allowed = self._queue_accounting.allows(entry, assignments, lingering)
        is_ready = is_allowed and rooms <= {ReservedCapacity.READY}
        if is_ready:
            still = [pod for pod in still if self._is_below_minimum(group_of(pod))]
        is_lost = (
            ReservedCapacity.LOST in rooms
            or not self._queue_accounting.allows(entry, assignments)
            or self._base_has_moved(entry, plan)
        )
        if is_lost or not all(self._is_lawful(entry, plan, pod) for pod in still):
            return self._drop_plan(entry, plan_task, there)
        self._scheduling_queue.waits[entry.key] = None
        if still:
            return EvictRemaining(entry.key, plan_task, self._targets(entry, plan, still))
        if not is_ready:
            return self._better_placement(entry, plan, assignments) if is_allowed else None
        self._reservations.unmark_victims(entry)
        bind = msgspec.structs.replace(plan, epoch=self._epoch, state="bind", victims=(), moves=())
        return BindNow(entry.key, PlanTask(group.metadata, bind, keys))

    def _base_has_moved(self, entry: GangState, plan: Plan) -> bool:
        """Whether the base gang has moved elsewhere while this one waited (INV3)."""
        assert entry.reading is not None
        assignments = [(assignment.node, assignment.zone) for assignment in plan.assignments]
        return not self._session.is_beside_its_base(entry.reading.gang, assignments)

    def _objection(self, entry: GangState, group: PodGroup, plan: Plan) -> str:
        """Why a plan of an earlier leader is not valid; checked before anything is done for it."""
        if not self._records.is_taken_over(group.metadata.uid):
            return ""
        self._reservations.release(entry)
        misplaced = self._plan_review.assignments(entry, plan.assignments, frozenset(plan.leaving))
        why = next(iter(misplaced.values()), "") or self._plan_review.leaving(entry, plan)
        if not why:
            self._records.accept(group.metadata.uid)
        return why

    def _better_placement(self, entry: GangState, plan: Plan, assignments: Sequence[str]) -> BindNow | None:
        """Bind at once to free capacity that is as good as the awaited one, which may never become free."""
        if plan.moves:
            return None
        asking = beside_scaled_gangs(
            self._gang_reader.with_affinity(entry), self._scheduling_queue.scaled_gangs(entry.name), self._cluster
        )
        found = self._session.without(asking.gang, assignments)
        if found.outcome != "placed" or found.waits or (1.0 if found.score is None else found.score) < plan.score:
            return None
        plan_task = self._reservations.plan_task(entry, found, found.placements)
        if {assignment.uid for assignment in plan_task.plan.assignments} != set(assignments):
            return None
        self._reservations.release(entry)
        self._reservations.reserve(entry, found.placements)
        return BindNow(entry.key, plan_task)

    def _drop_plan(self, entry: GangState, plan_task: PlanTask, there: Mapping[str, Pod], why: str = "") -> DropPlan:
        stay = [
            pod
            for move in plan_task.plan.moves
            if (pod := self._cluster.running_pod(move.uid)) and not _is_terminating(pod)
        ]
        self._move_reservations.withdraw(stay)
        self._reservations.release(entry)
        free = frozenset(
            assignment.uid
            for assignment in plan_task.plan.assignments
            if assignment.uid in there and _waits(there[assignment.uid])
        )
        return DropPlan(entry.key, PlanTask(plan_task.group, plan_task.plan, plan_task.keys, free), why)

    def _mark_victims(self, entry: GangState, plan: Plan) -> None:
        held = [pod for uid in plan.leaving if (pod := self._cluster.running_pod(uid)) is not None]
        fresh = [pod for pod in held if not self._cluster.is_victim(pod.metadata.uid)]
        entry.victims = plan.leaving
        self._cluster.mark_victims(plan.leaving)
        moved = {move.uid: move.node for move in plan.moves}
        self._move_reservations.keep((pod, moved[pod.metadata.uid]) for pod in fresh if pod.metadata.uid in moved)
        for group in sorted({group_of(pod) for pod in fresh}):
            self._reread(group)

    def _is_node_ready(self, node: str) -> bool:
        slot = self._cluster.inventory.find(node)
        return slot is not None and self._cluster.inventory.node(slot).ready

    def _reread(self, key: Key) -> None:
        """Read a gang whose members were marked as victims, and update what its queue is charged."""
        self._gang_reader.reread(key)
        entry = self._scheduling_queue.entries.get(key)
        if entry is not None:
            self._queue_accounting.charge(entry)

    def _is_below_minimum(self, group: Key) -> bool:
        """Whether the gang has lost so many pods already that all the others are evicted as well."""
        found = self._snapshot.podgroup(group)
        if found is None:
            return True
        has_node = self._cluster.inventory.find
        return shortage(found, self._snapshot.pods_of(group), lambda name: has_node(name) is not None) is not None

    def _is_lawful(self, entry: GangState, plan: Plan, pod: Pod) -> bool:
        """Whether the pod may still be a victim: priorities may have changed since the plan was made (INV7)."""
        victim = self._scheduling_queue.entries.get(group_of(pod))
        if victim is None or victim.reading is None or entry.reading is None:
            return False
        mine, theirs = entry.reading.gang.priority, victim.reading.gang
        is_weaker = theirs.priority < mine if pod.metadata.uid in plan.victims else theirs.priority <= mine
        return theirs.preemptible and is_weaker

    def _targets(self, entry: GangState, plan: Plan, pods: Iterable[Pod]) -> tuple[EvictionTarget, ...]:
        budgets = Budgets(self._snapshot.budgets)
        everybody = [pod for uid in plan.leaving if (pod := self._cluster.running_pod(uid)) is not None]
        losses = Counter(group_of(pod) for pod in everybody)
        found = []
        for pod in pods:
            key, group = group_of(pod), self._snapshot.podgroup(group_of(pod))
            told = preempted if pod.metadata.uid in plan.victims else consolidated
            event = told(f"{pod.metadata.namespace}/{pod.metadata.name}", entry.key, losses[key])
            found.append(EvictionTarget(pod, group.metadata if group is not None else None, event, budgets.guards(pod)))
        return tuple(found)


def _waits(pod: Pod) -> bool:
    return pod.is_here and not pod.spec.node_name


def _is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None
