"""A command that works in the foreground until it fails or a signal comes.

A first signal stops what was started in order; a second one does not wait for anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

_asked: list[int] = []
"""Signals that came before the loop could be told of them."""


def on_signal(handler: Callable[[int, Any], Any]) -> None:
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, handler)


def note(number: int, frame: Any) -> None:
    """While the loop is made an exception could be swallowed in C code: it is noted, and obeyed a moment later."""
    _asked.append(number)


def causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from causes(one)
    else:
        yield error


def loop_factory() -> Any:
    """uvloop where there is one."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Work until it fails or a signal comes; whatever was started is stopped before this returns."""
    stopping = asyncio.create_task(_stop_signal().wait(), name="stop")
    working = asyncio.create_task(work, name="up")
    await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    working.cancel()
    await asyncio.wait([working])
    if not working.cancelled():
        working.result()


def _stop_signal() -> asyncio.Event:
    """Set by the first signal; a second one does not wait for anything."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopped.is_set():
            os._exit(128 + number)
        stopped.set()

    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stop, one)
    if _asked:
        stopped.set()
    return stopped
