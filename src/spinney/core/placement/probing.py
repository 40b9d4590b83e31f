"""Small searches that say whether a gang would fit: on few nodes, in few steps.

Yes and no are certain; None says that the bound was too small to know. Never changes the inventory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spinney.core.placement.board import Board, Solution
from spinney.core.placement.budget import Budget, Exhausted
from spinney.core.placement.case import Case, Numbers
from spinney.core.placement.choices import Kids, choices
from spinney.core.placement.parts import Parts
from spinney.core.placement.search import Search

STEPS = 2_000
MOST_NODES = 256
MOST_PODS = 10_000
"""Gangs of more pods are judged by counting and on the small board only, never by placing them."""


class Table(NamedTuple):
    """A board with the part of it that a gang may use. `complete`: no other node could take any of its pods."""

    board: Board
    mask: int
    complete: bool


def fits(case: Case) -> bool | None:
    """Whether the minimum of a gang has a placement."""
    counted = fits_by_count(case)
    if counted is not None:
        return counted
    if case.tied is None and case.asked.simple and sum(case.needs.values()) <= MOST_PODS:
        with case.inventory.trial():
            if case.engine.quick.place(case.parts, case.asked, "skip") is not None:
                return True
    return _search(case)


def fits_by_count(case: Case) -> bool | None:
    """What counting alone says."""
    if not case.shapes:
        return True
    if case.engine.quick.counting.is_hopeless(case.parts, case.asked, True):
        return False
    if any(case.total(shape) < need for shape, need in case.asked.shapes[0]):
        return False
    if not case.countable:
        return None
    (shape, need), *_ = case.shapes.items()
    deepest = max(case.requirements(), key=lambda level: level.depth, default=None)
    if deepest is None:
        return True
    return bool((case.per_domain(shape, deepest) >= need).any())


def solve(table: Table, needs: dict[int, int], kids: Kids, budget: Budget) -> Solution | None:
    """A placement of so many pods; raises Exhausted."""
    table.board.parts = _told_apart(table.board.parts, needs)
    return Search(table.board, budget, needs, kids, spread=False).solve(table.mask, {})


def _told_apart(parts: Parts, needs: dict[int, int]) -> Parts:
    """The same parts, of one kind only where they also need the same: the search takes equal kinds as exchangeable."""
    kinds: dict[object, int] = {}
    told = parts.all[:]
    for part in reversed(parts.all):
        key = (part.kind, needs.get(part.index), tuple([told[kid].kind for kid in part.kids]))
        told[part.index] = replace(part, kind=kinds.setdefault(key, len(kinds)))
    leaves = [told[leaf.index] for leaf in parts.leaves]
    return Parts(parts.gang, told, leaves, [told[wish.index] for wish in parts.wishes])


def table(case: Case, slots: Numbers) -> Table:
    """A board of the useful ones among some slots (few of them, if there are many) and the running members' nodes."""
    chosen = slots[case.useful()[slots]]
    complete = len(chosen) <= MOST_NODES
    chosen = chosen if complete else _most_promising(case, chosen)
    pinned = {slot for members in case.running.values() for slot in members}
    board = Board(case.inventory, case.parts, sorted({*chosen.tolist(), *pinned}), waiting=True)
    usable = set(chosen.tolist())
    mask = sum(1 << node for node, slot in enumerate(board.slots) if slot in usable)
    return Table(board, mask, complete)


def largest(low: int, high: int, works: Callable[[int], bool], guess: int) -> int:
    """The largest number below `high` that works, if what works also works for less; `low` is known to work."""
    guesses = [guess + 1, guess]
    while high - low > 1:
        middle = guesses.pop() if guesses else (low + high) // 2
        if low < middle < high:
            low, high = (middle, high) if works(middle) else (low, middle)
    return low


def _search(case: Case) -> bool | None:
    small = table(case, np.flatnonzero(case.nodes))
    budget = Budget(STEPS)
    try:
        for kids in choices(case.parts, case.needs):
            budget.spend()
            if solve(small, case.needs, kids, budget) is not None:
                return True
    except Exhausted:
        return None
    return False if small.complete else None


def _most_promising(case: Case, slots: Numbers) -> Numbers:
    """Whole domains of the broadest required level, those that hold most first; without one, single nodes."""
    held = np.zeros(len(case.inventory.idle), np.int64)
    for shape, need in case.shapes.items():
        held += np.minimum(case.per_node(shape), need)
    level = next(case.requirements(), None)
    if level is None:
        return slots[np.argsort(-held[slots], kind="stable")[:MOST_NODES]]
    tree = case.inventory.trees[level.topology]
    domain = tree.domain_array(level.depth)[slots]
    slots, domain = slots[domain >= 0], domain[domain >= 0]
    by_domain = case.add_up(held, level)[domain]
    order = np.lexsort((tree.rank(level.depth)[domain], -by_domain))
    return slots[order[:MOST_NODES]]
