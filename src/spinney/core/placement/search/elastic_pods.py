"""Elastic pods: optional children as a whole, then as many pods above the minimum as fit, as close as possible.

Works on a search space in which the minimum is already placed; never moves the minimum, never violates a requirement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, groupby
from typing import NamedTuple

from spinney.core.placement.budget import Exhausted, StepBudget
from spinney.core.placement.fair_share import share_out
from spinney.core.placement.gang.gang_tree import ChosenChildren, Level, Part, grown, is_chosen, with_child
from spinney.core.placement.search.best_fit import LevelMasks, fill
from spinney.core.placement.search.exact_search import Search
from spinney.core.placement.search.search_space import SearchSpace, Solution, bits, minimum


def add_extras(space: SearchSpace, mask: int, active: ChosenChildren, budget: StepBudget, spread: bool) -> Solution:
    """Place everything above the minimum that fits into the mask; the search space is changed."""
    added: Solution = {}
    children = dict(active)
    while True:
        more = _add_children(space, mask, children, budget, spread)
        leaves = [leaf for leaf in space.parts.leaves if is_chosen(space.parts, leaf.index, children)]
        leaves.sort(key=lambda leaf: (_size(space, leaf), leaf.index))
        for _, alike in groupby(leaves, key=lambda leaf: _size(space, leaf)):
            _merge(more, _add_in_turns(space, list(alike), mask, spread))
        _merge(added, more)
        # Pods that are added may be what others have to be near to.
        if not space.near or not any(count for where in more.values() for count in where.values()):
            return added


def _add_children(
    space: SearchSpace, mask: int, children: dict[int, tuple[int, ...]], budget: StepBudget, spread: bool
) -> Solution:
    """Place optional children whole, in the order of the problem, and note them in `children`."""
    added: Solution = {}
    for part in space.parts.all:
        if part.pods is not None or not is_chosen(space.parts, part.index, children):
            continue
        for child in part.children:
            if child in children[part.index]:
                continue
            found = _add_child(space, children, space.parts.all[child], mask, budget, spread)
            if found is not None:
                children |= found.children
                _merge(added, found.solution)
    return added


def _add_in_turns(space: SearchSpace, leaves: Sequence[Part], mask: int, spread: bool) -> Solution:
    """Share the capacity fairly among the pod sets whose pods have the same size."""
    added: Solution = {}
    by_index = {leaf.index: leaf for leaf in leaves}

    def give(index: int, most: int) -> int:
        found = _add_pods(space, by_index[index], mask, spread, most)
        _merge(added, found)
        return sum(found.get(index, {}).values())

    wanted = {index: _missing(space, leaf) for index, leaf in by_index.items()}
    held = {index: len(space.running.get(index, ())) for index in by_index}
    least = {index: leaf.pods.min for index, leaf in by_index.items() if leaf.pods is not None}
    share_out(wanted, held, least, give)
    return added


def _missing(space: SearchSpace, leaf: Part) -> int:
    assert leaf.pods is not None
    return max(0, leaf.pods.count - len(space.running.get(leaf.index, ())))


def _size(space: SearchSpace, leaf: Part) -> tuple[int, ...]:
    request = dict(space.types[space.type_of[leaf.index]].request)
    return tuple(request.get(resource, 0) for resource in space.wanted)


def by_size_and_share(space: SearchSpace, leaf: int, held: int) -> tuple[tuple[int, ...], Fraction, int]:
    """The order in which pod sets get pods above their minimum; `held`: the new pods they have."""
    part = space.parts.all[leaf]
    assert part.pods is not None
    live = held + len(space.running.get(leaf, ()))
    return _size(space, part), Fraction(live, max(part.pods.min, 1)), leaf


def _merge(into: Solution, found: Solution) -> None:
    for leaf, where in found.items():
        mine = into.setdefault(leaf, {})
        for node, count in where.items():
            mine[node] = mine.get(node, 0) + count


class _Child(NamedTuple):
    """The placement of an optional child, and the children that count then."""

    solution: Solution
    children: ChosenChildren


def _add_child(
    space: SearchSpace, children: ChosenChildren, part: Part, mask: int, budget: StepBudget, spread: bool
) -> _Child | None:
    """Place the minimum of an optional child, closest scope first; else with those that it has to be near to."""
    parts, needs = space.parts, minimum(space)
    alone = list(with_child(parts, children, part, needs))
    company = grown(parts, alone, needs)
    try:
        for top, chosen in chain(((part, each) for each in alone), ((parts.all[0], each) for each in company)):
            search = Search(space, budget, needs, chosen, spread)
            for scope in scopes(space, top, mask):
                budget.spend()
                found = search.solve(scope, {}, top) if search.vectors.could_hold(top, scope) else None
                if found is not None:
                    space.add_running(found)
                    return _Child(found, chosen)
    except Exhausted:
        return None
    return None


def _add_pods(space: SearchSpace, leaf: Part, mask: int, spread: bool, most: int) -> Solution:
    kind = space.type_of[leaf.index]
    placed: Solution = {}
    goal = _missing(space, leaf) - min(most, _missing(space, leaf))
    for scope in scopes(space, leaf, mask):
        extra = _missing(space, leaf) - goal
        if extra <= 0:
            break
        _merge(placed, _fill_scope(space, leaf, kind, scope, extra, spread))
    return placed


def _fill_scope(space: SearchSpace, leaf: Part, kind: int, scope: int, extra: int, spread: bool) -> Solution:
    placed: Solution = {}
    ruled = space.types[kind].ruled
    one_by_one = space.types[kind].shared or ruled
    while extra > 0:
        usable = scope & (space.open_to_one(leaf.index) if ruled else space.types[kind].usable)
        caps = {node: fits for node in bits(usable) if (fits := space.capacity(kind, node))}
        at_once = space.usable_at_once(kind, caps)
        here = min(1 if one_by_one else extra, sum(at_once.values()))
        if here <= 0:
            break
        found = {leaf.index: fill(space, kind, usable, here, at_once, LevelMasks(), spread)}
        space.add_running(found)
        _merge(placed, found)
        extra -= here
    return placed


def scopes(space: SearchSpace, part: Part, mask: int) -> Iterator[int]:
    """Masks for more pods of a part, near to far: domains in use, the one reached, its parents, all allowed."""
    allowed = _allowed(space, part, mask)
    anchor = next((at for at in space.parts.above(part) if at.preferred and space.running_mask(at)), None)
    if anchor is not None:
        assert anchor.preferred is not None
        yield from _around(space, anchor.preferred, space.running_mask(anchor), allowed)
    yield allowed


def _around(space: SearchSpace, level: Level, live: int, allowed: int) -> Iterator[int]:
    in_use = 0
    for domain_mask in space.domain_masks(level.topology, level.depth):
        if domain_mask.mask & live:
            in_use |= domain_mask.mask
    yield in_use & allowed
    for depth in range(level.depth, 0, -1):
        for domain_mask in space.domain_masks(level.topology, depth):
            if not live & ~domain_mask.mask:
                yield domain_mask.mask & allowed


def _allowed(space: SearchSpace, part: Part, mask: int) -> int:
    """What the requirements of a part and its ancestors allow, given where their members are.

    A requirement that has no member yet is bound to the domain that holds most of the part.
    """
    for at in reversed(space.parts.above(part)):
        level = at.required
        if level is None:
            continue
        live = space.running_mask(at)
        domain_masks = [
            domain_mask.mask
            for domain_mask in space.domain_masks(level.topology, level.depth)
            if domain_mask.mask & mask
        ]
        if live:
            mask &= next((domain_mask for domain_mask in domain_masks if not live & ~domain_mask), 0)
        elif at.pods is not None or part is not at:
            mask &= max(
                domain_masks,
                key=lambda domain_mask: (_holds(space, part, domain_mask & mask), -(domain_mask & -domain_mask)),
                default=0,
            )
    return mask


def _holds(space: SearchSpace, part: Part, mask: int) -> int:
    total = 0
    for leaf in space.parts.below(part):
        assert leaf.pods is not None
        kind = space.type_of[leaf.index]
        usable = mask & space.types[kind].usable
        total += min(leaf.pods.count, sum(space.capacity(kind, node) for node in bits(usable)))
    return total
