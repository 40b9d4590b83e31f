"""Preferences, one after the other in their order: each is made as good as it can be before the next is asked.

A wish is judged by the minimum with the running members: the level reached, nodes outside the topology, the number of
wished-level domains and the sum of their distances, in this order, less is better. Never gives up what an earlier wish
got for a later one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from spinney.core.placement.board import Board, Solution
from spinney.core.placement.budget import Exhausted
from spinney.core.placement.candidates import Cap
from spinney.core.placement.parts import Part
from spinney.core.placement.search import Search
from spinney.core.placement.unions import apart


class Worth(NamedTuple):
    """How well a wish is met; smaller is better."""

    short: int  # levels missing to the wished one
    strays: bool  # uses nodes outside the topology
    domains: int
    distance: int


IDEAL = Worth(0, False, 1, 0)


@dataclass(slots=True)
class Found:
    """A placement of the minimum, what its wishes are worth, and whether nothing better exists."""

    solution: Solution
    caps: dict[int, Cap]
    worths: dict[int, Worth] = field(default_factory=dict)
    proved: bool = True


def worth(board: Board, part: Part, solution: Solution) -> Worth:
    """What a wish gets from a placement; IDEAL when the part has no live pods."""
    level = part.preferred
    assert level is not None
    live = board.running_mask(part)
    for leaf in board.parts.below(part):
        for node in solution.get(leaf.index, ()):
            live |= 1 << node
    return worth_of(board, level.topology, level.depth, live)


def worth_of(board: Board, topology: str, depth: int, live: int) -> Worth:
    if not live:
        return IDEAL
    reached = 0
    for shallower in range(depth, 0, -1):
        if any(not live & ~spot.mask for spot in board.spots(topology, shallower)):
            reached = shallower
            break
    spots = [spot for spot in board.spots(topology, depth) if spot.mask & live]
    inside = 0
    for spot in spots:
        inside |= spot.mask
    if live & ~inside:
        spots += [spot for spot in board.strays(topology, depth) if spot.mask & live]
    outside = any(not spot.inside for spot in spots)
    distance = sum(apart(one.path, other.path, depth) for one, other in combinations(spots, 2))
    return Worth(depth - reached, outside and reached == 0, len(spots), distance)


def fulfil(search: Search, mask: int) -> Found | None:
    """The best placement of the minimum inside the mask, or None when there is none at all.

    Raises Exhausted only when the budget ends before any placement is found.
    """
    wishes = [part for part in search.board.parts.wishes if any(search.measures.demand(part))]
    if not wishes:
        solution = search.solve(mask, {})
        return Found(solution, {}) if solution is not None else None
    found: Found | None = None
    steps = search.budget.left
    try:
        for wish in wishes:
            found = _better_level(search, mask, wish, found)
            if found is None:
                return None
            try:
                with search.budget.share():
                    _better_spread(search, mask, wish, found)
            except Exhausted:
                found.proved = False
            found.caps[wish.index] = _cap(wish, found.worths[wish.index])
    except Exhausted:
        if found is None:
            found = _any_placement(search, mask, steps)
            if found is None:
                return None
        found.proved = False
    assert found is not None
    for wish in wishes:
        found.worths[wish.index] = worth(search.board, wish, found.solution)
    return found


def _any_placement(search: Search, mask: int, steps: int) -> Found | None:
    """The wishes took the whole budget before anything was found: leave them aside."""
    search.budget.left = steps
    solution = search.solve(mask, {})
    return Found(solution, {}) if solution is not None else None


def _cap(wish: Part, got: Worth) -> Cap:
    assert wish.preferred is not None
    depth = wish.preferred.depth - got.short
    if got.short == 0:
        return Cap(depth)
    return Cap(depth, got.strays, got.domains, got.distance)


def _better_level(search: Search, mask: int, wish: Part, found: Found | None) -> Found | None:
    """Try the levels from the wished one up to the required one, as long as they are better than what is there."""
    assert wish.preferred is not None
    floor = min(wish.required.depth, wish.preferred.depth) if wish.required else 0
    for cap in [Cap(depth) for depth in range(wish.preferred.depth, max(floor, 1) - 1, -1)] + (
        [Cap(0, strays=False), Cap(0)] if floor == 0 else []
    ):
        if found is not None and _meets(worth(search.board, wish, found.solution), wish, cap):
            break
        if not any(search.measures.could_hold(wish, scope & mask) for scope in search.candidates.scopes_of(wish, cap)):
            continue
        solution = search.solve(mask, {**(found.caps if found else {}), wish.index: cap})
        if solution is not None:
            if found is None:
                found = Found(solution, {})
            found.solution = solution
            break
    if found is not None:
        found.worths[wish.index] = worth(search.board, wish, found.solution)
    return found


def _meets(got: Worth, wish: Part, cap: Cap) -> bool:
    assert wish.preferred is not None
    return got.short <= wish.preferred.depth - cap.depth and (cap.strays or not got.strays)


def _better_spread(search: Search, mask: int, wish: Part, found: Found) -> None:
    """Fewer domains, then nearer ones, until neither can be had."""
    got = found.worths[wish.index]
    if got.short == 0:
        return
    least = fewest_domains(search, wish, mask, got)
    while got.domains > least:
        cap = _cap(wish, got)._replace(domains=got.domains - 1, distance=None)
        if not _improves(search, mask, wish, found, cap):
            break
        got = found.worths[wish.index]
    while got.distance > least_distance(search, wish, mask, got):
        cap = _cap(wish, got)._replace(distance=got.distance - 2)
        if not _improves(search, mask, wish, found, cap):
            break
        got = found.worths[wish.index]


def _improves(search: Search, mask: int, wish: Part, found: Found, cap: Cap) -> bool:
    """Look for a placement within a tighter bound and take it."""
    solution = search.solve(mask, {**found.caps, wish.index: cap})
    if solution is None:
        return False
    found.solution = solution
    found.worths[wish.index] = worth(search.board, wish, solution)
    return True


def fewest_domains(search: Search, wish: Part, mask: int, got: Worth) -> int:
    """At least so many wished-level domains does a part need inside one domain of the level reached, by counting."""
    assert wish.preferred is not None
    cap = Cap(wish.preferred.depth - got.short)
    scopes = [
        scope & mask
        for scope in search.candidates.scopes_of(wish, cap)
        if search.measures.could_hold(wish, scope & mask)
    ]
    return min((_fewest_inside(search, wish, scope) for scope in scopes), default=1)


def _fewest_inside(search: Search, wish: Part, scope: int) -> int:
    demand = search.measures.demand(wish)
    pins = search.board.running_mask(wish)
    spots = search.candidates.spots_of_wish(wish, scope)
    pinned = [search.measures.measure(spot.mask) for spot in spots if spot.mask & pins]
    others = [search.measures.measure(spot.mask) for spot in spots if not spot.mask & pins]
    least = max(1, len(pinned))
    for at, want in enumerate(demand):
        have = sum(measure[at] for measure in pinned)
        count = len(pinned)
        if have < want:
            for amount in sorted([measure[at] for measure in others], reverse=True):
                have += amount
                count += 1
                if have >= want:
                    break
        least = max(least, count)
    return least


def least_distance(search: Search, wish: Part, mask: int, got: Worth) -> int:
    """A lower bound on the sum of distances of so many domains: at every level as many pairs together as possible."""
    level = wish.preferred
    assert level is not None
    pairs = got.domains * (got.domains - 1) // 2
    reached = level.depth - got.short
    bound = pairs  # two different domains never share the wished level itself
    spots = search.candidates.useful_spots(wish, mask, search.board.running_mask(wish))
    for depth in range(1, level.depth):
        if depth <= reached:
            continue
        sizes: dict[tuple[object, ...], int] = {}
        for spot in spots:
            sizes[spot.path[:depth]] = sizes.get(spot.path[:depth], 0) + 1
        together, left = 0, got.domains
        for size in sorted(sizes.values(), reverse=True):
            here = min(size, left)
            if depth == reached + 1:
                here = min(here, got.domains - 1)
            together += here * (here - 1) // 2
            left -= here
        bound += pairs - together
    return 2 * bound
