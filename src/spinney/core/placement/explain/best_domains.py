"""How close a refused gang came: the domains that hold most of it, and what they are short of.

Never changes the inventory. Greedy first fit gives a lower bound on any cluster; a domain is packed exactly only where
counting is not exact and the search is small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from spinney.api.placement.result import Shortfall
from spinney.core.inventory.counts import LARGEST_ROOM
from spinney.core.placement.budget import Exhausted, StepBudget
from spinney.core.placement.explain.blame import ProbeSpace, largest, probe_space, solve
from spinney.core.placement.explain.context import Numbers, RefusalContext, shape_of
from spinney.core.placement.gang.gang_tree import Level, Part
from spinney.core.placement.search.search_space import Solution


class FirstFit:
    """A greedy placement: the pods it places, and what is left (`left`: nodes in rows, wanted resources in columns)."""

    def __init__(self, context: RefusalContext, slots: Numbers, free: Numbers) -> None:
        self.context = context
        self.slots = slots
        self.left = free.copy()
        self.placed: dict[int, int] = {}
        self._active = {leaf.index for leaf in context.active}
        self._place(context.parts.all[0], np.arange(len(slots)))

    def _place(self, part: Part, rows: Numbers) -> None:
        """Use the tightest domain that holds the whole part, else the one that holds most; small children first."""
        leaves = [leaf for leaf in self.context.parts.below(part) if leaf.index in self._active]
        if not leaves:
            return
        if part.required is not None:
            rows = self._choose(part, part.required, leaves, rows)
        if part.pods is not None:
            self._fill(part, rows)
            return
        children = [self.context.parts.all[child] for child in self.context.children[part.index]]
        for child in sorted(children, key=lambda child: (self._weight(child), child.index)):
            self._place(child, rows)

    def _choose(self, part: Part, level: Level, leaves: list[Part], rows: Numbers) -> Numbers:
        tree = self.context.inventory.trees[level.topology]
        domain = tree.domain_array(level.depth)[self.slots[rows]].astype(np.int64)
        open_to = domain >= 0
        for slot in self.context.pinned(part):
            open_to &= domain == tree.domain_of(level.depth)[slot]
        rows, domain = rows[open_to], domain[open_to]
        if not len(rows):
            return rows
        held = np.zeros(tree.domains(level.depth))
        for leaf in leaves:
            fit = self._fit(leaf, rows)
            held += np.minimum(np.bincount(domain, fit, len(held)), self.context.needs[leaf.index])
        room = np.bincount(domain, self.left[rows, 0], len(held)) if self.left.shape[1] else held
        best = np.flatnonzero(held == held.max())
        tightest = best[np.lexsort((tree.rank(level.depth)[best], room[best]))[0]]
        return np.asarray(rows[domain == tightest])

    def _fill(self, leaf: Part, rows: Numbers) -> None:
        fit = self._fit(leaf, rows)
        here = np.minimum(fit, np.maximum(0, self.context.needs[leaf.index] - (np.cumsum(fit) - fit)))
        self.left[rows] -= here[:, None] * self._size(leaf)[None, :]
        self.placed[leaf.index] = int(here.sum())

    def _fit(self, leaf: Part, rows: Numbers) -> Numbers:
        """By row: how many pods of a pod set fit; 0 for pod sets with anti-affinity or host ports."""
        assert leaf.pods is not None
        if leaf.pods.anti_affinity or leaf.pods.host_ports or self.context.parts.affinity:
            return np.zeros(len(rows), np.int64)
        fit: Numbers = np.minimum(
            self.context.per_node(shape_of(leaf))[self.slots[rows]], self.context.needs[leaf.index]
        )
        fit = fit.astype(np.int64)
        for at, amount in enumerate(self._size(leaf).tolist()):
            if amount:
                np.minimum(fit, self.left[rows, at] // amount, out=fit)
        return fit

    def _size(self, leaf: Part) -> Numbers:
        assert leaf.pods is not None
        return np.array([leaf.pods.request[r] for r in self.context.asked.wanted], np.int64)

    def _weight(self, part: Part) -> list[int]:
        """The sum of what the pods below a part request."""
        leaves = [leaf for leaf in self.context.parts.below(part) if leaf.index in self._active]
        sizes = [self._size(leaf).tolist() for leaf in leaves]
        return [
            sum(size[at] * self.context.needs[leaf.index] for size, leaf in zip(sizes, leaves, strict=True))
            for at in range(len(self.context.asked.wanted))
        ]


BEST = 3
COUNTED = 8
PACKED = 3
"""Number of domains examined: COUNTED where counting is exact, PACKED where they have to be packed."""

FEW = 512
STEPS = 500
MOST_PARTS = 16
MOST_WORK = 1_000
"""Limit on nodes times pod sets for a search; beyond it the greedy placement is used."""


@dataclass(slots=True)
class _Filled:
    """What a domain takes: pods per pod set, and what is left by node (rows) and resource (columns), and in total."""

    placed: dict[int, int]
    left: Numbers
    in_all: Numbers


def best_domains(context: RefusalContext, level: Level, domains: Numbers) -> tuple[Shortfall, ...]:
    """The best few of some domains of a level, by pods held, then by what is missing, then by path."""
    tree = context.inventory.trees[level.topology]
    held = np.zeros(tree.domains(level.depth), np.int64)
    for shape, need in context.shapes.items():
        held += np.minimum(context.per_domain(shape, level), need)
    order = np.lexsort((tree.rank(level.depth)[domains], -_rarest(context, level)[domains], -held[domains]))
    chosen = domains[order[: COUNTED if context.countable else PACKED]]
    found: list[Shortfall] = []
    for domain in chosen.tolist():
        slots = np.array(tree.members(level.depth, domain), np.int64)
        guess = found[-1].holds - _running(context) if found else None
        found.append(shortfall(context, tree.path(level.depth, domain), slots[context.nodes[slots]], guess))
    return tuple(sorted(found, key=lambda one: _closeness(context, one))[:BEST])


def _rarest(context: RefusalContext, level: Level) -> Numbers:
    """By domain: free amount of the first of the wanted resources."""
    admitted = np.flatnonzero(context.admitted)
    free = np.zeros(len(context.inventory.idle), np.int64)
    free[admitted] = _free(context, admitted)[:, :1].sum(axis=1)
    return context.add_up(free, level)


def shortfall(context: RefusalContext, path: tuple[str, ...], slots: Numbers, guess: int | None = None) -> Shortfall:
    """How many of the gang's pods some nodes hold (`guess`: expected number), and what the others lack there."""
    slots = slots[context.admitted[slots]]
    filled = _count(context, slots) if context.countable else _pack(context, slots, guess)
    missing = {leaf.index: context.needs[leaf.index] - filled.placed.get(leaf.index, 0) for leaf in context.active}
    holds = _running(context) + sum(filled.placed.values())
    short = _short(context, missing, filled)
    if not short and any(missing.values()):
        short = _apart(context, slots)
    return Shortfall(path, holds, holds + sum(missing.values()), short)


def _running(context: RefusalContext) -> int:
    return sum(len(context.running.get(leaf.index, ())) for leaf in context.active)


def _closeness(context: RefusalContext, one: Shortfall) -> tuple[object, ...]:
    names = context.inventory.resources
    return -one.holds, not one.short, [one.short.get(names[r], 0) for r in context.asked.wanted], one.path


def _free(context: RefusalContext, slots: Numbers) -> Numbers:
    """Free amounts by slot and wanted resource."""
    found = np.zeros((len(slots), len(context.asked.wanted)), np.int64)
    if len(slots) <= FEW:
        rows = [context.inventory.free(slot, True) for slot in slots.tolist()]
        for at, resource in enumerate(context.asked.wanted):
            found[:, at] = [row[resource] for row in rows]
    else:
        context.inventory.free_arrays.refresh()
        for at, resource in enumerate(context.asked.wanted):
            found[:, at] = context.inventory.free_arrays.free(resource, True)[slots]
    return np.clip(found, 0, LARGEST_ROOM)


def _count(context: RefusalContext, slots: Numbers) -> _Filled:
    """For equal pods: every node takes as many as fit."""
    (shape, need), *_ = context.shapes.items()
    fit = context.per_node(shape)[slots].astype(np.int64)
    leaf = context.active[0].index
    left = _free(context, slots)
    full = np.minimum(fit, np.maximum(0, need - (np.cumsum(fit) - fit)))
    left -= full[:, None] * np.array([shape.request[r] for r in context.asked.wanted], np.int64)[None, :]
    return _Filled({leaf: int(full.sum())}, left, left.sum(axis=0))


def _pack(context: RefusalContext, slots: Numbers, guess: int | None) -> _Filled:
    """The greedy placement, or the best one of a search where the problem is small enough."""
    first_fit = FirstFit(context, slots, _free(context, slots))
    greedy = sum(first_fit.placed.values())
    if int(context.useful()[slots].sum()) * len(context.active) <= MOST_WORK:
        small = probe_space(context, slots)
        best = _most(context, small, greedy if guess is None else guess)
        placed = {leaf: sum(where.values()) for leaf, where in best.items()}
        if sum(placed.values()) >= greedy or context.inventory.divided:
            return _Filled(placed, *_left(context, slots, small, best))
    return _Filled(first_fit.placed, first_fit.left, first_fit.left.sum(axis=0))


def _most(context: RefusalContext, small: ProbeSpace, guess: int) -> Solution:
    """A placement of the most pods, small ones first; when the budget ends, the best so far."""
    order = sorted(context.active, key=lambda leaf: (_size(context, leaf), leaf.index))
    budget = StepBudget(STEPS)
    best: Solution = {}

    def works(count: int) -> bool:
        nonlocal best
        found = solve(small, _first(context, order, count), context.children, budget)
        best = found or best
        return found is not None

    with suppress(Exhausted):
        largest(0, sum(context.needs[leaf.index] for leaf in order), works, guess)
    return best


def _size(context: RefusalContext, leaf: Part) -> list[int]:
    assert leaf.pods is not None
    return [leaf.pods.request[r] for r in context.asked.wanted]


def _first(context: RefusalContext, order: list[Part], count: int) -> dict[int, int]:
    """The needs per pod set for the first `count` pods."""
    needs = dict.fromkeys(context.needs, 0)
    for leaf in order:
        needs[leaf.index] = min(count, context.needs[leaf.index])
        count -= needs[leaf.index]
    return needs


def _left(context: RefusalContext, slots: Numbers, small: ProbeSpace, solution: Solution) -> tuple[Numbers, Numbers]:
    """What a solution leaves, by node and in total."""
    inventory = context.inventory
    with inventory.trial():
        for leaf, where in solution.items():
            pods = context.parts.all[leaf].pods
            assert pods is not None
            for node, count in where.items():
                inventory.take(small.space.slots[node], pods.request, times=count)
        left = _free(context, slots)
        in_all = left.sum(axis=0)
        for divided in {id(one): one for one in map(inventory.divided.get, slots.tolist()) if one}.values():
            together = left[np.isin(slots, divided.zones)].sum(axis=0)
            in_all -= np.maximum(0, together - _free(context, np.array([divided.slot], np.int64))[0])
    return left, in_all


def _short(context: RefusalContext, missing: Mapping[int, int], filled: _Filled) -> dict[str, int]:
    """What the missing pods request beyond what is left; if enough is left but fragmented, what single nodes lack.

    Empty where no node is eligible: more capacity would not help there.
    """
    names = context.inventory.resources
    wanted = context.asked.wanted
    if not len(filled.left):
        return {}
    there = filled.in_all.tolist()
    short = {}
    for at, resource in enumerate(wanted):
        asked = sum(count * _size(context, context.parts.all[leaf])[at] for leaf, count in missing.items())
        if asked > there[at]:
            short[names[resource]] = asked - there[at]
    return short or _scattered(context, missing, filled.left)


def _scattered(context: RefusalContext, missing: Mapping[int, int], left: Numbers) -> dict[str, int]:
    """Assign each missing pod a node of its own, those first that lack least, and sum up what they lack."""
    names = context.inventory.resources
    short = [0] * len(context.asked.wanted)
    for leaf, count in missing.items():
        size = np.array(_size(context, context.parts.all[leaf]), np.int64)
        lacks = np.maximum(0, size[None, :] - left)
        share = (lacks / np.maximum(size, 1)[None, :]).sum(axis=1)
        nodes = np.argsort(share, kind="stable")[:count]
        beyond = count - len(nodes)
        for at, amount in enumerate(lacks[nodes].sum(axis=0).tolist()):
            short[at] += amount + beyond * int(size[at])
    return {names[r]: amount for r, amount in zip(context.asked.wanted, short, strict=True) if amount}


def _apart(context: RefusalContext, slots: Numbers) -> dict[str, int]:
    """What parts with levels of their own lack in their best domain, where enough is left, but not in one domain.

    The parts are placed one after the other, large ones first; those that then fit nowhere are added up. Empty where
    that is too much work, and where no level keeps the pods apart.
    """
    parts = _inner_parts(context)
    if len(parts) < 2 or int(context.useful()[slots].sum()) * len(context.active) > MOST_WORK:
        return {}
    short: Counter[str] = Counter()
    with context.inventory.trial():
        for part in parts:
            alone = context.of(context.variants.alone(part))
            if not _take(alone, slots) and part.required is not None:
                short += Counter(_lack(alone, part.required, slots))
    return {
        name: short[name] for name in map(context.inventory.resources.__getitem__, context.asked.wanted) if short[name]
    }


def _inner_parts(context: RefusalContext) -> list[Part]:
    """The chosen parts with pods to place that carry a level, or are leaves, largest first; few, or none."""
    found: list[Part] = []
    stack = list(context.children.get(0, ()))
    while stack and len(found) <= MOST_PARTS:
        part = context.parts.all[stack.pop()]
        if part.required is not None or part.pods is not None:
            found.append(part)
        else:
            stack.extend(context.children.get(part.index, ()))
    weights = {part.index: _weight(context, part) for part in found}
    needy = [part for part in found if any(weights[part.index])]
    return sorted(needy, key=lambda part: (weights[part.index], -part.index), reverse=True) if not stack else []


def _weight(context: RefusalContext, part: Part) -> list[int]:
    leaves = [(_size(context, leaf), context.needs[leaf.index]) for leaf in context.parts.below(part)]
    return [sum(size[at] * need for size, need in leaves) for at in range(len(context.asked.wanted))]


def _take(alone: RefusalContext, slots: Numbers) -> bool:
    """Place a part on some nodes, if it fits and that is found out quickly."""
    small = probe_space(alone, slots)
    try:
        solution = solve(small, alone.needs, alone.children, StepBudget(STEPS))
    except Exhausted:
        return True  # nothing is claimed of it
    for leaf, where in (solution or {}).items():
        pods = alone.parts.all[leaf].pods
        assert pods is not None
        for node, count in where.items():
            alone.inventory.take(small.space.slots[node], pods.request, times=count)
    return solution is not None


def _lack(alone: RefusalContext, level: Level, slots: Numbers) -> Mapping[str, int]:
    """What a part is short of in its best domain among some nodes."""
    here = alone.inventory.trees[level.topology].domain_array(level.depth)[slots]
    return best_domains(alone, level, np.unique(here[here >= 0]).astype(np.int64))[0].short if (here >= 0).any() else {}
