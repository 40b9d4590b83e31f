"""What a small controller wants done, as values, and the one place that does it through the door.

Effects are carried out in order, until one finds that the view was old: then the class of its error says when to decide
anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Deleted, Gone, Outcome, written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.paths import Ref, ResourcePath
from spinney.sim.objects import Json

_BREATH = 50


@dataclass(frozen=True, slots=True)
class Create:
    ref: Ref
    body: Json


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of an object, or of its status."""

    ref: Ref
    patch: Json
    given: Precondition
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """A deletion; without a grace the object decides."""

    ref: Ref
    uid: str
    grace_s: int | None = None
    propagation: str | None = None


Effect = Create | Patch | Delete


@dataclass(frozen=True, slots=True)
class Decision:
    """Effects in order, and when to decide anew though nothing happens; None: never."""

    effects: tuple[Effect, ...] = ()
    again_s: float | None = None


async def carry_out(door: Door, effects: Iterable[Effect]) -> None:
    """Do it; what is gone already needs no change and no deletion."""
    for number, effect in enumerate(effects, 1):
        outcome = await _one(door, effect)
        if not isinstance(outcome, Deleted) and not (isinstance(outcome, Gone) and not isinstance(effect, Create)):
            written(outcome)
        if number % _BREATH == 0:
            await asyncio.sleep(0)


async def _one(door: Door, effect: Effect) -> Outcome:
    match effect:
        case Create(ref, body):
            return await door.create(ref, body)
        case Patch(ref, patch, given, subresource):
            return await door.merge_patch(ref, patch, given, subresource=subresource)
        case Delete(ref, uid, grace_s, propagation):
            return await door.delete(ref, Precondition(uid=uid), grace_s=grace_s, propagation=propagation)
        case _:
            assert_never(effect)


def ref_of(resource: ResourcePath, obj: Json) -> Ref:
    metadata = obj["metadata"]
    return resource.ref(metadata["name"], metadata.get("namespace", ""))


def state_of(obj: Json) -> Precondition:
    """This very object in this very state."""
    return Precondition(obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])


def report(resource: ResourcePath, obj: Json, status: Json) -> tuple[Patch, ...]:
    """A status write, if it would change anything: at rest there are no writes."""
    before = obj.get("status") or {}
    changed = {key: value for key, value in status.items() if before.get(key, _absent(value)) != value}
    if not changed:
        return ()
    return (Patch(ref_of(resource, obj), {"status": changed}, state_of(obj), "status"),)


def _absent(value: object) -> object:
    """What a field that is not there stands for beside this value: counts of zero are left out by the server."""
    return 0 if isinstance(value, int) and not isinstance(value, bool) else None
