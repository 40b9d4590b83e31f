"""Free amounts as arrays, for counting over all nodes at once.

The inventory's lists are authoritative; the arrays follow them on demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from spinney.core.inventory.change_log import Changes, Cursor

Row = Sequence[int]
Amounts64 = npt.NDArray[np.int64]

LARGEST = 2**63 - 1
FEW = 1 << 14


class FreeArrays:
    """Arrays indexed by (resource, slot) for idle and releasing amounts."""

    __slots__ = ("_cursor", "_idle", "_idle_rows", "_releasing", "_releasing_rows", "_resources")

    def __init__(self, resources: int, idle: Sequence[Row], releasing: Sequence[Row], changes: Changes) -> None:
        self._resources = resources
        self._idle_rows = idle
        self._releasing_rows = releasing
        self._cursor = Cursor(changes)
        self._idle = self._releasing = np.zeros((resources, 0), np.int64)
        changes.before_trim(self.refresh)

    def free(self, resource: int, waiting: bool) -> Amounts64:
        """Free amounts by slot, limited to 63 bits; valid until the next change. Call `refresh` first."""
        slots = len(self._idle_rows)
        idle = self._idle[resource, :slots]
        return idle + np.minimum(self._releasing[resource, :slots], LARGEST - np.maximum(idle, 0)) if waiting else idle

    def refresh(self) -> None:
        batch = self._cursor.advance(FEW)
        if batch is None:
            return
        if batch.lost:
            self._idle = _transposed(self._idle_rows, self._resources)
            self._releasing = _transposed(self._releasing_rows, self._resources)
        else:
            self._follow(batch.slots)

    def _follow(self, slots: Iterable[int]) -> None:
        if len(self._idle_rows) > self._idle.shape[1]:
            self._idle = _widened(self._idle, len(self._idle_rows))
            self._releasing = _widened(self._releasing, len(self._idle_rows))
        at = list(slots)
        self._idle[:, at] = _transposed([self._idle_rows[slot] for slot in at], self._resources)
        self._releasing[:, at] = _transposed([self._releasing_rows[slot] for slot in at], self._resources)


def _transposed(rows: Sequence[Row], resources: int) -> Amounts64:
    try:
        table = np.array(rows, np.int64)
    except OverflowError:
        table = np.array([[max(-LARGEST, min(LARGEST, amount)) for amount in row] for row in rows], np.int64)
    return np.ascontiguousarray(table.reshape(len(rows), resources).T)


def _widened(table: Amounts64, slots: int) -> Amounts64:
    wider = np.zeros((table.shape[0], slots + slots // 16 + 8), np.int64)
    wider[:, : table.shape[1]] = table
    return wider
