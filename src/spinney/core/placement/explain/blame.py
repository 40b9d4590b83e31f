"""Which part of a refused gang is to blame: the smallest one that could not be placed even if it were alone.

Decided by small searches, on few nodes and in few steps. Never blames a part without proof; where the proof would take
too long, the group around it is blamed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spinney.core.placement.budget import Exhausted, StepBudget
from spinney.core.placement.explain.capacity import never_fits
from spinney.core.placement.explain.context import Numbers, RefusalContext
from spinney.core.placement.gang.gang_tree import ChosenChildren, GangTree, Level, Part, every_choice
from spinney.core.placement.search.exact_search import Search
from spinney.core.placement.search.search_space import SearchSpace, Solution

STEPS = 2_000
MOST_NODES = 256
MOST_PODS = 10_000
"""Gangs with more pods are only counted and searched in the small space, never placed by the fast path."""


class ProbeSpace(NamedTuple):
    """A search space and the mask that a gang may use. `complete`: no other node could take any of its pods."""

    space: SearchSpace
    mask: int
    complete: bool


def fits(context: RefusalContext) -> bool | None:
    """Whether the minimum of a gang has a placement."""
    counted = fits_by_count(context)
    if counted is not None:
        return counted
    if context.tied is None and context.asked.simple and sum(context.needs.values()) <= MOST_PODS:
        with context.inventory.trial():
            if context.engine.fast_path.place(context.parts, context.asked, "skip") is not None:
                return True
    return _search(context)


def fits_by_count(context: RefusalContext) -> bool | None:
    """What counting alone says; None: it cannot tell."""
    if not context.shapes:
        return True
    if context.engine.fast_path.counting.is_hopeless(context.parts, context.asked, True):
        return False
    if any(context.total(shape) < need for shape, need in context.asked.shapes[0]):
        return False
    if not context.countable:
        return None
    (shape, need), *_ = context.shapes.items()
    deepest = max(context.requirements(), key=lambda level: level.depth, default=None)
    if deepest is None:
        return True
    return bool((context.per_domain(shape, deepest) >= need).any())


def solve(
    probe_space: ProbeSpace, needs: dict[int, int], children: ChosenChildren, budget: StepBudget
) -> Solution | None:
    """A placement of the given needs; raises Exhausted."""
    probe_space.space.parts = _made_distinct(probe_space.space.parts, needs)
    return Search(probe_space.space, budget, needs, children, spread=False).solve(probe_space.mask, {})


def _made_distinct(parts: GangTree, needs: dict[int, int]) -> GangTree:
    """The same parts, of equal kind only if their needs are equal too: the search interchanges equal kinds."""
    kinds: dict[object, int] = {}
    distinct = parts.all[:]
    for part in reversed(parts.all):
        key = (part.kind, needs.get(part.index), tuple([distinct[child].kind for child in part.children]))
        distinct[part.index] = replace(part, kind=kinds.setdefault(key, len(kinds)))
    leaves = [distinct[leaf.index] for leaf in parts.leaves]
    preferences = [distinct[preference.index] for preference in parts.preferences]
    return GangTree(parts.gang, distinct, leaves, preferences, parts.affinity)


def probe_space(context: RefusalContext, slots: Numbers) -> ProbeSpace:
    """A search space of the useful ones among some slots (if many, the most promising) and of running members."""
    chosen = slots[context.useful()[slots]]
    complete = len(chosen) <= MOST_NODES
    chosen = chosen if complete else _most_promising(context, chosen)
    pinned = {slot for members in context.running.values() for slot in members}
    space = SearchSpace(context.inventory, context.parts, sorted({*chosen.tolist(), *pinned}), waiting=True)
    usable = set(chosen.tolist())
    mask = sum(1 << node for node, slot in enumerate(space.slots) if slot in usable)
    return ProbeSpace(space, mask, complete)


def largest(low: int, high: int, works: Callable[[int], bool], guess: int) -> int:
    """The largest number below `high` that works, if every smaller number works too; `low` is known to work."""
    guesses = [guess + 1, guess]
    while high - low > 1:
        middle = guesses.pop() if guesses else (low + high) // 2
        if low < middle < high:
            low, high = (middle, high) if works(middle) else (low, middle)
    return low


def _search(context: RefusalContext) -> bool | None:
    small = probe_space(context, np.flatnonzero(context.nodes))
    budget = StepBudget(STEPS)
    try:
        for children in every_choice(context.parts, context.needs):
            budget.spend()
            if solve(small, context.needs, children, budget) is not None:
                return True
    except Exhausted:
        return None
    return False if small.complete else None


def _most_promising(context: RefusalContext, slots: Numbers) -> Numbers:
    """Whole domains of the broadest required level, those that hold most first; without one, single nodes."""
    held = np.zeros(len(context.inventory.idle), np.int64)
    for shape, need in context.shapes.items():
        held += np.minimum(context.per_node(shape), need)
    level = next(context.requirements(), None)
    if level is None:
        return slots[np.argsort(-held[slots], kind="stable")[:MOST_NODES]]
    tree = context.inventory.trees[level.topology]
    domain = tree.domain_array(level.depth)[slots]
    slots, domain = slots[domain >= 0], domain[domain >= 0]
    by_domain = context.add_up(held, level)[domain]
    order = np.lexsort((tree.rank(level.depth)[domain], -by_domain))
    return slots[order[:MOST_NODES]]


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
    """Descend from the root while too few children fit alone: into the first that would not fit on empty nodes either,
    else into the first that does not fit now."""
    part, tried = context.parts.all[0], _Tried(context)
    while part.children:
        failing = _failing(tried, part)
        if len(part.children) - len(failing) >= part.need:
            break
        hopeless = (child for child in failing if len(failing) > 1 and tried.never(child))
        part = next(hopeless, failing[0])
    found = context if part.index == 0 else context.of(context.variants.alone(part))
    return BlamedPart(part, found, _fitting(tried, part), len(context.parts.leaves) == 1)


class _Tried:
    """Cached results for parts as gangs of their own; equal parts are tried once."""

    def __init__(self, context: RefusalContext) -> None:
        self.context = context
        self._cases: dict[tuple[int, Level | None], RefusalContext] = {}
        self._fits: dict[tuple[int, Level | None], bool | None] = {}
        self._never: dict[int, bool] = {}

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

    def never(self, part: Part) -> bool:
        if part.kind not in self._never:
            self._never[part.kind] = never_fits(self.alone(part)) is not None
        return self._never[part.kind]


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
