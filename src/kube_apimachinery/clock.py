"""The time and the dice, as they are given to everything that needs them.

Nothing in here reads a clock or draws a number: implementations live in the shell and in the simulation.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall-clock time in seconds since the epoch, and a time that never runs backwards."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class Dice(Protocol):
    """The part of `random.Random` that we use; seeded in the simulation."""

    def random(self) -> float: ...

    def getrandbits(self, k: int, /) -> int: ...
