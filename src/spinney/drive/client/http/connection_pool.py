"""A pool of keep-alive connections to one server, each with at most one request at a time.

Never sends a request twice, and never reuses a connection after an error.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import httptools

from spinney.drive.client.errors import CertificateRefused, NotSent, TransportError
from spinney.drive.client.http.transport import Response

# Limits a client's concurrent requests to what the server answers without queueing them. More of them would not be
# answered sooner; they would only queue ahead of other clients' requests. Pure.

FEWEST = 4
FIRST = 8
ROUND = 32
"""The number of answers between two adjustments of the limit."""
_REMEMBERED = 32
"""The number of rounds until the fastest answer is forgotten: the latency to a server may grow permanently."""
_SHORT_LINE, _LONG_LINE = 3.0, 6.0
"""Our requests that are queued at the server: below the first value the limit grows, above the second it shrinks."""


class AdaptiveConcurrency:
    """`limit` follows the latency of writes: the fastest of a kind is the service time, the rest is queueing."""

    def __init__(self, most: int) -> None:
        self.limit = min(FIRST, most)
        self._most, self._fewest = most, min(FEWEST, most)
        self._fastest_s: dict[str, float] = {}
        self._lately_s: dict[str, float] = {}
        self._waited, self._answers, self._rounds = 0.0, 0, 0
        self._some_had_no_turn = False
        self._kept = 0
        """The limit before a round with minimal concurrency, which measures again how fast the idle server answers."""

    def answered(self, kind: str, took_s: float, none_free: bool) -> None:
        """Record the duration of a write of a kind; `none_free`: whether other requests waited for a free slot."""
        lately_s = self._lately_s[kind] = min(took_s, self._lately_s.get(kind, took_s))
        fastest_s = min(lately_s, self._fastest_s.get(kind, lately_s))
        self._waited += 1 - fastest_s / took_s if took_s > 0 else 0.0
        self._answers += 1
        self._some_had_no_turn |= none_free
        if self._answers >= ROUND:
            self._judge(self.limit * self._waited / self._answers)

    def _judge(self, in_line: float) -> None:
        self._rounds += 1
        if self._kept:
            self.limit, self._kept = self._kept, 0
        elif self._rounds % _REMEMBERED == 0:
            self._fastest_s, self._lately_s = self._lately_s, {}
            self.limit, self._kept = self._fewest, self.limit
        elif in_line > _LONG_LINE:
            self.limit = max(self._fewest, self.limit - 1)
        elif in_line < _SHORT_LINE and self._some_had_no_turn:
            self.limit = min(self._most, self.limit + 1)
        self._waited, self._answers, self._some_had_no_turn = 0.0, 0, False


def kind_of(method: str, target: str) -> str:
    """The class of requests of similar cost: `POST pods`, `POST pods binding`, `PATCH podgangs status`."""
    _, namespaced, rest = target.partition("?")[0].partition("/namespaces/")
    words = rest.split("/")
    return " ".join([method, *words[1:2], *words[3:4]]) if namespaced else method


CONNECT_S = 10.0
KEEP_ALIVE_S = 60.0
_PROBES = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_SELF_INFLATING = 15 + 32
"""zlib's `wbits` for automatic detection of gzip and deflate."""
_TARGET = re.compile(r"[!-~]+")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a server, and the name that its certificate must carry."""

    host: str
    port: int
    authority: str
    tls: ssl.SSLContext | None = None
    tls_name: str | None = None


class Pool:
    """At most `limit` connections, and fewer while the server is slow; requests wait for a free one in order."""

    def __init__(self, place: Endpoint, limit: int) -> None:
        self._place = place
        self._pace = AdaptiveConcurrency(limit)
        self._granted = self._pace.limit
        self._turns = asyncio.Semaphore(self._granted)
        self._idle: deque[_Exchange] = deque()
        self._all: set[_Exchange] = set()
        self._closed = False

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """Any method but HEAD. Raises `NotSent` where nothing left this process, else `TransportError`."""
        content = _content(self._place, method, target, headers, body)
        await self._turns.acquire()
        try:
            exchange = self._kept() or await self._opened()
            began_s = exchange.now_s()
            try:
                response = await exchange.send(content)
            except BaseException:
                exchange.abort()
                raise
            self._keep(exchange)
            if method != "GET":
                self._pace.answered(kind_of(method, target), exchange.now_s() - began_s, self._turns.locked())
        finally:
            self._end_turn()
        return response

    def _end_turn(self) -> None:
        """Release one slot; two where the concurrency limit has grown, none where it has shrunk."""
        for _ in range(1 + self._pace.limit - self._granted):
            self._turns.release()
        self._granted = self._pace.limit

    def close(self) -> None:
        self._closed = True
        for exchange in list(self._all):
            exchange.abort()

    def _kept(self) -> _Exchange | None:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.is_usable:
                return exchange
        return None

    def _keep(self, exchange: _Exchange) -> None:
        """Reuse the most recently used connection first, so that unneeded ones expire."""
        if exchange.is_usable and not self._closed:
            self._idle.append(exchange)
            while exchange.idle_since - self._idle[0].idle_since > KEEP_ALIVE_S:
                self._idle.popleft().abort()

    async def _opened(self) -> _Exchange:
        if self._closed:
            raise NotSent("the transport is closed")
        place, loop = self._place, asyncio.get_running_loop()
        name = (place.tls_name or place.host) if place.tls else None
        try:
            async with asyncio.timeout(CONNECT_S):
                _, exchange = await loop.create_connection(
                    lambda: _Exchange(self._all), place.host, place.port, ssl=place.tls, server_hostname=name
                )
        except ssl.SSLError as error:
            raise CertificateRefused(f"{place.authority}: {error}") from error
        except OSError as error:
            raise NotSent(f"cannot connect to {place.authority}: {error or 'no answer in time'}") from error
        return exchange


class _Exchange(asyncio.Protocol):
    """One connection with at most one request in flight."""

    def __init__(self, members: set[_Exchange]) -> None:
        self._members = members
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Response] | None = None
        self._has_head = False
        self.is_usable = True
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)
        self._members.add(self)
        watch_peer(transport.get_extra_info("socket"))

    def send(self, content: bytes) -> asyncio.Future[Response]:
        self._answer = self._loop.create_future()
        self._transport.write(content)
        return self._answer

    def now_s(self) -> float:
        return self._loop.time()

    def abort(self) -> None:
        self.is_usable = False
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"the server does not speak HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        self._members.discard(self)
        if self._has_head and exc is None and not {"content-length", "transfer-encoding"} & self._headers.keys():
            self._complete()  # the response ends with the connection
        self._fail(f"the server closed the connection: {exc or 'before the answer was whole'}")
        del self._parser

    def on_message_begin(self) -> None:
        if self._answer is None:
            self.abort()  # unsolicited: must not be taken for the next response
        self._has_head = False
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[_lower(name)] = value.decode("utf-8", "surrogateescape")

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            self.is_usable = self._parser.should_keep_alive() and not self._transport.is_closing()
            self._complete()

    def _complete(self) -> None:
        self._has_head = False
        body = b"".join(self._parts)
        if self._headers.get("content-encoding", "identity") != "identity":
            try:
                body = zlib.decompress(body, _SELF_INFLATING)
            except zlib.error as error:
                self._fail(f"the answer cannot be unpacked: {error}")
                return
        answer, self._answer = self._answer, None
        self.idle_since = self._loop.time()
        if answer is not None and not answer.done():
            answer.set_result(Response(self._parser.get_status_code(), self._headers, body))
        if not self.is_usable:
            self._transport.abort()

    def _fail(self, why: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(TransportError(why))
        self.abort()


def _content(place: Endpoint, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    if not _TARGET.fullmatch(target):
        raise NotSent(f"{method} {target!r}: expected a target in ASCII without spaces")
    head = f"{method} {target} HTTP/1.1\r\nhost: {place.authority}\r\n".encode("ascii")
    lines = b"".join([_line(name, value) for name, value in headers.items()])
    if body is None and method == "GET":
        return b"%s%s\r\n" % (head, lines)
    return b"%s%scontent-length: %d\r\n\r\n%s" % (head, lines, len(body or b""), body or b"")


@lru_cache(maxsize=1024)
def _line(name: str, value: str) -> bytes:
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise NotSent(f"header {name!r}: expected a value without control characters")
    return f"{name}: {value}\r\n".encode()


@lru_cache(maxsize=1024)
def _lower(name: bytes) -> str:
    return name.decode("latin-1").lower()


def watch_peer(sock: Any) -> None:
    """Enable TCP keep-alive, so that a peer that vanished silently is noticed and no request waits forever."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
