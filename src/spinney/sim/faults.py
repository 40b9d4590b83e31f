"""A transport that goes wrong on purpose, by seeded dice: every way a network and an API server can fail a client.

Never changes what the server did: a fault is a reply that is lost, late, cut or refused. Every injected fault is
counted and logged with its request, so that a failing seed can be read and replayed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Unpack

import msgspec

from kube_apimachinery.clock import Dice
from spinney.drive.client.http.transport import (
    NotSent,
    RequestOptions,
    Response,
    Stream,
    StreamOptions,
    Transport,
    TransportError,
    TransportTimeout,
)


class Fault(Enum):
    """What can go wrong; the value is the word used in schedules and logs."""

    CONFLICT = "409 on a write"
    EXPIRED = "410 on a watch or a continued list"
    THROTTLED = "429 with Retry-After"
    SERVER_ERROR = "500"
    REFUSED = "connection refused"
    TIMEOUT_BEFORE = "timeout before the commit"
    TIMEOUT_AFTER = "timeout after the commit"
    RESET_AFTER = "connection reset after the commit"
    LATENCY = "a slow request"
    WATCH_CUT = "a watch that ends"
    WATCH_TORN = "a watch that breaks in the middle of a line"
    WATCH_LATE = "a watch whose events come late"


class When(Enum):
    """Where a crash falls, seen from the write."""

    BEFORE = "before the write"
    AFTER = "after the write and its reply"
    UNANSWERED = "after the commit, before the reply"


class Crash(BaseException):
    """The end of the process under test; no handler of errors may survive it, hence not an Exception."""


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """The n-th write, counted from 1."""

    write: int
    when: When


@dataclass(frozen=True, slots=True)
class Schedule:
    """How likely each fault is, per request, watch or chunk (0 to 1), and how large the delays are.

    A fault without a rate has `otherwise`. `only` restricts faults to requests it accepts: (method, path) -> bool.
    """

    rates: Mapping[Fault, float] = field(default_factory=dict)
    otherwise: float = 0.0
    latency_s: float = 0.5
    watch_delay_s: float = 2.0
    retry_after_s: int = 1
    timeout_s: float = 5.0
    crash: CrashPoint | None = None
    only: Callable[[str, str], bool] | None = None


@dataclass(frozen=True, slots=True)
class Injected:
    """One line of the log: the how-manieth request it hit, and what was done to it."""

    request: int
    fault: str
    method: str
    path: str

    def __str__(self) -> str:
        return f"#{self.request} {self.method} {self.path}: {self.fault}"


_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_ANY = (Fault.THROTTLED, Fault.SERVER_ERROR, Fault.REFUSED, Fault.TIMEOUT_BEFORE)
_ON_READ = (*_ANY, Fault.LATENCY)
_ON_WRITE = (Fault.CONFLICT, *_ANY, Fault.TIMEOUT_AFTER, Fault.RESET_AFTER, Fault.LATENCY)
_ON_CONTINUE = (Fault.EXPIRED, *_ON_READ)
_ON_WATCH = (Fault.EXPIRED, *_ANY)
_ON_CHUNK = (Fault.WATCH_CUT, Fault.WATCH_TORN, Fault.WATCH_LATE)


class FaultyTransport:
    """Stands before any transport. `calm()` ends all faults, so that liveness can be asked for."""

    def __init__(self, inner: Transport, dice: Dice, schedule: Schedule | None = None) -> None:
        self._inner = inner
        self._dice = dice
        self.schedule = schedule or Schedule()
        self.log: list[Injected] = []
        self.counts: Counter[Fault | When] = Counter()
        self.requests = 0
        self.writes = 0
        self.crashed = False
        self._calm = False

    def calm(self) -> None:
        """From now on nothing goes wrong any more; a crash that has happened stays one."""
        self._calm = True

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        self._enter()

        async def forward() -> Response:
            return await self._inner.request(method, path, **options)

        if method in _WRITES:
            return await self._write(method, path, forward, options.get("timeout_s"))
        candidates = _ON_CONTINUE if "continue" in (options.get("query") or {}) else _ON_READ
        return await self._meddle(self._draw(candidates, method, path), forward, options.get("timeout_s"))

    @asynccontextmanager
    async def stream(self, path: str, **options: Unpack[StreamOptions]) -> AsyncIterator[Stream]:
        self._enter()
        fault = self._draw(_ON_WATCH, "WATCH", path)
        refusal = await self._refusal(fault, None)
        if fault is Fault.EXPIRED and self._dice.random() < 0.5:
            yield _CannedResponse(200, b'{"type":"ERROR","object":' + _status(410, "Expired", _TOO_OLD) + b"}\n")
        elif refusal is not None:
            yield _CannedResponse(refusal.status, refusal.body, refusal.headers)
        else:
            async with self._inner.stream(path, **options) as inner:
                yield _FaultyStream(inner, self, path)

    async def close(self) -> None:
        await self._inner.close()

    def draw_for_chunk(self, path: str) -> Fault | None:
        """What happens to the next chunk of a watch."""
        self._check_alive()
        return self._draw(_ON_CHUNK, "WATCH", path)

    async def be_late(self) -> None:
        await asyncio.sleep(self.schedule.watch_delay_s * self._dice.random())

    def _enter(self) -> None:
        self._check_alive()
        self.requests += 1

    def _check_alive(self) -> None:
        if self.crashed:
            raise Crash("the process has crashed; it sends nothing any more")

    async def _write(
        self, method: str, path: str, forward: Callable[[], Awaitable[Response]], timeout_s: float | None
    ) -> Response:
        self.writes += 1
        crash = self.schedule.crash
        if crash is not None and crash.write == self.writes and not self._calm:
            return await self._crash(crash.when, method, path, forward)
        return await self._meddle(self._draw(_ON_WRITE, method, path), forward, timeout_s)

    async def _crash(self, when: When, method: str, path: str, forward: Callable[[], Awaitable[Response]]) -> Response:
        self.crashed = True
        self._note(when, method, path)
        if when is When.BEFORE:
            raise Crash(f"before write {self.writes}: {method} {path}")
        response = await forward()
        if when is When.UNANSWERED:
            raise Crash(f"before the reply to write {self.writes}: {method} {path}")
        return response

    async def _meddle(
        self, fault: Fault | None, forward: Callable[[], Awaitable[Response]], timeout_s: float | None
    ) -> Response:
        refusal = await self._refusal(fault, timeout_s)
        if refusal is not None:
            return refusal
        response = await forward()
        if fault is Fault.TIMEOUT_AFTER:
            await self._time_out(timeout_s)
        if fault is Fault.RESET_AFTER:
            raise TransportError("connection reset by peer")
        return response

    async def _refusal(self, fault: Fault | None, timeout_s: float | None) -> Response | None:
        """What stands in place of the server's answer when the request never gets there; None when it does."""
        match fault:
            case Fault.CONFLICT:
                return _refuse(409, "Conflict", _MODIFIED)
            case Fault.EXPIRED:
                return _refuse(410, "Expired", _TOO_OLD)
            case Fault.THROTTLED:
                return _refuse(429, "TooManyRequests", _BUSY, {"retry-after": str(self.schedule.retry_after_s)})
            case Fault.SERVER_ERROR:
                return _refuse(500, "InternalError", "Internal error occurred: injected")
            case Fault.REFUSED:
                raise NotSent("connection refused")
            case Fault.TIMEOUT_BEFORE:
                await self._time_out(timeout_s)
            case Fault.LATENCY:
                await asyncio.sleep(self.schedule.latency_s * self._dice.random())
        return None

    async def _time_out(self, timeout_s: float | None) -> None:
        waited_s = self.schedule.timeout_s if timeout_s is None else min(timeout_s, self.schedule.timeout_s)
        await asyncio.sleep(waited_s)
        raise TransportTimeout(f"no answer within {waited_s:g} s")

    def _draw(self, candidates: tuple[Fault, ...], method: str, path: str) -> Fault | None:
        """At most one fault per occasion; exactly one throw of the dice, so that runs stay aligned."""
        thrown = self._dice.random()
        only = self.schedule.only
        if self._calm or (only is not None and not only(method, path)):
            return None
        for fault in candidates:
            thrown -= self.schedule.rates.get(fault, self.schedule.otherwise)
            if thrown < 0:
                self._note(fault, method, path)
                return fault
        return None

    def _note(self, what: Fault | When, method: str, path: str) -> None:
        self.counts[what] += 1
        self.log.append(Injected(self.requests, what.value, method, path))


class _CannedResponse:
    """A stream that was made up here: one body, then the end."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.headers: Mapping[str, str] = headers or _JSON
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def read(self) -> bytes:
        return self._body


class _FaultyStream:
    """A real stream whose chunks may be late, torn or the last."""

    def __init__(self, inner: Stream, faults: FaultyTransport, path: str) -> None:
        self._inner = inner
        self._faults = faults
        self._path = path

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            match self._faults.draw_for_chunk(self._path):
                case Fault.WATCH_CUT:
                    return
                case Fault.WATCH_TORN:
                    yield chunk[: len(chunk) // 2]
                    raise TransportError("connection reset by peer")
                case Fault.WATCH_LATE:
                    await self._faults.be_late()
            yield chunk

    async def read(self) -> bytes:
        return await self._inner.read()


_JSON = {"content-type": "application/json"}
_MODIFIED = (
    "Operation cannot be fulfilled: the object has been modified; "
    "please apply your changes to the latest version and try again"
)
_TOO_OLD = "The resourceVersion for the provided watch is too old."
_BUSY = "the server has received too many requests and has asked us to try again later"


def _refuse(code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(code, {**_JSON, **(headers or {})}, _status(code, reason, message))


def _status(code: int, reason: str, message: str) -> bytes:
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
    )
