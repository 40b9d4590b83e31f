"""A simulated cluster that the scheduler's own cycle runs on: binds, evictions and reports happen in memory only.

Simulated time advances only to the next timer of the scheduler. Never contacts a server: its transport has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from kube_apimachinery.system_clock import system_dice
from spinney.api.builtin.pod import Pod, PodCondition
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import DEFAULT_QUEUE, EXPLANATION, PLACEMENT_SCORE, PLAN
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.cycle.actions import (
    Action,
    BindNow,
    DecidedAgain,
    DiscardRecord,
    DropPlan,
    EvictionTarget,
    EvictRemaining,
    Nominate,
    PlanTask,
    ResumePlan,
    StartPlan,
    TaskResult,
    TaskStatus,
    Undecided,
)
from spinney.core.scheduling.cycle.cycle import Cycle
from spinney.core.scheduling.cycle.scheduling_queue import QueuedGang
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import group_of
from spinney.core.scheduling.plan_records import UnverifiedReader
from spinney.core.scheduling.reporting.report import POD_SCHEDULED, PodReport, Report, State, encode
from spinney.core.scheduling.settings import Settings
from spinney.core.view.plan_result import DisplacedPod
from spinney.drive.client.api import ApiClient
from spinney.drive.client.codec import WatchEvent
from spinney.drive.client.errors import NotSent
from spinney.drive.client.http.transport import Response, Stream
from spinney.drive.client.informers.cache import Cache, OwnWrites
from spinney.drive.client.informers.optional_caches import OptionalCaches
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.informers.unreadable import Complaint, Unreadable
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.caches import SchedulerCaches
from spinney.drive.scheduler.event_handlers import EventHandlers
from spinney.drive.scheduler.execution.binder import hint_labels, hints
from spinney.drive.scheduler.metrics import Metrics

_ROUNDS = 200
_PATIENCE_S = 10.0
"""Timers of the scheduler that are due later than this are not waited for."""


class _NoServer:
    """The transport of caches that are filled directly."""

    async def request(self, method: str, path: str, **_: Any) -> Response:
        raise NotSent(f"{method} {path}: a copy of a cluster has no server")

    def stream(self, path: str, **_: Any) -> AbstractAsyncContextManager[Stream]:
        raise NotSent(f"{path}: a copy of a cluster has no server")

    async def close(self) -> None:
        """Nothing is open."""


class _ManualClock:
    """A clock that is advanced explicitly."""

    def __init__(self, now_s: float) -> None:
        self._start_s = now_s
        self.passed_s = 0.0

    def now(self) -> float:
        return self._start_s + self.passed_s

    def monotonic(self) -> float:
        return self.passed_s


class _ReportRecorder:
    """Replaces the status writer: keeps the latest report about each gang."""

    def __init__(self) -> None:
        self.reported: dict[Key, Report] = {}
        self.ungrouped: dict[Key, PodReport] = {}

    def put(self, key: Key, report: Report) -> None:
        self.reported[key] = report

    def put_ungrouped(self, reports: Iterable[PodReport]) -> None:
        self.ungrouped.update({one.key: one for one in reports})

    def forget(self, key: Key) -> None:
        self.reported.pop(key, None)

    def note(self, *_: object) -> None:
        """Events of the simulation are dropped."""


class ClusterSimulator:
    """`views` are filled with `put`; `settle` runs scheduling cycles on them until nothing is left to do.

    `complaints`: undecodable objects, as a scheduler would log them.
    """

    def __init__(self, settings: Settings, now_s: float) -> None:
        client = ApiClient(_NoServer(), system_dice())
        writes = OwnWrites()
        self.complaints: list[Complaint] = []
        unreadable = Unreadable(lambda complaint, _: self.complaints.append(complaint))
        latecomers = OptionalCaches(client, writes, system_dice(), unreadable)
        caches = SharedCaches(client, writes, system_dice(), unreadable=unreadable)
        self.views = SchedulerCaches(caches, settings.names, latecomers)
        self._clock = _ManualClock(now_s)
        self._session = Session(settings, self._clock)
        self.cluster = self._session.cluster
        self.victims: dict[Key, list[DisplacedPod]] = {}
        self.pipelined: set[Key] = set()
        self._scheduling_queue = self._session.scheduling_queue
        self._reports = _ReportRecorder()
        self._timers: list[tuple[float, Key]] = []
        EventHandlers(self._session, self.views, lambda: None, self._requeue_ungrouped)
        metrics = Metrics(lambda: self.cluster.inventory)
        self._cycle = Cycle(self._session, self.views, UnverifiedReader(), self._reports, metrics)

    @property
    def now_s(self) -> float:
        return self._clock.now()

    @property
    def entries(self) -> list[QueuedGang]:
        """All gangs as the scheduler has parsed them."""
        return list(self._scheduling_queue.entries.values())

    def is_hopeless(self, key: Key) -> bool:
        """Whether a gang is reported as unschedulable in the current state."""
        reported = self._reports.reported.get(key)
        return reported is not None and reported.state is State.UNSCHEDULABLE

    def minimum_is_placed(self, key: Key) -> bool:
        """Whether the minimum of a gang is scheduled: at most elastic pods beyond the minimum are pending."""
        pods = self.views.pods_of(key)
        reported = self._reports.reported.get(key)
        waits = reported is not None and reported.state not in (State.SCHEDULED, State.PARTLY)
        return any(pod.spec.node_name for pod in pods) and not waits

    # Filling

    @staticmethod
    def put(cache: Cache[Any], *objects: Any) -> None:
        """Add or replace objects; they are stored without a resourceVersion."""
        cache.fold_page([_unversioned(one) for one in objects])

    def remove(self, pod: Pod) -> None:
        self.views.pods.fold([WatchEvent("DELETED", pod)])

    # Time

    def settle(self) -> None:
        """Run cycles until nothing is left to decide and incomplete gangs are reported as such."""
        until_s = self._clock.passed_s + _PATIENCE_S
        for _ in range(_ROUNDS):
            acts = self._actions()
            for act in acts:
                self._apply(act)
            if acts or self._scheduling_queue.changed:
                continue
            if not (self._remove_leaving_pods() or self._advance_clock(until_s)):
                return

    def _actions(self) -> list[Action]:
        found: list[Action] = []
        for step in self._cycle.steps():
            match step:
                case None | DecidedAgain():
                    pass
                case Undecided(key, error):
                    self.views.podgroups.complain(key, error)
                case _:
                    found.append(step)
        self._set_timers()
        return found

    def _remove_leaving_pods(self) -> bool:
        """Remove terminating pods if a gang is nominated to their capacity; returns whether any was removed."""
        waiting = [key for key in self._scheduling_queue.nominated if key not in self.pipelined]
        leaving = [pod for pod in self.views.pods if pod.metadata.deletion_timestamp is not None] if waiting else []
        self.pipelined.update(waiting)
        for pod in leaving:
            self.remove(pod)
        return bool(leaving)

    def _advance_clock(self, until_s: float) -> bool:
        """Advance to the next timer and requeue its gangs; returns False if there is none before `until_s`."""
        self._timers = [timer for timer in self._timers if timer[0] <= until_s]
        if not self._timers:
            return False
        due_s = min(due_s for due_s, _ in self._timers)
        self._clock.passed_s = max(self._clock.passed_s, due_s)
        for _, key in [timer for timer in self._timers if timer[0] <= due_s]:
            self._scheduling_queue.touch(key)
        self._timers = [timer for timer in self._timers if timer[0] > due_s]
        return True

    def _set_timers(self) -> None:
        for key, after_s in self._session.take_requeues():
            self._requeue_after(key, after_s)

    def _requeue_after(self, key: Key, delay_s: float) -> None:
        self._timers.append((self._clock.passed_s + delay_s, key))

    def _requeue_ungrouped(self, key: Key) -> None:
        self._requeue_after(key, self._session.settings.incomplete_grace_s)

    # Acting

    def _apply(self, act: Action) -> None:
        match act:
            case StartPlan(_, plan_task) | ResumePlan(_, plan_task) | BindNow(_, plan_task):
                self._assign_nodes(plan_task)
            case Nominate(key, plan_task, targets) | EvictRemaining(key, plan_task, targets):
                self._remove_victims(key, plan_task, targets)
                self._assign_nodes(plan_task)
            case DropPlan(_, plan_task):
                self._record(plan_task.group, None)
            case DiscardRecord(_, group):
                self._record(group, None)
            case _:
                return  # a gang that runs below its minimum is left as it is
        self._cycle.finished(act, TaskResult(TaskStatus.DONE))
        self._set_timers()

    def _assign_nodes(self, plan_task: PlanTask) -> None:
        """Assign the nodes of a plan to its pods, with the annotations of the assignment."""
        plan = plan_task.plan
        self._reports.forget((plan_task.group.namespace, plan_task.group.name))
        self._record(plan_task.group, plan.score)
        for assignment in plan.assignments:
            key = plan_task.keys.get(assignment.uid)
            pod = self.views.pods.get(key) if key is not None and assignment.uid not in plan_task.given_up else None
            if pod is None or pod.metadata.uid != assignment.uid or pod.spec.node_name:
                continue
            self.put(self.views.pods, _bound(pod, assignment.node, hints(assignment, plan), hint_labels(assignment)))

    def _remove_victims(self, key: Key, plan_task: PlanTask, evicted: Iterable[EvictionTarget]) -> None:
        """Remove the victims of a plan; a moved pod is placed on the node of its replacement."""
        told = {target.pod.metadata.uid: target.event.message for target in evicted}
        targets = {move.uid: move.node for move in plan_task.plan.moves}
        for uid in plan_task.plan.leaving:
            pod = self.cluster.running_pod(uid)
            if pod is None:
                continue
            title = f"{pod.metadata.namespace}/{pod.metadata.name}"
            to = targets.get(uid, "")
            gang, queue = "/".join(group_of(pod)), self._queue_of(pod)
            displaced = DisplacedPod(title, gang, pod.spec.node_name, to, queue, told.get(uid, ""))
            self.victims.setdefault(key, []).append(displaced)
            self.remove(pod)
            if to:
                metadata = msgspec.structs.replace(pod.metadata, uid=f"after-{uid}")
                self.put(self.views.pods, _bound(msgspec.structs.replace(pod, metadata=metadata), to, {}, {}))

    def _queue_of(self, pod: Pod) -> str:
        group = self.views.podgroups.get(group_of(pod))
        return (group.spec.queue or DEFAULT_QUEUE) if group is not None else ""

    def _record(self, about: ObjectMeta, score: float | None) -> None:
        group = self.views.podgroups.get((about.namespace, about.name))
        if group is None:
            return
        notes = {key: value for key, value in group.metadata.annotations.items() if key != PLAN}
        if score is not None:
            notes[PLACEMENT_SCORE] = f"{score:.4f}"
        self.put(self.views.podgroups, _noted(group, notes))

    # Results

    def stray_words(self, key: Key) -> str:
        """The message for pods whose PodGroup does not exist."""
        reported = [
            self._reports.ungrouped.get((pod.metadata.namespace, pod.metadata.name)) for pod in self.views.pods_of(key)
        ]
        reason = [one.condition[1] for one in reported if one is not None and one.condition is not None]
        return reason[0] if reason else f"PodGroup {'/'.join(key)} does not exist"

    def reported_group(self, key: Key) -> PodGroup:
        """The PodGroup with the explanation annotation that the scheduler would write."""
        group, report = self.views.podgroups.get(key), self._reports.reported.get(key)
        assert group is not None
        notes = {name: value for name, value in group.metadata.annotations.items() if name != EXPLANATION}
        if report is not None and report.explanation is not None:
            notes[EXPLANATION] = encode(report.explanation)
        return _noted(group, notes)

    def reported_pods(self, key: Key) -> list[Pod]:
        """The pods of a gang with the conditions that the scheduler would write."""
        report = self._reports.reported.get(key)
        reason = {one.uid: one.condition for one in report.pods if one.condition} if report is not None else {}
        return [_conditioned(pod, reason.get(pod.metadata.uid)) for pod in self.views.pods_of(key)]


def _bound(pod: Pod, node: str, notes: Mapping[str, str], labels: Mapping[str, str]) -> Pod:
    metadata = msgspec.structs.replace(
        pod.metadata,
        annotations={**pod.metadata.annotations, **notes},
        labels={**pod.metadata.labels, **labels},
    )
    return msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=node))


def _noted(group: PodGroup, notes: dict[str, str]) -> PodGroup:
    return msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, annotations=notes))


def _conditioned(pod: Pod, reason: tuple[str, str] | None) -> Pod:
    if reason is None:
        return pod
    reported = PodCondition(POD_SCHEDULED, "False", *reason)
    others = tuple(one for one in pod.status.conditions if one.type != POD_SCHEDULED)
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=(*others, reported)))


def _unversioned(thing: Any) -> Any:
    if not thing.metadata.resource_version:
        return thing
    return msgspec.structs.replace(thing, metadata=msgspec.structs.replace(thing.metadata, resource_version=""))
