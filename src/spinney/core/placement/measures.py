"""What is asked and what is there as vectors: pods per type, then amounts per resource.

What a mask holds is an upper bound: every type is counted for itself, as if it had the nodes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spinney.core.placement.board import Board, bits
from spinney.core.placement.parts import Part
from spinney.core.placement.shares import Share

Vector = tuple[int, ...]


class Measures:
    """Demands of parts and measures of masks, each worked out once; the board must not change meanwhile."""

    def __init__(self, board: Board, needs: Mapping[int, int], kids: Mapping[int, tuple[int, ...]]) -> None:
        self.board = board
        self.needs = needs
        self.kids = kids
        self._measures: dict[int, Vector] = {}
        self._demands: dict[int, Vector] = {}

    def demand(self, part: Part) -> Vector:
        """What the active pods at or below a part need."""
        known = self._demands.get(part.index)
        if known is not None:
            return known
        board = self.board
        vector = [0] * (len(board.types) + len(board.inventory.resources))
        if part.pods is not None:
            need = self.needs.get(part.index, 0)
            kind = board.type_of[part.index]
            vector[kind] = need
            for resource, amount in board.types[kind].request:
                vector[len(board.types) + resource] = amount * need
        for kid in self.kids.get(part.index, ()):
            for at, amount in enumerate(self.demand(board.parts.all[kid])):
                vector[at] += amount
        self._demands[part.index] = tuple(vector)
        return self._demands[part.index]

    def measure(self, mask: int) -> Vector:
        """Upper bounds of what a mask holds."""
        known = self._measures.get(mask)
        if known is not None:
            return known
        board = self.board
        types = len(board.types)
        vector = [0] * (types + len(board.inventory.resources))
        for node in bits(mask & board.useful):
            for kind in range(types):
                if board.types[kind].usable >> node & 1:
                    vector[kind] += board.capacity(kind, node)
            for resource, amount in enumerate(board.free[node]):
                if amount > 0:
                    vector[types + resource] += amount
        for share in board.shares:
            if (mask & share.mask).bit_count() > 1:
                self._limit(vector, share, mask)
        self._measures[mask] = tuple(vector)
        return self._measures[mask]

    def _limit(self, vector: list[int], share: Share, mask: int) -> None:
        """Zones of one node give no more together than the node has."""
        board = self.board
        nodes = list(bits(share.mask & mask & board.useful))
        for kind, asked in enumerate(board.types):
            held = sum(board.capacity(kind, node) for node in nodes if asked.usable >> node & 1)
            vector[kind] -= max(0, held - share.holds(asked.request, asked.ports))
        for resource, amount in enumerate(share.free):
            there = sum(max(0, board.free[node][resource]) for node in nodes)
            vector[len(board.types) + resource] -= max(0, there - max(0, amount))

    def could_hold(self, part: Part, mask: int) -> bool:
        return all(want <= have for want, have in zip(self.demand(part), self.measure(mask), strict=True))

    def hold_together(self, parts: Iterable[Part], mask: int) -> bool:
        """Whether a mask could hold all these parts at once."""
        demands = [self.demand(part) for part in parts]
        return all(
            sum(wants) <= have for wants, have in zip(zip(*demands, strict=True), self.measure(mask), strict=True)
        )

    def is_useful(self, part: Part, mask: int) -> bool:
        """Whether at least one pod of the part could go there."""
        types = len(self.board.types)
        return any(want and have for want, have in zip(self.demand(part)[:types], self.measure(mask), strict=False))
