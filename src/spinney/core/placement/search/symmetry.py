"""Symmetry classes: domains that differ only in their names get equal numbers, so that only one of them is tried.

Two domains are equivalent when a renaming of nodes and domains turns one into the other: free amounts, usable types,
ports, running members and the structure below are the same. Only the first assignment may use this freely, because
placed pods break the symmetry.
"""

from __future__ import annotations

from spinney.core.placement.gang.gang_tree import Level
from spinney.core.placement.search.search_space import DomainMask, SearchSpace, bits


class Symmetry:
    """Signatures of the domains of a search space.

    `is_applicable` is False where no two domains can be treated as equivalent; every mask is then its own class.
    """

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        levels = [level for part in space.parts.all for level in (part.required, part.preferred) if level is not None]
        one_tree = len({level.topology for level in levels}) <= 1
        self.is_applicable = one_tree and not any(asked.shared for asked in space.types) and not space.shared_nodes
        self._levels: dict[tuple[str, int], dict[int, int]] = {}
        self._interned: dict[object, int] = {}

    def of_domain(self, topology: str, depth: int, mask: int) -> int:
        """The class of a mask; a mask that is not a whole domain is equivalent only to itself."""
        if depth == 0 or not self.is_applicable:
            return -mask
        return self._level_signatures(topology, depth).get(mask, -mask)

    def are_twins(self, one: DomainMask, other: DomainMask, level: Level) -> bool:
        """Equivalent domains with the same parent: if one is left out, the other can be left out as well."""
        if one.path[:-1] != other.path[:-1]:
            return False
        first, second = (self.of_domain(level.topology, level.depth, domain_mask.mask) for domain_mask in (one, other))
        return first == second

    def of_union(self, level: Level, union: int) -> object:
        """Equal for unions that a renaming of equivalent domains turns into each other."""
        looks: dict[int, object] = {}
        for domain_mask in self.space.domain_masks(level.topology, level.depth):
            if domain_mask.mask & union:
                looks[domain_mask.mask] = self._level_signatures(level.topology, level.depth)[domain_mask.mask]
        outside = union
        for mask in looks:
            outside &= ~mask
        if outside:
            return union
        for depth in range(level.depth - 1, 0, -1):
            above: dict[int, object] = {}
            for domain_mask in self.space.domain_masks(level.topology, depth):
                inside = [symmetry_class for mask, symmetry_class in looks.items() if mask & domain_mask.mask]
                if inside:
                    signature = self._level_signatures(level.topology, depth)[domain_mask.mask]
                    above[domain_mask.mask] = self._intern((signature, tuple(sorted(inside, key=repr))))
            looks = above
        return tuple(sorted(looks.values(), key=repr))

    def _level_signatures(self, topology: str, depth: int) -> dict[int, int]:
        """Equal numbers for equivalent domains: free amounts, usable types, ports and the structure below."""
        key = (topology, depth)
        if key in self._levels:
            return self._levels[key]
        levels = len(self.space.inventory.trees[topology].levels)
        below = self._level_signatures(topology, depth + 1) if depth < levels else None
        found: dict[int, int] = {}
        for domain_mask in self.space.domain_masks(topology, depth):
            content: list[object] = []
            loose = domain_mask.mask
            if below is not None:
                for mask, signature in below.items():
                    if mask & domain_mask.mask:
                        content.append((0, signature))
                        loose &= ~mask
            content += [(1, self._node_signature(node)) for node in bits(loose)]
            found[domain_mask.mask] = self._intern(tuple(sorted(content, key=repr)))
        self._levels[key] = found
        return found

    def _node_signature(self, node: int) -> int:
        space = self.space
        usable = tuple(asked.usable >> node & 1 for asked in space.types)
        runs = tuple(sorted(leaf for leaf, nodes in space.running.items() if node in nodes))
        return self._intern((tuple(space.free[node]), usable, tuple(sorted(space.ports[node])), runs))

    def _intern(self, value: object) -> int:
        return self._interned.setdefault(value, len(self._interned))
