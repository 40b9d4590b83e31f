"""`/healthz` and `/readyz` of a role, and `/metrics` where it is asked for: short answers for whoever probes it.

Reads one short request per connection and nothing of its body; a slow or long one is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

_REQUEST_S = 5.0
_REQUEST_BYTES = 4096

Probe = Callable[[], str]
"""What is wrong at the moment; empty if nothing is."""


Page = Callable[[], str]


@contextlib.asynccontextmanager
async def probed(host: str, port: int, ready: Probe, metrics: Page | None = None) -> AsyncIterator[int]:
    """While it lasts the probes are answered; gives the port."""
    server = await asyncio.start_server(lambda reader, writer: _answer(reader, writer, ready, metrics), host, port)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ready: Probe, metrics: Page | None
) -> None:
    with contextlib.suppress(TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        async with asyncio.timeout(_REQUEST_S):
            request = await reader.readuntil(b"\r\n\r\n")
        status, text = _judge(request[:_REQUEST_BYTES].split(b"\r\n", 1)[0].decode("latin-1"), ready, metrics)
        body = text.encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
    writer.close()


def _judge(line: str, ready: Probe, metrics: Page | None) -> tuple[str, str]:
    method, _, rest = line.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if method != "GET":
        return "405 Method Not Allowed", "only GET\n"
    if path == "/healthz":
        return "200 OK", "ok\n"
    if path == "/readyz":
        trouble = ready()
        return ("503 Service Unavailable", f"{trouble}\n") if trouble else ("200 OK", "ok\n")
    if path == "/metrics" and metrics is not None:
        return "200 OK", metrics()
    return "404 Not Found", "only /healthz and /readyz\n"
