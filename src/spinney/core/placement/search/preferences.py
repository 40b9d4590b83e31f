"""Preferred levels, one after the other in their order: each is optimized before the next one is considered.

A preference is judged by the minimum together with the running members: the level reached, nodes outside the topology,
the number of preferred-level domains and the sum of their distances, in this order, less is better. Never worsens an
earlier preference for the sake of a later one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from spinney.core.placement.budget import Exhausted
from spinney.core.placement.gang.gang_tree import Part
from spinney.core.placement.search.candidates import DomainBound, path_distance
from spinney.core.placement.search.exact_search import Search
from spinney.core.placement.search.search_space import SearchSpace, Solution


class PreferenceScore(NamedTuple):
    """How well a preference is satisfied; smaller is better."""

    short: int  # levels between the one reached and the preferred one
    outside_nodes: bool  # uses nodes outside the topology
    domains: int
    distance: int


IDEAL = PreferenceScore(0, False, 1, 0)


@dataclass(slots=True)
class RankedPlacement:
    """A placement of the minimum, the scores of its preferences, and whether it is proved that none is better."""

    solution: Solution
    domain_bounds: dict[int, DomainBound]
    preference_scores: dict[int, PreferenceScore] = field(default_factory=dict)
    proved: bool = True


def preference_score(space: SearchSpace, part: Part, solution: Solution) -> PreferenceScore:
    """The score of a part's preference for a placement; IDEAL when the part has no live pods."""
    level = part.preferred
    assert level is not None
    live = space.running_mask(part)
    for leaf in space.parts.below(part):
        for node in solution.get(leaf.index, ()):
            live |= 1 << node
    return score_nodes(space, level.topology, level.depth, live)


def score_nodes(space: SearchSpace, topology: str, depth: int, live: int) -> PreferenceScore:
    if not live:
        return IDEAL
    reached = 0
    for shallower in range(depth, 0, -1):
        if any(not live & ~domain_mask.mask for domain_mask in space.domain_masks(topology, shallower)):
            reached = shallower
            break
    domain_masks = [domain_mask for domain_mask in space.domain_masks(topology, depth) if domain_mask.mask & live]
    inside = 0
    for domain_mask in domain_masks:
        inside |= domain_mask.mask
    if live & ~inside:
        domain_masks += [domain_mask for domain_mask in space.outside_nodes(topology, depth) if domain_mask.mask & live]
    outside = any(not domain_mask.inside for domain_mask in domain_masks)
    distance = sum(path_distance(one.path, other.path, depth) for one, other in combinations(domain_masks, 2))
    return PreferenceScore(depth - reached, outside and reached == 0, len(domain_masks), distance)


def best_placement(search: Search, mask: int) -> RankedPlacement | None:
    """The best placement of the minimum inside the mask, or None when there is none at all.

    Raises Exhausted only when the budget ends before any placement is found.
    """
    preferences = [part for part in search.space.parts.preferences if any(search.vectors.demand(part))]
    if not preferences:
        solution = search.solve(mask, {})
        return RankedPlacement(solution, {}) if solution is not None else None
    found: RankedPlacement | None = None
    steps = search.budget.left
    try:
        for preference in preferences:
            found = _better_level(search, mask, preference, found)
            if found is None:
                return None
            try:
                with search.budget.share():
                    _better_spread(search, mask, preference, found)
            except Exhausted:
                found.proved = False
            found.domain_bounds[preference.index] = _domain_bound(preference, found.preference_scores[preference.index])
    except Exhausted:
        if found is None:
            found = _any_placement(search, mask, steps)
            if found is None:
                return None
        found.proved = False
    assert found is not None
    for preference in preferences:
        found.preference_scores[preference.index] = preference_score(search.space, preference, found.solution)
    return found


def _any_placement(search: Search, mask: int, steps: int) -> RankedPlacement | None:
    """Search without preferences, because they used up the budget before any placement was found."""
    search.budget.left = steps
    solution = search.solve(mask, {})
    return RankedPlacement(solution, {}) if solution is not None else None


def _domain_bound(preference: Part, got: PreferenceScore) -> DomainBound:
    assert preference.preferred is not None
    depth = preference.preferred.depth - got.short
    if got.short == 0:
        return DomainBound(depth)
    return DomainBound(depth, got.outside_nodes, got.domains, got.distance)


def _better_level(search: Search, mask: int, preference: Part, found: RankedPlacement | None) -> RankedPlacement | None:
    """Try the levels from the preferred one up to the required one, as long as they improve on the placement found."""
    assert preference.preferred is not None
    floor = min(preference.required.depth, preference.preferred.depth) if preference.required else 0
    for domain_bound in [DomainBound(depth) for depth in range(preference.preferred.depth, max(floor, 1) - 1, -1)] + (
        [DomainBound(0, outside_nodes=False), DomainBound(0)] if floor == 0 else []
    ):
        if found is not None and _meets(
            preference_score(search.space, preference, found.solution), preference, domain_bound
        ):
            break
        if not any(
            search.vectors.could_hold(preference, scope & mask)
            for scope in search.candidates.scopes_of(preference, domain_bound)
        ):
            continue
        solution = search.solve(mask, {**(found.domain_bounds if found else {}), preference.index: domain_bound})
        if solution is not None:
            if found is None:
                found = RankedPlacement(solution, {})
            found.solution = solution
            break
    if found is not None:
        found.preference_scores[preference.index] = preference_score(search.space, preference, found.solution)
    return found


def _meets(got: PreferenceScore, preference: Part, domain_bound: DomainBound) -> bool:
    assert preference.preferred is not None
    return got.short <= preference.preferred.depth - domain_bound.depth and (
        domain_bound.outside_nodes or not got.outside_nodes
    )


def _better_spread(search: Search, mask: int, preference: Part, found: RankedPlacement) -> None:
    """Fewer domains, then closer ones, until neither can be improved."""
    got = found.preference_scores[preference.index]
    if got.short == 0:
        return
    least = fewest_domains(search, preference, mask, got)
    while got.domains > least:
        domain_bound = _domain_bound(preference, got)._replace(domains=got.domains - 1, distance=None)
        if not _improves(search, mask, preference, found, domain_bound):
            break
        got = found.preference_scores[preference.index]
    while got.distance > least_distance(search, preference, mask, got):
        domain_bound = _domain_bound(preference, got)._replace(distance=got.distance - 2)
        if not _improves(search, mask, preference, found, domain_bound):
            break
        got = found.preference_scores[preference.index]


def _improves(search: Search, mask: int, preference: Part, found: RankedPlacement, domain_bound: DomainBound) -> bool:
    """Search for a placement within a tighter bound, and adopt it if there is one."""
    solution = search.solve(mask, {**found.domain_bounds, preference.index: domain_bound})
    if solution is None:
        return False
    found.solution = solution
    found.preference_scores[preference.index] = preference_score(search.space, preference, solution)
    return True


def fewest_domains(search: Search, preference: Part, mask: int, got: PreferenceScore) -> int:
    """A lower bound, by count, on the preferred-level domains needed inside one domain of the level reached."""
    assert preference.preferred is not None
    domain_bound = DomainBound(preference.preferred.depth - got.short)
    scopes = [
        scope & mask
        for scope in search.candidates.scopes_of(preference, domain_bound)
        if search.vectors.could_hold(preference, scope & mask)
    ]
    return min((_fewest_inside(search, preference, scope) for scope in scopes), default=1)


def _fewest_inside(search: Search, preference: Part, scope: int) -> int:
    demand = search.vectors.demand(preference)
    pins = search.space.running_mask(preference)
    domain_masks = search.candidates.preferred_domain_masks(preference, scope)
    pinned = [search.vectors.supply(domain_mask.mask) for domain_mask in domain_masks if domain_mask.mask & pins]
    others = [search.vectors.supply(domain_mask.mask) for domain_mask in domain_masks if not domain_mask.mask & pins]
    least = max(1, len(pinned))
    for at, want in enumerate(demand):
        have = sum(supply[at] for supply in pinned)
        count = len(pinned)
        if have < want:
            for amount in sorted([supply[at] for supply in others], reverse=True):
                have += amount
                count += 1
                if have >= want:
                    break
        least = max(least, count)
    return least


def least_distance(search: Search, preference: Part, mask: int, got: PreferenceScore) -> int:
    """A lower bound on the distance of so many domains: at every level as many pairs as possible are together."""
    level = preference.preferred
    assert level is not None
    pairs = got.domains * (got.domains - 1) // 2
    reached = level.depth - got.short
    bound = pairs  # two different domains never share the preferred level itself
    domain_masks = search.candidates.useful_domain_masks(preference, mask, search.space.running_mask(preference))
    for depth in range(1, level.depth):
        if depth <= reached:
            continue
        sizes: dict[tuple[object, ...], int] = {}
        for domain_mask in domain_masks:
            sizes[domain_mask.path[:depth]] = sizes.get(domain_mask.path[:depth], 0) + 1
        together, left = 0, got.domains
        for size in sorted(sizes.values(), reverse=True):
            here = min(size, left)
            if depth == reached + 1:
                here = min(here, got.domains - 1)
            together += here * (here - 1) // 2
            left -= here
        bound += pairs - together
    return 2 * bound
