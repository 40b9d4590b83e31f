"""Who has only something to tell lets those pass who have something to make: a status is written once, not in between.

Never for long: nobody waits when the crowd has gone, and nobody longer than a moment while it has not.
"""

from __future__ import annotations

import asyncio

from spinney.drive.client.paths import Key
from spinney.drive.loop.queue import WorkQueue

_CROWD = 16
_LOOK_S = 0.05
_LONGEST_S = 10.0


class Courtesy:
    """Shared by queues whose work is for one purpose."""

    def __init__(self) -> None:
        self._queues: dict[str, WorkQueue[Key]] = {}
        self._waiting: dict[tuple[str, Key], float] = {}
        self._called: set[tuple[str, Key]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def join(self, name: str, queue: WorkQueue[Key]) -> None:
        self._queues[name] = queue

    def lets_pass(self, name: str, key: Key) -> bool:
        """Whether a key is to be left alone for now; it is added to its queue again."""
        who = (name, key)
        if who in self._called or not self._crowded():
            self.done(name, key)
            return False
        self._waiting.setdefault(who, asyncio.get_running_loop().time())
        self._look_later()
        return True

    def done(self, name: str, key: Key) -> None:
        """The key has been attended to."""
        self._waiting.pop((name, key), None)
        self._called.discard((name, key))

    def _crowded(self) -> bool:
        return sum(map(len, self._queues.values())) > _CROWD

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        until = asyncio.get_running_loop().time() - (_LONGEST_S if self._crowded() else 0.0)
        called = [who for who, since in self._waiting.items() if since <= until]
        for who in called:
            del self._waiting[who]
            self._called.add(who)
            self._queues[who[0]].add(who[1])
        if self._waiting:
            self._look_later()
