"""Recorded plans: written and removed by compare-and-swap on the PodGroup, and verified when they are read.

A plan counts if a scheduler with the key wrote it, and it is neither copied nor replayed. What the plan says, and
whether it is still a good one, is not decided here but where it is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping

from spinney.api.labels import CONSOLIDATE, EXPLANATION, PLACEMENT_SCORE
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.plan import Plan
from spinney.core.scheduling.plan_records import PlanRecords
from spinney.core.scheduling.reporting import tells_failure
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Outcome, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.scheduler.caches import PODGROUPS


async def write_plan(
    door: Door, group: ObjectMeta, plan: Plan, notes: Mapping[str, str], records: PlanRecords
) -> Outcome:
    """Record a plan: any scheduler with the key can now carry it out. Epoch and notes stay when the plan is removed.

    An explanation of failed writes stays until a write succeeds, and a request for moves stays while they are made.
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


async def remove_plan(
    door: Door, group: ObjectMeta, version: str, records: PlanRecords, *, has_moved: bool = False
) -> Outcome:
    """Remove the completed record that the PodGroup had at this version. `has_moved`: requested moves were made."""
    asked: dict[str, str | None] = {CONSOLIDATE: None} if has_moved and CONSOLIDATE in group.annotations else {}
    outcome = await _annotate(door, group, version, {**records.unseal(group), **asked})
    if isinstance(outcome, Written):
        records.dropped(group.uid)
    return outcome


async def mark(door: Door, group: ObjectMeta, name: str, value: str) -> Outcome:
    """Write one annotation; an empty value removes it."""
    return await _annotate(door, group, group.resource_version, {name: value or None})


async def _annotate(door: Door, group: ObjectMeta, version: str, annotations: dict[str, str | None]) -> Outcome:
    ref = PODGROUPS.ref(group.name, group.namespace)
    return await door.merge_patch(ref, {"metadata": {"annotations": annotations}}, Precondition(group.uid, version))
