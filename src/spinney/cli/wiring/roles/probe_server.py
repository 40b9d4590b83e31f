"""Short answers over HTTP, for probes and metrics: one short request per connection is read, and nothing of its body.

A slow or long request is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from ssl import SSLContext

_REQUEST_S = 5.0

Answer = Callable[[str, str], Awaitable[tuple[str, str]]]
"""From a path and a bearer token (empty: there is none) to a status and a text."""


async def listening(host: str, port: int, answer: Answer, context: SSLContext | None = None) -> asyncio.Server:
    """`context`: TLS; None: plain HTTP."""
    return await asyncio.start_server(lambda reader, writer: _serve(reader, writer, answer), host, port, ssl=context)


async def closed(server: asyncio.Server) -> None:
    server.close()
    await server.wait_closed()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
    with contextlib.suppress(TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        async with asyncio.timeout(_REQUEST_S):
            request = await reader.readuntil(b"\r\n\r\n")
        line, *headers = request.decode("latin-1").split("\r\n")
        status, text = await _judged(line, headers, answer)
        body = text.encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
    writer.close()


async def _judged(line: str, headers: list[str], answer: Answer) -> tuple[str, str]:
    method, _, rest = line.partition(" ")
    if method != "GET":
        return "405 Method Not Allowed", "only GET\n"
    return await answer(rest.partition(" ")[0].partition("?")[0], _token(headers))


def _token(headers: list[str]) -> str:
    for header in headers:
        name, _, value = header.partition(":")
        kind, _, token = value.strip().partition(" ")
        if name.lower() == "authorization" and kind.lower() == "bearer":
            return token.strip()
    return ""
