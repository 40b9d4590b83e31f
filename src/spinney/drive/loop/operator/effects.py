"""Changes carried out through the door, in order.

A change that finds the view to be old ends the work: the key comes again. A change that is refused is told to the user
as an event on its owner, and the others are made nevertheless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import assert_never

from spinney.api.changes import Amend, Change, Create, Delete, Json, Notify, Resource, SetStatus, Target
from spinney.api.clock import Clock
from spinney.core.expansion.objects import digest, stamp
from spinney.core.expansion.resources import EVENTS
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Deleted, Exists, Gone, Outcome, Refused, written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.errors import ClientError
from spinney.drive.client.paths import Ref, ResourcePath

_BREATH = 50
_COMPONENT = "grove-operator"
_MESSAGE_LIMIT = 1024


def path_of(resource: Resource) -> ResourcePath:
    return ResourcePath(resource.group, resource.version, resource.plural, resource.namespaced)


def ref_of(target: Target) -> Ref:
    return path_of(target.resource).ref(target.name, target.namespace)


class Effects:
    """The hands of the operator."""

    def __init__(self, door: Door, clock: Clock) -> None:
        self._door = door
        self._clock = clock

    async def carry_out(self, changes: Iterable[Change]) -> None:
        """Raises what a change came to: at once if the view was old, in the end if it was refused."""
        refusal: ClientError | None = None
        for number, change in enumerate(changes, 1):
            outcome = await self._one(change)
            if isinstance(outcome, Refused):
                refusal = refusal or _error(outcome)
                await self._complain(change, outcome)
            elif not _is_fine(change, outcome):
                written(outcome)
            if number % _BREATH == 0:
                await asyncio.sleep(0)
        if refusal is not None:
            raise refusal

    async def _one(self, change: Change) -> Outcome:
        match change:
            case Create(target, body, _):
                return await self._door.create(ref_of(target), body)
            case Amend(target, patch, uid, version):
                return await self._door.merge_patch(ref_of(target), patch, Precondition(uid, version))
            case SetStatus(target, status, uid, version):
                return await self._door.status(ref_of(target), status, Precondition(uid, version))
            case Delete(target, uid):
                return await self._door.delete(ref_of(target), Precondition(uid), propagation="Background")
            case Notify():
                return await self._tell(change)
            case _:
                assert_never(change)

    async def _tell(self, notice: Notify) -> Outcome:
        target, time = notice.target, stamp(self._clock.now())
        word = digest([notice.uid, notice.reason, notice.message, notice.occasion])
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
            "source": {"component": _COMPONENT},
            "reportingComponent": _COMPONENT,
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
        }
        if target.namespace:
            body["involvedObject"]["namespace"] = target.namespace
        return await self._door.create(ref, body)

    async def _complain(self, change: Change, refused: Refused) -> None:
        """An event on the owner of what could not be made; once for each reason."""
        if not isinstance(change, Create):
            return
        owner = (change.body["metadata"].get("ownerReferences") or [None])[0]
        if owner is None:
            return
        group, _, version = owner["apiVersion"].rpartition("/")
        resource = Resource(group, version, "", owner["kind"])
        target = resource.at(owner["name"], change.target.namespace)
        reason = f"{change.target.resource.kind}CreateFailed"
        message = refused.status.message or refused.status.reason
        await self._tell(Notify(target, owner["uid"], reason, message, "", warning=True))


def _is_fine(change: Change, outcome: Outcome) -> bool:
    """What is gone needs no change and no deletion; an event that is there has been told."""
    match outcome:
        case Deleted():
            return True
        case Gone():
            return not isinstance(change, Create)
        case Exists():
            return isinstance(change, Notify) or (isinstance(change, Create) and change.may_exist)
        case _:
            return False


def _error(refused: Refused) -> ClientError:
    try:
        written(refused)
    except ClientError as error:
        return error
    raise AssertionError("a refusal is an error")
