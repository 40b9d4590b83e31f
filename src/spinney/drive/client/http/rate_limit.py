"""A transport that sends no more requests than it may: so many in a second, and a few at once.

Requests wait in the order in which they came. Leases are let through: waiting must not cost leadership.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from spinney.api.clock import Clock
from spinney.drive.client.http.transport import Response, Stream, Transport

_LEASES = "/apis/coordination.k8s.io/"


class RateLimitedTransport:
    """`qps` requests in a second, `burst` of them at once (at least one)."""

    def __init__(self, inner: Transport, clock: Clock, qps: float, burst: int) -> None:
        self._inner = inner
        self._clock = clock
        self._between_s = 1.0 / qps
        self._ahead_s = (burst - 1) / qps
        self._free_s = 0.0

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
        await self._turn(path)
        return await self._inner.request(method, path, query=query, headers=headers, body=body, timeout_s=timeout_s)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        await self._turn(path)
        async with self._inner.stream(path, query=query, headers=headers) as stream:
            yield stream

    async def close(self) -> None:
        await self._inner.close()

    async def _turn(self, path: str) -> None:
        """Each request takes the next moment that is free; it may be used early by as much as a burst is long."""
        if path.startswith(_LEASES):
            return
        now_s = self._clock.monotonic()
        free_s = max(self._free_s, now_s)
        self._free_s = free_s + self._between_s
        wait_s = free_s - self._ahead_s - now_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)
