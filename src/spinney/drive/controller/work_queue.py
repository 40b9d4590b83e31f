"""Work to do, by key: each key once, by one worker at a time, in the order it came.

Holds keys, never events: whoever takes a key looks at the world as it is then. Never loses a key that is added while
it is worked on: it comes again afterwards.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from itertools import count
from typing import Generic, Protocol, TypeVar

from spinney.api.clock import Dice
from spinney.drive.backoff import Backoff

K = TypeVar("K", bound=Hashable)

_SLACK = 1000  # delays that have ended otherwise, kept until they would have ended


class QueueClosed(Exception):
    """No more keys will be handed out."""


class QueueMeter(Protocol):
    """Is told what happens, for metrics."""

    def waiting(self, depth: int) -> None: ...

    def taken(self, waited_s: float) -> None: ...

    def finished(self, worked_s: float) -> None: ...

    def retried(self) -> None: ...


class _NoMeter:
    def waiting(self, depth: int) -> None:
        pass

    def taken(self, waited_s: float) -> None:
        pass

    def finished(self, worked_s: float) -> None:
        pass

    def retried(self) -> None:
        pass


class WorkQueue(Generic[K]):
    """A key is in at most one place: waiting, delayed (and maybe also waiting), or being worked on.

    A delay ends when the key is taken: whoever takes it looks at everything, and says when to look again.
    """

    def __init__(self, dice: Dice, *, backoff: Backoff | None = None, meter: QueueMeter | None = None) -> None:
        self._dice = dice
        self._backoff = backoff or Backoff(base_s=0.01, cap_s=60.0)
        self._meter: QueueMeter = meter or _NoMeter()
        self._ready: deque[K] = deque()
        self._since: dict[K, float] = {}  # waiting keys, and when they came
        self._working: dict[K, float] = {}  # keys being worked on, and since when
        self._again: dict[K, None] = {}  # keys added while being worked on
        self._due: dict[K, float] = {}  # delayed keys, and when they are due
        self._heap: list[tuple[float, int, K]] = []
        self._order = count()
        self._failures: dict[K, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._closed = False

    def __len__(self) -> int:
        """Keys waiting to be taken."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is worked on; delayed keys do not count."""
        return not self._ready and not self._working

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def add(self, key: K) -> None:
        """As soon as a worker is free. A key that waits already keeps its place."""
        if self._closed or key in self._since:
            return
        if key in self._working:
            self._again[key] = None
            return
        self._since[key] = _now()
        self._ready.append(key)
        self._meter.waiting(len(self._ready))
        self._wake_one()

    def add_after(self, key: K, delay_s: float) -> None:
        """After a while. Of several times for one key the earliest counts."""
        if self._closed:
            return
        if delay_s <= 0:
            self.add(key)
            return
        due = _now() + delay_s
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        if len(self._heap) > 2 * len(self._due) + _SLACK:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._set_timer()

    def retry(self, key: K, at_least_s: float = 0.0) -> None:
        """After a delay that grows with each failure of the key."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._meter.retried()
        self.add_after(key, max(at_least_s, self._backoff.delay_s(failures, self._dice)))

    def retry_at_once(self, key: K) -> None:
        """Without delay, but counted as a failure."""
        self._failures[key] = self._failures.get(key, 0) + 1
        self._meter.retried()
        self.add(key)

    def forget(self, key: K) -> None:
        """The key went well: its next failure is its first."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The key that waits longest. `done` must follow. Raises `QueueClosed`."""
        while not self._ready:
            if self._closed:
                raise QueueClosed
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake_one()
                raise
        if self._closed:
            raise QueueClosed
        key = self._ready.popleft()
        self._due.pop(key, None)
        now = _now()
        self._meter.taken(now - self._since.pop(key))
        self._meter.waiting(len(self._ready))
        self._working[key] = now
        return key

    def done(self, key: K) -> None:
        """The worker has finished with the key, well or not."""
        self._meter.finished(_now() - self._working.pop(key))
        if self._again.pop(key, self) is None:
            self.add(key)

    def close(self) -> None:
        """Hand out nothing more; what is being worked on may finish."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._takers:
            self._wake_one()

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _set_timer(self) -> None:
        if self._heap and (self._timer is None or self._heap[0][0] < self._timer_due):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_due = self._heap[0][0]
            self._timer = asyncio.get_running_loop().call_at(self._timer_due, self._release_due)

    def _release_due(self) -> None:
        self._timer = None
        now = _now()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        self._set_timer()


def _now() -> float:
    return asyncio.get_running_loop().time()
