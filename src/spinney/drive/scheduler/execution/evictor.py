"""Evicts pods: sets the DisruptionTarget condition, evicts by uid, and records events on the pod and its PodGroup.

Uses the eviction subresource, so that the API server checks disruption budgets as well; pods that a budget guards are
evicted first, one after the other, and none after a refusal. Does not choose the victims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from kube_apimachinery.times import format_time
from spinney.api.builtin.pod import Pod
from spinney.api.changes import Json
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.cycle.actions import EvictionTarget
from spinney.core.scheduling.reporting import WriteFailure
from spinney.core.scheduling.reporting.messages import failed_eviction
from spinney.core.scheduling.reporting.report import Event
from spinney.drive.apply.outcome import Deleted, Gone, Outcome, Refused, RetryLater, Stale, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.errors import Status, words
from spinney.drive.scheduler.caches import PODS
from spinney.drive.scheduler.execution.api_writer import ApiWriter

DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"
_AT_A_TIME = 32
_TOO_MANY = 429

RecordEvent = Callable[[str, str, ObjectMeta, Event], None]
"""Records an event about an object, given its api version and kind; it is written when there is time."""


class EvictionStatus(Enum):
    """The result of evictions."""

    GOING = "going"  # all of them are terminating
    NO = "no"  # a budget protects one of them, or the API server refuses
    LATER = "later"  # the result is unknown, or it could not be evicted now


@dataclass(frozen=True, slots=True)
class EvictionResult:
    """The combined result, and the API server's answers to evictions that it refused."""

    answer: EvictionStatus
    failures: tuple[WriteFailure, ...] = ()


class Evictor:
    """Evicts pods through the eviction API."""

    def __init__(self, api_writer: ApiWriter, record_event: RecordEvent) -> None:
        self._api_writer = api_writer
        self._record_event = record_event
        self._slots = asyncio.Semaphore(_AT_A_TIME)

    async def evict_all(self, targets: Sequence[EvictionTarget]) -> EvictionResult:
        """Evict guarded pods first. On return the caches show the results."""
        found: list[EvictionResult] = []
        for target in targets:
            if target.guarded and _all_go(found):
                found.append(await self._evict(target))
        if _all_go(found):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._evict(target)) for target in targets if not target.guarded]
            found.extend(task.result() for task in tasks)
        await self._api_writer.confirm_writes()
        return _combined(found)

    async def _evict(self, target: EvictionTarget) -> EvictionResult:
        async with self._slots:
            metadata = target.pod.metadata
            if metadata.deletion_timestamp is None:
                await self._mark(target)
            ref = PODS.ref(metadata.name, metadata.namespace)
            found = _read(target, await self._api_writer.door.evict(ref, Precondition(metadata.uid)))
        if found.answer is EvictionStatus.GOING:
            self._record_event("v1", "Pod", metadata, target.event)
            if target.group is not None:
                self._record_event(*_PODGROUP, target.group, target.event)
        return found

    async def _mark(self, target: EvictionTarget) -> None:
        """Set the DisruptionTarget condition (best effort), so that the owner does not count this as a failure."""
        pod = target.pod
        disruption = pod.condition(DISRUPTION_TARGET)
        if disruption is not None and disruption.status == "True":
            return
        condition: Json = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": BY_SCHEDULER,
            "message": target.event.message,
            "lastTransitionTime": format_time(self._api_writer.clock.now()),
        }
        body: Json = {"apiVersion": "v1", "kind": "Pod", "status": {"conditions": [condition]}}
        ref = PODS.ref(pod.metadata.name, pod.metadata.namespace)
        await self._api_writer.door.apply(ref, body, Precondition(pod.metadata.uid), subresource="status")


def _all_go(found: Iterable[EvictionResult]) -> bool:
    return all(each.answer is EvictionStatus.GOING for each in found)


def _combined(found: Sequence[EvictionResult]) -> EvictionResult:
    """The worst status, and all failures sorted by pod name."""
    answers = {each.answer for each in found}
    worst = next(
        (answer for answer in (EvictionStatus.NO, EvictionStatus.LATER) if answer in answers), EvictionStatus.GOING
    )
    failures = sorted([failure for each in found for failure in each.failures], key=lambda failure: failure.pod)
    return EvictionResult(worst, tuple(failures))


def _read(target: EvictionTarget, outcome: Outcome) -> EvictionResult:
    match outcome:
        case Written() | Deleted() | Gone() | Stale():
            return EvictionResult(EvictionStatus.GOING)  # a pod with another uid is not the victim
        case RetryLater(reason) if isinstance(reason, Status) and reason.code == _TOO_MANY:
            return EvictionResult(EvictionStatus.NO)
        case Refused(status):
            return EvictionResult(EvictionStatus.NO, (_failure(target.pod, status),))
        case _:
            return EvictionResult(EvictionStatus.LATER)


def _failure(pod: Pod, status: Status) -> WriteFailure:
    key = (pod.metadata.namespace, pod.metadata.name)
    event = failed_eviction(key, pod.spec.node_name, words(status))
    return WriteFailure("evict", event, status.code, key, pod.metadata.uid)


_PODGROUP = ("scheduling.run.ai/v2alpha2", "PodGroup")
