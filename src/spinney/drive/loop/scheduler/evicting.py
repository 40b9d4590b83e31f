"""Pods asked to leave: each is told why, evicted by its uid, and its PodGroup hears of it.

Goes through the eviction subresource, so that the server counts disruption budgets as well; those that a budget guards
are asked first, one after the other, and nobody is asked after a no. Never decides who has to go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import structlog

from spinney.api.builtin.pod import Pod
from spinney.api.changes import Json
from spinney.api.clock import Clock
from spinney.api.meta import ObjectMeta
from spinney.core.expansion.objects import stamp
from spinney.core.scheduling.reporting.report import Event
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Deleted, Gone, NotNow, Outcome, Refused, Stale, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.errors import Status
from spinney.drive.loop.scheduler.doubts import Doubts
from spinney.drive.loop.scheduler.views import PODS

DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"
_AT_A_TIME = 32
_TOO_MANY = 429

_log = structlog.get_logger(__name__)

Tell = Callable[[str, str, ObjectMeta, Event], None]
"""An event about an object, by its api version and kind, told when there is time."""


@dataclass(frozen=True, slots=True)
class Target:
    """A pod that has to go. `group`: its PodGroup; `guarded`: a budget will be asked."""

    pod: Pod
    group: ObjectMeta | None
    event: Event
    guarded: bool = False


class Answer(Enum):
    """What came of asking."""

    GOING = "going"  # all of them are on their way
    NO = "no"  # a budget protects one of them
    LATER = "later"  # it is not known, or could not be asked now


class Evictor:
    """Asks pods to leave."""

    def __init__(self, door: Door, doubts: Doubts, clock: Clock, tell: Tell) -> None:
        self._door = door
        self._doubts = doubts
        self._clock = clock
        self._tell = tell
        self._turns = asyncio.Semaphore(_AT_A_TIME)

    async def evict_all(self, targets: Sequence[Target]) -> Answer:
        """Guarded ones first. The views show what became of them when it returns."""
        answers: set[Answer] = set()
        for target in targets:
            if target.guarded and answers <= {Answer.GOING}:
                answers.add(await self._evict(target))
        if answers <= {Answer.GOING}:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._evict(target)) for target in targets if not target.guarded]
            answers.update(task.result() for task in tasks)
        await self._doubts.settle()
        return next((answer for answer in (Answer.NO, Answer.LATER) if answer in answers), Answer.GOING)

    async def _evict(self, target: Target) -> Answer:
        async with self._turns:
            metadata = target.pod.metadata
            if metadata.deletion_timestamp is None:
                await self._mark(target)
            ref = PODS.ref(metadata.name, metadata.namespace)
            answer = self._answer(target, await self._door.evict(ref, Precondition(metadata.uid)))
        if answer is Answer.GOING:
            self._tell("v1", "Pod", metadata, target.event)
            if target.group is not None:
                self._tell(*_PODGROUP, target.group, target.event)
        return answer

    async def _mark(self, target: Target) -> None:
        """Say on the pod why it goes; a courtesy, so that its owner does not take it for a failure."""
        pod = target.pod
        said = pod.condition(DISRUPTION_TARGET)
        if said is not None and said.status == "True":
            return
        condition: Json = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": BY_SCHEDULER,
            "message": target.event.message,
            "lastTransitionTime": stamp(self._clock.now()),
        }
        body: Json = {"apiVersion": "v1", "kind": "Pod", "status": {"conditions": [condition]}}
        ref = PODS.ref(pod.metadata.name, pod.metadata.namespace)
        await self._door.apply(ref, body, Precondition(pod.metadata.uid), subresource="status")

    def _answer(self, target: Target, outcome: Outcome) -> Answer:
        match outcome:
            case Written() | Deleted() | Gone() | Stale():
                return Answer.GOING  # a pod of another uid is not the one that had to go
            case NotNow(reason) if isinstance(reason, Status) and reason.code == _TOO_MANY:
                return Answer.NO
            case Refused(status):
                name = f"{target.pod.metadata.namespace}/{target.pod.metadata.name}"
                _log.warning("an eviction was refused", pod=name, reason=status.message)
                return Answer.NO
            case _:
                return Answer.LATER


_PODGROUP = ("scheduling.run.ai/v2alpha2", "PodGroup")
