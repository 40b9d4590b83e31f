"""An event loop in a thread of its own, for servers that run beside a test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def running(served: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """What the asynchronous context gives, kept open by a loop in another thread while the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(served.__aenter__(), loop).result(20)
        asyncio.run_coroutine_threadsafe(served.__aexit__(None, None, None), loop).result(20)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()
