"""Debounces status writes: a key with only status or events to write waits while other keys create or patch objects.

So a status is written once with its final value, not after every intermediate step. Never delays a key for long: keys
are released when the queues are short and nothing was written for `_QUIET_S`, and after `_LONGEST_S` in any case.
"""

from __future__ import annotations

import asyncio

from spinney.drive.client.paths import Key
from spinney.drive.controller.work_queue import WorkQueue

_CROWD = 16
_QUIET_S = 0.15
_LOOK_S = 0.05
_LONGEST_S = 10.0
_LONGEST_WITHOUT_CROWD_S = 2.0


class StatusDebouncer:
    """Shared by the work queues of all controllers of the operator, because their writes trigger each other."""

    def __init__(self) -> None:
        self._queues: dict[str, WorkQueue[Key]] = {}
        self._waiting: dict[tuple[str, Key], float] = {}
        self._called: set[tuple[str, Key]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._made_s = -_QUIET_S

    def join(self, name: str, queue: WorkQueue[Key]) -> None:
        self._queues[name] = queue

    def defers(self, name: str, key: Key, *, passing: bool = False) -> bool:
        """Whether to skip a key for now; it is added to its queue again later.

        With `passing` (it has an event about a transition, which a later look may miss) it is skipped only while the
        queues are crowded, not because something was written a moment ago.
        """
        who = (name, key)
        if who in self._called or not (self._crowded() or (self._busy() and not passing)):
            self.done(name, key)
            return False
        self._waiting.setdefault(who, asyncio.get_running_loop().time())
        self._look_later()
        return True

    def made(self) -> None:
        """Objects have just been written: the reconciles that this triggers may still be on their way."""
        self._made_s = asyncio.get_running_loop().time()

    def done(self, name: str, key: Key) -> None:
        """The key is being reconciled: it no longer waits."""
        self._waiting.pop((name, key), None)
        self._called.discard((name, key))

    def _crowded(self) -> bool:
        return sum(map(len, self._queues.values())) > _CROWD

    def _busy(self) -> bool:
        return asyncio.get_running_loop().time() - self._made_s < _QUIET_S

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        longest_s = _LONGEST_S if self._crowded() else _LONGEST_WITHOUT_CROWD_S if self._busy() else 0.0
        until = asyncio.get_running_loop().time() - longest_s
        called = [who for who, since in self._waiting.items() if since <= until]
        for who in called:
            del self._waiting[who]
            self._called.add(who)
            self._queues[who[0]].add(who[1])
        if self._waiting:
            self._look_later()
