"""A command that works in the foreground until it fails or a signal comes, and its logs: one line for each event.

A first signal stops what was started in order; a second one does not wait for anything. Logs go to standard error,
never to standard output, which belongs to what a command was asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Literal

import structlog

from spinney.drive.client.informers.gc_pause import pause_in_this_process

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
"""By the words of a configuration."""

_SHARED: list[structlog.typing.Processor] = [
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
]


def log_to_stderr(level: int = logging.WARNING, form: Literal["json", "text"] = "json") -> None:
    """Our own events, and those of the libraries under us, in one form."""
    renderer = _renderer(form)
    structlog.configure(
        processors=[*_SHARED, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer,
            ],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_SHARED],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _renderer(form: Literal["json", "text"]) -> structlog.typing.Processor:
    if form == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=False)


_asked: list[int] = []
"""Signals that came before the loop could be told of them."""


def on_signal(handler: Callable[[int, Any], Any]) -> None:
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, handler)


def _note(number: int, frame: Any) -> None:
    """While the loop is made an exception could be swallowed in C code: it is noted, and obeyed a moment later."""
    _asked.append(number)


def causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from causes(one)
    else:
        yield error


def _loop_factory() -> Any:
    """uvloop where there is one."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


def run_until_stopped(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the loop of this process until the work ends, fails, or a signal comes.

    The factory is made while a signal may still interrupt; from then on signals are noted, see `_note`. Lists pause the
    garbage collector: whoever works in the foreground keeps caches.
    """
    pause_in_this_process()
    factory = _loop_factory()
    on_signal(_note)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_until_stopped(work()))


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
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
