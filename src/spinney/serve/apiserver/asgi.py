"""The server as an ASGI application: bytes from a socket to a request value, a reply value to bytes."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import lru_cache
from typing import Any

from spinney.serve.apiserver.bodies import MAX_BODY_BYTES
from spinney.serve.apiserver.connections import answer_at_once, head_of
from spinney.serve.apiserver.errors import ApiError, too_large, too_many_requests
from spinney.serve.apiserver.http import HttpReply, HttpRequest, error_reply
from spinney.serve.apiserver.server import ApiServer

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BODIES_BYTES = 256 * 1024 * 1024
"""All bodies that are being read at one time."""
_SMALL_BYTES = 64 * 1024
_LINGER_BYTES = 2 * MAX_BODY_BYTES
_LINGER_S = 2.0


class Gone(Exception):
    """The client left before its request was complete."""


class Application:
    """One per server. Bodies are read up to the limit and not a byte further."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._body_bytes = 0
        self._ending = asyncio.Event()

    def end_streams(self) -> None:
        """Watches end now, as they do when their time is over; nothing else is cut short."""
        self._ending.set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            body = await self._read_body(scope, receive)
        except Gone:
            return
        except ApiError as error:
            await _refuse_body(error_reply(error), receive, send)
            return
        request = HttpRequest(
            scope["method"],
            scope["raw_path"].decode("ascii", "replace") if "raw_path" in scope else scope["path"],
            scope["query_string"].decode("latin-1"),
            _joined(scope["headers"]),
            body,
            None,
            _is_loopback(scope.get("client")),
        )
        reply = await self._server.handle(request)
        if reply.stream is None:
            await _answer(reply, send)
        else:
            await _stream(reply, receive, send, self._ending)

    async def _read_body(self, scope: Message, receive: Receive) -> bytes:
        """The whole body; one that comes in parts counts against what all bodies together may take."""
        message = await _part(receive)
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return body
        if _announced(scope["headers"]) > MAX_BODY_BYTES:
            raise too_large(MAX_BODY_BYTES)
        parts, size = [body], len(body)
        self._body_bytes += size
        try:
            while message.get("more_body"):
                message = await _part(receive)
                part: bytes = message.get("body", b"")
                parts.append(part)
                size += len(part)
                self._body_bytes += len(part)
                if size > MAX_BODY_BYTES:
                    raise too_large(MAX_BODY_BYTES)
                if self._body_bytes > MAX_BODIES_BYTES:
                    raise too_many_requests("the server is reading too many request bodies, please try again later")
            return b"".join(parts)
        finally:
            self._body_bytes -= size


async def _part(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Gone
    return message


def _announced(headers: Iterable[tuple[bytes, bytes]]) -> int:
    return next((int(value) for name, value in headers if name == b"content-length" and value.isdigit()), 0)


async def _refuse_body(reply: HttpReply, receive: Receive, send: Send) -> None:
    """Answer before the body is read; the connection cannot be used again.

    A client that is still sending would miss the answer if the connection closed at once: a little more is read and
    thrown away.
    """
    reply.headers.append(("Connection", "close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": _headers(reply)})
    await send({"type": "http.response.body", "body": reply.body, "more_body": True})
    with contextlib.suppress(TimeoutError, Gone):
        async with asyncio.timeout(_LINGER_S):
            thrown_away = 0
            while thrown_away < _LINGER_BYTES:
                message = await _part(receive)
                thrown_away += len(message.get("body", b""))
                if not message.get("more_body"):
                    break
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _joined(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; one that is sent several times is one value, joined by commas."""
    headers: dict[str, str] = {}
    repeated: dict[str, list[str]] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name in headers:
            repeated.setdefault(name, [headers[name]]).append(value)
        else:
            headers[name] = value
    if repeated:
        headers |= {name: ",".join(values) for name, values in repeated.items()}
    return headers


def _is_loopback(client: tuple[str, int] | None) -> bool:
    return client is None or _is_loopback_host(client[0])  # None: a unix socket


@lru_cache(maxsize=1024)
def _is_loopback_host(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _common(content_type: str) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", content_type.encode("latin-1")), (b"cache-control", b"no-cache, private")]


def _headers(reply: HttpReply) -> list[tuple[bytes, bytes]]:
    shown = _common(reply.content_type)
    if reply.stream is None:
        shown.append((b"content-length", str(len(reply.body)).encode()))
    shown += [(name.lower().encode("latin-1"), value.encode("utf-8")) for name, value in reply.headers]
    return shown


async def _answer(reply: HttpReply, send: Send) -> None:
    if not reply.headers and len(reply.body) <= _SMALL_BYTES:
        head = _plain_head(reply.status, reply.content_type, len(reply.body))
        if answer_at_once(send, head, reply.body):
            return
    await send({"type": "http.response.start", "status": reply.status, "headers": _headers(reply)})
    await send({"type": "http.response.body", "body": reply.body})


@lru_cache(maxsize=4096)
def _plain_head(status: int, content_type: str, length: int) -> bytes:
    """The head of an answer without headers of its own; most answers are alike but for their length."""
    return head_of(status, (*_common(content_type), (b"content-length", str(length).encode())))


async def _stream(reply: HttpReply, receive: Receive, send: Send, ending: asyncio.Event) -> None:
    """Send a watch until it ends, the client goes away or the server stops."""
    await send({"type": "http.response.start", "status": reply.status, "headers": _headers(reply)})
    await send({"type": "http.response.body", "body": b"", "more_body": True})

    async def pump() -> None:
        assert reply.stream is not None
        async for chunk in reply.stream:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    sending = asyncio.ensure_future(pump())
    leaving = asyncio.ensure_future(_disconnected(receive))
    stopping = asyncio.ensure_future(ending.wait())
    tasks = (sending, leaving, stopping)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        close = getattr(reply.stream, "aclose", None)
        if close is not None:
            await close()
    if leaving.cancelled():
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
