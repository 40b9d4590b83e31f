"""Whose turn it is to write: so many gangs at a time, binds first; tidying and telling wait for a lull.

Nobody waits for a lull for ever: it is a courtesy, and ends after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

TIDYING_S = 2.0
TELLING_S = 0.25
_QUIET_S = 0.1

StepBack = Callable[[], Awaitable[None]]


class Turns:
    """Turns for so many gangs. A lull is when nobody has one."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._taken = 0
        self._lull = asyncio.Event()
        self._lull.set()
        self._since_s = 0.0

    async def take(self) -> Turn:
        await self._free.acquire()
        self._taken += 1
        self._lull.clear()
        return Turn(self)

    def give_back(self) -> None:
        self._taken -= 1
        self._free.release()
        if not self._taken:
            self._lull.set()
            self._since_s = asyncio.get_running_loop().time()

    async def lull(self, longest_s: float) -> None:
        """Until nobody has a turn, or for so long."""
        if not self._lull.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(longest_s):
                    await self._lull.wait()

    async def quiet(self) -> None:
        """Until nobody has had a turn for a moment: of gangs that come one by one the next may be on its way."""
        await self.lull(TELLING_S)
        left_s = self._since_s + _QUIET_S - asyncio.get_running_loop().time()
        if not self._taken and left_s > 0:
            await asyncio.sleep(left_s)


class Turn:
    """One of them; it may end before the work does."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._over = False

    def end(self) -> None:
        if not self._over:
            self._over = True
            self._turns.give_back()

    async def step_back(self) -> None:
        """What is left to do is not urgent: others first."""
        self.end()
        await self._turns.lull(TIDYING_S)


async def at_once() -> None:
    """Nobody else is waiting."""
