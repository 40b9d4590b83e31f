"""What looks alike: domains that differ only in their names get equal numbers, so that one of them is tried.

Two domains are alike when a renaming of nodes and domains turns one into the other: free amounts, usable types, ports,
running members and the structure below are the same. Only the first move may use it freely: what is placed tells apart.
"""

from __future__ import annotations

from spinney.core.placement.board import Board, Spot, bits
from spinney.core.placement.parts import Level


class Looks:
    """Signatures of domains of a board. `helps` is False where nothing is told alike: every mask is its own then."""

    def __init__(self, board: Board) -> None:
        self.board = board
        levels = [level for part in board.parts.all for level in (part.required, part.preferred) if level is not None]
        one_tree = len({level.topology for level in levels}) <= 1
        self.helps = one_tree and not any(asked.shared for asked in board.types) and not board.shares
        self._levels: dict[tuple[str, int], dict[int, int]] = {}
        self._interned: dict[object, int] = {}

    def of_domain(self, topology: str, depth: int, mask: int) -> int:
        """A mask that is no whole domain is only like itself."""
        if depth == 0 or not self.helps:
            return -mask
        return self._level_signatures(topology, depth).get(mask, -mask)

    def are_twins(self, one: Spot, other: Spot, level: Level) -> bool:
        """Equal domains under the same parent: leaving one out means leaving the other out as well."""
        if one.path[:-1] != other.path[:-1]:
            return False
        first, second = (self.of_domain(level.topology, level.depth, spot.mask) for spot in (one, other))
        return first == second

    def of_union(self, level: Level, union: int) -> object:
        """Equal for unions that a renaming of equal domains turns into each other."""
        looks: dict[int, object] = {}
        for spot in self.board.spots(level.topology, level.depth):
            if spot.mask & union:
                looks[spot.mask] = self._level_signatures(level.topology, level.depth)[spot.mask]
        outside = union
        for mask in looks:
            outside &= ~mask
        if outside:
            return union
        for depth in range(level.depth - 1, 0, -1):
            above: dict[int, object] = {}
            for spot in self.board.spots(level.topology, depth):
                inside = [look for mask, look in looks.items() if mask & spot.mask]
                if inside:
                    signature = self._level_signatures(level.topology, depth)[spot.mask]
                    above[spot.mask] = self._intern((signature, tuple(sorted(inside, key=repr))))
            looks = above
        return tuple(sorted(looks.values(), key=repr))

    def _level_signatures(self, topology: str, depth: int) -> dict[int, int]:
        """Equal numbers for domains that look the same: free amounts, usable types, ports and the structure below."""
        key = (topology, depth)
        if key in self._levels:
            return self._levels[key]
        levels = len(self.board.inventory.trees[topology].levels)
        below = self._level_signatures(topology, depth + 1) if depth < levels else None
        found: dict[int, int] = {}
        for spot in self.board.spots(topology, depth):
            content: list[object] = []
            loose = spot.mask
            if below is not None:
                for mask, signature in below.items():
                    if mask & spot.mask:
                        content.append((0, signature))
                        loose &= ~mask
            content += [(1, self._node_signature(node)) for node in bits(loose)]
            found[spot.mask] = self._intern(tuple(sorted(content, key=repr)))
        self._levels[key] = found
        return found

    def _node_signature(self, node: int) -> int:
        board = self.board
        usable = tuple(asked.usable >> node & 1 for asked in board.types)
        runs = tuple(sorted(leaf for leaf, nodes in board.running.items() if node in nodes))
        return self._intern((tuple(board.free[node]), usable, tuple(sorted(board.ports[node])), runs))

    def _intern(self, value: object) -> int:
        return self._interned.setdefault(value, len(self._interned))
