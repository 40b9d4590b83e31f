"""How much searching may be done, counted in steps, so that answers do not depend on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Exhausted(Exception):
    """The budget ended before the search did."""


class StepBudget:
    """A number of steps that are spent one after the other."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise Exhausted

    @contextmanager
    def share(self) -> Iterator[None]:
        """Inside, only half of what is left may be spent, so that something remains for what comes after."""
        kept = self.left // 2
        self.left -= kept
        try:
            yield
        finally:
            self.left = kept + max(0, self.left)
