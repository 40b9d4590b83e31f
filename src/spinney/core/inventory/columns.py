"""What filters look at, by slot, as small numbers: the condition of the node and the values of single labels.

Numbers are given in the order values are met and mean nothing outside their column; 0 is the slot without a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import Node, Taint
from spinney.core.inventory.changes import Changes

Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Nodes = Sequence[Node | None]
Condition = tuple[tuple[Taint, ...], bool, bool]
Reader = Callable[[Iterable[Node | None]], Iterable[Any]]

PATIENCE = 4096
"""Moves that are followed one by one; beyond that, starting over is quicker."""


class Column:
    """One number per slot for what `read` finds on its node; it is asked for many nodes at a time."""

    __slots__ = ("_changes", "_codes", "_nodes", "_read", "_seen", "numbers")

    def __init__(self, nodes: Nodes, changes: Changes, read: Reader) -> None:
        self._nodes = nodes
        self._changes = changes
        self._read = read
        self._seen = -1
        self.numbers: dict[Any, int] = {}

    def codes(self) -> Codes:
        moved = self._changes.moved
        start = self._seen - moved.trimmed
        if self._seen < 0 or start < 0 or len(moved.entries) - start > PATIENCE:
            self.numbers = {None: 0}
            self._codes = np.array(self._number(self._nodes), np.int32)
        else:
            self._follow(sorted({move.slot for move in moved.entries[start:]}))
        self._seen = moved.end()
        return self._codes

    def select(self, wanted: Iterable[Any]) -> Flags:
        """Slots with one of these values."""
        codes = self.codes()
        table = np.zeros(len(self.numbers), np.bool_)
        for value in wanted:
            number = self.numbers.get(value)
            if number is not None:
                table[number] = True
        return table[codes]

    def judge(self, verdict: Callable[[Any], bool]) -> Flags:
        """Slots whose value passes; a slot without one is judged by None."""
        codes = self.codes()
        return np.array([verdict(value) for value in self.numbers], np.bool_)[codes]

    def _follow(self, slots: Sequence[int]) -> None:
        missing = len(self._nodes) - len(self._codes)
        if missing:
            self._codes = np.concatenate((self._codes, np.zeros(missing, np.int32)))
        for slot, code in zip(slots, self._number([self._nodes[slot] for slot in slots]), strict=True):
            self._codes[slot] = code

    def _number(self, nodes: Iterable[Node | None]) -> list[int]:
        numbers = self.numbers
        return [numbers.setdefault(value, len(numbers)) for value in self._read(nodes)]


def read_conditions(nodes: Iterable[Node | None]) -> Iterable[Condition | None]:
    """Taints, cordon and readiness; few nodes differ in them. None: pods do not go there, but perhaps to its zones.

    Lazily: so many tuples at once wake the collector.
    """
    return (
        None if node is None or (node.zones and node.is_divided) else (node.taints, node.unschedulable, node.ready)
        for node in nodes
    )


def read_label(key: str) -> Reader:
    def read(nodes: Iterable[Node | None]) -> Iterable[str | None]:
        return [None if node is None else node.labels.get(key) for node in nodes]

    return read
