"""How close a refused gang came: the domains that hold most of it, and what they are short of.

Never changes the inventory; a domain is packed on a small board, and only where counting does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from spinney.api.placement.result import Shortfall
from spinney.core.inventory.rooms import LARGEST_ROOM
from spinney.core.placement.board import Solution
from spinney.core.placement.budget import Budget, Exhausted
from spinney.core.placement.case import Case, Numbers
from spinney.core.placement.parts import Level, Part
from spinney.core.placement.pouring import Pour
from spinney.core.placement.probing import Table, largest, solve, table

BEST = 3
COUNTED = 8
PACKED = 3
"""Domains that are looked at closely: where counting is enough, and where they have to be packed."""

FEW = 512
STEPS = 500
MOST_WORK = 1_000
"""Nodes times pod sets that a search is worth; beyond, greed has the word."""


@dataclass(slots=True)
class _Filled:
    """What a domain takes: pods per pod set, what is left by node (rows) and resource (columns), and in all."""

    placed: dict[int, int]
    left: Numbers
    in_all: Numbers


def nearest(case: Case, level: Level, domains: Numbers) -> tuple[Shortfall, ...]:
    """The best few of some domains of a level, by pods held, then by what is missing, then by path."""
    tree = case.inventory.trees[level.topology]
    held = np.zeros(tree.domains(level.depth), np.int64)
    for shape, need in case.shapes.items():
        held += np.minimum(case.per_domain(shape, level), need)
    order = np.lexsort((tree.rank(level.depth)[domains], -_rarest(case, level)[domains], -held[domains]))
    chosen = domains[order[: COUNTED if case.countable else PACKED]]
    found: list[Shortfall] = []
    for domain in chosen.tolist():
        slots = np.array(tree.members(level.depth, domain), np.int64)
        guess = found[-1].holds - _running(case) if found else None
        found.append(shortfall(case, tree.path(level.depth, domain), slots[case.nodes[slots]], guess))
    return tuple(sorted(found, key=lambda one: _closeness(case, one))[:BEST])


def _rarest(case: Case, level: Level) -> Numbers:
    """By domain: how much is free of the resource that is asked for first."""
    admitted = np.flatnonzero(case.admitted)
    free = np.zeros(len(case.inventory.idle), np.int64)
    free[admitted] = _free(case, admitted)[:, :1].sum(axis=1)
    return case.add_up(free, level)


def shortfall(case: Case, path: tuple[str, ...], slots: Numbers, guess: int | None = None) -> Shortfall:
    """How many of the gang's pods some nodes hold (perhaps so many), and what the others lack there."""
    slots = slots[case.admitted[slots]]
    filled = _count(case, slots) if case.countable else _pack(case, slots, guess)
    missing = {leaf.index: case.needs[leaf.index] - filled.placed.get(leaf.index, 0) for leaf in case.active}
    holds = _running(case) + sum(filled.placed.values())
    return Shortfall(path, holds, holds + sum(missing.values()), _short(case, missing, filled))


def _running(case: Case) -> int:
    return sum(len(case.running.get(leaf.index, ())) for leaf in case.active)


def _closeness(case: Case, one: Shortfall) -> tuple[object, ...]:
    names = case.inventory.resources
    return -one.holds, not one.short, [one.short.get(names[r], 0) for r in case.asked.wanted], one.path


def _free(case: Case, slots: Numbers) -> Numbers:
    """Free amounts by slot and wanted resource."""
    found = np.zeros((len(slots), len(case.asked.wanted)), np.int64)
    if len(slots) <= FEW:
        rows = [case.inventory.free(slot, True) for slot in slots.tolist()]
        for at, resource in enumerate(case.asked.wanted):
            found[:, at] = [row[resource] for row in rows]
    else:
        case.inventory.mirror.refresh()
        for at, resource in enumerate(case.asked.wanted):
            found[:, at] = case.inventory.mirror.free(resource, True)[slots]
    return np.clip(found, 0, LARGEST_ROOM)


def _count(case: Case, slots: Numbers) -> _Filled:
    """Equal pods: every node takes what it can."""
    (shape, need), *_ = case.shapes.items()
    fit = case.per_node(shape)[slots].astype(np.int64)
    leaf = case.active[0].index
    left = _free(case, slots)
    full = np.minimum(fit, np.maximum(0, need - (np.cumsum(fit) - fit)))
    left -= full[:, None] * np.array([shape.request[r] for r in case.asked.wanted], np.int64)[None, :]
    return _Filled({leaf: int(full.sum())}, left, left.sum(axis=0))


def _pack(case: Case, slots: Numbers, guess: int | None) -> _Filled:
    """What greed places, and where a search can tell in time, the most pods that it finds room for."""
    poured = Pour(case, slots, _free(case, slots))
    greedy = sum(poured.placed.values())
    if int(case.useful()[slots].sum()) * len(case.active) <= MOST_WORK:
        small = table(case, slots)
        best = _most(case, small, greedy if guess is None else guess)
        placed = {leaf: sum(where.values()) for leaf, where in best.items()}
        if sum(placed.values()) >= greedy or case.inventory.divided:
            return _Filled(placed, *_left(case, slots, small, best))
    return _Filled(poured.placed, poured.left, poured.left.sum(axis=0))


def _most(case: Case, small: Table, guess: int) -> Solution:
    """The most pods, small ones first; when the steps end, the most so far."""
    order = sorted(case.active, key=lambda leaf: (_size(case, leaf), leaf.index))
    budget = Budget(STEPS)
    best: Solution = {}

    def works(count: int) -> bool:
        nonlocal best
        found = solve(small, _first(case, order, count), case.kids, budget)
        best = found or best
        return found is not None

    with suppress(Exhausted):
        largest(0, sum(case.needs[leaf.index] for leaf in order), works, guess)
    return best


def _size(case: Case, leaf: Part) -> list[int]:
    assert leaf.pods is not None
    return [leaf.pods.request[r] for r in case.asked.wanted]


def _first(case: Case, order: list[Part], count: int) -> dict[int, int]:
    """The first so many pods, as needs per pod set."""
    needs = dict.fromkeys(case.needs, 0)
    for leaf in order:
        needs[leaf.index] = min(count, case.needs[leaf.index])
        count -= needs[leaf.index]
    return needs


def _left(case: Case, slots: Numbers, small: Table, solution: Solution) -> tuple[Numbers, Numbers]:
    """What a solution leaves, by node and in all."""
    inventory = case.inventory
    with inventory.trial():
        for leaf, where in solution.items():
            pods = case.parts.all[leaf].pods
            assert pods is not None
            for node, count in where.items():
                inventory.take(small.board.slots[node], pods.request, times=count)
        left = _free(case, slots)
        in_all = left.sum(axis=0)
        for divided in {id(one): one for one in map(inventory.divided.get, slots.tolist()) if one}.values():
            together = left[np.isin(slots, divided.zones)].sum(axis=0)
            in_all -= np.maximum(0, together - _free(case, np.array([divided.slot], np.int64))[0])
    return left, in_all


def _short(case: Case, missing: Mapping[int, int], filled: _Filled) -> dict[str, int]:
    """What the missing pods ask for beyond what is left; if enough is left but scattered, what single nodes lack.

    Nothing where no pod may be: amounts would not help there.
    """
    names = case.inventory.resources
    wanted = case.asked.wanted
    if not len(filled.left):
        return {}
    there = filled.in_all.tolist()
    short = {}
    for at, resource in enumerate(wanted):
        asked = sum(count * _size(case, case.parts.all[leaf])[at] for leaf, count in missing.items())
        if asked > there[at]:
            short[names[resource]] = asked - there[at]
    return short or _scattered(case, missing, filled.left)


def _scattered(case: Case, missing: Mapping[int, int], left: Numbers) -> dict[str, int]:
    """Give each missing pod a node of its own, those first that lack least."""
    names = case.inventory.resources
    short = [0] * len(case.asked.wanted)
    for leaf, count in missing.items():
        size = np.array(_size(case, case.parts.all[leaf]), np.int64)
        lacks = np.maximum(0, size[None, :] - left)
        share = (lacks / np.maximum(size, 1)[None, :]).sum(axis=1)
        nodes = np.argsort(share, kind="stable")[:count]
        beyond = count - len(nodes)
        for at, amount in enumerate(lacks[nodes].sum(axis=0).tolist()):
            short[at] += amount + beyond * int(size[at])
    return {names[r]: amount for r, amount in zip(case.asked.wanted, short, strict=True) if amount}
