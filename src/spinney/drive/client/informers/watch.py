"""List, then watch (a reflector): a state machine written as a table (`step`), and the watcher that drives it.

Never loses a delete: after a gap it lists again and the cache removes objects that no longer exist. Clock and
randomness are injected. Ends only when it is cancelled, whatever the server sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from kube_apimachinery.clock import Dice
from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.codec import Codec
from spinney.drive.client.errors import ClientError, Gone, TransportTimeout, Undecodable, status_error
from spinney.drive.client.informers.cache import Cache, StaleList
from spinney.drive.client.informers.gc_pause import DuringList, Tidy, during_list

# Splits a stream of chunks into pieces of whole lines. Never scans a line twice, and copies only a line that is split
# between chunks.

_LONGEST_LINE = 64 << 20
_PIECE = 64 << 10


class LineBuffer:
    """Holds the unfinished line between chunks."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._tail_size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | memoryview]:
        """Small pieces of whole lines: objects decoded from a piece are applied while still in the CPU cache."""
        start, end = 0, chunk.rfind(b"\n") + 1
        if self._tail and end:
            start = chunk.find(b"\n") + 1
            yield b"".join((*self._tail, chunk[:start]))
            self._tail, self._tail_size = [], 0
        view = memoryview(chunk)
        while start < end:
            cut = end if end - start <= _PIECE else chunk.find(b"\n", start + _PIECE, end) + 1 or end
            yield view[start:cut]
            start = cut
        if end < len(chunk):
            self._keep(chunk[end:])

    def _keep(self, rest: bytes) -> None:
        self._tail.append(rest)
        self._tail_size += len(rest)
        if self._tail_size > _LONGEST_LINE:
            raise Undecodable(f"watch: found a line of over {self._tail_size} bytes, expected at most {_LONGEST_LINE}")


T = TypeVar("T")

_WATCH_S = 240
_WATCH_SPREAD_S = 60
_OVERTIME_S = 30
_ABRUPT_S = 1.0
_BREATH = 128 << 10  # bytes processed before other tasks may run
_STALE_LISTS = 3

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Empty:
    """The cache is empty or has a gap: list."""

    failures: int = 0


@dataclass(frozen=True, slots=True)
class Listed:
    """The cache holds everything up to a version: open a watch from there."""

    version: str
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Watching:
    """A watch is open; the cache holds everything up to a version."""

    version: str
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Complete:
    """The list is complete."""

    version: str


@dataclass(frozen=True, slots=True)
class Opened:
    """The server accepted the watch."""


@dataclass(frozen=True, slots=True)
class Received:
    """Events or a bookmark were received."""

    version: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The server ended the watch, as it does every few minutes; `abrupt`: immediately and without any event."""

    abrupt: bool


@dataclass(frozen=True, slots=True)
class Expired:
    """The version is older than the server's history (410)."""


@dataclass(frozen=True, slots=True)
class Doubted:
    """A caller needs a confirmed cache and the watch delivers nothing in time: list again, without delay."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Any other failure."""

    reason: str


State = Empty | Listed | Watching
Outcome = Complete | Opened | Received | Closed | Expired | Doubted | Failed


def step(state: State, outcome: Outcome) -> State:
    """The transition table. Failures are counted for the backoff; progress resets the count."""
    match state, outcome:
        case Empty(), Complete(version):
            return Listed(version)
        case Empty(failures), Expired() | Failed():
            return Empty(failures + 1)
        case Listed(version, failures), Opened():
            return Watching(version, failures)
        case Listed(version, failures), Failed():
            return Listed(version, failures + 1)
        case Watching(), Received(version):
            return Watching(version)
        case Watching(version, failures), Closed(abrupt):
            return Listed(version, failures + 1 if abrupt else 0)
        case Watching(version, failures), Failed():
            return Listed(version, failures + 1)
        case Listed() | Watching(), Doubted():
            return Empty()
        case Listed(_, failures) | Watching(_, failures), Expired():
            return Empty(failures + 1)
    raise AssertionError(f"{outcome} cannot follow {state}")


_BACKOFF = Backoff(base_s=0.5, cap_s=30.0)


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How long a watcher waits after failures, and what is held back while it lists."""

    backoff: Backoff = _BACKOFF
    during_list: DuringList = during_list


class Watcher(Generic[T]):
    """Keeps one cache up to date. `trouble` is the current problem, empty if there is none."""

    def __init__(
        self,
        client: ApiClient,
        selection: Selection,
        codec: Codec[T],
        cache: Cache[T],
        dice: Dice,
        settings: WatchSettings | None = None,
    ) -> None:
        settings = settings or WatchSettings()
        self.trouble = ""
        self._client = client
        self._selection = selection
        self._about = f"WATCH {selection}"
        self._codec = codec
        self._cache = cache
        self._dice = dice
        self._backoff = settings.backoff
        self._during_list = settings.during_list
        self._stale_lists = 0
        self._doubted = False
        self._watch_end: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Until cancelled."""
        state: State = Empty()
        while True:
            if state.failures:
                await asyncio.sleep(self._backoff.delay_s(state.failures - 1, self._dice))
            state = await self._advance(state)

    def list_again(self) -> None:
        """Replace the cache by a new list; the open watch ends."""
        self._doubted = True
        if self._watch_end is not None and not self._watch_end.expired():
            self._watch_end.reschedule(asyncio.get_running_loop().time())

    async def _advance(self, state: State) -> State:
        match state:
            case Empty():
                self._doubted = False
                return step(state, await self._list())
            case Listed() if self._doubted:
                return step(state, Doubted())
            case Listed():
                return await self._watch(state)
            case Watching():
                raise AssertionError(f"{self._selection}: a watch is left only through step")

    async def _list(self) -> Outcome:
        try:
            with self._during_list() as tidy:
                version = await self._fold_list(tidy)
        except Exception as error:
            return self._failure(error)
        self.trouble = ""
        return Complete(version)

    async def _fold_list(self, tidy: Tidy) -> str:
        version = ""
        async for page in self._client.pages(self._selection, self._codec):
            if page.first:
                self._begin_list(page.version)
            self._cache.fold_page(page.items, page.broken)
            version = page.version
            tidy()
            await asyncio.sleep(0)
        await self._cache.end_list(version)
        return version

    def _begin_list(self, version: str) -> None:
        """A list may be stale once or twice; if it stays older than the cache, the server's history was reset."""
        try:
            self._cache.begin_list(version, renew=self._stale_lists >= _STALE_LISTS)
        except StaleList:
            self._stale_lists += 1
            raise
        self._stale_lists = 0

    async def _watch(self, state: Listed) -> State:
        timeout_s = _WATCH_S + int(_WATCH_SPREAD_S * self._dice.random())
        loop = asyncio.get_running_loop()
        now: State = state
        began, lines = loop.time(), LineBuffer()
        try:
            async with (
                asyncio.timeout(timeout_s + _OVERTIME_S) as self._watch_end,
                self._client.watch(self._selection, state.version, timeout_s) as stream,
            ):
                now = step(now, Opened())
                self.trouble = ""
                unbroken = 0
                async for chunk in stream:
                    for piece in lines.feed(chunk):
                        now = step(now, self._fold_lines(piece))
                        unbroken += len(piece)
                        if unbroken >= _BREATH:
                            unbroken = 0
                            await asyncio.sleep(0)
                abrupt = self._cache.resource_version == state.version and loop.time() - began < _ABRUPT_S
                return step(now, Closed(abrupt))
        except TimeoutError:
            if self._doubted:
                return step(now, Doubted())
            return step(now, self._failure(TransportTimeout(f"{self._about}: silent past its end")))
        except Exception as error:
            return step(now, self._failure(error))
        finally:
            self._watch_end = None

    def _fold_lines(self, lines: bytes | memoryview) -> Received:
        batch = self._codec.events(lines, self._about)
        self._cache.fold(batch.events)
        if batch.broken:
            self._cache.fold_broken(batch.broken)
        if batch.bookmark:
            self._cache.bookmark(batch.bookmark)
        if batch.failure is not None:
            raise status_error(batch.failure, about=self._about)
        return Received(self._cache.resource_version)

    def _failure(self, error: Exception) -> Outcome:
        if isinstance(error, Gone):
            _log.info("watch expired, listing again", resource=str(self._selection))
            return Expired()
        self.trouble = str(error)
        if isinstance(error, ClientError):
            _log.warning("watch failed", resource=str(self._selection), error=str(error))
        else:
            _log.error("watch failed by our own fault", resource=str(self._selection), exc_info=error)
        return Failed(str(error))
