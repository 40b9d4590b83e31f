"""Which part of a refused gang is to blame: the smallest one that could not be placed even if it were alone.

Never blames a part without proof; where the proof would take too long, the group around it is named.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spinney.core.placement.case import Case, Numbers
from spinney.core.placement.parts import Level, Part
from spinney.core.placement.probing import fits, fits_by_count

MOST_KINDS = 8
"""Children of so many kinds are searched one by one; counting looks at all of them."""


class Culprit(NamedTuple):
    """A part of the gang, itself as a gang (`case`), and how many children it has that fit alone, 0: not each does.

    `is_sole`: the gang has no other pod set.
    """

    part: Part
    case: Case
    fitting: int
    is_sole: bool = False

    @property
    def level(self) -> Level | None:
        return self.part.required

    @property
    def bound(self) -> Part:
        """The part of the case that carries the requirement."""
        at = self.case.parts.all[0]
        return at if self.part.pods is None else self.case.parts.all[at.kids[0]]

    def domains(self) -> Numbers:
        """Ids of the domains of the required level that it could be in: all, or the one of its running members."""
        if self.level is None:
            return np.zeros(0, np.int64)
        found = self.case.domains(self.level)
        domain_of = self.case.inventory.trees[self.level.topology].domain_of(self.level.depth)
        pinned = {domain_of[slot] for slot in self.case.pinned(self.bound)}
        return found[np.isin(found, list(pinned))] if len(pinned) == 1 else found


def find_culprit(case: Case) -> Culprit:
    """Go down from the gang as long as too few children fit alone, always to the first that does not."""
    part, tried = case.parts.all[0], _Tried(case)
    while part.kids:
        failing = _failing(tried, part)
        if len(part.kids) - len(failing) >= part.need:
            break
        part = failing[0]
    found = case if part.index == 0 else case.of(case.outline.alone(part))
    return Culprit(part, found, _fitting(tried, part), len(case.parts.leaves) == 1)


class _Tried:
    """Parts alone, as gangs of their own; equal parts are tried once."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._cases: dict[tuple[int, Level | None], Case] = {}
        self._fits: dict[tuple[int, Level | None], bool | None] = {}

    def alone(self, part: Part, within: Level | None = None) -> Case:
        key = (part.kind, within)
        if key not in self._cases:
            self._cases[key] = self.case.of(self.case.outline.alone(part, within))
        return self._cases[key]

    def fits(self, part: Part, within: Level | None = None) -> bool | None:
        key = (part.kind, within)
        if key not in self._fits:
            self._fits[key] = fits(self.alone(part, within))
        return self._fits[key]


def _failing(tried: _Tried, part: Part) -> list[Part]:
    """Children that cannot be placed alone: by counting, and if that leaves enough of them, by a small search."""
    kids = [tried.case.parts.all[kid] for kid in part.kids]
    kinds = {kid.kind: kid for kid in reversed(kids)}
    bad = {kind for kind, kid in kinds.items() if fits_by_count(tried.alone(kid)) is False}
    if sum(1 for kid in kids if kid.kind not in bad) >= part.need:
        searched = [kid for kid in kids if kinds[kid.kind] is kid][:MOST_KINDS]
        bad |= {kid.kind for kid in searched if tried.fits(kid) is False}
    return [kid for kid in kids if kid.kind in bad]


def _fitting(tried: _Tried, part: Part) -> int:
    """How many children need pods, if there are several and each could be placed where the part has to be; else 0."""
    parts, needs = tried.case.parts, tried.case.needs
    busy = [kid for kid in map(parts.all.__getitem__, part.kids) if any(needs[leaf.index] for leaf in parts.below(kid))]
    kinds = {kid.kind: kid for kid in busy}
    if len(busy) < 2 or len(kinds) > MOST_KINDS:
        return 0
    return len(busy) if all(tried.fits(kid, part.required) for kid in kinds.values()) else 0
