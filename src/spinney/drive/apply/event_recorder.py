"""Writes events about applied changes in the background: reconciling never waits for them.

Best effort: the rate is limited, and an event that has waited longer than `_OLD_S` is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog

from kube_apimachinery.clock import Clock
from spinney.api.changes import EmitEvent

_PAUSE_S = 0.04
_OLD_S = 2.0
_MOST = 256

_log = structlog.get_logger(__name__)


class EventRecorder:
    """Start it with `run`; events recorded before or while it runs are written."""

    def __init__(self, write: Callable[[EmitEvent], Awaitable[Any]], clock: Clock) -> None:
        self._tell = write
        self._clock = clock
        self._waiting: deque[tuple[float, EmitEvent]] = deque(maxlen=_MOST)
        self._said = asyncio.Event()

    def record(self, notices: Iterable[EmitEvent]) -> None:
        """Queue events; they are written soon or dropped."""
        for notice in notices:
            self._waiting.append((self._clock.monotonic(), notice))
            self._said.set()

    async def run(self) -> None:
        """Write queued events until cancelled."""
        while True:
            await self._said.wait()
            self._said.clear()
            while self._waiting:
                since_s, notice = self._waiting.popleft()
                if self._clock.monotonic() - since_s <= _OLD_S:
                    await self._told(notice)

    async def _told(self, notice: EmitEvent) -> None:
        try:
            await self._tell(notice)
        except Exception as error:
            _log.info("an event was lost", reason=notice.reason, target=str(notice.target), error=str(error))
        await asyncio.sleep(_PAUSE_S)
