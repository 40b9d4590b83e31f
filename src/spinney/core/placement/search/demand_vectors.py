"""Demand and supply as vectors: pods per type, then amounts per resource.

The supply of a mask is an upper bound: every type is counted as if it had the nodes to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spinney.core.placement.gang.gang_tree import Part
from spinney.core.placement.search.numa_sharing import SharedNode
from spinney.core.placement.search.search_space import SearchSpace, bits

Vector = tuple[int, ...]


class DemandVectors:
    """Demands of parts and supplies of masks, cached; the search space must not change during its lifetime."""

    def __init__(self, space: SearchSpace, needs: Mapping[int, int], children: Mapping[int, tuple[int, ...]]) -> None:
        self.space = space
        self.needs = needs
        self.children = children
        self._supplies: dict[int, Vector] = {}
        self._demands: dict[int, Vector] = {}

    def demand(self, part: Part) -> Vector:
        """What the active pods at or below a part need."""
        known = self._demands.get(part.index)
        if known is not None:
            return known
        space = self.space
        vector = [0] * (len(space.types) + len(space.inventory.resources))
        if part.pods is not None:
            need = self.needs.get(part.index, 0)
            kind = space.type_of[part.index]
            vector[kind] = need
            for resource, amount in space.types[kind].request:
                vector[len(space.types) + resource] = amount * need
        for child in self.children.get(part.index, ()):
            for at, amount in enumerate(self.demand(space.parts.all[child])):
                vector[at] += amount
        self._demands[part.index] = tuple(vector)
        return self._demands[part.index]

    def supply(self, mask: int) -> Vector:
        """Upper bounds on what a mask holds."""
        known = self._supplies.get(mask)
        if known is not None:
            return known
        space = self.space
        types = len(space.types)
        vector = [0] * (types + len(space.inventory.resources))
        for node in bits(mask & space.useful):
            for kind in range(types):
                if space.types[kind].usable >> node & 1:
                    vector[kind] += space.capacity(kind, node)
            for resource, amount in enumerate(space.free[node]):
                if amount > 0:
                    vector[types + resource] += amount
        for shared_node in space.shared_nodes:
            if (mask & shared_node.mask).bit_count() > 1:
                self._limit(vector, shared_node, mask)
        self._supplies[mask] = tuple(vector)
        return self._supplies[mask]

    def _limit(self, vector: list[int], shared_node: SharedNode, mask: int) -> None:
        """Cap the supply: the zones of one node provide no more together than the node has."""
        space = self.space
        nodes = list(bits(shared_node.mask & mask & space.useful))
        for kind, asked in enumerate(space.types):
            held = sum(space.capacity(kind, node) for node in nodes if asked.usable >> node & 1)
            vector[kind] -= max(0, held - shared_node.holds(asked.request, asked.ports))
        for resource, amount in enumerate(shared_node.free):
            there = sum(max(0, space.free[node][resource]) for node in nodes)
            vector[len(space.types) + resource] -= max(0, there - max(0, amount))

    def could_hold(self, part: Part, mask: int) -> bool:
        return all(want <= have for want, have in zip(self.demand(part), self.supply(mask), strict=True))

    def hold_together(self, parts: Iterable[Part], mask: int) -> bool:
        """Whether a mask could hold all these parts at once."""
        demands = [self.demand(part) for part in parts]
        return all(
            sum(wants) <= have for wants, have in zip(zip(*demands, strict=True), self.supply(mask), strict=True)
        )

    def is_useful(self, part: Part, mask: int) -> bool:
        """Whether at least one pod of the part could be placed there."""
        types = len(self.space.types)
        return any(want and have for want, have in zip(self.demand(part)[:types], self.supply(mask), strict=False))
