"""How the scheduler writes: through one door, at a pace, and never on with a result unknown.

Binds go first, for a number of gangs at a time; cleanup and status writes wait for idle times, at most for a while.
Nothing that depends on a write whose result is unknown continues before it is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from kube_apimachinery.clock import Clock, Dice
from spinney.drive.apply.door import Door
from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.informers.shared_caches import catch_up

_CONFIRM_BACKOFF = Backoff(base_s=0.05, cap_s=5.0)
_log = structlog.get_logger(__name__)


class WriteConfirmation:
    """Covers the caches that decisions are based on. `settled` is called when all results are known."""

    def __init__(
        self, client: ApiClient, caches: Sequence[Cache[Any]], dice: Dice, when_confirmed: Callable[[], None]
    ) -> None:
        self._client = client
        self._caches = tuple(caches)
        self._dice = dice
        self._when_confirmed = when_confirmed

    async def confirm_writes(self) -> None:
        """Wait until the caches show the results of everything written so far."""
        attempt = 0
        while True:
            try:
                await catch_up(self._client, self._caches)
                self._when_confirmed()
                return
            except ClientError as error:
                _log.warning("own writes are not settled yet", error=str(error))
            await asyncio.sleep(_CONFIRM_BACKOFF.delay_s(attempt, self._dice))
            attempt += 1


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


@dataclass(frozen=True, slots=True)
class ApiWriter:
    """The way to the API server.

    `confirm_writes` waits until the caches show the results of everything written so far. `quiet` waits for a moment in
    which nothing more urgent is written.
    """

    door: Door
    clock: Clock
    dice: Dice
    confirm_writes: Callable[[], Awaitable[None]]
    quiet: Callable[[], Awaitable[None]] = no_wait
