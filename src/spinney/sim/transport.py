"""Transports of a simulation: calls of the embedded server's one entry, with an identity; and a trace of them.

Adds no fault, no delay and no retry of its own. Timeouts are not kept: a call in process cannot be lost, and the server
bounds its own call-outs.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Protocol, Unpack
from urllib.parse import urlencode

from kube_apimachinery.clock import Clock
from kube_embedded.base.http import HttpReply, HttpRequest
from kube_embedded.base.identity import Identity
from spinney.drive.client.http.transport import (
    RequestOptions,
    Response,
    Stream,
    StreamOptions,
    Transport,
    TransportError,
)


class TracingTransport:
    """Writes one line per request, answer and watch chunk: time, what, and a digest of the bytes."""

    def __init__(self, inner: Transport, clock: Clock, name: str = "") -> None:
        self._inner = inner
        self._clock = clock
        self._name = name
        self.lines: list[str] = []

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        number = self._note(f"{method} {path} {dict(options.get('query') or {})}", options.get("body") or b"")
        response = await self._inner.request(method, path, **options)
        self._note(f"  #{number} {response.status}", response.body)
        return response

    @asynccontextmanager
    async def stream(self, path: str, **options: Unpack[StreamOptions]) -> AsyncIterator[Stream]:
        number = self._note(f"WATCH {path} {dict(options.get('query') or {})}", b"")
        async with self._inner.stream(path, **options) as stream:
            yield _Traced(stream, self, number)

    async def close(self) -> None:
        await self._inner.close()

    def note_chunk(self, number: int, chunk: bytes) -> None:
        self._note(f"  #{number} chunk", chunk)

    def _note(self, what: str, content: bytes) -> int:
        digest = hashlib.sha256(content).hexdigest()[:16]
        self.lines.append(f"{self._clock.monotonic():.6f} {self._name} {what} {len(content)} {digest}")
        return len(self.lines)


class _Traced:
    def __init__(self, inner: Stream, trace: TracingTransport, number: int) -> None:
        self._inner = inner
        self._trace = trace
        self._number = number

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._trace.note_chunk(self._number, chunk)
            yield chunk

    async def read(self) -> bytes:
        return await self._inner.read()


_NO_HEADERS: Mapping[str, str] = {}


class Handler(Protocol):
    """The one entry of the server."""

    async def handle(self, request: HttpRequest) -> HttpReply: ...


class InProcessTransport:
    """Carries requests to a server in the same process, as `identity`."""

    def __init__(self, server: Handler, identity: Identity) -> None:
        self._server = server
        self._identity = identity

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        reply = await self._ask(method, path, options.get("body") or b"", options)
        if reply.stream is not None:
            raise TransportError(f"{method} {path}: found a stream, expected one answer")
        return Response(reply.status, _headers(reply), reply.body)

    @asynccontextmanager
    async def stream(self, path: str, **options: Unpack[StreamOptions]) -> AsyncIterator[Stream]:
        reply = await self._ask("GET", path, b"", options)
        stream = _Stream(reply)
        try:
            yield stream
        finally:
            await stream.close()

    async def close(self) -> None:
        """Nothing is held."""

    async def _ask(self, method: str, path: str, body: bytes, options: StreamOptions) -> HttpReply:
        query, headers = _raw(options.get("query")), _lower(options.get("headers"))
        return await self._server.handle(HttpRequest(method, path, query, headers, body, self._identity))


class _Stream:
    def __init__(self, reply: HttpReply) -> None:
        self.status = reply.status
        self.headers = _headers(reply)
        self._reply = reply

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._reply.stream is None:
            yield self._reply.body
            return
        async for chunk in self._reply.stream:
            yield chunk

    async def read(self) -> bytes:
        if self._reply.stream is None:
            return self._reply.body
        return b"".join([chunk async for chunk in self._reply.stream])

    async def close(self) -> None:
        aclose = getattr(self._reply.stream, "aclose", None)
        if aclose is not None:
            await aclose()


def _raw(query: Mapping[str, str] | None) -> str:
    return _encode(tuple(query.items())) if query else ""


def _lower(headers: Mapping[str, str] | None) -> Mapping[str, str]:
    return _lowered(tuple(headers.items())) if headers else _NO_HEADERS


@lru_cache(maxsize=1024)
def _encode(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query)


@lru_cache(maxsize=1024)
def _lowered(headers: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers}


def _headers(reply: HttpReply) -> dict[str, str]:
    headers = {"content-type": reply.content_type}
    if reply.headers:
        headers |= {name.lower(): value for name, value in reply.headers}
    return headers
