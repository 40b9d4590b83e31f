"""Pods beyond the minimum: optional children whole, then as many extra pods as fit, as near as possible.

Works on a board on which the minimum is settled; never moves the minimum and never breaks a requirement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from spinney.core.placement.board import Board, Solution, bits
from spinney.core.placement.budget import Budget, Exhausted
from spinney.core.placement.choices import Kids, choices
from spinney.core.placement.filling import Ladder, fill
from spinney.core.placement.in_turns import share_out
from spinney.core.placement.parts import Level, Part
from spinney.core.placement.search import Search


def add_extras(board: Board, mask: int, active: Kids, budget: Budget, spread: bool) -> Solution:
    """Everything above the minimum that finds room in the mask; the board is changed."""
    added: Solution = {}
    kids = dict(active)
    for part in board.parts.all:
        if part.pods is not None or not _is_counted(board, part, kids):
            continue
        for kid in part.kids:
            if kid in kids[part.index]:
                continue
            found = _add_child(board, board.parts.all[kid], mask, budget, spread)
            if found is not None:
                kids |= found.kids
                kids[part.index] = (*kids[part.index], kid)
                _merge(added, found.solution)
    leaves = [leaf for leaf in board.parts.leaves if _is_counted(board, leaf, kids)]
    leaves.sort(key=lambda leaf: (_size(board, leaf), leaf.index))
    for _, alike in groupby(leaves, key=lambda leaf: _size(board, leaf)):
        _merge(added, _add_in_turns(board, list(alike), mask, spread))
    return added


def _add_in_turns(board: Board, leaves: Sequence[Part], mask: int, spread: bool) -> Solution:
    """Pods of one size share the room."""
    added: Solution = {}
    by_index = {leaf.index: leaf for leaf in leaves}

    def give(index: int, most: int) -> int:
        found = _add_pods(board, by_index[index], mask, spread, most)
        _merge(added, found)
        return sum(found.get(index, {}).values())

    wanted = {index: _missing(board, leaf) for index, leaf in by_index.items()}
    held = {index: len(board.running.get(index, ())) for index in by_index}
    least = {index: leaf.pods.min for index, leaf in by_index.items() if leaf.pods is not None}
    share_out(wanted, held, least, give)
    return added


def _missing(board: Board, leaf: Part) -> int:
    assert leaf.pods is not None
    return max(0, leaf.pods.count - len(board.running.get(leaf.index, ())))


def _is_counted(board: Board, part: Part, kids: Kids) -> bool:
    while part.parent >= 0:
        if part.index not in kids[part.parent]:
            return False
        part = board.parts.all[part.parent]
    return True


def _size(board: Board, leaf: Part) -> tuple[int, ...]:
    request = dict(board.types[board.type_of[leaf.index]].request)
    return tuple(request.get(resource, 0) for resource in board.wanted)


def _merge(into: Solution, found: Solution) -> None:
    for leaf, where in found.items():
        mine = into.setdefault(leaf, {})
        for node, count in where.items():
            mine[node] = mine.get(node, 0) + count


class _Child(NamedTuple):
    """An optional child that found room, and which of its own children it needed for that."""

    solution: Solution
    kids: Kids


def _add_child(board: Board, part: Part, mask: int, budget: Budget, spread: bool) -> _Child | None:
    """An optional child with its own minimum, nearest first."""
    needs = {}
    for leaf in board.parts.below(part):
        assert leaf.pods is not None
        needs[leaf.index] = max(0, leaf.pods.min - len(board.running.get(leaf.index, ())))
    below = [each.index for each in board.parts.all if part in board.parts.above(each) and each.pods is None]
    try:
        for kids in choices(board.parts, needs, part):
            search = Search(board, budget, needs, kids, spread)
            for scope in scopes(board, part, mask):
                found = search.solve(scope, {}, part) if search.measures.could_hold(part, scope) else None
                if found is not None:
                    board.settle(found)
                    return _Child(found, {group: kids[group] for group in below})
    except Exhausted:
        return None
    return None


def _add_pods(board: Board, leaf: Part, mask: int, spread: bool, most: int) -> Solution:
    kind = board.type_of[leaf.index]
    placed: Solution = {}
    goal = _missing(board, leaf) - min(most, _missing(board, leaf))
    for scope in scopes(board, leaf, mask):
        extra = _missing(board, leaf) - goal
        if extra <= 0:
            break
        _merge(placed, _fill_scope(board, leaf, kind, scope, extra, spread))
    return placed


def _fill_scope(board: Board, leaf: Part, kind: int, scope: int, extra: int, spread: bool) -> Solution:
    placed: Solution = {}
    one_by_one = board.types[kind].shared
    while extra > 0:
        usable = scope & board.types[kind].usable
        caps = {node: fits for node in bits(usable) if (fits := board.capacity(kind, node))}
        at_once = board.usable_at_once(kind, caps)
        here = min(1 if one_by_one else extra, sum(at_once.values()))
        if here <= 0:
            break
        found = {leaf.index: fill(board, kind, usable, here, at_once, Ladder(), spread)}
        board.settle(found)
        _merge(placed, found)
        extra -= here
    return placed


def scopes(board: Board, part: Part, mask: int) -> Iterator[int]:
    """Masks for more pods of a part, near to far: domains in use, the reached one, its parents, all that is allowed."""
    allowed = _allowed(board, part, mask)
    anchor = next((at for at in board.parts.above(part) if at.preferred and board.running_mask(at)), None)
    if anchor is not None:
        assert anchor.preferred is not None
        yield from _around(board, anchor.preferred, board.running_mask(anchor), allowed)
    yield allowed


def _around(board: Board, level: Level, live: int, allowed: int) -> Iterator[int]:
    in_use = 0
    for spot in board.spots(level.topology, level.depth):
        if spot.mask & live:
            in_use |= spot.mask
    yield in_use & allowed
    for depth in range(level.depth, 0, -1):
        for spot in board.spots(level.topology, depth):
            if not live & ~spot.mask:
                yield spot.mask & allowed


def _allowed(board: Board, part: Part, mask: int) -> int:
    """What the requirements of a part and its ancestors leave, given where their members are.

    Where a requirement has no member yet, the domain that holds most of the part is taken.
    """
    for at in reversed(board.parts.above(part)):
        level = at.required
        if level is None:
            continue
        live = board.running_mask(at)
        spots = [spot.mask for spot in board.spots(level.topology, level.depth) if spot.mask & mask]
        if live:
            mask &= next((spot for spot in spots if not live & ~spot), 0)
        elif at.pods is not None or part is not at:
            mask &= max(spots, key=lambda spot: (_holds(board, part, spot & mask), -(spot & -spot)), default=0)
    return mask


def _holds(board: Board, part: Part, mask: int) -> int:
    total = 0
    for leaf in board.parts.below(part):
        assert leaf.pods is not None
        kind = board.type_of[leaf.index]
        usable = mask & board.types[kind].usable
        total += min(leaf.pods.count, sum(board.capacity(kind, node) for node in bits(usable)))
    return total
