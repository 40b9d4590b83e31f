"""Plans on PodGroups: written before anything is done, taken away when everything is.

Both are one compare-and-swap on the very PodGroup that was looked at. Never decides what a plan says.
"""

from __future__ import annotations

from collections.abc import Mapping

from spinney.api.labels import CONSOLIDATE, EPOCH, EXPLANATION, PLACEMENT_SCORE, PLAN
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.plan import Plan, encode
from spinney.core.scheduling.reporting import tells_failure
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Outcome
from spinney.drive.apply.write import Precondition
from spinney.drive.loop.scheduler.views import PODGROUPS

_MOST_DIGITS = 18  # far more than any epoch has


async def record(door: Door, group: ObjectMeta, plan: Plan, notes: Mapping[str, str]) -> Outcome:
    """From now on anybody can carry the plan out. The epoch and the notes stay when the plan goes.

    What was told of writes that failed stays until one is taken.
    """
    annotations: dict[str, str | None] = {
        PLAN: encode(plan),
        EPOCH: str(plan.epoch),
        PLACEMENT_SCORE: f"{plan.score:.4f}",
        **notes,
    }
    told = group.annotations.get(EXPLANATION, "")
    over = (CONSOLIDATE,) if tells_failure(told) else (EXPLANATION, CONSOLIDATE)
    annotations.update({name: None for name in over if name in group.annotations})
    return await _annotate(door, group, group.resource_version, annotations)


async def drop(door: Door, group: ObjectMeta, version: str) -> Outcome:
    """Nothing is left to do for the plan that the PodGroup had at this version."""
    return await _annotate(door, group, version, {PLAN: None})


async def mark(door: Door, group: ObjectMeta, name: str, value: str) -> Outcome:
    """One annotation; an empty value takes it away."""
    return await _annotate(door, group, group.resource_version, {name: value or None})


async def _annotate(door: Door, group: ObjectMeta, version: str, annotations: dict[str, str | None]) -> Outcome:
    ref = PODGROUPS.ref(group.name, group.namespace)
    return await door.merge_patch(ref, {"metadata": {"annotations": annotations}}, Precondition(group.uid, version))


def epoch_of(group: ObjectMeta) -> int:
    """The epoch of the newest plan that the PodGroup ever had."""
    text = group.annotations.get(EPOCH, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else 0
