"""Executes one gang's plan: record it, bind its pods, remove the record.

Nothing is executed that is not recorded. After an interruption at any point, whoever finds the record continues from
the state of the objects. Records are written and removed by compare-and-swap on the PodGroup.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from spinney.api.builtin.pod import Pod
from spinney.api.labels import CONSOLIDATE, EXPLANATION, NODES, PLACEMENT_SCORE, PLAN
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.cycle.actions import EvictionTarget, PlanTask, TaskResult, TaskStatus
from spinney.core.scheduling.gang.predecessors import noted
from spinney.core.scheduling.plan import Plan, encode
from spinney.core.scheduling.plan_records import PlanRecords
from spinney.core.scheduling.reporting import WriteFailure, is_write_failure
from spinney.core.scheduling.reporting.messages import failed_record
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Outcome, Refused, RetryLater, Unknown, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.errors import words
from spinney.drive.client.informers.cache import version_number
from spinney.drive.scheduler.caches import PODGROUPS, SchedulerCaches
from spinney.drive.scheduler.execution.api_writer import ApiWriter, YieldSlot, no_wait
from spinney.drive.scheduler.execution.binder import Binder, BindResult, UnreserveResult, unreserve_all
from spinney.drive.scheduler.execution.evictor import EvictionStatus, Evictor
from spinney.drive.scheduler.execution.volume_binder import VolumeBinder, VolumeBindingResult


async def write_plan(
    door: Door, group: ObjectMeta, plan: Plan, notes: Mapping[str, str], records: PlanRecords
) -> Outcome:
    """Record a plan: any scheduler with the key can now carry it out. Epoch and notes stay when the plan is removed.

    An explanation of failed writes stays until a write succeeds, and a request for moves stays while they are made.
    """
    serial, signed = records.seal(group, plan)
    annotations: dict[str, str | None] = {**signed, PLACEMENT_SCORE: f"{plan.score:.4f}", **notes}
    explanation = group.annotations.get(EXPLANATION, "")
    over = {name for name in (EXPLANATION, CONSOLIDATE) if name in group.annotations}
    over -= {EXPLANATION} if is_write_failure(explanation) else set()
    over -= {CONSOLIDATE} if plan.moves else set()
    annotations.update(dict.fromkeys(sorted(over)))
    outcome = await _annotate(door, group, group.resource_version, annotations)
    if isinstance(outcome, Written):
        records.recorded(group.uid, serial)
    return outcome


async def remove_plan(
    door: Door, group: ObjectMeta, version: str, records: PlanRecords, notes: Mapping[str, str | None] = {}
) -> Outcome:
    """Remove the record that the PodGroup had at this version. `notes`: annotations that change with it."""
    outcome = await _annotate(door, group, version, {**records.unseal(group), **notes})
    if isinstance(outcome, Written):
        records.dropped(group.uid)
    return outcome


async def mark(door: Door, group: ObjectMeta, name: str, value: str) -> Outcome:
    """Write one annotation; an empty value removes it."""
    return await _annotate(door, group, group.resource_version, {name: value or None})


async def _annotate(door: Door, group: ObjectMeta, version: str, annotations: dict[str, str | None]) -> Outcome:
    ref = PODGROUPS.ref(group.name, group.namespace)
    return await door.merge_patch(ref, {"metadata": {"annotations": annotations}}, Precondition(group.uid, version))


class PlanExecutor:
    """Carries out plans."""

    def __init__(
        self,
        api_writer: ApiWriter,
        views: SchedulerCaches,
        volume_binder: VolumeBinder,
        binder: Binder,
        evictor: Evictor,
        records: PlanRecords,
    ) -> None:
        self._api_writer = api_writer
        self._records = records
        self._views = views
        self._volume_binder = volume_binder
        self._binder = binder
        self._evictor = evictor

    async def begin(self, plan_task: PlanTask, yield_slot: YieldSlot = no_wait) -> TaskResult:
        """Record a new plan, then carry it out. `yield_slot` is awaited before the record is removed."""
        refused = await self._probe(plan_task)
        if refused:
            return TaskResult(TaskStatus.FAILED, failures=refused)
        outcome = await write_plan(
            self._api_writer.door, plan_task.group, plan_task.plan, plan_task.notes, self._records
        )
        if isinstance(outcome, Written):
            return await self._act(plan_task, outcome.version, yield_slot)
        return await self._ended(outcome, plan_task.group)

    async def _record(self, plan_task: PlanTask) -> Outcome:
        door, notes = self._api_writer.door, plan_task.notes
        return await write_plan(door, plan_task.group, plan_task.plan, notes, self._records)

    async def _probe(self, plan_task: PlanTask) -> tuple[WriteFailure, ...]:
        """Binds that the API server still refuses, by dry run: then nothing is written and no pod is evicted."""
        return await self._binder.probe(plan_task.plan, plan_task.keys) if plan_task.probes else ()

    async def mark(self, group: ObjectMeta, name: str, value: str) -> TaskStatus:
        """Write an annotation on a PodGroup."""
        return (await self._ended(await mark(self._api_writer.door, group, name, value), group)).task_status

    async def nominate(self, plan_task: PlanTask, targets: Sequence[EvictionTarget]) -> TaskResult:
        """Record a new plan that has to wait, then evict its victims."""
        refused = await self._probe(plan_task)
        if refused:
            return TaskResult(TaskStatus.FAILED, failures=refused)
        outcome = await write_plan(
            self._api_writer.door, plan_task.group, plan_task.plan, plan_task.notes, self._records
        )
        if isinstance(outcome, Written):
            return await self._evict_and_wait(plan_task, targets, outcome.version)
        return await self._ended(outcome, plan_task.group)

    async def evict_remaining(self, plan_task: PlanTask, targets: Sequence[EvictionTarget]) -> TaskResult:
        """Evict the victims of a recorded plan that were not evicted yet."""
        return await self._evict_and_wait(plan_task, targets, plan_task.group.resource_version)

    async def _evict_and_wait(self, plan_task: PlanTask, targets: Sequence[EvictionTarget], version: str) -> TaskResult:
        """The record stays while the victims terminate; if one may not be evicted, the plan is given up at once."""
        found = await self._evictor.evict_all(targets)
        if found.answer is EvictionStatus.NO:
            free = frozenset(assignment.uid for assignment in plan_task.plan.assignments)
            await self._act(replace(plan_task, given_up=free), version)
        if found.failures:
            return TaskResult(TaskStatus.FAILED, failures=found.failures)
        return TaskResult(TaskStatus.DONE if found.answer is EvictionStatus.GOING else TaskStatus.LATER)

    async def resume(self, plan_task: PlanTask) -> TaskResult:
        """Carry out a plan that was found on its PodGroup."""
        return await self._act(plan_task, plan_task.group.resource_version)

    async def discard(self, group: ObjectMeta, pods: Sequence[Pod]) -> TaskResult:
        """Remove a record that is not a valid plan. `pods`: those that its writer may be about to bind."""
        unreserved = await unreserve_all(self._api_writer.door, pods, group.resource_version, {})
        if not unreserved.done:
            await self._api_writer.confirm_writes()
            return TaskResult(TaskStatus.LATER, failures=unreserved.failures)
        return await self._ended(
            await remove_plan(self._api_writer.door, group, group.resource_version, self._records), group
        )

    async def _act(self, plan_task: PlanTask, version: str, yield_slot: YieldSlot = no_wait) -> TaskResult:
        if self._lost_pods_before_binding(plan_task):
            plan_task = replace(
                plan_task, given_up=frozenset(assignment.uid for assignment in plan_task.plan.assignments)
            )
        prepared = await self._prepare(plan_task)
        if prepared.failed or not (prepared.ready or prepared.lost):
            return TaskResult(TaskStatus.LATER if prepared.failed else TaskStatus.AWAITS_VOLUMES)
        plan_task = replace(plan_task, given_up=plan_task.given_up | prepared.lost)
        keys = {uid: key for uid, key in plan_task.keys.items() if uid not in plan_task.given_up}
        tried = await self._binder.bind_all(plan_task.plan, keys)
        bind_results, failures = tried.bind_results, tried.failures
        bound = frozenset(uid for uid, bind_result in bind_results.items() if bind_result is BindResult.BOUND)
        refused = {
            uid for uid, bind_result in bind_results.items() if bind_result is BindResult.REFUSED
        } | plan_task.given_up
        if BindResult.RETRY in bind_results.values():
            return TaskResult(TaskStatus.LATER, bound, failures)
        unreserved = await self._give_up(plan_task, self._left(plan_task, refused), version)
        if not unreserved.done:
            return TaskResult(TaskStatus.LATER, bound, failures + unreserved.failures)
        await yield_slot()
        newest = self._newest(plan_task.group, version, plan_task.plan)
        notes = self._notes(plan_task, bound)
        outcome = await remove_plan(self._api_writer.door, plan_task.group, newest, self._records, notes)
        ended = await self._ended(outcome, plan_task.group)
        task_status = TaskStatus.FAILED if failures and ended.task_status is TaskStatus.DONE else ended.task_status
        return TaskResult(task_status, bound, failures + ended.failures)

    def _notes(self, plan_task: PlanTask, bound: Collection[str]) -> dict[str, str | None]:
        """Where the members are now; a request for moves is met once they are made."""
        group, plan = plan_task.group, plan_task.plan
        coming = {assignment.uid: assignment.node for assignment in plan.assignments if assignment.uid in bound}
        notes: dict[str, str | None] = {}
        if coming:
            notes[NODES] = noted(self._views.pods_of((group.namespace, group.name)), coming, plan_task.awaited)
        if plan.moves and CONSOLIDATE in group.annotations:
            notes[CONSOLIDATE] = None
        return notes

    async def _prepare(self, plan_task: PlanTask) -> VolumeBindingResult:
        """Bind volumes first. While no pod has a node, the loss of one assignment gives up all of them."""
        pods = [pod for uid in plan_task.keys if (pod := self._seen(plan_task, uid)) is not None]
        free = [pod for pod in pods if not pod.spec.node_name and pod.metadata.uid not in plan_task.given_up]
        prepared = await self._volume_binder.prepare(plan_task.plan, free)
        assignments = frozenset(assignment.uid for assignment in plan_task.plan.assignments)
        if prepared.lost and not any(pod.spec.node_name for pod in pods if pod.metadata.uid in assignments):
            return replace(prepared, lost=assignments)
        return prepared

    async def _give_up(self, plan_task: PlanTask, pods: Sequence[Pod], version: str) -> UnreserveResult:
        """If done, no bind in flight for these pods can succeed. If not, at least our writes' results are known."""
        unreserved = UnreserveResult(False)
        if await self._volume_binder.undo(plan_task.plan, pods):
            unreserved = await unreserve_all(
                self._api_writer.door,
                pods,
                version,
                {assignment.uid: assignment.node for assignment in plan_task.plan.assignments},
            )
        if not unreserved.done:
            await self._api_writer.confirm_writes()
        return unreserved

    def _seen(self, plan_task: PlanTask, uid: str) -> Pod | None:
        pod = self._views.pods.get(plan_task.keys[uid])
        return pod if pod is not None and pod.metadata.uid == uid else None

    def _lost_pods_before_binding(self, plan_task: PlanTask) -> bool:
        """Whether a pod is gone before any pod has a node: the rest may be too few for the minimum."""
        pods = [
            self._views.pods.get(plan_task.keys[assignment.uid])
            for assignment in plan_task.plan.assignments
            if assignment.uid in plan_task.keys
        ]
        uids = {assignment.uid for assignment in plan_task.plan.assignments}
        there = [pod for pod in pods if pod is not None and pod.metadata.uid in uids and pod.is_here]
        return len(there) < len(uids) and not any(pod.spec.node_name for pod in there)

    def _left(self, plan_task: PlanTask, uids: set[str] | frozenset[str]) -> list[Pod]:
        """The pods that do not get their assignment."""
        found = [self._views.pods.get(plan_task.keys[uid]) for uid in sorted(uids) if uid in plan_task.keys]
        return [pod for pod in found if pod is not None and pod.metadata.uid in uids and not pod.spec.node_name]

    def _newest(self, group: ObjectMeta, version: str, plan: Plan) -> str:
        """The version to remove the record from: ours, or a later one that has the same record."""
        seen = self._views.podgroups.get((group.namespace, group.name))
        if seen is None or seen.metadata.uid != group.uid:
            return version
        newest = max(version, seen.metadata.resource_version, key=version_number)
        return newest if newest == version or seen.metadata.annotations.get(PLAN) == encode(plan) else version

    async def _ended(self, outcome: Outcome, group: ObjectMeta) -> TaskResult:
        match outcome:
            case Written():
                return TaskResult(TaskStatus.DONE)
            case Unknown():
                await self._api_writer.confirm_writes()
                return TaskResult(TaskStatus.CONFLICT)
            case RetryLater():
                return TaskResult(TaskStatus.LATER)
            case Refused(status):
                event = failed_record((group.namespace, group.name), words(status))
                return TaskResult(TaskStatus.REFUSED, failures=(WriteFailure("record", event, status.code),))
            case _:
                return TaskResult(TaskStatus.CONFLICT)
