"""One scheduling cycle: read the gangs that changed, decide the ones that are due in queue order, hand out the actions.

The cycle makes no API call and never blocks: it yields actions, and `finished` tells it their results. An assignment is
reserved as soon as a gang is decided, so that the next gang sees it. A gang is not decided while the scheduler's own
writes to it are missing from the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kube_apimachinery.clock import Clock
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import EXPLANATION, KAI_NODE_POOL, PLAN
from spinney.api.placement.problem import Consolidate
from spinney.core.scheduling.cluster import Cluster
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
from spinney.core.scheduling.cycle.grace_periods import GracePeriod, StaleGangs, UngroupedPods
from spinney.core.scheduling.cycle.nominated_plans import NominatedPlans
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.cycle.plan_review import PlanReview
from spinney.core.scheduling.cycle.preemption import Preemptor
from spinney.core.scheduling.cycle.queue_accounting import MinRuntime, QueueAccounting
from spinney.core.scheduling.cycle.reservations import MoveReservations, Reservations
from spinney.core.scheduling.cycle.scheduling_queue import GangState, SchedulingQueue
from spinney.core.scheduling.cycle.snapshot import DecisionMetrics, Key, Reports, Snapshot
from spinney.core.scheduling.gang.members import is_owned_by_podgang
from spinney.core.scheduling.gang.parsed_gang import Context
from spinney.core.scheduling.plan import Plan
from spinney.core.scheduling.plan_records import RecordReader, RejectedRecord, Superseded
from spinney.core.scheduling.reporting import WriteFailure, awaiting_volumes
from spinney.core.scheduling.reporting.report import alike
from spinney.core.scheduling.settings import Settings, limits_of

_RETRY_S = 0.01
_FAILED_RETRY_S = 1.0
_LONGEST_RETRY_S = 30.0
_MOST_DOUBLINGS = 32
_LONGEST_HOLD_S = 1.0
_VOLUMES_RECHECK_S = 5.0
_CONFIRM_S = 0.5

_WaitingPlan = tuple[GangState, Callable[[], Action | None]]
"""A gang whose recorded plan waits for its victims to terminate, and the call that continues it."""


class Cycle:
    """`requeue_after` schedules another look at a key after that many seconds.

    `confirmed_at`: when the Lease request was sent whose answer last confirmed our leadership; None: there is no leader
    election.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        cluster: Cluster,
        scheduling_queue: SchedulingQueue,
        queue_accounting: QueueAccounting,
        context: Callable[[], Context],
        settings: Settings,
        clock: Clock,
        records: RecordReader,
        requeue_after: Callable[[Key, float], None],
        reports: Reports,
        metrics: DecisionMetrics,
        confirmed_at: Callable[[], float] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._metrics = metrics
        self._confirmed_at = confirmed_at
        self._cluster = cluster
        self._scheduling_queue = scheduling_queue
        self._context = context
        self._settings = settings
        self._clock = clock
        self._records, epoch = records, records.term.epoch
        self._requeue_after = requeue_after
        self._session = PlacementSession(cluster, settings.strategy, settings.budget, scheduling_queue.reserved)
        self._queue_accounting = queue_accounting
        self._reservations = Reservations(snapshot, cluster, epoch, clock, self._reread_gang)
        self._min_runtime = MinRuntime(
            snapshot, cluster, scheduling_queue, self._queue_accounting, clock, requeue_after
        )
        self._gang_reader = GangReader(snapshot, cluster, scheduling_queue, self._session, self._min_runtime, context)
        self._move_reservations = MoveReservations(cluster, clock, requeue_after)
        self._reporter = GangReporter(reports, cluster, settings.node_pool)
        self._plan_review = PlanReview(snapshot, cluster, scheduling_queue, self._min_runtime, self._gang_reader)
        self._nominated_plans = NominatedPlans(
            snapshot,
            cluster,
            scheduling_queue,
            self._reservations,
            self._move_reservations,
            self._gang_reader,
            self._queue_accounting,
            self._session,
            self._plan_review,
            records,
        )
        self._stale_gangs = StaleGangs(snapshot, cluster, settings, clock, requeue_after)
        self._grace_period = GracePeriod(clock, settings.incomplete_grace_s, requeue_after)
        self._ungrouped_pods = UngroupedPods(
            scheduling_queue, clock, settings.incomplete_grace_s, requeue_after, reports
        )
        self._allocator = Allocator(
            cluster,
            scheduling_queue,
            self._gang_reader,
            self._queue_accounting,
            self._session,
            Preemptor(snapshot.budgets, cluster, self._session, self._session.options, self._gang_reader.running_gang),
            self._reservations,
            self._nominated_plans,
            self._reporter,
            clock,
            metrics,
        )
        self._improved = -1
        self._undecided: set[Key] = set()

    def _reread_gang(self, key: Key) -> None:
        """Read a gang whose pods are no longer victims, so that the next decision counts its capacity and usage."""
        self._gang_reader.reread(key)
        entry = self._scheduling_queue.entries.get(key)
        if entry is not None:
            self._queue_accounting.charge(entry)
        self._requeue_after(key, 0.0)

    # Actions

    def steps(self) -> Iterator[Step]:
        """Yield the actions of this cycle. Other tasks may run between steps; the next cycle sees what they change."""
        began_s = self._clock.monotonic()
        if self._session.renew():
            self._queue_accounting.renew(self._cluster.inventory.resources, self._scheduling_queue.entries.values())
            self._scheduling_queue.touch_all()
        if self._improved != self._cluster.improved:
            self._scheduling_queue.changed.update(self._scheduling_queue.waits)
        yield from self._read_changed()
        if self._improved != self._cluster.improved:
            self._improved = self._cluster.improved
            self._scheduling_queue.retry_refused()
        self._requeue_nominated()
        read_s = self._clock.monotonic() - began_s
        yield from self._decide(self._queue_accounting.sort(self._scheduling_queue, self._scheduling_queue.due))
        self._metrics.cycle(self._clock.monotonic() - began_s, read_s)

    def finished(self, act: Action, task_result: TaskResult) -> WriteFailure | None:
        """Take the result of an action, done or failed, and put the gang back into the queue.

        Returns a write that the API server refused, if that is news.
        """
        key, task_status = act.key, task_result.task_status
        entry = self._scheduling_queue.entries.get(key)
        if entry is None:
            return None
        entry.busy = False
        news = self._failed(entry, act, task_result.failures) if task_result.failures else None
        if task_status is TaskStatus.AWAITS_VOLUMES:
            self._await_volumes(entry)
            return news
        self._scheduling_queue.waits_for_volumes.pop(key, None)
        entry.volumes_since = None
        if task_status is TaskStatus.DONE:
            entry.failures = 0
            entry.failure, entry.probes = "", entry.probes and isinstance(act, MarkStale)
        else:
            entry.refused_at = None
            delay_s = _LONGEST_RETRY_S if task_status is TaskStatus.REFUSED else _backoff_s(task_status, entry.failures)
            entry.failures += 1
            entry.not_before = self._clock.monotonic() + delay_s
            self._requeue_after(key, delay_s)
        self._scheduling_queue.touch(key)
        return news

    def _failed(self, entry: GangState, act: Action, failures: Sequence[WriteFailure]) -> WriteFailure | None:
        """Report what the API server answered on the gang; an unchanged answer is news once."""
        first = failures[0]
        entry.probes = entry.probes or first.write == "bind"
        is_news, entry.failure = not alike(entry.failure, first.event.message), first.event.message
        if not isinstance(act, EvictStale):
            self._reporter.explain_failures(entry, failures)
        elif is_news:
            self._reporter.note(entry, first.event)
        return first if is_news else None

    def _await_volumes(self, entry: GangState) -> None:
        """Park the gang until its volume claims change, with a periodic recheck."""
        if entry.volumes_since is None:
            entry.volumes_since = self._clock.monotonic()
        self._scheduling_queue.waits_for_volumes[entry.key] = None
        if entry.reading is not None:
            self._reporter.submit(entry, awaiting_volumes(entry.reading))
        self._requeue_after(entry.key, _VOLUMES_RECHECK_S)

    def _act_on(self, entry: GangState, decide_action: Callable[[], Action | None]) -> Iterator[Step]:
        """Decide the action of one gang; an unexpected error backs off this gang only and does not stop the others."""
        try:
            act = decide_action()
        except Superseded:
            raise
        except Exception as error:
            self._reservations.release(entry)
            self._scheduling_queue.dequeue(entry)
            entry.not_before = self._clock.monotonic() + _LONGEST_RETRY_S
            self._requeue_after(entry.key, _LONGEST_RETRY_S)
            self._undecided.add(entry.key)
            yield Undecided(entry.key, error)
            return
        if entry.key in self._undecided:
            self._undecided.discard(entry.key)
            yield DecidedAgain(entry.key)
        self._queue_accounting.charge(entry)
        entry.busy = act is not None
        yield act

    # Reading

    def _read_changed(self) -> Iterator[Step]:
        """Read the changed gangs; plans that wait for victims go last, when the queue usage of all others is known."""
        context = self._context()
        waits: list[_WaitingPlan] = []
        for key in self._scheduling_queue.pop_changed():
            entry = self._scheduling_queue.entry(key)
            if not entry.busy:
                yield from self._act_on(entry, partial(self._read, entry, context, waits))
        for entry, check in waits:
            if entry.key not in self._scheduling_queue.changed:
                yield from self._act_on(entry, check)

    def _read(self, entry: GangState, context: Context, waits: list[_WaitingPlan]) -> Action | None:
        group, pods = self._snapshot.podgroup(entry.key), self._snapshot.pods_of(entry.key)
        entry.unsettled = not self._snapshot.is_fresh(entry.key)
        if group is None or group.metadata.labels.get(KAI_NODE_POOL, "") != self._settings.node_pool:
            if entry.unsettled and entry.assignments:
                # Pods that were just bound may not be seen on their nodes yet: their capacity stays reserved (INV1).
                self._scheduling_queue.due.pop(entry.key, None)
                return None
            if group is None and entry.group is not None:
                self._records.forget(entry.group.metadata.uid)
            self._forget_gang(entry)
            if group is None:
                self._ungrouped_pods.check(entry, pods)
            return None
        if entry.unsettled:
            self._scheduling_queue.due.pop(entry.key, None)
            if entry.reading is None and PLAN in group.metadata.annotations:
                self._reserve_recorded(entry, group, pods, context)
            return None
        found = self._records.read(group.metadata)
        before, entry.group = entry.reading, group
        if before is None and self._grace_period.is_gathering(entry, group, pods):
            return None
        was_limited, entry.limits = entry.limits, self._limits(group)
        self._gang_reader.read(entry, group, pods, context)
        self._min_runtime.check(entry)
        self._move_reservations.expire(entry.key)
        if isinstance(found, RejectedRecord):
            return self._discard(entry, group, pods, found)
        if found is not None:
            return self._resume(entry, group, found, pods, waits)
        self._gang_reader.finish_plan(entry)
        assert entry.reading is not None
        runs, is_mistaken = bool(entry.reading.gang.running), bool(entry.reading.mistake)
        act = self._stale_gangs.check(group, pods, runs, is_mistaken=is_mistaken)
        if act is not None and entry.not_before <= self._clock.monotonic():
            return act
        same = before == entry.reading and was_limited == entry.limits
        if same and (entry.refused_at == self._cluster.improved or self._keeps_its_reservations(entry)):
            return None
        self._reservations.release(entry)
        return self._queue(entry, group)

    def _limits(self, group: PodGroup) -> Consolidate | None:
        """The consolidation limits of a gang; its annotation counts only where the settings allow moves on request."""
        by_itself, asks = self._settings.consolidate, self._settings.moves_on_request
        return limits_of(group.metadata.annotations, by_itself) if asks else by_itself

    def _reserve_recorded(self, entry: GangState, group: PodGroup, pods: Sequence[Pod], context: Context) -> None:
        """Reserve a recorded plan's assignments though its gang may not be decided yet: no other gets them (INV1)."""
        entry.group, entry.in_flight = group, True
        self._gang_reader.read(entry, group, pods, context)
        found = self._records.read(group.metadata)
        if isinstance(found, Plan):
            self._reservations.reserve_recorded(entry, found, pods)

    def _keeps_its_reservations(self, entry: GangState) -> bool:
        """Whether the reservations stay because the plan is retried in a moment: no other gang may take them."""
        left_s = entry.not_before - self._clock.monotonic()
        if not entry.assignments or entry.victims or not 0.0 < left_s <= _LONGEST_HOLD_S:
            return False
        self._requeue_after(entry.key, left_s)
        return True

    def _forget_gang(self, entry: GangState) -> None:
        """Drop all state of a PodGroup that is deleted or belongs to another node pool."""
        self._reservations.release(entry)
        self._scheduling_queue.dequeue(entry)
        self._scheduling_queue.set_base(entry, "")
        self._session.forget(entry.name)
        self._scheduling_queue.requeue_tied(entry.name)
        self._reporter.forget(entry)
        self._stale_gangs.forget(entry.key)
        self._min_runtime.forget(entry.key)
        self._move_reservations.open(entry.key)
        entry.group = entry.reading = None

    def _discard(self, entry: GangState, group: PodGroup, pods: Sequence[Pod], why: RejectedRecord) -> Action | None:
        """Remove a record that is not a valid plan: nothing is reserved, bound or evicted for it."""
        self._reservations.release(entry)
        self._scheduling_queue.dequeue(entry)
        if entry.not_before > self._clock.monotonic() or (why.is_foreign and not self._is_confirmed(entry, why)):
            return None
        waiting = [pod for pod in pods if pod.is_here and not pod.spec.node_name] if why.has_binder else []
        return DiscardRecord(entry.key, group.metadata, why, tuple(waiting))

    def _is_confirmed(self, entry: GangState, why: RejectedRecord) -> bool:
        """Whether the Lease was confirmed as ours after a record under another Lease was found."""
        if self._confirmed_at is None:
            return True
        if entry.foreign is None or entry.foreign[0] != why.message:
            entry.foreign = (why.message, self._clock.monotonic())
        if self._confirmed_at() > entry.foreign[1]:
            entry.foreign = None
            return True
        self._requeue_after(entry.key, _CONFIRM_S)
        return False

    def _resume(
        self, entry: GangState, group: PodGroup, plan: Plan, pods: Sequence[Pod], waits: list[_WaitingPlan]
    ) -> Action | None:
        """Continue a recorded plan with the assignments it names."""
        self._scheduling_queue.dequeue(entry)
        entry.in_flight = True
        if entry.not_before > self._clock.monotonic():
            return None
        if plan.state == "wait":
            waits.append((entry, partial(self._nominated_plans.resume, entry, group, plan, pods)))
            return None
        too_late_s = (entry.volumes_since or self._clock.monotonic()) + self._settings.volumes_s
        refused = self._refused(entry, group, plan, pods)
        give_up = too_late_s <= self._clock.monotonic()
        plan_task = self._reservations.resume(entry, group, plan, pods, refused=refused, give_up=give_up)
        return ResumePlan(entry.key, plan_task, next(iter(refused.values()), ""))

    def _refused(self, entry: GangState, group: PodGroup, plan: Plan, pods: Sequence[Pod]) -> dict[str, str]:
        """Assignments in an earlier leader's plan that are no longer valid, by uid; checked before any is reserved."""
        if not self._records.is_taken_over(group.metadata.uid):
            return {}
        self._reservations.release(entry)
        waiting = {pod.metadata.uid for pod in pods if not pod.spec.node_name}
        return self._plan_review.assignments(
            entry, [assignment for assignment in plan.assignments if assignment.uid in waiting]
        )

    def _queue(self, entry: GangState, group: PodGroup) -> Action | None:
        """Handle a gang without a plan: enqueue it, report why it is not ready, or leave it alone.

        A gang whose last scheduling gates are about to be removed starts with all its pods: the domain is chosen for
        all of them.
        """
        reading = entry.reading
        assert reading is not None
        if reading.mistake:
            self._scheduling_queue.dequeue(entry)
            self._reporter.explain(entry, reading, None)
            return None
        if not reading.ready:
            self._scheduling_queue.dequeue(entry)
            is_gated = reading.gated and not is_owned_by_podgang(group)  # a PodGang's operator removes its gates
            if self._grace_period.is_over(entry) and (any(reading.held) or any(reading.waiting.values()) or is_gated):
                self._reporter.explain(entry, reading, None)
            return None
        if reading.gated and not reading.gang.running and not self._grace_period.is_over(entry):
            self._scheduling_queue.dequeue(entry)
            return None
        if not reading.held and not reading.gated:
            entry.incomplete_since = None
        if any(reading.waiting.values()):
            self._scheduling_queue.enqueue(entry)
        else:
            self._scheduling_queue.dequeue(entry)
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
            del self._scheduling_queue.nominated[key]
            self._scheduling_queue.due[key] = None

    def _decide(self, order: Sequence[GangState]) -> Iterator[Step]:
        """Decide the minimums first, in queue order; then the pods beyond them."""
        partials: list[PartialAllocation] = []
        for entry in order:
            if not self._is_its_turn(entry):
                continue
            yield from self._act_on(
                entry, self._with_reservations(entry, partial(self._allocator.decide_minimum, entry, partials))
            )
        for allocation in partials:
            if self._is_its_turn(allocation.entry):
                yield from self._act_on(
                    allocation.entry,
                    self._with_reservations(allocation.entry, partial(self._allocator.decide_extras, allocation)),
                )
            else:
                self._reservations.release(allocation.entry)
                self._scheduling_queue.touch(allocation.entry.key)

    def _with_reservations(
        self, entry: GangState, decide_action: Callable[[], Action | None]
    ) -> Callable[[], Action | None]:
        """Decide with the capacity that is reserved for the replacements of the gang's moved pods."""
        if not self._move_reservations.has_any(entry.key):
            return decide_action

        def decide() -> Action | None:
            opened, before = self._move_reservations.open(entry.key), len(entry.assignments)
            act = decide_action()
            self._move_reservations.close(entry.key, opened, list(entry.assignments.values())[before:])
            return act

        return decide

    def _is_its_turn(self, entry: GangState) -> bool:
        if entry.key in self._scheduling_queue.changed or entry.busy or entry.key not in self._scheduling_queue.due:
            return False
        entry.unsettled = not self._snapshot.is_fresh(entry.key)
        if entry.unsettled or self._gang_reader.has_victims_leaving(entry.key):
            return False
        return entry.not_before <= self._clock.monotonic() and self._session.is_current


def _backoff_s(task_status: TaskStatus, failures: int) -> float:
    """Exponential backoff."""
    base_s = _FAILED_RETRY_S if task_status is TaskStatus.FAILED else _RETRY_S
    return min(base_s * 2.0 ** min(failures, _MOST_DOUBLINGS), _LONGEST_RETRY_S)
