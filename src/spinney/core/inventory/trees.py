"""The domains of one topology: which there are, which nodes they hold, how they hang together.

A domain is the tuple of its label values from the broadest level down, never a joined text or its own value alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spinney.api.placement.problem import Topology
from spinney.core.inventory.tiers import NOWHERE, Ids, Tier


def distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Edges in the tree between two domains, given by their paths."""
    common = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        common += 1
    return len(one) + len(other) - 2 * common


class Tree:
    """Depth 0 is the cluster (one domain, id 0, every node), depth 1 the broadest level.

    Ids are stable while a domain has nodes. An emptied domain keeps its id until a new domain needs one; never
    while a checkpoint is open.
    """

    __slots__ = ("_orders", "_ranks", "_tiers", "levels", "topology")

    def __init__(self, topology: Topology, names: Sequence[str]) -> None:
        self.topology = topology
        self.levels = topology.levels
        self._tiers = [Tier(names, depth == len(self.levels)) for depth in range(len(self.levels) + 1)]
        self._tiers[0].open(0, "")
        self._orders: list[list[int] | None] = [None] * len(self._tiers)
        self._ranks: list[Ids | None] = [None] * len(self._tiers)

    def depth(self, level: str) -> int | None:
        """1 for the broadest level; None: not a level of this topology."""
        return self.levels.index(level) + 1 if level in self.levels else None

    def domains(self, depth: int) -> int:
        """How many ids there are; emptied domains included."""
        return len(self._tiers[depth].values)

    def domain_of(self, depth: int) -> list[int]:
        """Domain id by slot; NOWHERE for a slot without a node or a node without the labels. Always the same list."""
        return self._tiers[depth].ids

    def domain_array(self, depth: int) -> Ids:
        """The same as an array, a snapshot kept until the next move."""
        return self._tiers[depth].array()

    def size(self, depth: int, domain: int) -> int:
        """How many nodes it has."""
        return self._tiers[depth].sizes[domain]

    def seated(self, depth: int) -> int:
        """How many nodes take part in a level."""
        return self._tiers[depth].seated

    def path(self, depth: int, domain: int) -> tuple[str, ...]:
        path: list[str] = []
        for tier in self._tiers[depth:0:-1]:
            path.append(tier.values[domain])
            domain = tier.parents[domain]
        return tuple(reversed(path))

    def find(self, path: Sequence[str]) -> int | None:
        """The id of the domain with this path, at depth len(path)."""
        domain = 0
        for tier, value in zip(self._tiers, path, strict=False):
            below = tier.below[domain].get(value)
            if below is None:
                return None
            domain = below
        return domain

    def parent(self, depth: int, domain: int) -> int:
        return self._tiers[depth].parents[domain]

    def parents(self, depth: int) -> list[int]:
        """Parent id (at depth - 1) by domain id."""
        return self._tiers[depth].parents

    def ancestor(self, depth: int, domain: int, above: int) -> int:
        """The domain at depth `above` that holds it."""
        for tier in self._tiers[depth:above:-1]:
            domain = tier.parents[domain]
        return domain

    def children(self, depth: int, domain: int) -> list[int]:
        """Ids at depth + 1, by value; emptied domains included."""
        if depth == len(self.levels):
            return []
        below = self._tiers[depth].below[domain]
        return [below[value] for value in sorted(below)]

    def members(self, depth: int, domain: int) -> list[int]:
        """Its slots, sorted by node name. Not to be changed."""
        return self._tiers[depth].members(domain)

    def rank(self, depth: int) -> Ids:
        """By domain id: its position in the order of all paths at this depth."""
        rank = self._ranks[depth]
        if rank is None:
            order = self.order(depth)
            rank = np.empty(len(order), np.int32)
            rank[order] = np.arange(len(order), dtype=np.int32)
            self._ranks[depth] = rank
        return rank

    def order(self, depth: int) -> list[int]:
        """All domain ids at this depth in the order of their paths. Not to be changed."""
        order = self._orders[depth]
        if order is None:
            if depth == 0:
                order = [0]
            else:
                below = self._tiers[depth - 1].below
                order = [below[parent][value] for parent in self.order(depth - 1) for value in sorted(below[parent])]
            self._orders[depth] = order
        return order

    def seats(self, slot: int) -> tuple[int, ...]:
        """The slot's domains at depth 1, 2, ..."""
        return tuple([tier.ids[slot] for tier in self._tiers[1:]])

    def locate(self, labels: Mapping[str, str]) -> list[str]:
        """The path of a node with these labels, as far down as it takes part."""
        path: list[str] = []
        for level in self.levels:
            value = labels.get(level)
            if value is None:
                break
            path.append(value)
        return path

    def stands_at(self, slot: int, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels belongs where the slot sits."""
        path = self.locate(labels)
        if len(path) < len(self.levels) and self._tiers[len(path) + 1].ids[slot] != NOWHERE:
            return False
        return not path or self.find(path) == self._tiers[len(path)].ids[slot]

    def reserve(self, slots: int) -> None:
        """There are so many slots."""
        for tier in self._tiers:
            tier.reserve(slots)

    def enter(self, slot: int, labels: Mapping[str, str], reuse: bool) -> None:
        """Seat a node. `reuse`: a new domain may take the id of an emptied one."""
        if slot >= len(self._tiers[0].ids):
            self.reserve(slot + 1)
        self._tiers[0].enter(slot, 0)
        domain = 0
        path = self.locate(labels)
        for depth, value in enumerate(path, start=1):
            below = self._tiers[depth - 1].below[domain].get(value)
            domain = self._open(depth, domain, value, reuse) if below is None else below
            self._tiers[depth].enter(slot, domain)

    def leave(self, slot: int) -> None:
        for tier in self._tiers:
            tier.leave(slot)

    def _open(self, depth: int, parent: int, value: str, reuse: bool) -> int:
        tier, above = self._tiers[depth], self._tiers[depth - 1]
        domain = tier.spare() if reuse else None
        if domain is None:
            domain = tier.open(parent, value)
        else:
            del above.below[tier.parents[domain]][tier.values[domain]]
            tier.rename(domain, parent, value)
        above.below[parent][value] = domain
        for lower in range(depth, len(self._tiers)):
            self._orders[lower] = self._ranks[lower] = None
        return domain
