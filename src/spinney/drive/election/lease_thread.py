"""A thread with an event loop of its own, for work that must run while the main loop is busy: lease renewal, probes.

Never shares a connection with the main loop. The two share only single numbers that one of them writes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from kube_apimachinery.clock import Clock

STUCK_S = 15.0
"""A main loop that has not run for this long is stuck: the leader gives up its lease."""
_BEAT_S = 0.25
_STOP_S = 10.0

T = TypeVar("T")


class Heartbeat:
    """When the main loop last ran."""

    def __init__(self, clock: Clock, stuck_s: float = STUCK_S) -> None:
        self._clock = clock
        self._stuck_s = stuck_s
        self._last = clock.monotonic()

    async def run(self) -> None:
        """On the main loop, until cancelled."""
        while True:
            self._last = self._clock.monotonic()
            await asyncio.sleep(_BEAT_S)

    def stuck(self) -> str:
        """Why the main loop is considered stuck; empty if it runs. May be called from any thread."""
        silent_s = self._clock.monotonic() - self._last
        return f"the main loop has not run for {silent_s:.0f} s" if silent_s > self._stuck_s else ""


class LoopThread:
    """Runs coroutines for another loop. Resources opened in this loop are closed in it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and return its result; cancelled when the caller is cancelled."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        if not self._thread.is_alive():
            self._loop.close()


@asynccontextmanager
async def loop_thread(name: str, *closing: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[LoopThread]:
    """A running thread as a context manager; `closing` is run in it at the end."""
    thread = LoopThread(name)
    thread.start()
    try:
        yield thread
    finally:
        try:
            await thread.run(_ended())
            for close in closing:
                await thread.run(close())
        finally:
            thread.stop()


async def _ended() -> None:
    """Cancel all remaining tasks of the loop and wait for them."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
