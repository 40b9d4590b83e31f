"""A transport with a client-side rate limit: queries per second with a burst.

Requests wait in first-in, first-out order. Lease requests are exempt: waiting must not cost leadership.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from kube_apimachinery.clock import Clock
from spinney.drive.client.http.transport import Response, Stream, Transport

_LEASES = "/apis/coordination.k8s.io/"


class RateLimitedTransport:
    """Allows `qps` requests per second with bursts of `burst` (at least one)."""

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
        """Reserve the next free time slot; it may be used early by up to the length of a burst."""
        if path.startswith(_LEASES):
            return
        now_s = self._clock.monotonic()
        free_s = max(self._free_s, now_s)
        self._free_s = free_s + self._between_s
        wait_s = free_s - self._ahead_s - now_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)
