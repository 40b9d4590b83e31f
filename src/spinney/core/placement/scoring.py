"""The topology score of a placement and the domains it occupies, computed from the live pods alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spinney.api.placement.result import Domain, Placement
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import NOWHERE
from spinney.core.placement.gang.gang_tree import GangTree, Level, Part

Live = Sequence[tuple[Part, int]]
"""Members: their pod set and the slot of their node."""


def score(parts: GangTree, inventory: Inventory, live: Live) -> float:
    """The mean over parts with a preference of (a + 1/k) / (d + 1), weighted by live pods; 1.0 without any."""
    total, weight = 0.0, 0
    for part in parts.preferences:
        level = part.preferred
        assert level is not None
        slots = _slots(parts, part, live)
        if slots:
            reached = _reached(inventory, level, level.depth, slots)
            total += len(slots) * (reached + 1 / _spread(inventory, level, slots)) / (level.depth + 1)
            weight += len(slots)
    return total / weight if weight else 1.0


def domains(parts: GangTree, inventory: Inventory, live: Live) -> tuple[Domain, ...]:
    """One entry per part with a requirement or preference whose live pods share a domain: the narrowest it asks for."""
    found = []
    for part in parts.all:
        levels = [level for level in (part.required, part.preferred) if level is not None]
        slots = _slots(parts, part, live) if levels else []
        if not slots:
            continue
        asked = max(levels, key=lambda level: level.depth)
        depth = _reached(inventory, asked, asked.depth, slots)
        if depth:
            tree = inventory.trees[asked.topology]
            path = tree.path(depth, tree.domain_of(depth)[slots[0]])
            found.append(Domain(part.path, tree.levels[depth - 1], path))
    return tuple(found)


def number(parts: GangTree, inventory: Inventory, new: Iterable[tuple[Part, int]]) -> tuple[Placement, ...]:
    """New pods, counted per pod set from 0 in the order of node names."""
    if inventory.divided:
        return _number_zones(parts, inventory, new)
    names: dict[int, list[str]] = {leaf.index: [] for leaf in parts.leaves}
    for leaf, slot in new:
        names[leaf.index].append(inventory.name(slot))
    return tuple(
        [
            Placement(leaf.path, index, name)
            for leaf in parts.leaves
            for index, name in enumerate(sorted(names[leaf.index]))
        ]
    )


def _number_zones(parts: GangTree, inventory: Inventory, new: Iterable[tuple[Part, int]]) -> tuple[Placement, ...]:
    places: dict[int, list[tuple[str, str]]] = {leaf.index: [] for leaf in parts.leaves}
    for leaf, slot in new:
        places[leaf.index].append((inventory.node(slot).name, inventory.zone(slot)))
    return tuple(
        [
            Placement(leaf.path, index, *place)
            for leaf in parts.leaves
            for index, place in enumerate(sorted(places[leaf.index]))
        ]
    )


def _slots(parts: GangTree, part: Part, live: Live) -> list[int]:
    if part.index == 0:
        return [slot for _, slot in live]
    below = {leaf.index for leaf in parts.below(part)}
    return [slot for leaf, slot in live if leaf.index in below]


def _reached(inventory: Inventory, level: Level, depth: int, slots: list[int]) -> int:
    """The depth of the narrowest domain, no deeper than `depth`, that contains all these nodes; 0 is the cluster."""
    tree = inventory.trees[level.topology]
    while depth:
        domain_of = tree.domain_of(depth)
        first = domain_of[slots[0]]
        if first != NOWHERE and all(domain_of[slot] == first for slot in slots):
            break
        depth -= 1
    return depth


def _spread(inventory: Inventory, level: Level, slots: list[int]) -> int:
    """How many domains of a level are used, each node outside it counting as one."""
    domain_of = inventory.trees[level.topology].domain_of(level.depth)
    return len({(domain_of[slot], inventory.home(slot) if domain_of[slot] == NOWHERE else 0) for slot in slots})
