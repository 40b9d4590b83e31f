"""The explanation of a refusal: the part to blame, the closest domains, the blockers, and what would help.

Called after the decision with its own bounds; never changes the inventory, the placed gangs or the outcome. Only
relaxations that were tried and worked are listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from spinney.api.placement.result import (
    Blocked,
    Explanation,
    FitsAtLevel,
    FitsWithCount,
    FitsWithVictims,
    Outcome,
    Relaxation,
    Shortfall,
    Victim,
)
from spinney.core.inventory.counts import Shape
from spinney.core.placement.attempt import PlacementState
from spinney.core.placement.explain.best_domains import best_domains, shortfall
from spinney.core.placement.explain.blame import BlamedPart, find_blamed_part, fits, largest
from spinney.core.placement.explain.capacity import never_fits
from spinney.core.placement.explain.context import Flags, Numbers, RefusalContext, TiedDomain
from spinney.core.placement.explain.exclusions import excluded
from spinney.core.placement.explain.reasons import reason
from spinney.core.placement.fit.counting import Profile
from spinney.core.placement.gang.gang_tree import GangTree, Level, Part

MOST_GANGS = 10
MOST_MEMBERS = 200_000
"""With more live pods no gang is named: going through all of them would take longer than the decision."""


def find_blockers(context: RefusalContext, slots: Numbers) -> Blocked:
    """The reasons and the occupying gangs for some slots."""
    return Blocked(dict(sorted(_reasons(context, slots).items())), _occupied(context, slots))


def _reasons(context: RefusalContext, slots: Numbers) -> Counter[str]:
    """Blocked nodes per reason; of several shapes, the one closest to fitting on a node determines the reason."""
    found: Counter[str] = Counter()
    rest = _one_for_each_node(context, slots)
    shapes = sorted(context.shapes, key=lambda shape: [shape.request[r] for r in context.asked.wanted])
    for shape in shapes:
        admitted = context.inventory.masks.of(shape.filter).array()[rest]
        found += _insufficient(context, shape, rest[admitted])
        rest = rest[~admitted]
    if shapes and len(rest):
        found += excluded(context, shapes[0].filter, rest)
    return found


def _one_for_each_node(context: RefusalContext, slots: Numbers) -> Numbers:
    """The slots that take no pod; for a divided node without any usable zone, one of its slots."""
    useful = context.useful()
    rest = slots[~useful[slots]]
    if not context.inventory.divided:
        return rest
    home = context.inventory.home
    busy = {home(slot) for slot in slots[useful[slots]].tolist()}
    first = {home(slot): slot for slot in reversed(rest.tolist()) if home(slot) not in busy}
    return np.array(sorted(first.values()), np.int64)


def _insufficient(context: RefusalContext, shape: Shape, slots: Numbers) -> Counter[str]:
    """Nodes that the filter admits but that lack resources or host ports; scarce resources are checked first."""
    found: Counter[str] = Counter()
    free_arrays = context.inventory.free_arrays
    free_arrays.refresh()
    for resource in context.asked.wanted:
        lacks = free_arrays.free(resource, True)[slots] < shape.request[resource]
        if shape.request[resource] and lacks.any():
            found[f"insufficient {context.inventory.resources[resource]}"] = int(lacks.sum())
            slots = slots[~lacks]
    clashes = sum(context.inventory.port_use.clash(slot, shape.ports, True) for slot in slots.tolist())
    if clashes:
        found["host port"] = clashes
    return found


def _occupied(context: RefusalContext, slots: Numbers) -> dict[str, int]:
    """The gangs that have pods on most of these nodes."""
    placed_gangs = context.engine.placed_gangs
    if sum(len(one.live) for one in placed_gangs.values()) > MOST_MEMBERS:
        return {}
    here = np.zeros(len(context.inventory.idle), np.bool_)
    home = context.inventory.home
    here[[home(slot) for slot in slots.tolist()] if context.inventory.divided else slots] = True
    marks = here.tolist()
    found = {}
    for name, placed_gang in placed_gangs.items():
        nodes = len({home(slot) for _, slot in placed_gang.live if marks[home(slot)]})
        if nodes and name != context.parts.gang.name:
            found[name] = nodes
    most = sorted(found, key=lambda name: (-found[name], name))[:MOST_GANGS]
    return {name: found[name] for name in sorted(most)}


Victims = Callable[[], tuple[Victim, ...]]
"""Finds the cheapest victims whose eviction lets the gang fit; empty: there are none."""


def relaxations(
    context: RefusalContext, part: Part, holds: int, cheapest_victims: Victims | None
) -> Iterator[Relaxation]:
    """The relaxations under which the gang fits, given the blamed part; `holds`: pods that the best domain takes."""
    yield from _broader_level(context, part)
    yield from _fewer_pods(context, holds)
    if cheapest_victims is not None and _has_victims(context):
        victims = cheapest_victims()
        if victims:
            yield FitsWithVictims(victims)


def _broader_level(context: RefusalContext, part: Part) -> Iterator[FitsAtLevel]:
    """The narrowest level broader than the required one at which it fits; last, no required level at all."""
    if part.required is None:
        return
    levels = context.inventory.trees[part.required.topology].levels
    broader = reversed(levels[: part.required.depth - 1])
    for level in (*broader, None):
        if fits(context.of(context.variants.with_level(part, level))):
            yield FitsAtLevel(level)
            return


def _fewer_pods(context: RefusalContext, holds: int) -> Iterator[FitsWithCount]:
    """The largest number of pods of the only pod set that fits; the first guess is what the best domain holds."""
    if len(context.parts.leaves) != 1:
        return
    leaf = context.parts.leaves[0]
    assert leaf.pods is not None
    low, high = len(context.running.get(leaf.index, ())), leaf.pods.min
    count = largest(low, high, lambda count: bool(fits(context.of(context.variants.with_count(leaf, count)))), holds)
    if count > 0:
        yield FitsWithCount(count)


def _has_victims(context: RefusalContext) -> bool:
    """Whether a preemptible gang of lower priority has running members."""
    mine = context.parts.gang
    return any(
        placed_gang.live
        and placed_gang.gang.running
        and placed_gang.gang.preemptible
        and placed_gang.gang.priority < mine.priority
        for placed_gang in context.engine.placed_gangs.values()
    )


def explain(
    engine: PlacementState,
    parts: GangTree,
    asked: Profile,
    scope: list[int] | None,
    outcome: Outcome,
    cheapest_victims: Victims | None = None,
) -> Explanation:
    """Explain a refusal: `infeasible`, or `exhausted`, for which only the counts are known."""
    context = RefusalContext(engine, parts, asked, _tied(engine, parts, scope), _nodes(engine, scope))
    if outcome == "exhausted":
        return _exhausted(context)
    blamed = find_blamed_part(context)
    domains = blamed.domains()
    best = _best(blamed, domains)
    blocked = find_blockers(blamed.context, _slots(context, blamed.level, domains))
    never = never_fits(blamed.context)
    return Explanation(
        reason=reason(blamed, len(domains), best, blocked, never),
        group=blamed.part.path,
        level=_level(context, blamed.level),
        considered=_considered(context, blamed.level, domains),
        best=best,
        blocked=blocked,
        fits_if=tuple(relaxations(context, blamed.part, best[0].holds if best else 0, cheapest_victims)),
        never_fits=never is not None or (blamed.level is not None and not len(domains)),
    )


def _exhausted(context: RefusalContext) -> Explanation:
    steps = context.engine.options.budget
    level = context.parts.all[0].required
    domains = context.domains(level) if level else np.zeros(0, np.int64)
    return Explanation(
        reason=f"the search budget of {steps} steps ended before the answer was known",
        group="",
        level=_level(context, level),
        considered=_considered(context, level, domains),
        blocked=find_blockers(context, _slots(context, level, domains)),
    )


def _nodes(engine: PlacementState, scope: list[int] | None) -> Flags:
    """Where new pods could be placed: the zones stand for a divided node."""
    inventory = engine.inventory
    tree = next(iter(inventory.trees.values()), None)
    if scope is None and tree is not None:
        inside = np.asarray(tree.domain_array(0) == 0)
    else:
        inside = np.zeros(len(inventory.idle), np.bool_)
        inside[list(inventory.slots()) if scope is None else scope] = True
    inside[[one.slot for one in inventory.divided.values()]] = False
    return inside


def _tied(engine: PlacementState, parts: GangTree, scope: list[int] | None) -> TiedDomain | None:
    tie = parts.gang.tied_to
    if scope is None or tie is None:
        return None
    tree = engine.inventory.trees[parts.gang.root.topology or ""]
    depth = tree.depth(tie.level) or 0
    return TiedDomain(tie.gang, tie.level, tree.path(depth, tree.domain_of(depth)[scope[0]]))


def _level(context: RefusalContext, level: Level | None) -> str | None:
    """The level in question: of the part, else the one it must share with another gang."""
    if level is not None:
        return level.key
    return context.tied.level if context.tied else None


def _considered(context: RefusalContext, level: Level | None, domains: Numbers) -> int | None:
    if level is not None:
        return len(domains)
    return 1 if context.tied else None


def _slots(context: RefusalContext, level: Level | None, domains: Numbers) -> Numbers:
    """The nodes of some domains; without a level all eligible nodes."""
    slots = np.flatnonzero(context.nodes)
    if level is None:
        return slots
    tree = context.inventory.trees[level.topology]
    wanted = np.zeros(tree.domains(level.depth) + 1, np.bool_)
    wanted[domains] = True
    return slots[wanted[tree.domain_array(level.depth)[slots]]]


def _best(blamed: BlamedPart, domains: Numbers) -> tuple[Shortfall, ...]:
    """The closest domains; without a level what all eligible nodes hold."""
    context = blamed.context
    if blamed.level is not None:
        return best_domains(context, blamed.level, domains)
    return (shortfall(context, context.tied.path if context.tied else (), np.flatnonzero(context.nodes)),)
