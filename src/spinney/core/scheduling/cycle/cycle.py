"""One scheduling cycle: read the gangs that changed, decide the ones that are due in queue order, hand out the actions.

The cycle makes no API call and never blocks: it yields actions, and `finished` tells it their results. An assignment is
reserved as soon as a gang is decided, so that the next gang sees it. A gang is not decided while the scheduler's own
writes to it are missing from the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import EXPLANATION, KAI_NODE_POOL, PLAN
from spinney.api.placement.problem import Consolidate
from spinney.core.scheduling.cycle.actions import (
    Action,
    DecidedAgain,
    DiscardRecord,
    EvictStale,
    MarkStale,
    ResumePlan,
    Step,
    TaskResult,
    TaskStatus,
    Undecided,
)
from spinney.core.scheduling.cycle.allocation import Allocator, PartialAllocation
from spinney.core.scheduling.cycle.gang_reader import GangReader
from spinney.core.scheduling.cycle.gang_reporter import GangReporter
from spinney.core.scheduling.cycle.grace_periods import GracePeriod, MinRuntime, StaleGangs, UngroupedPods
from spinney.core.scheduling.cycle.preemption import Preemptor
from spinney.core.scheduling.cycle.queue_accounting import Turns
from spinney.core.scheduling.cycle.recorded_plans import NominatedPlans, PlanReview
from spinney.core.scheduling.cycle.reservations import Reservations
from spinney.core.scheduling.cycle.scheduling_queue import (
    ActionEnded,
    Changed,
    GivenUp,
    Gone,
    NothingToPlace,
    PlanFound,
    QueuedGang,
    Ready,
    Unsettled,
    VolumesAwaited,
)
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import DecisionMetrics, Key, Reports, Snapshot
from spinney.core.scheduling.gang.members import is_owned_by_podgang
from spinney.core.scheduling.gang.parsed_gang import Context
from spinney.core.scheduling.kept_room import KEPT_S
from spinney.core.scheduling.plan import Plan
from spinney.core.scheduling.plan_records import RecordReader, RejectedRecord, Superseded
from spinney.core.scheduling.reporting import WriteFailure, awaiting_volumes
from spinney.core.scheduling.reporting.report import alike
from spinney.core.scheduling.settings import limits_of

_RETRY_S = 0.01
_FAILED_RETRY_S = 1.0
_LONGEST_RETRY_S = 30.0
_TIMER_SLACK_S = 0.01
_MOST_DOUBLINGS = 32
_LONGEST_HOLD_S = 1.0
_VOLUMES_RECHECK_S = 5.0
_CONFIRM_S = 0.5
_TURNS = 256
"""Pods beyond minimums are handed out in about so many turns a cycle, or one by one if there are fewer."""

_WaitingPlan = tuple[QueuedGang, Callable[[], Action | None]]
"""A gang whose recorded plan waits for its victims to terminate, and the call that continues it."""


class Cycle:
    """Decides over a session.

    `confirmed_at`: when the Lease request was sent whose answer last confirmed our leadership; None: there is no leader
    election.
    """

    def __init__(
        self,
        session: Session,
        snapshot: Snapshot,
        records: RecordReader,
        reports: Reports,
        metrics: DecisionMetrics,
        confirmed_at: Callable[[], float] | None = None,
    ) -> None:
        self._session = session
        self._snapshot = snapshot
        self._records = records
        self._metrics = metrics
        self._confirmed_at = confirmed_at
        self._scheduling_queue = session.scheduling_queue
        self._min_runtime = MinRuntime(session, snapshot)
        self._gang_reader = GangReader(session, snapshot, self._min_runtime)
        self._reservations = Reservations(session, snapshot, self._gang_reader, records.term.epoch)
        self._plan_review = PlanReview(session, snapshot, self._gang_reader, self._min_runtime)
        self._nominated_plans = NominatedPlans(
            session, snapshot, self._gang_reader, self._reservations, self._plan_review, records
        )
        self._reporter = GangReporter(session, reports, metrics, self._min_runtime)
        self._stale_gangs = StaleGangs(session, snapshot)
        self._grace_period = GracePeriod(session)
        self._ungrouped_pods = UngroupedPods(session, reports)
        placement, find = session.placement, self._gang_reader.running_gang
        preemptor = Preemptor(snapshot.budgets, session.cluster, placement, placement.options, find, session.reclaim)
        self._allocator = Allocator(
            session, self._gang_reader, self._reservations, self._nominated_plans, preemptor, self._reporter
        )
        self._improved = -1
        self._undecided: set[Key] = set()
        self._found: list[QueuedGang] = []  # gangs that had started when they were read for the first time

    # Actions

    def steps(self) -> Iterator[Step]:
        """Yield the actions of this cycle. Other tasks may run between steps; the next cycle sees what they change."""
        began_s = self._session.clock.monotonic()
        self._allocator.begin_cycle()
        self._session.cluster.expire_room(began_s)
        if self._session.placement.renew():
            self._session.queue_accounting.renew(
                self._session.cluster.inventory.resources, self._scheduling_queue.entries.values()
            )
            self._scheduling_queue.touch_all()
        if self._improved != self._session.cluster.improved:
            self._scheduling_queue.changed.update(self._scheduling_queue.waits)
        yield from self._read_changed()
        yield from self._keep_room_again()
        if self._improved != self._session.cluster.improved:
            self._improved = self._session.cluster.improved
            self._scheduling_queue.retry_refused()
        self._session.queue_accounting.retry_reclaim(self._scheduling_queue, self._session.cluster.capacity)
        self._requeue_nominated()
        read_s = self._session.clock.monotonic() - began_s
        yield from self._decide(self._in_queue_order())
        self._metrics.cycle(self._session.clock.monotonic() - began_s, read_s)

    def _keep_room_again(self) -> Iterator[Step]:
        """Room for those that follow gangs which started a moment ago, under another leader (G12)."""
        found, self._found = self._found, []
        for entry in found:
            left_s = KEPT_S - self._min_runtime.age_s(entry)
            if entry.reading is None or entry.base or left_s <= 0:
                continue
            try:
                self._allocator.keep_room_again(entry, left_s)
            except Exception as error:
                yield Undecided(entry.key, error)

    def finished(self, act: Action, task_result: TaskResult) -> WriteFailure | None:
        """Take the result of an action, done or failed, and put the gang back into the queue.

        Returns a write that the API server refused, if that is news.
        """
        key, task_status = act.key, task_result.task_status
        entry = self._scheduling_queue.entries.get(key)
        if entry is None:
            return None
        entry.busy = False
        new_failure = self._failed(entry, act, task_result.failures) if task_result.failures else None
        if task_status is TaskStatus.AWAITS_VOLUMES:
            self._await_volumes(entry)
            return new_failure
        self._scheduling_queue.apply(entry, ActionEnded())
        if task_status is TaskStatus.DONE:
            entry.failures = 0
            entry.failure, entry.probes = "", entry.probes and isinstance(act, MarkStale)
        else:
            self._scheduling_queue.apply(entry, Changed())
            delay_s = _LONGEST_RETRY_S if task_status is TaskStatus.REFUSED else _backoff_s(task_status, entry.failures)
            entry.failures += 1
            entry.not_before = self._session.clock.monotonic() + delay_s
            self._session.requeue_after(key, delay_s)
        self._scheduling_queue.touch(key)
        return new_failure

    def _failed(self, entry: QueuedGang, act: Action, failures: Sequence[WriteFailure]) -> WriteFailure | None:
        """Report what the API server answered on the gang; an unchanged answer is news once."""
        first = failures[0]
        entry.probes = entry.probes or first.write == "bind"
        is_new, entry.failure = not alike(entry.failure, first.event.message), first.event.message
        if not isinstance(act, EvictStale):
            self._reporter.explain_failures(entry, failures)
        elif is_new:
            self._reporter.note(entry, first.event)
        return first if is_new else None

    def _await_volumes(self, entry: QueuedGang) -> None:
        """Park the gang until its volume claims change, with a periodic recheck."""
        self._scheduling_queue.apply(entry, VolumesAwaited(self._session.clock.monotonic()))
        if entry.reading is not None:
            self._reporter.submit(entry, awaiting_volumes(entry.reading))
        self._session.requeue_after(entry.key, _VOLUMES_RECHECK_S)

    def _act_on(self, entry: QueuedGang, decide_action: Callable[[], Action | None]) -> Iterator[Step]:
        """Decide the action of one gang; an unexpected error backs off this gang only and does not stop the others."""
        try:
            act = decide_action()
        except Superseded:
            raise
        except Exception as error:
            self._reservations.release(entry)
            self._scheduling_queue.apply(entry, NothingToPlace())
            entry.not_before = self._session.clock.monotonic() + _LONGEST_RETRY_S
            self._session.requeue_after(entry.key, _LONGEST_RETRY_S)
            self._undecided.add(entry.key)
            yield Undecided(entry.key, error)
            return
        if entry.key in self._undecided:
            self._undecided.discard(entry.key)
            yield DecidedAgain(entry.key)
        self._session.queue_accounting.charge(entry)
        entry.busy = act is not None
        yield act

    # Reading

    def _read_changed(self) -> Iterator[Step]:
        """Read the changed gangs; plans that wait for victims go last, when the queue usage of all others is known."""
        context = self._session.context(self._snapshot)
        waits: list[_WaitingPlan] = []
        for key in self._scheduling_queue.pop_changed():
            entry = self._scheduling_queue.entry(key)
            if entry.busy:
                self._reservations.returning.check(entry)
            else:
                yield from self._act_on(entry, partial(self._read, entry, context, waits))
        for entry, check in waits:
            if entry.key not in self._scheduling_queue.changed:
                yield from self._act_on(entry, check)

    def _read(self, entry: QueuedGang, context: Context, waits: list[_WaitingPlan]) -> Action | None:
        group, pods = self._snapshot.podgroup(entry.key), self._snapshot.pods_of(entry.key)
        entry.unsettled = not self._snapshot.is_fresh(entry.key)
        if group is None or group.metadata.labels.get(KAI_NODE_POOL, "") != self._session.settings.node_pool:
            if entry.unsettled and entry.assignments:
                # Pods that were just bound may not be seen on their nodes yet: their capacity stays reserved (INV1).
                self._scheduling_queue.apply(entry, Unsettled())
                return None
            if group is None and entry.group is not None:
                self._records.forget(entry.group.metadata.uid)
            self._forget_gang(entry)
            if group is None:
                self._ungrouped_pods.check(entry, pods)
            return None
        if entry.unsettled:
            self._reservations.returning.check(entry)
            self._scheduling_queue.apply(entry, Unsettled())
            if entry.reading is None and PLAN in group.metadata.annotations:
                self._reserve_recorded(entry, group, pods, context)
            return None
        found = self._records.read(group.metadata)
        before, entry.group = entry.reading, group
        if before is None and self._grace_period.is_gathering(entry, group, pods):
            return None
        was_limited, entry.limits = entry.limits, self._limits(group)
        entry.is_asked = entry.limits is not None and entry.limits is not self._session.settings.consolidate
        self._gang_reader.read(entry, group, pods, context)
        self._min_runtime.check(entry)
        if before is None and _has_started(entry, found):
            self._found.append(entry)
        self._reservations.moves.expire(entry.key)
        self._reservations.returning.check(entry)
        if isinstance(found, RejectedRecord):
            return self._discard(entry, group, pods, found)
        if found is not None:
            return self._resume(entry, group, found, pods, waits)
        self._gang_reader.finish_plan(entry)
        assert entry.reading is not None
        runs, is_mistaken = bool(entry.reading.gang.running), bool(entry.reading.mistake)
        act = self._stale_gangs.check(group, pods, runs, is_mistaken=is_mistaken)
        if act is not None and not self._backs_off(entry):
            return act
        same = before == entry.reading and was_limited == entry.limits and not self._allocator.is_due_again(entry)
        if same and (entry.refused_at == self._session.cluster.improved or self._keeps_its_reservations(entry)):
            return None
        self._reservations.release(entry)
        return self._queue(entry, group)

    def _limits(self, group: PodGroup) -> Consolidate | None:
        """The consolidation limits of a gang; its annotation counts only where the settings allow moves on request."""
        by_itself, asks = self._session.settings.consolidate, self._session.settings.moves_on_request
        return limits_of(group.metadata.annotations, by_itself) if asks else by_itself

    def _reserve_recorded(self, entry: QueuedGang, group: PodGroup, pods: Sequence[Pod], context: Context) -> None:
        """Reserve a recorded plan's assignments though its gang may not be decided yet: no other gets them (INV1)."""
        entry.group = group
        self._scheduling_queue.apply(entry, PlanFound())
        self._gang_reader.read(entry, group, pods, context)
        found = self._records.read(group.metadata)
        if isinstance(found, Plan):
            self._reservations.reserve_recorded(entry, found, pods)

    def _keeps_its_reservations(self, entry: QueuedGang) -> bool:
        """Whether the reservations stay because the plan is retried in a moment: no other gang may take them."""
        left_s = entry.not_before - self._session.clock.monotonic()
        if not entry.assignments or entry.victims or not 0.0 < left_s <= _LONGEST_HOLD_S:
            return False
        self._session.requeue_after(entry.key, left_s)
        return True

    def _forget_gang(self, entry: QueuedGang) -> None:
        """Drop all state of a PodGroup that is deleted or belongs to another node pool."""
        self._reservations.returning.forget(entry)
        self._reservations.release(entry)
        self._scheduling_queue.apply(entry, Gone())
        self._scheduling_queue.set_base(entry, "")
        self._session.placement.forget(entry.name)
        if entry.group is not None:
            self._session.cluster.drop_room(entry.name)
            self._session.cluster.drop_room_of(entry.name)
        self._scheduling_queue.requeue_tied(entry.name)
        self._reporter.forget(entry)
        self._stale_gangs.forget(entry.key)
        self._min_runtime.forget(entry.key)
        self._reservations.moves.open(entry.key)
        entry.group = entry.reading = None

    def _discard(self, entry: QueuedGang, group: PodGroup, pods: Sequence[Pod], why: RejectedRecord) -> Action | None:
        """Remove a record that is not a valid plan: nothing is reserved, bound or evicted for it."""
        self._reservations.release(entry)
        self._scheduling_queue.apply(entry, NothingToPlace())
        if self._backs_off(entry) or (why.is_foreign and not self._is_confirmed(entry, why)):
            return None
        waiting = [pod for pod in pods if pod.is_here and not pod.spec.node_name] if why.has_binder else []
        return DiscardRecord(entry.key, group.metadata, why, tuple(waiting))

    def _is_confirmed(self, entry: QueuedGang, why: RejectedRecord) -> bool:
        """Whether the Lease was confirmed as ours after a record under another Lease was found."""
        if self._confirmed_at is None:
            return True
        if entry.foreign is None or entry.foreign[0] != why.message:
            entry.foreign = (why.message, self._session.clock.monotonic())
        if self._confirmed_at() > entry.foreign[1]:
            entry.foreign = None
            return True
        self._session.requeue_after(entry.key, _CONFIRM_S)
        return False

    def _resume(
        self, entry: QueuedGang, group: PodGroup, plan: Plan, pods: Sequence[Pod], waits: list[_WaitingPlan]
    ) -> Action | None:
        """Continue a recorded plan with the assignments it names."""
        self._scheduling_queue.apply(entry, PlanFound())
        if self._backs_off(entry):
            return None
        if plan.state == "wait":
            waits.append((entry, partial(self._nominated_plans.resume, entry, group, plan, pods)))
            return None
        too_late_s = (entry.volumes_since or self._session.clock.monotonic()) + self._session.settings.volumes_s
        refused = self._refused(entry, group, plan, pods)
        give_up = too_late_s <= self._session.clock.monotonic()
        plan_task = self._reservations.resume(entry, group, plan, pods, refused=refused, give_up=give_up)
        return ResumePlan(entry.key, plan_task, next(iter(refused.values()), ""))

    def _refused(self, entry: QueuedGang, group: PodGroup, plan: Plan, pods: Sequence[Pod]) -> dict[str, str]:
        """Assignments in an earlier leader's plan that are no longer valid, by uid; checked before any is reserved."""
        if not self._records.is_taken_over(group.metadata.uid):
            return {}
        self._reservations.release(entry)
        waiting = {pod.metadata.uid for pod in pods if not pod.spec.node_name}
        return self._plan_review.assignments(
            entry, [assignment for assignment in plan.assignments if assignment.uid in waiting]
        )

    def _queue(self, entry: QueuedGang, group: PodGroup) -> Action | None:
        """Handle a gang without a plan: enqueue it, report why it is not ready, or leave it alone.

        A gang whose last scheduling gates are about to be removed starts with all its pods: the domain is chosen for
        all of them.
        """
        reading = entry.reading
        assert reading is not None
        if reading.mistake:
            self._scheduling_queue.apply(entry, NothingToPlace())
            self._reporter.explain(entry, reading, None)
            return None
        if not reading.ready:
            self._scheduling_queue.apply(entry, NothingToPlace())
            is_gated = reading.gated and not is_owned_by_podgang(group)  # a PodGang's operator removes its gates
            if self._grace_period.is_over(entry) and (any(reading.held) or any(reading.waiting.values()) or is_gated):
                self._reporter.explain(entry, reading, None)
            return None
        if reading.gated and not reading.gang.running and not self._grace_period.is_over(entry):
            self._scheduling_queue.apply(entry, NothingToPlace())
            return None
        if not reading.held and not reading.gated:
            entry.incomplete_since = None
        if any(reading.waiting.values()):
            self._scheduling_queue.apply(entry, Ready())
        else:
            self._scheduling_queue.apply(entry, NothingToPlace())
            is_held = bool(reading.held) and self._grace_period.is_over(entry)
            if is_held or group.status.scheduling_conditions or EXPLANATION in group.metadata.annotations:
                self._reporter.explain_placed(entry, None, [])
        return None

    # Deciding

    def _requeue_nominated(self) -> None:
        """Decide nominated gangs again together with all that are due: the first in queue order gets the capacity."""
        if not self._scheduling_queue.due:
            return
        for key in list(self._scheduling_queue.nominated):
            entry = self._scheduling_queue.entries[key]
            self._reservations.release(entry)
            self._scheduling_queue.apply(entry, GivenUp())
            self._session.queue_accounting.charge(entry)  # else it would count twice against its own share

    def _in_queue_order(self) -> Turns:
        due, capacity = list(self._scheduling_queue.due), self._session.cluster.capacity
        return self._session.queue_accounting.in_order(self._scheduling_queue, due, capacity)

    def _decide(self, turns: Turns) -> Iterator[Step]:
        """Decide in queue order: a minimum as a whole, then the pods beyond it in turns with all others (Q10)."""
        partials: dict[Key, PartialAllocation] = {}
        for entry in turns:
            allocation = partials.get(entry.key)
            if not self._is_its_turn(entry):
                if partials.pop(entry.key, None) is not None:
                    self._reservations.release(entry)
                    self._scheduling_queue.touch(entry.key)
                continue
            if allocation is None:
                decide = partial(self._allocator.decide_minimum, entry, partials)
            else:
                most = sum(each.left.total() for each in partials.values())
                most = most if not turns.is_open(entry.key) else max(1, most // _TURNS)
                decide = partial(self._allocator.decide_extras, allocation, most)
            yield from self._act_on(entry, self._with_reservations(entry, decide))
            self._again(turns, partials.get(entry.key))

    def _again(self, turns: Turns, allocation: PartialAllocation | None) -> None:
        """One more turn for a gang that wants more."""
        if allocation is not None and allocation.left:
            entry, pods = allocation.entry, allocation.next_pods(1)
            gang = self._session.queue_accounting.turn(entry, turns.gang(entry.key), pods, allocation.planned)
            turns.again(gang)

    def _with_reservations(
        self, entry: QueuedGang, decide_action: Callable[[], Action | None]
    ) -> Callable[[], Action | None]:
        """Decide with the capacity that is reserved for the replacements of the gang's pods."""
        if not self._reservations.moves.has_any(entry.key) and not entry.awaited:
            return decide_action

        def decide() -> Action | None:
            self._reservations.returning.open(entry)
            opened, before = self._reservations.moves.open(entry.key), len(entry.assignments)
            act = decide_action()
            self._reservations.moves.close(entry.key, opened, list(entry.assignments.values())[before:])
            self._reservations.returning.hold(entry)
            return act

        return decide

    def _is_its_turn(self, entry: QueuedGang) -> bool:
        if entry.key in self._scheduling_queue.changed or entry.busy or entry.key not in self._scheduling_queue.due:
            return False
        entry.unsettled = not self._snapshot.is_fresh(entry.key)
        if entry.unsettled or self._gang_reader.has_victims_leaving(entry.key):
            return False
        return not self._backs_off(entry) and self._session.placement.is_current

    def _backs_off(self, entry: QueuedGang) -> bool:
        """Whether it waits after a failure. A timer may be a little early, and nothing else wakes the gang then."""
        return entry.not_before > self._session.clock.monotonic() + _TIMER_SLACK_S


def _has_started(entry: QueuedGang, found: Plan | RejectedRecord | None) -> bool:
    """Whether members of a gang have nodes, or get them by a plan that is being carried out."""
    assert entry.reading is not None
    return bool(entry.reading.gang.running) or (isinstance(found, Plan) and found.state == "bind")


def _backoff_s(task_status: TaskStatus, failures: int) -> float:
    """Exponential backoff."""
    base_s = _FAILED_RETRY_S if task_status is TaskStatus.FAILED else _RETRY_S
    return min(base_s * 2.0 ** min(failures, _MOST_DOUBLINGS), _LONGEST_RETRY_S)
