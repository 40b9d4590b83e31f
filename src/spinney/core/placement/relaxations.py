"""What would make a refused gang fit: a broader level, fewer pods, or others gone.

Only what was tried and worked is said. Never changes the inventory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spinney.api.placement.result import FitsAtLevel, FitsWithCount, FitsWithVictims, Relaxation, Victim
from spinney.core.placement.case import Case
from spinney.core.placement.parts import Part
from spinney.core.placement.probing import fits, largest

Victims = Callable[[], tuple[Victim, ...]]
"""Finds the cheapest pods whose eviction makes the gang fit; none: there are no such."""


def relaxations(case: Case, part: Part, holds: int, cheapest_victims: Victims | None) -> Iterator[Relaxation]:
    """For a gang of which one part is to blame; `holds`: how many of its pods the best domain takes."""
    yield from _level(case, part)
    yield from _count(case, holds)
    if cheapest_victims is not None and _has_victims(case):
        victims = cheapest_victims()
        if victims:
            yield FitsWithVictims(victims)


def _level(case: Case, part: Part) -> Iterator[FitsAtLevel]:
    """The narrowest level broader than the required one, at last none at all."""
    if part.required is None:
        return
    levels = case.inventory.trees[part.required.topology].levels
    broader = reversed(levels[: part.required.depth - 1])
    for level in (*broader, None):
        if fits(case.of(case.outline.with_level(part, level))):
            yield FitsAtLevel(level)
            return


def _count(case: Case, holds: int) -> Iterator[FitsWithCount]:
    """The largest number of pods of the only pod set: what the best domain holds is the first guess."""
    if len(case.parts.leaves) != 1:
        return
    leaf = case.parts.leaves[0]
    assert leaf.pods is not None
    low, high = len(case.running.get(leaf.index, ())), leaf.pods.min
    count = largest(low, high, lambda count: bool(fits(case.of(case.outline.with_count(leaf, count)))), holds)
    if count > 0:
        yield FitsWithCount(count)


def _has_victims(case: Case) -> bool:
    """Whether a gang that may be evicted and is worth less has running members."""
    mine = case.parts.gang
    return any(
        standing.live and standing.gang.running and standing.gang.preemptible and standing.gang.priority < mine.priority
        for standing in case.engine.standings.values()
    )
