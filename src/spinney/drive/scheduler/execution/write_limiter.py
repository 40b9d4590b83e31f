"""Limits concurrent writes: a number of gangs at a time, binds first; cleanup and status writes wait for idle times.

Waiting for an idle time is best effort: it ends after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

CLEANUP_WAIT_S = 2.0
STATUS_WAIT_S = 0.25
_QUIET_S = 0.1

YieldSlot = Callable[[], Awaitable[None]]


class WriteLimiter:
    """Slots for a number of gangs. It is idle while no slot is taken."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._taken = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._since_s = 0.0

    async def take(self) -> WriteSlot:
        await self._free.acquire()
        self._taken += 1
        self._idle.clear()
        return WriteSlot(self)

    def give_back(self) -> None:
        self._taken -= 1
        self._free.release()
        if not self._taken:
            self._idle.set()
            self._since_s = asyncio.get_running_loop().time()

    async def idle(self, longest_s: float) -> None:
        """Wait until no slot is taken, at most this long."""
        if not self._idle.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(longest_s):
                    await self._idle.wait()

    async def quiet(self) -> None:
        """Wait until no slot was taken for a moment: where gangs arrive one by one, the next may be about to."""
        await self.idle(STATUS_WAIT_S)
        left_s = self._since_s + _QUIET_S - asyncio.get_running_loop().time()
        if not self._taken and left_s > 0:
            await asyncio.sleep(left_s)


class WriteSlot:
    """One slot; it may be returned before the work ends."""

    def __init__(self, write_slots: WriteLimiter) -> None:
        self._write_slots = write_slots
        self._over = False

    def end(self) -> None:
        if not self._over:
            self._over = True
            self._write_slots.give_back()

    async def yield_slot(self) -> None:
        """Return the slot and wait for others: what is left to do is not urgent."""
        self.end()
        await self._write_slots.idle(CLEANUP_WAIT_S)


async def no_wait() -> None:
    """Return at once."""
