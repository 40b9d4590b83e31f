"""A log of changes, in order, from which derived data is updated on demand.

Readers hold positions, never entries: the log is trimmed without asking them, and a reader that fell behind rebuilds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic, NamedTuple, TypeVar

SlotDomains = Mapping[str, tuple[int, ...]]
"""The domains of a slot: per topology its domain id at depth 1, 2, ...; -1 where it is in none."""

FROM_NOWHERE: SlotDomains = {}
"""The domains of a slot that had no node."""

MOST_TOUCHED = 1 << 16
MOST_MOVED = 1 << 13

T = TypeVar("T")


class TrimmedLog(Generic[T]):
    """A list that drops its oldest entries; positions count from the very first entry."""

    __slots__ = ("entries", "trimmed")

    def __init__(self) -> None:
        self.entries: list[T] = []
        self.trimmed = 0

    def end(self) -> int:
        return self.trimmed + len(self.entries)

    def drop_all_but(self, last: int) -> None:
        surplus = max(0, len(self.entries) - last)
        self.trimmed += surplus
        del self.entries[:surplus]


class SlotMove(NamedTuple):
    """A node of a slot was added, removed or changed in what filters and trees read; `left`: its domains before."""

    slot: int
    left: SlotDomains


class Changes:
    """Two logs: slots whose amounts or node changed, and moves. Every move is in both."""

    __slots__ = ("_keepers", "epoch", "moved", "touch", "touched")

    def __init__(self) -> None:
        self._keepers: list[Callable[[], None]] = []
        self.touched: TrimmedLog[int] = TrimmedLog()
        self.moved: TrimmedLog[SlotMove] = TrimmedLog()
        self.touch = self.touched.entries.append
        """Records that the amounts of a slot changed. A bound `list.append`, because no call is more frequent."""
        self.epoch = 0
        """Increases when a topology is added, removed or changed, which invalidates all domain ids."""

    def before_trim(self, keep_up: Callable[[], None]) -> None:
        """Register a reader that must not fall behind: it is called before entries are dropped."""
        self._keepers.append(keep_up)

    def move(self, slot: int, left: SlotDomains) -> None:
        self.moved.entries.append(SlotMove(slot, left))
        self.touched.entries.append(slot)

    def trim(self) -> None:
        """Drop the older half once a log exceeds its limit."""
        if len(self.touched.entries) > MOST_TOUCHED or len(self.moved.entries) > MOST_MOVED:
            for keep_up in self._keepers:
                keep_up()
            self.touched.drop_all_but(MOST_TOUCHED // 2)
            self.moved.drop_all_but(MOST_MOVED // 2)


class ChangeBatch(NamedTuple):
    """The changes a reader has not seen. `lost`: too many, or already dropped; the reader must rebuild."""

    lost: bool
    moves: Collection[SlotMove] = ()
    slots: Collection[int] = ()


LOST = ChangeBatch(lost=True)


class Cursor:
    """A reader's position in the changes."""

    __slots__ = ("_changes", "_moved", "_touched")

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._touched = -1
        self._moved = -1

    def advance(self, most: int) -> ChangeBatch | None:
        """All changes since the last call, at most `most` slots; None: no changes."""
        touched, moved = self._changes.touched, self._changes.moved
        end = touched.trimmed + len(touched.entries)
        if end == self._touched:
            return None
        start, self._touched = self._touched - touched.trimmed, end
        moves_start, self._moved = self._moved - moved.trimmed, moved.end()
        if start < 0 or moves_start < 0:
            return LOST
        slots: Collection[int] = touched.entries[start:]
        if len(slots) > 8:
            slots = set(slots)
            if len(slots) > most:
                return LOST
        return ChangeBatch(False, moved.entries[moves_start:], slots)
