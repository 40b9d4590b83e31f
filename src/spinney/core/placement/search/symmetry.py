"""What looks alike: domains that differ only in their names get equal numbers, so that one of them is tried.

Two domains are alike when a renaming of nodes and domains turns one into the other: free amounts, usable types, ports,
running members and the structure below are the same. Only the first move may use it freely: what is placed tells apart.
"""

from __future__ import annotations

from spinney.core.placement.gang.gang_tree import Level
from spinney.core.placement.search.search_space import DomainMask, SearchSpace, bits


class Symmetry:
    """Signatures of domains of a search space.

    `is_applicable` is False where no two domains are alike: every mask is its own then.
    """

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        levels = [level for part in space.parts.all for level in (part.required, part.preferred) if level is not None]
        one_tree = len({level.topology for level in levels}) <= 1
        self.is_applicable = one_tree and not any(asked.shared for asked in space.types) and not space.shared_nodes
        self._levels: dict[tuple[str, int], dict[int, int]] = {}
        self._interned: dict[object, int] = {}

    def of_domain(self, topology: str, depth: int, mask: int) -> int:
        """A mask that is no whole domain is only like itself."""
        if depth == 0 or not self.is_applicable:
            return -mask
        return self._level_signatures(topology, depth).get(mask, -mask)

    def are_twins(self, one: DomainMask, other: DomainMask, level: Level) -> bool:
        """Equal domains under the same parent: leaving one out means leaving the other out as well."""
        if one.path[:-1] != other.path[:-1]:
            return False
        first, second = (self.of_domain(level.topology, level.depth, domain_mask.mask) for domain_mask in (one, other))
        return first == second

    def of_union(self, level: Level, union: int) -> object:
        """Equal for unions that a renaming of equal domains turns into each other."""
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
        """Equal numbers for domains that look the same: free amounts, usable types, ports and the structure below."""
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
