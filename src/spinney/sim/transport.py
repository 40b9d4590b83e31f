"""The in-process transport: a client's request is a call of the embedded server's one entry, with an identity.

It adds no fault, no delay and no retry of its own. Timeouts are not kept: a call in process cannot be lost, and the
server bounds its own call-outs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Protocol
from urllib.parse import urlencode

from kube_embedded.base.http import HttpReply, HttpRequest
from kube_embedded.base.identity import Identity
from spinney.drive.client.http.transport import Response, Stream, TransportError

_NO_HEADERS: Mapping[str, str] = {}


class Handler(Protocol):
    """The one entry of the server."""

    async def handle(self, request: HttpRequest) -> HttpReply: ...


class InProcessTransport:
    """Carries requests to a server in the same process, as `identity`."""

    def __init__(self, server: Handler, identity: Identity) -> None:
        self._server = server
        self._identity = identity

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        reply = await self._server.handle(
            HttpRequest(method, path, _raw(query), _lower(headers), body or b"", self._identity)
        )
        if reply.stream is not None:
            raise TransportError(f"{method} {path}: found a stream, expected one answer")
        return Response(reply.status, _headers(reply), reply.body)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        reply = await self._server.handle(HttpRequest("GET", path, _raw(query), _lower(headers), b"", self._identity))
        stream = _Stream(reply)
        try:
            yield stream
        finally:
            await stream.close()

    async def close(self) -> None:
        """Nothing is held."""


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
