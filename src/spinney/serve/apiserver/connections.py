"""Connections to clients, with limits on what one may send and on how long it may take.

Never looks at what a request asks for: that is the application's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

MAX_HEAD_BYTES = 1024 * 1024
MAX_PIPELINED = 2_000
"""Requests that may wait on one connection behind the one being answered; no client of Kubernetes sends a second."""
READ_DEADLINE_S = 30.0
"""From the first byte of a request, or from the connection, to the last byte of its body."""
STALL_DEADLINE_S = 60.0
"""How long a client may take nothing of what is ready for it."""
SWEEP_INTERVAL_S = 1.0


class Connection(HttpToolsProtocol):
    """One client's connection, as uvicorn keeps it, and since when it owes us something."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._receiving_since: float | None = self.loop.time()
        self._stalled_since: float | None = None
        self._buffered = 0
        self._in_head = True
        self._head_bytes = 0
        self._field_bytes = 0

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._receiving_since is None and (self.cycle is None or self.cycle.response_complete):
            self._receiving_since = self.loop.time()
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._hang_up(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                return
        super().data_received(data)
        if len(self.pipeline) > MAX_PIPELINED:
            self.pipeline.clear()
            self.transport.abort()

    def on_message_begin(self) -> None:
        self._receiving_since = self.loop.time()
        self._in_head = True
        self._field_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._field_bytes += len(name) + len(value)
        if self._field_bytes > MAX_HEAD_BYTES:  # in trailers: a head is cut before
            raise ValueError("too many header fields")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            raise ValueError("not a version of HTTP that is spoken here")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._receiving_since = None
        self._in_head = True
        super().on_message_complete()

    def check(self, now: float) -> None:
        """End the connection of a client that is too slow in sending or in taking."""
        since = self._receiving_since
        if since is not None and now - since > READ_DEADLINE_S and not self.flow.read_paused:
            self._hang_up(HTTPStatus.REQUEST_TIMEOUT)
        elif self._stalled_s(now) > STALL_DEADLINE_S:
            self.transport.abort()

    def _stalled_s(self, now: float) -> float:
        buffered = self.transport.get_write_buffer_size()
        if not buffered or buffered != self._buffered:
            self._stalled_since = None
        elif self._stalled_since is None:
            self._stalled_since = now
        self._buffered = buffered
        return now - self._stalled_since if self._stalled_since is not None else 0.0

    def _hang_up(self, status: HTTPStatus) -> None:
        """Say why, where nothing was said yet, and close."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(head.encode())
        self.transport.close()


class _Flow(FlowControl):
    """Reads no further while requests wait to be answered: they are all here, with their bodies."""

    def __init__(self, transport: asyncio.Transport, waiting: deque[Any]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


def head_of(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Status line and headers, as they stand on the wire. Names and values must be clean already."""
    return b"".join((STATUS_LINE[status], *(b"%s: %s\r\n" % header for header in headers), b"\r\n"))


def answer_at_once(send: Any, head: bytes, body: bytes) -> bool:
    """Send a whole answer with one write, where nothing stands in its way; whether it was done.

    The usual way takes two messages and two system calls; for small answers that is most of their cost.
    """
    cycle = getattr(send, "__self__", None)
    if not isinstance(cycle, RequestResponseCycle) or cycle.flow.write_paused or cycle.disconnected:
        return False
    if cycle.response_started or not cycle.keep_alive or cycle.scope["method"] == "HEAD":
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(head + body)
    cycle.message_event.set()
    cycle.on_response()
    return True


def drop_stalled(connections: Iterable[Any]) -> None:
    """Part from clients that do not take what is ready for them: a stop cannot wait for them."""
    for connection in list(connections):
        if connection.flow.write_paused:
            connection.transport.abort()


async def sweep(connections: Iterable[Any]) -> None:
    """Look at every connection, again and again, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_INTERVAL_S)
        now = loop.time()
        for connection in list(connections):
            connection.check(now)
