"""The best placement score that live pods could have on empty nodes: an upper bound by counting, for comparison only.

Uses the formula of `scoring`. Never below what can be reached: pods of each shape, and each resource in all, are
counted by themselves.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from spinney.core.inventory.counts import Shape
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import Tree
from spinney.core.placement.empty_nodes import EmptyNodes, Numbers, sums_by
from spinney.core.placement.gang.gang_tree import GangTree, Level, Part
from spinney.core.placement.scoring import Live, score


def best_score(parts: GangTree, inventory: Inventory, live: Live) -> float:
    """At least the score as it is: members may run on nodes that take no new pods."""
    return max(bound(parts, inventory, live), score(parts, inventory, live))


def bound(parts: GangTree, inventory: Inventory, live: Live) -> float:
    """What new pods of the same kinds could have at most."""
    total, weight = 0.0, 0
    for part in parts.preferences:
        level = part.preferred
        assert level is not None
        below = {leaf.index for leaf in parts.below(part)}
        needs = Counter(_shape(leaf) for leaf, _ in live if leaf.index in below)
        pods = needs.total()
        if pods:
            total += pods * _best(inventory, level, needs)
            weight += pods
    return total / weight if weight else 1.0


def _best(inventory: Inventory, level: Level, needs: Counter[Shape]) -> float:
    """(a + 1/k) / (d + 1) for the narrowest domain that holds all pods, and the fewest domains of the level."""
    tree = inventory.trees[level.topology]
    sums = _sums(inventory, needs)
    reached = next((depth for depth in range(level.depth, 0, -1) if _in_one(tree, depth, sums)), 0)
    domain = np.asarray(tree.domain_array(level.depth))
    fewest = max(
        _fewest(
            np.concatenate((_by_domain(tree, level.depth, held), _outside(inventory, held, domain))),
            need,
        )
        for held, need in sums
    )
    return (reached + 1 / fewest) / (level.depth + 1)


def _sums(inventory: Inventory, needs: Counter[Shape]) -> list[tuple[Numbers, int]]:
    """By slot what empty nodes hold, and what is needed: of pods of each shape, and of each resource in all."""
    empty = EmptyNodes(inventory, np.ones(len(inventory.idle), np.bool_))
    found = [(empty.fit(shape) * empty.admitted(shape), need) for shape, need in needs.items()]
    usable = np.logical_or.reduce([empty.admitted(shape) for shape in needs])
    for at in range(len(inventory.resources)):
        need = sum(count * shape.request[at] for shape, count in needs.items())
        held = empty.amounts(at) if need else None
        if held is not None:
            found.append((held * usable, need))
    return found


def _in_one(tree: Tree, depth: int, sums: list[tuple[Numbers, int]]) -> bool:
    """Whether one domain holds every sum, each by itself."""
    return bool(np.logical_and.reduce([_by_domain(tree, depth, held) >= need for held, need in sums]).any())


def _fewest(held: Numbers, need: int) -> int:
    """How many domains hold so many pods, the largest first."""
    sums = np.cumsum(np.sort(held)[::-1])
    return int(np.searchsorted(sums, need)) + 1


def _outside(inventory: Inventory, fit: Numbers, domain: npt.NDArray[np.int32]) -> Numbers:
    """What nodes outside of the level hold: each of them counts as a domain."""
    outside = np.flatnonzero((domain < 0) & (fit > 0))
    if not inventory.divided:
        return fit[outside]
    by_node: Counter[int] = Counter()
    for slot in outside.tolist():
        by_node[inventory.home(slot)] += int(fit[slot])
    return np.array(list(by_node.values()), np.int64)


def _by_domain(tree: Tree, depth: int, held: Numbers) -> Numbers:
    return sums_by(np.asarray(tree.domain_array(depth)), held, tree.domains(depth))


def _shape(leaf: Part) -> Shape:
    assert leaf.pods is not None
    return Shape(leaf.pods.request, leaf.pods.filter, leaf.pods.host_ports)
