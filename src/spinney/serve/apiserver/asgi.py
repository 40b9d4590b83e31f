"""The server as an ASGI application: bytes from a socket to a request value, a reply value to bytes."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from spinney.serve.apiserver.bodies import MAX_BODY_BYTES
from spinney.serve.apiserver.errors import ApiError, too_large
from spinney.serve.apiserver.http import HttpReply, HttpRequest, error_reply
from spinney.serve.apiserver.server import ApiServer

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Application:
    """One per server. Bodies are read up to the limit and not a byte further."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            body = await _read_body(receive)
        except ApiError as error:
            await _answer(error_reply(error), send)
            return
        headers = _joined(scope["headers"])
        request = HttpRequest(
            scope["method"],
            scope["raw_path"].decode("ascii", "replace") if "raw_path" in scope else scope["path"],
            scope["query_string"].decode("latin-1"),
            headers,
            body,
            None,
            _is_loopback(scope.get("client")),
        )
        reply = await self._server.handle(request)
        if reply.stream is None:
            await _answer(reply, send)
        else:
            await _stream(reply, receive, send)


def _joined(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; one that is sent several times is one value, joined by commas."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


async def _read_body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise too_large(MAX_BODY_BYTES)
        parts.append(part)
    return b"".join(parts)


def _is_loopback(client: tuple[str, int] | None) -> bool:
    if client is None:
        return True  # a unix socket
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _headers(reply: HttpReply) -> list[tuple[bytes, bytes]]:
    shown = [(b"content-type", reply.content_type.encode("latin-1")), (b"cache-control", b"no-cache, private")]
    if reply.stream is None:
        shown.append((b"content-length", str(len(reply.body)).encode()))
    shown += [(name.lower().encode("latin-1"), value.encode("utf-8")) for name, value in reply.headers]
    return shown


async def _answer(reply: HttpReply, send: Send) -> None:
    await send({"type": "http.response.start", "status": reply.status, "headers": _headers(reply)})
    await send({"type": "http.response.body", "body": reply.body})


async def _stream(reply: HttpReply, receive: Receive, send: Send) -> None:
    """Send a watch until it ends or the client goes away."""
    await send({"type": "http.response.start", "status": reply.status, "headers": _headers(reply)})
    await send({"type": "http.response.body", "body": b"", "more_body": True})

    async def pump() -> None:
        assert reply.stream is not None
        async for chunk in reply.stream:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    sending = asyncio.ensure_future(pump())
    leaving = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        close = getattr(reply.stream, "aclose", None)
        if close is not None:
            await close()
    if not leaving.done() or leaving.cancelled():
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
