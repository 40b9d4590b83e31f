"""Restarts the tasks of a role that fail by a bug of ours: a role ends on purpose, never by accident.

Errors that end a role on purpose pass through: it was cancelled, it lost its leadership, the server refused it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from spinney.drive.client.errors import ClientError

PAUSE_S = 1.0

_log = structlog.get_logger(__name__)


def raise_if_cancelled() -> None:
    """For loops that catch every error: a TaskGroup that is cancelled while one of its tasks fails raises the failure
    and not the cancellation, which would be lost when the failure is caught.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def restart_on_error(task: Callable[[], Awaitable[None]], name: str) -> None:
    """Run the task until it returns, is cancelled or raises a `ClientError`."""
    while True:
        try:
            return await task()
        except ClientError:
            raise
        except Exception as error:
            raise_if_cancelled()
            _log.error("a task failed by our own fault and begins again", task=name, exc_info=error)
            await asyncio.sleep(PAUSE_S)
