"""A record of everything a client asked and was told, so that two runs can be compared byte for byte.

Never changes a request or an answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from kube_apimachinery.clock import Clock
from spinney.drive.client.http.transport import Response, Stream, Transport


class TracingTransport:
    """Writes one line per request, answer and watch chunk: time, what, and a digest of the bytes."""

    def __init__(self, inner: Transport, clock: Clock, name: str = "") -> None:
        self._inner = inner
        self._clock = clock
        self._name = name
        self.lines: list[str] = []

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
        number = self._note(f"{method} {path} {dict(query or {})}", body or b"")
        response = await self._inner.request(method, path, query=query, headers=headers, body=body, timeout_s=timeout_s)
        self._note(f"  #{number} {response.status}", response.body)
        return response

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        number = self._note(f"WATCH {path} {dict(query or {})}", b"")
        async with self._inner.stream(path, query=query, headers=headers) as stream:
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
