"""The undo log: the inverse of each change, kept only while a checkpoint is open.

Does not interpret what it undoes: an inverse is a function and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Inverse = tuple[Callable[..., object], tuple[Any, ...]]


class UndoLog:
    """A stack of inverses, and its lengths at the open checkpoints."""

    __slots__ = ("_marks", "entries", "recording")

    def __init__(self) -> None:
        self.entries: list[Inverse] = []
        self.recording = False
        self._marks: list[int] = []

    def record(self, undo: Callable[..., object], *arguments: Any) -> None:
        if self.recording:
            self.entries.append((undo, arguments))

    def checkpoint(self) -> int:
        self._marks.append(len(self.entries))
        self.recording = True
        return len(self._marks)

    def rollback(self, mark: int) -> None:
        """Undo everything since the checkpoint, the last change first, and close it and those nested in it."""
        length = self._length_at(mark)
        entries = self.entries
        while len(entries) > length:
            undo, arguments = entries.pop()
            undo(*arguments)
        self._close(mark)

    def commit(self, mark: int) -> None:
        """Close the checkpoint and those nested in it, keeping the changes; an outer one can still roll them back."""
        self._length_at(mark)
        self._close(mark)

    def _length_at(self, mark: int) -> int:
        if not 1 <= mark <= len(self._marks):
            raise ValueError(f"checkpoint {mark} is not open: {len(self._marks)} are")
        return self._marks[mark - 1]

    def _close(self, mark: int) -> None:
        del self._marks[mark - 1 :]
        if not self._marks:
            self.recording = False
            self.entries.clear()
