"""Connections to the server on a socket: order, framing, ends, and what a slow or vanished client costs."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kube_apimachinery import tls
from kube_embedded.base.http import HttpReply, HttpRequest
from kube_embedded.requests.bodies import MAX_BODY_BYTES
from kube_embedded.server import connections, embedded, http_parser
from kube_embedded.server.embedded import Listen, listening

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handle = Callable[[HttpRequest], Coroutine[Any, Any, HttpReply]]


class Server:
    """In place of the API server: answers as it is told."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.seen: list[HttpRequest] = []

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def handle(self, request: HttpRequest) -> HttpReply:
        self.seen.append(request)
        return await self._handle(request)


async def echo(request: HttpRequest) -> HttpReply:
    return HttpReply(200, f"{request.method} {request.path} ".encode() + request.body)


@asynccontextmanager
async def serving(handle: Handle = echo, listen: Listen | None = None) -> AsyncIterator[tuple[Server, int]]:
    server = Server(handle)
    async with listening(server, listen or Listen()) as url:  # type: ignore[arg-type]
        yield server, int(url.rpartition(":")[2])


@asynccontextmanager
async def connected(port: int, **more: Any) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **more)
    try:
        yield reader, writer
    finally:
        writer.close()


def head(first: str, *headers: str) -> bytes:
    return "\r\n".join([first, "Host: localhost", *headers, "", ""]).encode("latin-1")


async def rest(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(5):
        return await reader.read()


async def until(reader: asyncio.StreamReader, end: bytes) -> bytes:
    async with asyncio.timeout(5):
        return await reader.readuntil(end)


async def happens(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - the other side of a socket tells nobody
            await asyncio.sleep(0.005)


async def asked(*requests: bytes, handle: Handle = echo) -> bytes:
    """Everything that comes back, where the connection is ended by the server."""
    async with serving(handle) as (_, port), connected(port) as (reader, writer):
        writer.write(b"".join(requests))
        return await rest(reader)


async def test_an_answer_stands_on_the_wire_as_it_should() -> None:
    async with serving() as (_, port), connected(port) as (reader, writer):
        writer.write(head("GET /a HTTP/1.1"))
        answer = await until(reader, b"GET /a ")
    assert answer == (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-cache, private\r\n"
        b"content-length: 7\r\n\r\nGET /a "
    )


async def test_a_connection_serves_one_request_after_the_other() -> None:
    async with serving() as (_, port), connected(port) as (reader, writer):
        for number in range(3):
            writer.write(head(f"POST /{number} HTTP/1.1", "Content-Length: 1") + b"x")
            assert b"connection" not in await until(reader, b"POST /%d x" % number)


async def test_pipelined_requests_are_answered_in_order_and_one_at_a_time() -> None:
    running_now, most = 0, 0

    async def slower_first(request: HttpRequest) -> HttpReply:
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        await asyncio.sleep(0.02 if request.path == "/0" else 0)
        running_now -= 1
        return HttpReply(200, request.path.encode())

    pipelined = [head(f"GET /{n} HTTP/1.1") for n in range(20)]
    answer = await asked(*pipelined, head("GET /last HTTP/1.1", "Connection: close"), handle=slower_first)
    shown = [part.partition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    assert shown == [*(b"/%d" % n for n in range(20)), b"/last"]
    assert most == 1


async def test_a_body_may_follow_while_an_earlier_request_is_answered() -> None:
    gate = asyncio.Event()

    async def waits(request: HttpRequest) -> HttpReply:
        await gate.wait()
        return await echo(request)

    async with serving(waits) as (_, port), connected(port) as (reader, writer):
        writer.write(head("GET /a HTTP/1.1") + head("GET /b HTTP/1.1") + head("POST /c HTTP/1.1", "Content-Length: 4"))
        writer.write(b"ab")
        await asyncio.sleep(0.01)
        gate.set()
        await until(reader, b"GET /b ")
        writer.write(b"cd")
        assert await until(reader, b"POST /c abcd")


async def test_too_many_pipelined_requests_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_PIPELINED", 10)
    async with serving() as (server, port), connected(port) as (reader, writer):
        writer.write(head("GET /a HTTP/1.1") * 50)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await until(reader, b"never")
        assert len(server.seen) <= 10


async def test_a_client_with_many_requests_does_not_hold_up_another() -> None:
    async def at_once(request: HttpRequest) -> HttpReply:
        return HttpReply(200, b"ok")

    async with serving(at_once) as (server, port), connected(port) as greedy, connected(port) as modest:
        greedy[1].write(head("GET /many HTTP/1.1") * 1500)
        await happens(lambda: bool(server.seen))
        modest[1].write(head("GET /one HTTP/1.1"))
        await until(modest[0], b"\r\n\r\nok")
        assert len(server.seen) < 1500


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_last_answer_says_so_and_the_connection_closes(version: str) -> None:
    header = "Connection: close" if version == "1.1" else "Connection: keep-alive"
    answer = await asked(head(f"GET /a HTTP/{version}", header))
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\nGET /a ")


async def test_nothing_after_a_last_request_is_carried_out() -> None:
    async with serving() as (server, port), connected(port) as (reader, writer):
        writer.write(head("GET /a HTTP/1.1", "Connection: close") + head("DELETE /b HTTP/1.1"))
        await rest(reader)
    assert [request.path for request in server.seen] == ["/a"]


async def test_a_client_that_waits_to_send_its_body_is_told_to_go_on() -> None:
    async with serving() as (_, port), connected(port) as (reader, writer):
        writer.write(head("POST /a HTTP/1.1", "Content-Length: 2", "Expect: 100-continue"))
        assert await until(reader, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert (await until(reader, b"POST /a {}")).startswith(b"HTTP/1.1 200")


async def test_a_client_is_told_to_go_on_only_after_earlier_answers() -> None:
    gate = asyncio.Event()

    async def waits(request: HttpRequest) -> HttpReply:
        await gate.wait()
        return await echo(request)

    async with serving(waits) as (_, port), connected(port) as (reader, writer):
        writer.write(head("GET /a HTTP/1.1") + head("POST /b HTTP/1.1", "Content-Length: 2", "Expect: 100-continue"))
        await asyncio.sleep(0.01)
        gate.set()
        assert (await until(reader, b"100 Continue\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        writer.write(b"{}")
        await until(reader, b"POST /b {}")


@pytest.mark.parametrize("earlier", [0, 2], ids=["at once", "after earlier answers"])
async def test_a_malformed_request_is_told_so_and_the_connection_closes(earlier: int) -> None:
    answer = await asked(head("GET /a HTTP/1.1") * earlier, b"nonsense\r\n\r\n", head("GET /b HTTP/1.1"))
    codes = [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert codes == [b"200"] * earlier + [b"400"]
    assert b"\r\nconnection: close\r\n" in answer


async def test_a_head_without_end_is_told_so() -> None:
    async with serving() as (_, port), connected(port) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nA: " + b"b" * http_parser.MAX_HEAD_BYTES)
        assert (await until(reader, b"\r\n")).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("earlier", [0, 2], ids=["at once", "after earlier answers"])
async def test_a_body_that_is_too_long_is_told_so_while_it_comes(earlier: int) -> None:
    length = MAX_BODY_BYTES + 1
    async with serving() as (server, port), connected(port) as (reader, writer):
        writer.write(head("GET /a HTTP/1.1") * earlier + head("POST /b HTTP/1.1", f"Content-Length: {length}"))
        answer = await until(reader, b'"code":413}')
        assert answer.count(b"HTTP/1.1 200") == earlier
        assert b"\r\nconnection: close\r\n" in answer
        writer.write(b"x" * length)
        assert await rest(reader) == b""
    assert len(server.seen) == earlier


async def test_a_client_that_goes_on_sending_a_refused_body_is_parted_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_LINGER_S", 0.02)
    async with serving() as (_, port), connected(port) as (reader, writer):
        writer.write(head("POST /b HTTP/1.1", "Content-Length: 99999999"))
        assert (await rest(reader)).startswith(b"HTTP/1.1 413")


async def test_an_answer_to_head_has_a_length_and_no_body() -> None:
    answer = await asked(head("HEAD /a HTTP/1.1"), head("HEAD /b HTTP/1.1", "Connection: close"))
    assert answer.count(b"content-length: 8\r\n") == 2
    assert b"HEAD /" not in answer


async def test_a_large_answer_arrives_whole() -> None:
    async def large(request: HttpRequest) -> HttpReply:
        return HttpReply(200, b"x" * 5_000_000)

    answer = await asked(head("GET /a HTTP/1.1", "Connection: close"), handle=large)
    assert len(answer.partition(b"\r\n\r\n")[2]) == 5_000_000


async def test_a_request_for_another_protocol_is_answered_in_this_one() -> None:
    answer = await asked(head("GET /a HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket"), b"\x81\x05hello")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"GET /a ")


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\x00b"])
async def test_a_header_that_would_begin_another_is_not_sent(value: str) -> None:
    async def split(request: HttpRequest) -> HttpReply:
        return HttpReply(200, headers=[("Warning", value)])

    answer = await asked(head("GET /a HTTP/1.1"), handle=split)
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"Set-Cookie" not in answer


async def test_headers_of_an_answer_are_shown() -> None:
    async def warned(request: HttpRequest) -> HttpReply:
        return HttpReply(429, b"{}", [("Retry-After", "1"), ("Warning", '299 - "ü"')])

    answer = await asked(head("GET /a HTTP/1.1", "Connection: close"), handle=warned)
    assert answer.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert b'\r\nretry-after: 1\r\nwarning: 299 - "\xc3\xbc"\r\n' in answer


async def test_a_fault_of_ours_is_an_answer_too() -> None:
    async def broken(request: HttpRequest) -> HttpReply:
        raise RuntimeError("planted")

    assert (await asked(head("GET /a HTTP/1.1"), handle=broken)).startswith(b"HTTP/1.1 500 Internal Server Error")


class Watch:
    """A watch that sends what it is given, and notes when it ends."""

    def __init__(self) -> None:
        self.parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.taken = 0
        self.ended = asyncio.Event()

    async def handle(self, request: HttpRequest) -> HttpReply:
        return HttpReply(200, stream=self._run()) if request.path == "/watch" else await echo(request)

    async def _run(self) -> AsyncIterator[bytes]:
        try:
            while (part := await self.parts.get()) is not None:
                self.taken += 1
                yield part
        finally:
            self.ended.set()


WATCH = head("GET /watch HTTP/1.1")


async def test_a_watch_comes_in_chunks_and_the_connection_goes_on_after_it() -> None:
    watch = Watch()
    async with serving(watch.handle) as (_, port), connected(port) as (reader, writer):
        writer.write(WATCH)
        assert b"\r\ntransfer-encoding: chunked\r\n" in await until(reader, b"\r\n\r\n")
        watch.parts.put_nowait(b"one\n")
        assert await until(reader, b"\n\r\n") == b"4\r\none\n\r\n"
        watch.parts.put_nowait(None)
        assert await until(reader, b"\r\n\r\n") == b"0\r\n\r\n"
        writer.write(head("GET /a HTTP/1.1"))
        await until(reader, b"GET /a ")


async def test_a_watch_of_an_old_client_comes_without_chunks() -> None:
    watch = Watch()
    for part in (b"one\n", b"two\n", None):
        watch.parts.put_nowait(part)
    answer = await asked(head("GET /watch HTTP/1.0"), handle=watch.handle)
    assert b"chunked" not in answer
    assert answer.endswith(b"\r\n\r\none\ntwo\n")


async def test_a_head_of_a_watch_has_no_body() -> None:
    watch = Watch()
    async with serving(watch.handle) as (_, port), connected(port) as (reader, writer):
        writer.write(head("HEAD /watch HTTP/1.1") + head("GET /a HTTP/1.1", "Connection: close"))
        answer = await rest(reader)
    assert answer.count(b"HTTP/1.1 200") == 2
    assert answer.partition(b"\r\n\r\n")[2].startswith(b"HTTP/1.1 200")


async def test_a_client_that_leaves_ends_its_watch() -> None:
    watch = Watch()
    async with serving(watch.handle) as (_, port):
        async with connected(port) as (reader, writer):
            writer.write(WATCH)
            watch.parts.put_nowait(b"one\n")
            await until(reader, b"one\n")
        async with asyncio.timeout(5):
            await watch.ended.wait()


async def test_a_client_that_leaves_does_not_undo_what_it_asked_for() -> None:
    gate, done = asyncio.Event(), asyncio.Event()

    async def waits(request: HttpRequest) -> HttpReply:
        await gate.wait()
        done.set()
        return HttpReply(200)

    async with serving(waits) as (server, port):
        async with connected(port) as (_, writer):
            writer.write(head("DELETE /a HTTP/1.1"))
            await happens(lambda: bool(server.seen))
        await asyncio.sleep(0.02)
        gate.set()
        async with asyncio.timeout(5):
            await done.wait()


async def test_nonsense_in_the_midst_of_a_watch_ends_it_without_a_word() -> None:
    watch = Watch()
    async with serving(watch.handle) as (_, port), connected(port) as (reader, writer):
        writer.write(WATCH)
        await until(reader, b"\r\n\r\n")
        writer.write(b"nonsense\r\n\r\n")
        assert await rest(reader) == b""
        await happens(watch.ended.is_set)


async def test_a_watch_that_breaks_does_not_end_as_if_it_were_over() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"one\n"
        raise RuntimeError("planted")

    async def handle(request: HttpRequest) -> HttpReply:
        return HttpReply(200, stream=broken())

    answer = await asked(WATCH, handle=handle)
    assert answer.endswith(b"4\r\none\n\r\n")


async def test_a_watcher_that_reads_nothing_is_sent_no_more_than_buffers_hold() -> None:
    watch = Watch()
    for _ in range(500):
        watch.parts.put_nowait(b"x" * 100_000)
    async with serving(watch.handle) as (_, port), connected(port, limit=1024) as (reader, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(WATCH)
        taken = -1
        while watch.taken != taken:
            taken = watch.taken
            await asyncio.sleep(0.05)
        assert 0 < watch.taken < 200
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        received = 0
        async with asyncio.timeout(10):
            while received < 500 * 100_000:
                received += len(await reader.read(1 << 20))
        assert watch.taken == 500


async def test_a_connection_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_DEADLINE_S", 0.05)
    monkeypatch.setattr(connections, "SWEEP_INTERVAL_S", 0.01)
    async with serving() as (_, port), connected(port) as (reader, writer):
        writer.write(head("GET /a HTTP/1.1"))
        assert (await rest(reader)).endswith(b"GET /a ")


async def test_half_a_request_behind_a_slow_one_is_not_to_blame_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_DEADLINE_S", 0.1)
    monkeypatch.setattr(connections, "SWEEP_INTERVAL_S", 0.01)
    gate = asyncio.Event()

    async def waits(request: HttpRequest) -> HttpReply:
        await gate.wait()
        return await echo(request)

    async with serving(waits) as (_, port), connected(port) as (reader, writer):
        writer.write(head("GET /a HTTP/1.1") + head("GET /b HTTP/1.1") + b"GET /c HT")
        for _ in range(5):
            await asyncio.sleep(0.04)
        gate.set()
        await until(reader, b"GET /b ")
        writer.write(b"TP/1.1\r\n\r\n")
        await until(reader, b"GET /c ")


async def test_a_stop_ends_watches_and_lets_answers_finish() -> None:
    watch, gate = Watch(), asyncio.Event()

    async def handle(request: HttpRequest) -> HttpReply:
        if request.path == "/slow":
            await gate.wait()
        return await watch.handle(request)

    async with serving(handle) as (server, port):
        watching, slow, idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        watching[1].write(WATCH)
        slow[1].write(head("POST /slow HTTP/1.1"))
        await until(watching[0], b"\r\n\r\n")
        await happens(lambda: len(server.seen) == 2)
        asyncio.get_running_loop().call_later(0.02, gate.set)
    assert await rest(watching[0]) == b"0\r\n\r\n"
    answer = await rest(slow[0])
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.endswith(b"POST /slow ")
    assert await rest(idle[0]) == b""
    for _, writer in (watching, slow, idle):
        writer.close()


async def test_a_stop_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_GRACE_S", 0.05)
    ended: list[str] = []

    async def hangs(request: HttpRequest) -> HttpReply:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.path)
        return HttpReply(200)

    async with serving(hangs) as (server, port):
        _, heard = await asyncio.open_connection("127.0.0.1", port)
        _, gone = await asyncio.open_connection("127.0.0.1", port)
        heard.write(head("GET /heard HTTP/1.1"))
        gone.write(head("GET /gone HTTP/1.1"))
        await happens(lambda: len(server.seen) == 2)
        gone.close()
    assert sorted(ended) == ["/gone", "/heard"]
    heard.close()


async def test_a_stop_does_not_wait_for_a_client_that_reads_nothing() -> None:
    watch = Watch()
    for _ in range(500):
        watch.parts.put_nowait(b"x" * 100_000)
    async with serving(watch.handle) as (_, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(WATCH)
        await happens(lambda: watch.taken > 5)
    assert watch.ended.is_set()
    writer.close()


async def test_clients_of_loopback_are_known_as_such() -> None:
    async with serving() as (server, port), connected(port) as (reader, writer):
        writer.write(head("GET /a HTTP/1.1"))
        await until(reader, b"GET /a ")
    assert server.seen[0].loopback


@pytest.mark.parametrize("peer", [("192.0.2.1", 1), ("", 0), None, "", ("::ffff:192.0.2.1", 1, 0, 0)])
def test_whoever_is_not_known_to_be_here_is_elsewhere(peer: Any) -> None:
    assert not connections._is_loopback(peer)


async def test_requests_and_watches_are_served_over_tls(tmp_path: Path) -> None:
    authority = tls.create_authority("ours", now_s=time.time())
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    tls.save(tls.issue(authority, ["127.0.0.1"], now_s=time.time()), certificate, key)
    context: ssl.SSLContext = tls.client_context(authority.certificate_pem)
    watch = Watch()
    listen = Listen("127.0.0.1", certificate=certificate, key=key)
    async with serving(watch.handle, listen) as (server, port), connected(port, ssl=context) as (reader, writer):
        writer.write(head("POST /a HTTP/1.1", "Content-Length: 2") + b"{}")
        await until(reader, b"POST /a {}")
        writer.write(WATCH)
        watch.parts.put_nowait(b"x" * 300_000)
        await until(reader, b"\r\n\r\n")
        async with asyncio.timeout(5):
            assert await reader.readexactly(7) == b"493e0\r\n"
            assert await reader.readexactly(300_000) == b"x" * 300_000
        assert server.seen[0].loopback
