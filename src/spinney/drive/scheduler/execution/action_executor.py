"""Executes the actions of a cycle, each to its end.

Never decides: it does, reports or gives up what the action says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import structlog

from spinney.api.labels import KAI_STALE_TIMESTAMP
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.cycle.actions import (
    Action,
    BindNow,
    DiscardRecord,
    DropPlan,
    EvictionTarget,
    EvictRemaining,
    EvictStale,
    MarkStale,
    Nominate,
    PlanTask,
    ResumePlan,
    StartPlan,
    TaskResult,
    TaskStatus,
)
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.plan_records import UNLAWFUL, PlanRecords, RejectedRecord
from spinney.core.scheduling.reporting.messages import EVICTOR_ACTION, record_rejected, scheduled
from spinney.core.scheduling.reporting.report import DEFAULT_NODE_POOL, Event
from spinney.drive.scheduler.caches import PODGROUPS, SchedulerCaches
from spinney.drive.scheduler.execution.api_writer import ApiWriter, WriteSlot
from spinney.drive.scheduler.execution.binder import Binder
from spinney.drive.scheduler.execution.evictor import EvictionStatus, Evictor
from spinney.drive.scheduler.execution.plan_executor import PlanExecutor
from spinney.drive.scheduler.execution.volume_binder import VolumeBinder
from spinney.drive.scheduler.metrics import Metrics
from spinney.drive.scheduler.status_writer import StatusWriter

_log = structlog.get_logger(__name__)


class ActionExecutor:
    """Dispatches each action to the executor for it."""

    def __init__(
        self,
        session: Session,
        api_writer: ApiWriter,
        views: SchedulerCaches,
        metrics: Metrics,
        records: PlanRecords,
    ) -> None:
        self._views = views
        self._metrics = metrics
        self._pool = session.settings.node_pool or DEFAULT_NODE_POOL
        self.status_writer = StatusWriter(api_writer, views.podgroups.get, views.pods.get, node_pool=self._pool)
        self._evictor = Evictor(api_writer, self._note_eviction)
        binder = Binder(session, api_writer, views.pods, metrics)
        volume_binder = VolumeBinder(api_writer, views, session.cluster)
        self._plan_executor = PlanExecutor(api_writer, views, volume_binder, binder, self._evictor, records)

    async def run(self) -> None:
        """Write status and events in the background, until cancelled."""
        await self.status_writer.run()

    async def do(self, act: Action, write_slot: WriteSlot) -> TaskResult:
        task_result = await self._carry_out(act, write_slot)
        for failure in task_result.failures:
            self._metrics.refused(failure.write, failure.code)
        return task_result

    async def _carry_out(self, act: Action, write_slot: WriteSlot) -> TaskResult:
        match act:
            case StartPlan(_, plan_task):
                return self._began(plan_task, await self._plan_executor.begin(plan_task, write_slot.yield_slot))
            case ResumePlan(_, plan_task, why) | DropPlan(_, plan_task, why):
                task_result = self._ended(plan_task, await self._plan_executor.resume(plan_task))
                if why and task_result.task_status is TaskStatus.DONE:
                    self._report_rejected(plan_task.group, RejectedRecord(UNLAWFUL, why))
                return task_result
            case DiscardRecord():
                return await self._discard(act)
            case BindNow(_, plan_task):
                return self._ended(plan_task, await self._plan_executor.begin(plan_task))
            case Nominate(_, plan_task, targets):
                self._metrics.preemption_attempt()
                return await self._plan_executor.nominate(plan_task, targets)
            case EvictRemaining(_, plan_task, targets):
                return await self._plan_executor.evict_remaining(plan_task, targets)
            case EvictStale(_, targets):
                return await self._evict_stale(targets)
            case MarkStale():
                return TaskResult(await self._mark(act))
            case _:
                assert_never(act)

    async def _evict_stale(self, targets: Sequence[EvictionTarget]) -> TaskResult:
        found = await self._evictor.evict_all(targets)
        if found.failures:
            return TaskResult(TaskStatus.FAILED, failures=found.failures)
        return TaskResult(TaskStatus.DONE if found.answer is EvictionStatus.GOING else TaskStatus.LATER)

    def _began(self, plan_task: PlanTask, task_result: TaskResult) -> TaskResult:
        if task_result.task_status is TaskStatus.CONFLICT:
            self._metrics.plan_conflict()
        elif task_result.bound:
            self._metrics.scheduled(plan_task.plan.score)
        return self._ended(plan_task, task_result)

    async def _discard(self, act: DiscardRecord) -> TaskResult:
        """Report the rejection once the record is removed: one that others keep rewriting is reported each time."""
        task_result = await self._plan_executor.discard(act.group, act.pods)
        if task_result.task_status is TaskStatus.DONE:
            self._report_rejected(act.group, act.rejected)
        return task_result

    def _report_rejected(self, group: ObjectMeta, why: RejectedRecord) -> None:
        name = f"{group.namespace}/{group.name}"
        _log.warning("a record was rejected", podgroup=name, reason=why.reason, message=why.message)
        self._metrics.record_rejected(why.reason)
        self.status_writer.note(PODGROUPS.api_version, "PodGroup", group, record_rejected(why.message))

    async def _mark(self, act: MarkStale) -> TaskStatus:
        task_status = await self._plan_executor.mark(act.group, KAI_STALE_TIMESTAMP, act.since)
        if task_status is TaskStatus.DONE and act.event is not None:
            self.status_writer.note(PODGROUPS.api_version, "PodGroup", act.group, act.event)
        return task_status

    def _note_eviction(self, api_version: str, kind: str, about: ObjectMeta, event: Event) -> None:
        self.status_writer.note(api_version, kind, about, event)
        action = dict(event.annotations).get(EVICTOR_ACTION)
        if kind == "PodGroup" and action is not None:
            self._metrics.evicted(about.name, about.uid, self._pool, action, pods=1)

    def _ended(self, plan_task: PlanTask, task_result: TaskResult) -> TaskResult:
        """Record a Scheduled event for the pods that got their nodes."""
        if task_result.task_status in (TaskStatus.DONE, TaskStatus.FAILED):
            for assignment in plan_task.plan.assignments:
                key = plan_task.keys[assignment.uid] if assignment.uid in task_result.bound else None
                pod = self._views.pods.get(key) if key is not None else None
                if key is not None and pod is not None:
                    self.status_writer.note("v1", "Pod", pod.metadata, scheduled(key, assignment.node, self._pool))
        return task_result
