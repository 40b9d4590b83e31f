"""Pages kept up to date: what changed is folded once for all who watch, and each gets what is new on its page.

Without watchers changes are only noted until the cluster is quiet. Never takes more than its share of the processor:
who asks for much waits longer for the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import structlog

from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.page import PageContent, render

_log = structlog.get_logger("dashboard")

GATHER_S = 0.1
QUIET_S = 2.0
KEEP_ALIVE_S = 15.0
MOST_WATCHERS = 64
_SHARE = 3.0
"""How many times its own duration a refresh is followed by a pause."""


class Streams:
    """`run` it while pages are served."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._watchers = 0
        self._watched = asyncio.Event()
        self._turn = asyncio.Event()
        self._ended = False

    @property
    def is_full(self) -> bool:
        return self._watchers >= MOST_WATCHERS

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await self._model.changed_event.wait()
                await self._gather()
                began_s = time.thread_time()
                if await self.refresh():
                    self._next_turn()
                await asyncio.sleep(_SHARE * (time.thread_time() - began_s))
        finally:
            self._ended = True
            self._next_turn()

    async def refresh(self) -> bool:
        """Whether there is something new. A bug of ours is logged and survived: no other work depends on pages."""
        try:
            return await self._model.refresh()
        except Exception as error:
            _log.error("pages failed to follow the cluster by an internal error", exc_info=error)
            await asyncio.sleep(QUIET_S)
            return False

    async def _gather(self) -> None:
        """A moment for those who watch; without them until nothing has happened for a while."""
        if self._watchers:
            await asyncio.sleep(GATHER_S)
            return
        noted = -1
        while noted != self._model.noted and not self._watchers:
            noted = self._model.noted
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._watched.wait(), QUIET_S)

    def _next_turn(self) -> None:
        turn, self._turn = self._turn, asyncio.Event()
        turn.set()

    async def follow(self, page: Callable[[], Awaitable[PageContent]], known: str) -> AsyncIterator[bytes]:
        """What a browser's EventSource reads: `page` with the whole page, `cells` with what is new in its drawing.

        `known`: the mark of what it shows already.
        """
        self._watchers += 1
        self._watched.set()
        try:
            last = _Last(known)
            while not self._ended:
                turn = self._turn
                began_s = time.thread_time()
                message = await last.news(await page())
                took_s = time.thread_time() - began_s + last.cost_s
                if message:
                    yield message
                await asyncio.sleep(_SHARE * took_s)
                try:
                    await asyncio.wait_for(turn.wait(), KEEP_ALIVE_S)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._watched.clear()


class _Last:
    """What a browser has been shown, by its mark; of a drawing also how its cells were filled."""

    def __init__(self, known: str) -> None:
        self.cost_s = 0.0  # of the last text, which was made elsewhere
        self._mark = known
        self._cells: dict[str, Any] = {}

    async def news(self, shown: PageContent) -> bytes:
        """Empty: nothing that this browser does not know."""
        self.cost_s = 0.0
        if shown.frame is not None and shown.frame == self._mark:
            new = {key: value for key, value in shown.cells.items() if self._cells.get(key) != value}
            self._cells = dict(shown.cells)
            return _message("cells", self._mark, json.dumps(new, separators=(",", ":"))) if new else b""
        html, self.cost_s = await asyncio.to_thread(_timed, shown.template, shown.build())
        self._cells = dict(shown.cells)
        before, self._mark = self._mark, mark(shown, html)
        return _message("page", self._mark, html) if self._mark != before else b""


def _timed(template: str, values: dict[str, Any]) -> tuple[str, float]:
    """A page, and what it took of the processor."""
    began_s = time.thread_time()
    return render(template, values), time.thread_time() - began_s


def mark(shown: PageContent, html: str) -> str:
    """Identifies what a browser shows."""
    return shown.frame if shown.frame is not None else hashlib.sha256(html.encode()).hexdigest()[:16]


def _message(event: str, known: str, text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {event}\nid: {known}\n{lines}\n".encode()
