"""One amount per slot and its sums per domain.

Does not know what the amounts mean, nor when they change: the owner calls `update` and `vacate`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spinney.core.inventory.change_log import SlotMove
from spinney.core.inventory.trees import Tree

Amounts64 = npt.NDArray[np.int64]


class _Level:
    """The sums at one depth of one tree. The buffer exceeds the domains: index -1 collects slots in no domain."""

    __slots__ = ("buffer", "depth", "ids", "sums", "topology", "tree", "view")

    def __init__(self, tree: Tree, depth: int, sums: Amounts64) -> None:
        self.tree = tree
        self.topology = tree.topology.name
        self.depth = depth
        self.ids = tree.domain_of(depth)
        self.reserve(sums)

    def reserve(self, sums: Amounts64) -> None:
        self.sums = np.zeros(len(sums) + len(sums) // 16 + 8, np.int64)
        self.sums[: len(sums)] = sums
        self.buffer = memoryview(self.sums)  # type: ignore[arg-type]
        self.show()

    def show(self) -> None:
        """Extend the view to the number of domains in the tree."""
        domains = self.tree.domains(self.depth)
        if domains >= len(self.sums):
            self.reserve(np.concatenate((self.sums[:-1], np.zeros(domains - len(self.sums) + 1, np.int64))))
            return
        self.view = self.sums[:domains]
        self.view.flags.writeable = False


class DomainSums:
    """`amounts` by slot, their `total`, and sums by domain; a level is summed when first asked for, then maintained."""

    __slots__ = ("_buffer", "_hot", "_kind", "_levels", "_store", "amounts", "total")

    def __init__(self, kind: type[np.int32] | type[np.int64]) -> None:
        self._kind = kind
        self._levels: dict[tuple[str, int], _Level] = {}
        self._hot: list[tuple[list[int], Any]] = []
        self.load(np.zeros(0, kind))

    def load(self, amounts: npt.NDArray[Any]) -> None:
        """Replace all amounts and drop all levels."""
        self.forget_levels()
        self._store = np.zeros(len(amounts) + len(amounts) // 16 + 8, self._kind)
        self._store[: len(amounts)] = amounts
        self._buffer: Any = memoryview(self._store)  # type: ignore[arg-type]
        self.total = int(amounts.sum(dtype=np.int64))
        self._show(len(amounts))

    def forget_levels(self) -> None:
        """Drop all levels, because domain ids became invalid."""
        self._levels.clear()
        self._hot.clear()

    def at(self, topology: str, depth: int) -> Amounts64 | None:
        """Sums by domain id; None: the level has not been added. Depth 0 is the cluster."""
        if depth == 0:
            return np.array([self.total], np.int64)
        level = self._levels.get((topology, depth))
        return None if level is None else level.view

    def add_level(self, tree: Tree, depth: int) -> Amounts64:
        """Sum by domain; the amounts must match the tree as it is now."""
        level = _Level(tree, depth, _sum(self.amounts, tree, depth))
        self._levels[level.topology, depth] = level
        self._hot.append((level.ids, level.buffer))
        return level.view

    def vacate(self, moves: Iterable[SlotMove], slots: int) -> None:
        """Subtract the amounts of moved slots from the domains they left; slots and domains may have been added."""
        buffer = self._buffer
        for slot, left in moves:
            amount = buffer[slot] if slot < len(buffer) else 0
            if amount:
                buffer[slot] = 0
                self.total -= amount
                self._withdraw(amount, left)
        for level in self._levels.values():
            level.show()
        self._hot[:] = [(level.ids, level.buffer) for level in self._levels.values()]
        self._resize(slots)

    def update(self, slots: Collection[int], amount: Callable[[int], int]) -> None:
        """Recompute the amounts of these slots."""
        buffer, hot, gained = self._buffer, self._hot, 0
        for slot in slots:
            found = amount(slot)
            gain = found - buffer[slot]
            if gain:
                buffer[slot] = found
                gained += gain
                for ids, sums in hot:
                    sums[ids[slot]] += gain
        self.total += gained

    def _withdraw(self, amount: int, left: Mapping[str, tuple[int, ...]]) -> None:
        for level in self._levels.values():
            level.buffer[left[level.topology][level.depth - 1]] -= amount

    def _resize(self, slots: int) -> None:
        if slots > len(self._store):
            grown = np.zeros(slots + slots // 16 + 8, self._kind)
            grown[: len(self._store)] = self._store
            self._store = grown
            self._buffer = memoryview(grown)  # type: ignore[arg-type]
        self._show(slots)

    def _show(self, slots: int) -> None:
        self.amounts: npt.NDArray[Any] = self._store[:slots]
        self.amounts.flags.writeable = False


def _sum(amounts: npt.NDArray[Any], tree: Tree, depth: int) -> Amounts64:
    """Sum by domain in integers: floats would lose bytes."""
    sums = np.zeros(tree.domains(depth) + 1, np.int64)
    np.add.at(sums, tree.domain_array(depth), amounts.astype(np.int64, copy=False))
    return sums[:-1]
