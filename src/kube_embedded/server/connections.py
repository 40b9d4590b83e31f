"""Connections to clients: requests are answered one after the other, and nobody may take too long over it.

Never looks at what a request asks for: that is the handler's.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import traceback
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import structlog

from kube_embedded.base.errors import ApiError
from kube_embedded.base.http import HttpReply, HttpRequest, error_reply
from kube_embedded.requests.bodies import MAX_BODY_BYTES
from kube_embedded.server.http_parser import Bodies, HeadTooLargeError, Incoming, MalformedError, Receiver

# Replies as they stand on the wire. Never lets a header through that would begin another one.

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_CLOSE = b"connection: close\r\n"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")


def head_of(reply: HttpReply, keep_alive: bool) -> bytes:
    """The head of a reply that is here as a whole; most are alike but for their length."""
    start = _start(reply.status, reply.content_type)
    if keep_alive and not reply.headers:
        return b"%scontent-length: %d\r\n\r\n" % (start, len(reply.body))
    end = b"" if keep_alive else _CLOSE
    return b"%scontent-length: %d\r\n%s%s\r\n" % (start, len(reply.body), _own(reply), end)


def stream_head(reply: HttpReply, keep_alive: bool, chunked: bool) -> bytes:
    """The head of a reply whose length nobody knows: it ends with the last chunk, or with the connection."""
    end = (b"" if keep_alive else _CLOSE) + (b"transfer-encoding: chunked\r\n" if chunked else b"")
    return b"%s%s%s\r\n" % (_start(reply.status, reply.content_type), _own(reply), end)


def chunk(part: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(part), part)


def final_reply(status: HTTPStatus, text: str = "") -> bytes:
    """A whole answer to what was no request, after which the connection ends."""
    kind = b"content-type: text/plain; charset=utf-8\r\n" if text else b""
    return b"%s%s%scontent-length: %d\r\n\r\n%s" % (
        _status_line(status),
        kind,
        _CLOSE,
        len(text.encode()),
        text.encode(),
    )


@lru_cache(maxsize=256)
def _start(status: int, content_type: str) -> bytes:
    kind = _header("content-type", content_type)
    return _status_line(status) + kind + b"cache-control: no-cache, private\r\n"


def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode("ascii")


def _own(reply: HttpReply) -> bytes:
    return b"".join([_header(name, value) for name, value in reply.headers])


def _header(name: str, value: str) -> bytes:
    raw_name, raw_value = name.lower().encode("latin-1"), value.encode("utf-8")
    if not _NAME.fullmatch(raw_name) or not _VALUE.fullmatch(raw_value):
        raise ValueError(f"header {name!r}: found {value!r}, expected text without control characters")
    return b"%s: %s\r\n" % (raw_name, raw_value)


log = structlog.get_logger("apiserver")

MAX_PIPELINED = 2_000
"""Requests that may wait on one connection behind the one being answered; no client of Kubernetes sends a second."""
READ_DEADLINE_S = 30.0
"""From the first byte of a request, or from the connection, to the last byte of its body."""
STALL_DEADLINE_S = 60.0
"""How long a client may take nothing of what is ready for it."""
IDLE_DEADLINE_S = 120.0
"""How long a connection is kept between two requests."""
SWEEP_INTERVAL_S = 1.0
_SMALL_BYTES = 64 * 1024
_LINGER_BYTES = 2 * MAX_BODY_BYTES
_LINGER_S = 2.0


@dataclass(slots=True)
class ServerState:
    """What the connections to one server share."""

    handle: Callable[[HttpRequest], Coroutine[Any, Any, HttpReply]]
    connections: set[Connection] = field(default_factory=set)
    abandoned: set[asyncio.Task[None]] = field(default_factory=set)
    """Answers whose client has gone: what was asked for is done to its end all the same."""
    bodies: Bodies = field(default_factory=Bodies)


@dataclass(slots=True)
class _End:
    """The last that is said on a connection, once everything before it is answered.

    To linger is to read on a little: a client that is still sending would miss the words if the connection closed.
    """

    words: bytes
    linger: bool
    thrown_away: int = 0


class Connection(asyncio.Protocol):
    """One client's connection. A request is begun when the one before it is answered, however many are here."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[Incoming] = deque()
        self._end: _End | None = None
        self._streaming = False
        self._leaving = False
        self._continue_due = False
        self._read_paused = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._receiving_since: float | None = self._loop.time()
        self._stalled_since = self._loop.time()
        self._buffered = 0
        self._idle_since = self._loop.time()
        self._answered = self._answered_before = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._receiver = Receiver(self, self._state.bodies, _is_loopback(transport.get_extra_info("peername")))
        self._state.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set_result(None)
        self._state.connections.discard(self)
        self._waiting.clear()
        self._receiver.close()
        self._writable.set()
        if self._task is not None:
            self._state.abandoned.add(self._task)
            self._task.add_done_callback(self._state.abandoned.discard)
            if self._streaming:
                self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing() or (self._end is not None and not self._reads_on(self._end, len(data))):
            return
        receiver = self._receiver
        if self._task is None:
            receiver.owing = True
        try:
            receiver.feed(data)
        except MalformedError:
            self._end_with(final_reply(HTTPStatus.BAD_REQUEST, "Invalid HTTP request received."))
        except HeadTooLargeError:
            self._end_with(final_reply(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        if not receiver.owing:
            self._receiving_since = None
        elif self._receiving_since is None:
            self._receiving_since = self._loop.time()

    def request_came(self, incoming: Incoming) -> None:
        self._receiving_since = None
        self._continue_due = False
        if self._task is None:
            self._task = self._loop.create_task(self._answer(incoming))
            return
        self._waiting.append(incoming)
        self._pause_reading()
        if len(self._waiting) > MAX_PIPELINED:
            self._waiting.clear()
            self._transport.abort()

    def body_awaited(self) -> None:
        if self._task is None:
            self._transport.write(CONTINUE)
        else:
            self._continue_due = True

    def body_refused(self, error: ApiError) -> None:
        reply = error_reply(error)
        self._end_with(head_of(reply, keep_alive=False) + reply.body, linger=True)

    def refused_body_ended(self) -> None:
        if self._end is not None:
            self._end.linger = False
        if self._task is None:
            self._transport.close()

    def leave(self) -> None:
        """The server stops: say what is being said to its end and close. Watches end as when their time is over."""
        self._leaving = True
        if self._streaming and self._task is not None:
            self._task.cancel()
        elif self._task is None and self._receiver.in_head:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    @property
    def is_stalled(self) -> bool:
        return not self._writable.is_set()

    def check(self, now: float) -> None:
        """End the connection of a client that is too slow in sending, in taking, or in asking for more."""
        since = self._receiving_since
        if since is not None and now - since > READ_DEADLINE_S and self._end is None and not self._read_paused:
            self._end_with(final_reply(HTTPStatus.REQUEST_TIMEOUT))
        elif self._stalled_s(now) > STALL_DEADLINE_S:
            self._transport.abort()
        elif self._idle_s(now) > IDLE_DEADLINE_S:
            self._transport.close()

    async def _answer(self, incoming: Incoming) -> None:
        try:
            reply = await self._state.handle(incoming.request)
            if not self._writable.is_set():
                await self._writable.wait()
            if reply.stream is None:
                self._send(reply, incoming)
            else:
                await self._stream(reply, reply.stream, incoming)
        except Exception:
            self._admit_fault(incoming.request)
            self._waiting.clear()
            self._end = _End(final_reply(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal Server Error"), linger=False)
        self._task = None
        self._answered += 1
        if not self._transport.is_closing():
            self._proceed(incoming)

    def _send(self, reply: HttpReply, incoming: Incoming) -> None:
        head, body = head_of(reply, incoming.keep_alive and not self._leaving), reply.body
        if incoming.request.method == "HEAD":
            self._write(head)
        elif len(body) <= _SMALL_BYTES:
            self._write(head + body)
        else:
            self._write(head)
            self._write(body)

    async def _stream(self, reply: HttpReply, stream: AsyncIterator[bytes], incoming: Incoming) -> None:
        """Send a watch until it ends, the client goes away or the server stops."""
        has_body = incoming.request.method != "HEAD"
        chunked = has_body and incoming.chunked
        head = stream_head(reply, incoming.keep_alive and not self._leaving, chunked)
        self._streaming = True
        try:
            self._write(head)
            if has_body and not self._leaving:
                await self._pump(stream, chunked)
            if chunked:
                self._write(LAST_CHUNK)
        except Exception:
            self._admit_fault(incoming.request)
            self._transport.close()
        finally:
            self._streaming = False
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def _pump(self, stream: AsyncIterator[bytes], chunked: bool) -> None:
        try:
            async for part in stream:
                if not self._writable.is_set():
                    await self._writable.wait()
                self._write(chunk(part) if chunked else part)
        except asyncio.CancelledError:
            if self.gone.done() or not self._leaving:
                raise

    def _write(self, content: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(content)

    def _proceed(self, answered: Incoming) -> None:
        """On with what waits behind an answer."""
        if self._end is not None and not self._waiting:
            self._write_end(self._end)
        elif self._leaving or not answered.keep_alive:
            self._transport.close()
        elif self._waiting:
            self._task = self._loop.create_task(self._answer(self._waiting.popleft()))
            if not self._waiting and self._end is None:
                self._resume_reading()
        elif self._continue_due:
            self._continue_due = False
            self._transport.write(CONTINUE)

    def _end_with(self, words: bytes, *, linger: bool = False) -> None:
        """Take no more requests. In the midst of a watch there is no place for words."""
        self._end = _End(words, linger)
        if self._streaming:
            self._transport.close()
        elif self._task is None:
            self._write_end(self._end)
        else:
            self._pause_reading()

    def _write_end(self, end: _End) -> None:
        self._write(end.words)
        if end.linger:
            self._resume_reading()
            self._loop.call_later(_LINGER_S, self._transport.close)
        else:
            self._transport.close()

    def _reads_on(self, end: _End, size: int) -> bool:
        end.thrown_away += size
        if end.thrown_away > _LINGER_BYTES:
            self._transport.close()
        return self._task is None and not self._transport.is_closing()

    def _pause_reading(self) -> None:
        if not self._read_paused and not self._transport.is_closing():
            self._read_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._read_paused and not self._transport.is_closing():
            self._read_paused = False
            self._transport.resume_reading()
            if self._receiver.owing:
                self._receiving_since = self._loop.time()

    def _stalled_s(self, now: float) -> float:
        buffered = self._transport.get_write_buffer_size()
        if not buffered or buffered != self._buffered:
            self._stalled_since = now
        self._buffered = buffered
        return now - self._stalled_since

    def _idle_s(self, now: float) -> float:
        if self._task is not None or self._receiving_since is not None or self._answered != self._answered_before:
            self._idle_since = now
        self._answered_before = self._answered
        return now - self._idle_since

    def _admit_fault(self, request: HttpRequest) -> None:
        trace = traceback.format_exc()
        log.error("an answer failed by our own fault", method=request.method, path=request.path, trace=trace)


def _is_loopback(peer: Any) -> bool:
    return isinstance(peer, tuple) and _is_loopback_host(peer[0])


@lru_cache(maxsize=1024)
def _is_loopback_host(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def sweep(connections: Iterable[Connection]) -> None:
    """Look at every connection, again and again, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_INTERVAL_S)
        now = loop.time()
        for connection in list(connections):
            connection.check(now)


async def close_connections(state: ServerState, grace_s: float) -> None:
    """Let every connection come to its end; what takes too long, or takes nothing of what is ready for it, is cut."""
    for connection in list(state.connections):
        if connection.is_stalled:
            connection.abort()
        else:
            connection.leave()
    await _wait_for([*state.abandoned, *(connection.gone for connection in state.connections)], grace_s)
    for connection in list(state.connections):
        connection.abort()
    await _wait_for([connection.gone for connection in state.connections], grace_s)
    for task in list(state.abandoned):
        task.cancel()
    await _wait_for(state.abandoned, grace_s)


async def _wait_for(futures: Iterable[asyncio.Future[None]], timeout_s: float) -> None:
    awaited = list(futures)
    if awaited:
        await asyncio.wait(awaited, timeout=timeout_s)
