"""Plans on PodGroups: written before anything is done, taken away when everything is.

Both are one compare-and-swap on the very PodGroup that was looked at. Never decides what a plan says.
"""

from __future__ import annotations

from collections.abc import Mapping

from spinney.api.labels import CONSOLIDATE, EXPLANATION, PLACEMENT_SCORE
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.plan import Plan
from spinney.core.scheduling.reporting import tells_failure
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Outcome, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.loop.scheduler.records import Records
from spinney.drive.loop.scheduler.views import PODGROUPS


async def record(door: Door, group: ObjectMeta, plan: Plan, notes: Mapping[str, str], records: Records) -> Outcome:
    """From now on anybody with the key can carry the plan out. The epoch and the notes stay when the plan goes.

    What was told of writes that failed stays until one is taken, and a request for moves while they are made.
    """
    serial, signed = records.seal(group, plan)
    annotations: dict[str, str | None] = {**signed, PLACEMENT_SCORE: f"{plan.score:.4f}", **notes}
    told = group.annotations.get(EXPLANATION, "")
    over = {name for name in (EXPLANATION, CONSOLIDATE) if name in group.annotations}
    over -= {EXPLANATION} if tells_failure(told) else set()
    over -= {CONSOLIDATE} if plan.moves else set()
    annotations.update(dict.fromkeys(sorted(over)))
    outcome = await _annotate(door, group, group.resource_version, annotations)
    if isinstance(outcome, Written):
        records.recorded(group.uid, serial)
    return outcome


async def drop(door: Door, group: ObjectMeta, version: str, records: Records, *, has_moved: bool = False) -> Outcome:
    """Nothing is left to do for the record that the PodGroup had at this version. `has_moved`: as it was asked to."""
    asked: dict[str, str | None] = {CONSOLIDATE: None} if has_moved and CONSOLIDATE in group.annotations else {}
    outcome = await _annotate(door, group, version, {**records.unseal(group), **asked})
    if isinstance(outcome, Written):
        records.dropped(group.uid)
    return outcome


async def mark(door: Door, group: ObjectMeta, name: str, value: str) -> Outcome:
    """One annotation; an empty value takes it away."""
    return await _annotate(door, group, group.resource_version, {name: value or None})


async def _annotate(door: Door, group: ObjectMeta, version: str, annotations: dict[str, str | None]) -> Outcome:
    ref = PODGROUPS.ref(group.name, group.namespace)
    return await door.merge_patch(ref, {"metadata": {"annotations": annotations}}, Precondition(group.uid, version))
