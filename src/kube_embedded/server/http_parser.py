"""Requests from the bytes of one connection, in the order they came, with limits on what one may hold.

Never looks at what a request asks for, and never hands over a request that is not whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import httptools

from kube_embedded.base.errors import ApiError, too_large, too_many_requests
from kube_embedded.base.http import HttpRequest
from kube_embedded.requests.bodies import MAX_BODY_BYTES

MAX_HEAD_BYTES = 1024 * 1024
MAX_BODIES_BYTES = 256 * 1024 * 1024
"""All bodies that are being read at one time."""


class MalformedError(Exception):
    """Bytes that are not a request; where the next one begins cannot be told."""


class HeadTooLargeError(Exception):
    """A head that comes to no end."""


@dataclass(slots=True)
class Bodies:
    """What the unfinished bodies of all connections take together."""

    held_bytes: int = 0


@dataclass(slots=True)
class Incoming:
    """A request and how its answer is to be framed. HTTP/1.0 knows no chunks and ends with the connection."""

    request: HttpRequest
    keep_alive: bool
    chunked: bool


class Listener(Protocol):
    """Whoever is told what came, in the middle of a feed."""

    def request_came(self, incoming: Incoming) -> None:
        """A whole request."""
        ...

    def body_awaited(self) -> None:
        """The client sends its body only when it is told to."""
        ...

    def body_refused(self, error: ApiError) -> None:
        """The rest of this body is read over."""
        ...

    def refused_body_ended(self) -> None:
        """There is no more of it to come."""
        ...


class Receiver:
    """Fed by one connection. After a refusal, or a request that asks for the end, it gives no further request."""

    def __init__(self, listener: Listener, bodies: Bodies, loopback: bool) -> None:
        self.in_head = True
        self._listener = listener
        self._bodies = bodies
        self._loopback = loopback
        self._ended = False
        self._head_bytes = 0
        self._size = 0
        self._parser = httptools.HttpRequestParser(self)
        # Bytes after a last request are ignored; without this, the parser would refuse that request because of them.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.on_message_begin()
        self.owing = False
        """Whether bytes came that are not yet a whole request."""

    def feed(self, data: bytes) -> None:
        """Raises what makes the connection useless."""
        if self._ended:
            return
        if self.in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                raise HeadTooLargeError
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._ended = True  # the rest would be in another protocol
        except httptools.HttpParserError as error:
            if not self._ended:
                raise MalformedError(str(error)) from error

    def close(self) -> None:
        """Let go of what is held; the parser too, which points back here."""
        self._ended = True
        self._forget_body()
        del self._parser

    def on_message_begin(self) -> None:
        self.owing = True
        self._url = b""
        self._headers: dict[str, str] = {}
        self._repeated: dict[str, list[str]] | None = None
        self._body: bytes | bytearray = b""
        self._refused = False
        self._trailer_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, raw_name: bytes, raw_value: bytes) -> None:
        if not self.in_head:
            self._skip_trailer(raw_name, raw_value)
            return
        name, value = _name(raw_name), raw_value.decode("latin-1")
        if name in self._headers:
            self._repeat(name, value)
        else:
            self._headers[name] = value

    def on_headers_complete(self) -> None:
        self.in_head = False
        self._head_bytes = 0
        if self._ended:
            return
        headers = self._headers
        self._join_repeated()
        incoming = self._incoming = self._read_head()
        if int(headers.get("content-length", "0")) > MAX_BODY_BYTES:
            self._refuse(too_large(MAX_BODY_BYTES))
        elif "expect" in headers and incoming.chunked and headers["expect"].lower() == "100-continue":
            self._listener.body_awaited()

    def on_body(self, part: bytes) -> None:
        if self._ended or self._refused:
            return
        self._size += len(part)
        self._bodies.held_bytes += len(part)
        if self._size > MAX_BODY_BYTES:
            self._refuse(too_large(MAX_BODY_BYTES))
        elif not self._body:
            self._body = part
        elif self._bodies.held_bytes > MAX_BODIES_BYTES:
            self._refuse(too_many_requests("the server is reading too many request bodies, please try again later"))
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += part

    def on_message_complete(self) -> None:
        self.in_head = True
        if self._ended:
            return
        self.owing = False
        if self._refused:
            self._ended = True
            self._listener.refused_body_ended()
            return
        incoming = self._incoming
        incoming.request.body = bytes(self._body)
        self._forget_body()
        self._ended = not incoming.keep_alive
        self._listener.request_came(incoming)

    def _read_head(self) -> Incoming:
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise ValueError("not a version of HTTP that is spoken here")
        target = httptools.parse_url(self._url)
        if target.path is None:
            raise ValueError("a target without a path")
        path, query = target.path.decode("ascii"), target.query.decode("latin-1") if target.query else ""
        method = parser.get_method().decode("ascii")
        request = HttpRequest(method, path, query, self._headers, b"", None, self._loopback)
        keep_alive = version == "1.1" and parser.should_keep_alive()
        if parser.should_upgrade():
            self._check_upgrade()
            keep_alive = False
        return Incoming(request, keep_alive, version == "1.1")

    def _check_upgrade(self) -> None:
        """A request for another protocol is answered in this one; with a body it is not, for the parser drops it."""
        if "transfer-encoding" in self._headers or int(self._headers.get("content-length", "0")):
            raise ValueError("a body with a request for another protocol")

    def _repeat(self, name: str, value: str) -> None:
        if self._repeated is None:
            self._repeated = {}
        self._repeated.setdefault(name, [self._headers[name]]).append(value)

    def _join_repeated(self) -> None:
        """A header that is sent several times is one value."""
        if self._repeated is not None:
            self._headers |= {name: ",".join(values) for name, values in self._repeated.items()}

    def _skip_trailer(self, name: bytes, value: bytes) -> None:
        self._trailer_bytes += len(name) + len(value)
        if self._trailer_bytes > MAX_HEAD_BYTES:
            raise ValueError("too many trailers")

    def _refuse(self, error: ApiError) -> None:
        self._refused = True
        self._forget_body()
        self._listener.body_refused(error)

    def _forget_body(self) -> None:
        self._bodies.held_bytes -= self._size
        self._size = 0
        self._body = b""


@lru_cache(maxsize=1024)
def _name(raw: bytes) -> str:
    return raw.decode("latin-1").lower()
