"""Applies changes through the door, in order; consecutive changes of the same type and kind run concurrently.

A change whose precondition fails because the cache was stale ends the run with an error: the key is requeued. A change
that is refused is reported as an event on its owner, and the other changes are still applied. No status is written
about a state that has just been changed. Events about successful changes are left to the event recorder, which has to
be run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, assert_never

import structlog

from kube_apimachinery.clock import Clock
from kube_apimachinery.times import format_time
from spinney.api.changes import Change, Create, Delete, EmitEvent, Json, Patch, Resource, Scale, SetStatus, Target
from spinney.core.expansion.objects import EVENTS, short_hash
from spinney.drive.apply.change_events import InvolvedObject, Refusal, Success, failure, is_remembered, successes
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Deleted, Exists, Gone, Outcome, Refused, written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.errors import ClientError
from spinney.drive.client.paths import Ref, ResourcePath

# Events about applied changes are written in the background: reconciling never waits for them. Best effort: the rate
# is limited, and an event that has waited longer than `_OLD_S` is dropped.

_PAUSE_S = 0.04
_OLD_S = 2.0
_MOST = 256

_log = structlog.get_logger(__name__)


class EventRecorder:
    """Start it with `run`; events recorded before or while it runs are written."""

    def __init__(self, write: Callable[[EmitEvent], Awaitable[Any]], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._waiting: deque[tuple[float, EmitEvent]] = deque(maxlen=_MOST)
        self._queued = asyncio.Event()

    def record(self, notices: Iterable[EmitEvent]) -> None:
        """Queue events; they are written soon or dropped."""
        for notice in notices:
            self._waiting.append((self._clock.monotonic(), notice))
            self._queued.set()

    async def run(self) -> None:
        """Write queued events until cancelled."""
        while True:
            await self._queued.wait()
            self._queued.clear()
            while self._waiting:
                since_s, notice = self._waiting.popleft()
                if self._clock.monotonic() - since_s <= _OLD_S:
                    await self._write_event(notice)

    async def _write_event(self, notice: EmitEvent) -> None:
        try:
            await self._write(notice)
        except Exception as error:
            _log.info("an event was lost", reason=notice.reason, target=str(notice.target), error=str(error))
        await asyncio.sleep(_PAUSE_S)


_AT_A_TIME = 8
_COMPONENT = "grove-operator"
_MESSAGE_LIMIT = 1024


def path_of(resource: Resource) -> ResourcePath:
    return ResourcePath(resource.group, resource.version, resource.plural, resource.namespaced)


def ref_of(target: Target) -> Ref:
    return path_of(target.resource).ref(target.name, target.namespace)


class ChangeApplier:
    """Carries out change sets; `component` is the reporting component of the events."""

    def __init__(self, door: Door, clock: Clock, component: str = _COMPONENT) -> None:
        self._door = door
        self._clock = clock
        self._component = component
        self.event_recorder = EventRecorder(self._write, clock)

    async def carry_out(
        self, changes: Iterable[Change], about: InvolvedObject | None = None, refusals: list[Refusal] | None = None
    ) -> bool:
        """`_carry_out`, and events on `about` for the objects that were created or deleted.

        Refused changes are added to `refusals`.
        """
        done: list[Success] = []
        refused = refusals if refusals is not None else []
        try:
            return await self._carry_out(changes, about, refused, done)
        finally:
            if about is not None:
                self.event_recorder.record(successes(about, done))

    async def _carry_out(
        self, changes: Iterable[Change], about: InvolvedObject | None, refusals: list[Refusal], done: list[Success]
    ) -> bool:
        """Returns whether all changes were applied. A status or an event after a create or a patch is left to the next
        reconcile, which sees the result. Raises the error of a failed change: at once if the cache was stale, after
        all changes if it was refused.
        """
        refusal: ClientError | None = None
        made = left = False
        for batch in _batches(changes):
            if left := made and isinstance(batch[0], SetStatus | EmitEvent):
                break
            for change, outcome in zip(batch, await self._side_by_side(batch), strict=True):
                if isinstance(outcome, Refused):
                    refusal = refusal or _error(outcome)
                    refusals.append(Refusal(change, outcome.status))
                    await self._complain(refusals[-1], about)
                elif not _is_fine(change, outcome):
                    if isinstance(outcome, Exists):
                        refusals.append(Refusal(change, outcome.status))
                        if is_remembered(refusals[-1], about):
                            await self._complain(refusals[-1], about)
                    done.append(Success(change, written(outcome).uid))
                    made = made or isinstance(change, Create | Patch)
                elif isinstance(outcome, Deleted):
                    done.append(Success(change, outcome.uid))
            await asyncio.sleep(0)
        if refusal is not None:
            raise refusal
        return not left

    async def _side_by_side(self, batch: Sequence[Change]) -> list[Outcome]:
        if len(batch) == 1:
            return [await self._one(batch[0])]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(change)) for change in batch]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _one(self, change: Change) -> Outcome:
        match change:
            case Create(target, body, _):
                return await self._door.create(ref_of(target), body)
            case Patch(target, patch, uid, version):
                return await self._door.merge_patch(ref_of(target), patch, Precondition(uid, version))
            case SetStatus(target, status, uid, version):
                return await self._door.status(ref_of(target), status, Precondition(uid, version))
            case Scale(target, replicas, uid, version):
                return await self._door.scale(ref_of(target), replicas, Precondition(uid, version))
            case Delete(target, uid):
                return await self._door.delete(ref_of(target), Precondition(uid), propagation="Background")
            case EmitEvent():
                return await self._write(change)
            case _:
                assert_never(change)

    async def _write(self, notice: EmitEvent) -> Outcome:
        target, time = notice.target, format_time(self._clock.now())
        word = short_hash([notice.uid, notice.reason, notice.message, notice.occasion])
        namespace = target.namespace or "default"
        ref = ref_of(EVENTS.at(f"{target.name}.{word}", namespace))
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "involvedObject": {
                "apiVersion": target.resource.api_version,
                "kind": target.resource.kind,
                "name": target.name,
                "uid": notice.uid,
            },
            "type": "Warning" if notice.warning else "Normal",
            "reason": notice.reason,
            "message": notice.message[:_MESSAGE_LIMIT],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
        }
        if target.namespace:
            body["involvedObject"]["namespace"] = target.namespace
        return await self._door.create(ref, body)

    async def _complain(self, refusal: Refusal, about: InvolvedObject | None) -> None:
        notice = failure(refusal, about)
        if notice is not None:
            await self._write(notice)


def _batches(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Consecutive changes of the same type on the same kind are independent of each other, so they form a batch."""
    for _, group in groupby(changes, lambda change: (type(change), change.target.resource)):
        alike = list(group)
        yield from (alike[start : start + _AT_A_TIME] for start in range(0, len(alike), _AT_A_TIME))


def _is_fine(change: Change, outcome: Outcome) -> bool:
    """Whether nothing is left to do: a missing object needs no patch or deletion, an existing event is a duplicate."""
    match outcome:
        case Deleted():
            return True
        case Gone():
            return not isinstance(change, Create)
        case Exists():
            return isinstance(change, EmitEvent) or (isinstance(change, Create) and change.may_exist)
        case _:
            return False


def _error(refused: Refused) -> ClientError:
    try:
        written(refused)
    except ClientError as error:
        return error
    raise AssertionError("a refusal is an error")
