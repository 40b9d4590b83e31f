"""Which part of a refused gang is to blame: the smallest one that could not be placed even if it were alone.

Never blames a part without proof; where the proof would take too long, the group around it is blamed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spinney.core.placement.explain.context import Numbers, RefusalContext
from spinney.core.placement.explain.feasibility_probe import fits, fits_by_count
from spinney.core.placement.gang.gang_tree import Level, Part

MOST_KINDS = 8
"""At most this many kinds of children are searched one by one; counting covers all of them."""


class BlamedPart(NamedTuple):
    """The blamed part, and the same part as a gang of its own (`context`).

    `fitting`: the number of its children if each of them fits alone, else 0. `is_sole`: the gang has no other pod set.
    """

    part: Part
    context: RefusalContext
    fitting: int
    is_sole: bool = False

    @property
    def level(self) -> Level | None:
        return self.part.required

    @property
    def bound(self) -> Part:
        """The part of `context` that carries the requirement."""
        at = self.context.parts.all[0]
        return at if self.part.pods is None else self.context.parts.all[at.children[0]]

    def domains(self) -> Numbers:
        """Ids of the domains of the required level that are possible: all, or the one of its running members."""
        if self.level is None:
            return np.zeros(0, np.int64)
        found = self.context.domains(self.level)
        domain_of = self.context.inventory.trees[self.level.topology].domain_of(self.level.depth)
        pinned = {domain_of[slot] for slot in self.context.pinned(self.bound)}
        return found[np.isin(found, list(pinned))] if len(pinned) == 1 else found


def find_blamed_part(context: RefusalContext) -> BlamedPart:
    """Descend from the root while too few children fit alone, always into the first child that does not."""
    part, tried = context.parts.all[0], _Tried(context)
    while part.children:
        failing = _failing(tried, part)
        if len(part.children) - len(failing) >= part.need:
            break
        part = failing[0]
    found = context if part.index == 0 else context.of(context.variants.alone(part))
    return BlamedPart(part, found, _fitting(tried, part), len(context.parts.leaves) == 1)


class _Tried:
    """Cached results for parts as gangs of their own; equal parts are tried once."""

    def __init__(self, context: RefusalContext) -> None:
        self.context = context
        self._cases: dict[tuple[int, Level | None], RefusalContext] = {}
        self._fits: dict[tuple[int, Level | None], bool | None] = {}

    def alone(self, part: Part, within: Level | None = None) -> RefusalContext:
        key = (part.kind, within)
        if key not in self._cases:
            self._cases[key] = self.context.of(self.context.variants.alone(part, within))
        return self._cases[key]

    def fits(self, part: Part, within: Level | None = None) -> bool | None:
        key = (part.kind, within)
        if key not in self._fits:
            self._fits[key] = fits(self.alone(part, within))
        return self._fits[key]


def _failing(tried: _Tried, part: Part) -> list[Part]:
    """Children that cannot be placed alone: by counting, and if that leaves enough children, by a small search."""
    children = [tried.context.parts.all[child] for child in part.children]
    kinds = {child.kind: child for child in reversed(children)}
    bad = {kind for kind, child in kinds.items() if fits_by_count(tried.alone(child)) is False}
    if sum(1 for child in children if child.kind not in bad) >= part.need:
        searched = [child for child in children if kinds[child.kind] is child][:MOST_KINDS]
        bad |= {child.kind for child in searched if tried.fits(child) is False}
    return [child for child in children if child.kind in bad]


def _fitting(tried: _Tried, part: Part) -> int:
    """The number of children that need pods, if there are several and each fits where the part must be; else 0."""
    parts, needs = tried.context.parts, tried.context.needs
    needy = [
        child
        for child in map(parts.all.__getitem__, part.children)
        if any(needs[leaf.index] for leaf in parts.below(child))
    ]
    kinds = {child.kind: child for child in needy}
    if len(needy) < 2 or len(kinds) > MOST_KINDS:
        return 0
    return len(needy) if all(tried.fits(child, part.required) for child in kinds.values()) else 0
