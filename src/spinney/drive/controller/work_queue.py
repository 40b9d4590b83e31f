"""A work queue of keys as in client-go: each key once, handled by one worker at a time, first in first out.

Holds keys, never events: the worker that takes a key reads the current state. A key that is added while it is being
processed is never lost: it is queued again afterwards.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from itertools import count
from typing import Generic, Protocol, TypeVar

from kube_apimachinery.clock import Dice
from spinney.drive.backoff import Backoff

K = TypeVar("K", bound=Hashable)

_SLACK = 1000  # superseded delays that may stay in the heap before it is rebuilt


class QueueClosed(Exception):
    """The queue is closed: it hands out no more keys."""


class QueueMeter(Protocol):
    """Receives queue measurements, for metrics."""

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
    """A key is in at most one state: ready, delayed (and maybe also ready), or being processed.

    Taking a key cancels its delay: the worker reconciles everything about the key and returns the next requeue time.
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
        """The number of keys that are ready to be taken."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether no key is ready or being processed; delayed keys do not count."""
        return not self._ready and not self._working

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def add(self, key: K) -> None:
        """Queue the key for the next free worker. A key that is queued already keeps its position."""
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
        """Queue the key after a delay. Of several delays for one key the earliest applies."""
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
        """Queue the key after a backoff that grows with each failure of the key, at least `at_least_s`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._meter.retried()
        self.add_after(key, max(at_least_s, self._backoff.delay_s(failures, self._dice)))

    def retry_at_once(self, key: K) -> None:
        """Queue the key without delay, but count a failure."""
        self._failures[key] = self._failures.get(key, 0) + 1
        self._meter.retried()
        self.add(key)

    def forget(self, key: K) -> None:
        """The key succeeded: reset its failure count and so its backoff."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Take the key that has waited longest; the caller must call `done`. Raises `QueueClosed`."""
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
        """The worker has finished with the key, successfully or not."""
        self._meter.finished(_now() - self._working.pop(key))
        if self._again.pop(key, self) is None:
            self.add(key)

    def close(self) -> None:
        """Hand out no more keys; keys being processed may finish."""
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
