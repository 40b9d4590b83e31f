"""`/healthz` and `/readyz` of a role, and `/metrics` where it is asked for: short answers for whoever probes it.

Reads one short request per connection and nothing of its body; a slow or long one is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from spinney.drive.election.lease_thread import LoopThread

_REQUEST_S = 5.0
_REQUEST_BYTES = 4096
_MAIN_S = 2.0

Probe = Callable[[], str]
"""What is wrong at the moment; empty if nothing is."""

Page = Callable[[], str]
_Answer = Callable[[str], Awaitable[tuple[str, str]]]
"""From a path to a status and a text."""


@contextlib.asynccontextmanager
async def probed(thread: LoopThread, host: str, port: int, alive: Probe, ready: Probe) -> AsyncIterator[int]:
    """While it lasts the probes are answered, by a thread: also while the main loop is busy. Gives the port.

    `alive` is asked in the thread, `ready` on the main loop.
    """
    main = asyncio.get_running_loop()

    async def asked() -> str:
        return ready()

    async def answer(path: str) -> tuple[str, str]:
        if path == "/healthz":
            return _said(alive())
        if path != "/readyz":
            return "404 Not Found", "only /healthz and /readyz\n"
        try:
            async with asyncio.timeout(_MAIN_S):
                return _said(await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked(), main)))
        except TimeoutError:
            return _said(alive() or f"the main loop did not answer within {_MAIN_S:g} s")

    server = await thread.run(_listening(host, port, answer))
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await thread.run(_closed(server))


@contextlib.asynccontextmanager
async def measured(host: str, port: int, metrics: Page) -> AsyncIterator[int]:
    """While it lasts `/metrics` is served; gives the port."""

    async def answer(path: str) -> tuple[str, str]:
        return ("200 OK", metrics()) if path == "/metrics" else ("404 Not Found", "only /metrics\n")

    server = await _listening(host, port, answer)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await _closed(server)


def _said(trouble: str) -> tuple[str, str]:
    return ("503 Service Unavailable", f"{trouble}\n") if trouble else ("200 OK", "ok\n")


async def _listening(host: str, port: int, answer: _Answer) -> asyncio.Server:
    return await asyncio.start_server(lambda reader, writer: _serve(reader, writer, answer), host, port)


async def _closed(server: asyncio.Server) -> None:
    server.close()
    await server.wait_closed()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: _Answer) -> None:
    with contextlib.suppress(TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        async with asyncio.timeout(_REQUEST_S):
            request = await reader.readuntil(b"\r\n\r\n")
        status, text = await _judged(request[:_REQUEST_BYTES].split(b"\r\n", 1)[0].decode("latin-1"), answer)
        body = text.encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
    writer.close()


async def _judged(line: str, answer: _Answer) -> tuple[str, str]:
    method, _, rest = line.partition(" ")
    if method != "GET":
        return "405 Method Not Allowed", "only GET\n"
    return await answer(rest.partition(" ")[0].partition("?")[0])
