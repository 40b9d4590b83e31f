"""One call to the server with retries where a retry is safe.

Never repeats a call that may have taken effect, unless the caller declares it idempotent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack

import msgspec

from kube_apimachinery.clock import Clock, Dice
from spinney.drive.backoff import Backoff
from spinney.drive.client.errors import CertificateRefused, NotSent, TransportError
from spinney.drive.client.http.transport import RequestOptions, Response, Stream, StreamOptions, Transport

# A transport with a client-side rate limit: queries per second with a burst. Requests wait in first-in, first-out
# order. Lease requests are exempt: waiting must not cost leadership.

_LEASES = "/apis/coordination.k8s.io/"


class RateLimitedTransport:
    """Allows `qps` requests per second with bursts of `burst` (at least one)."""

    def __init__(self, inner: Transport, clock: Clock, qps: float, burst: int) -> None:
        self._inner = inner
        self._clock = clock
        self._between_s = 1.0 / qps
        self._ahead_s = (burst - 1) / qps
        self._free_s = 0.0

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        await self._turn(path)
        return await self._inner.request(method, path, **options)

    @asynccontextmanager
    async def stream(self, path: str, **options: Unpack[StreamOptions]) -> AsyncIterator[Stream]:
        await self._turn(path)
        async with self._inner.stream(path, **options) as stream:
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


_BETWEEN_TRIES = Backoff(base_s=0.1, cap_s=5.0)


class Call(msgspec.Struct, frozen=True):
    """A request and how it may be retried."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    idempotent: bool = False
    wait_when_busy: bool = True

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts, the timeout of one attempt, and the longest Retry-After that is honoured."""

    attempts: int = 4
    timeout_s: float = 30.0
    longest_wait_s: float = 30.0
    backoff: Backoff = _BETWEEN_TRIES


async def carry_out(transport: Transport, call: Call, retry_policy: RetryPolicy, dice: Dice) -> Response:
    """The response, whatever its status. Raises the transport's error after the last attempt."""
    for attempt in range(retry_policy.attempts - 1):
        wait_s = retry_policy.backoff.delay_s(attempt, dice)
        try:
            response = await _attempt(transport, call, retry_policy)
        except TransportError as error:
            if not _may_repeat(call, error):
                raise
        else:
            asked_s = _asked_to_wait(call, response)
            if asked_s is None or asked_s > retry_policy.longest_wait_s:
                return response
            wait_s = max(wait_s, asked_s)
        await asyncio.sleep(wait_s)
    return await _attempt(transport, call, retry_policy)


def retry_after_s(response: Response) -> float | None:
    """The server's Retry-After in seconds, if it sent one."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


async def _attempt(transport: Transport, call: Call, retry_policy: RetryPolicy) -> Response:
    return await transport.request(
        call.method,
        call.path,
        query=call.query,
        headers=call.headers,
        body=call.body,
        timeout_s=retry_policy.timeout_s,
    )


def _may_repeat(call: Call, error: TransportError) -> bool:
    if isinstance(error, CertificateRefused):
        return False
    return call.idempotent or isinstance(error, NotSent)


def _asked_to_wait(call: Call, response: Response) -> float | None:
    """Seconds to wait before the retry; None if the response is final."""
    if response.status == 429 and call.wait_when_busy:
        return retry_after_s(response) or 0.0
    if response.status == 503 and call.wait_when_busy:
        return retry_after_s(response)
    if response.status >= 500 and call.idempotent and call.wait_when_busy:
        return retry_after_s(response) or 0.0
    return None
