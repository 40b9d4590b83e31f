"""Search budget counted in steps instead of time, so that decisions do not depend on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Exhausted(Exception):
    """The budget ended before the search did."""


class StepBudget:
    """A number of search steps; spending more than is left raises Exhausted."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise Exhausted

    @contextmanager
    def share(self) -> Iterator[None]:
        """Limit the block to half of the remaining steps, so that some are left for what follows."""
        kept = self.left // 2
        self.left -= kept
        try:
            yield
        finally:
            self.left = kept + max(0, self.left)
