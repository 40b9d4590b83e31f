"""The transport protocol to an API server: one request, one stream.

Real, in-process and fault-injecting transports are interchangeable. A transport never retries, never interprets a
status code and never follows a redirect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypedDict, Unpack

import msgspec

from spinney.drive.client.errors import NotSent, TransportError, TransportTimeout

__all__ = [
    "NotSent",
    "RequestOptions",
    "Response",
    "Stream",
    "StreamOptions",
    "Transport",
    "TransportError",
    "TransportTimeout",
]


class Response(msgspec.Struct, frozen=True):
    """A complete response; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """A streaming response; header names are lower case."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Raw chunks, split anywhere."""
        ...

    async def read(self) -> bytes:
        """The rest of the body at once; used for error responses."""
        ...


class StreamOptions(TypedDict, total=False):
    """What may be said about a stream beside its path."""

    query: Mapping[str, str] | None
    headers: Mapping[str, str] | None


class RequestOptions(StreamOptions, total=False):
    """What may be said about a request beside method and path."""

    body: bytes | None
    timeout_s: float | None


class Transport(Protocol):
    """Sends requests. Raises `TransportError` (or `TransportTimeout`, or `NotSent`) and nothing else."""

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response: ...

    def stream(self, path: str, **options: Unpack[StreamOptions]) -> AbstractAsyncContextManager[Stream]: ...

    async def close(self) -> None: ...
