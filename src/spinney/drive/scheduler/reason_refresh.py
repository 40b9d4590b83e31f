"""Keeps reasons as new as what they speak of: gangs that wait are decided again when use or fair shares have changed.

Room that may have become free wakes gangs at once, elsewhere; this is about room that others took meanwhile, so that no
reason names a domain that has filled up. At a bounded rate; the longest due first.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable

from spinney.core.scheduling.cycle.scheduling_queue import Retry
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.queues.tree import FairShares
from spinney.drive.client.paths import Key

INTERVAL_S = 5.0
MOST = 20
"""So many gangs are decided again in one interval."""


class ReasonRefresh:
    """`run` until cancelled. `wake` begins a cycle."""

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self._session = session
        self._wake = wake
        self._seen: tuple[int, ...] = ()
        self._outdated: dict[Key, None] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            if self.retry():
                self._wake()

    def retry(self) -> int:
        """Make the next gangs due whose reasons may be outdated; how many."""
        scheduling_queue, seen = self._session.scheduling_queue, self._in_use()
        if seen != self._seen:
            self._seen = seen
            self._session.placement.forget_reasons()
            self._outdated |= dict.fromkeys(sorted(scheduling_queue.pending))
        chosen = [key for key in self._outdated if key in scheduling_queue.pending][:MOST]
        self._outdated = {key: None for key in self._outdated if key in scheduling_queue.pending and key not in chosen}
        for key in chosen:
            scheduling_queue.apply(scheduling_queue.entries[key], Retry())
        return len(chosen)

    def _in_use(self) -> tuple[int, ...]:
        """Checksums of what is free on all nodes, by resource, and of the fair shares of queues."""
        inventory = self._session.cluster.inventory
        inventory.free_arrays.refresh()
        free = (inventory.free_arrays.free(at, False) for at in range(len(inventory.resources)))
        return *(zlib.crc32(amounts.tobytes()) for amounts in free), zlib.crc32(repr(self._shares()).encode())

    def _shares(self) -> FairShares:
        return self._session.queue_accounting.queues.fair_shares(self._session.cluster.capacity)
