"""Kept connections against a server that is played byte by byte: when one is used again, and when it must not be."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from spinney.drive.client.errors import NotSent, TransportError
from spinney.drive.client.http import connection_pool as pools
from spinney.drive.client.http.connection_pool import Endpoint, Pool
from spinney.drive.client.http.transport import Response

Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Played:
    """A server on loopback, and how many connections it was given."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.connections = 0
        self.heads: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._play(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def playing(play: Play, limit: int = 4) -> AsyncIterator[tuple[Played, Pool]]:
    played = Played(play)
    server = await asyncio.start_server(played.serve, "127.0.0.1", 0)
    played.port = server.sockets[0].getsockname()[1]
    pool = Pool(Endpoint("127.0.0.1", played.port, f"127.0.0.1:{played.port}"), limit)
    try:
        yield played, pool
    finally:
        pool.close()
        server.close()


def always(answer: bytes, then_close: bool = False) -> Play:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            if then_close:
                return

    return play


async def get(pool: Pool, target: str = "/x") -> Response:
    async with asyncio.timeout(5):
        return await pool.request("GET", target, {}, None)


async def test_a_connection_is_used_again() -> None:
    async with playing(always(OK)) as (played, pool):
        for _ in range(3):
            response = await get(pool)
            assert (response.status, response.body, response.headers) == (200, b"ok", {"content-length": "2"})
    assert played.connections == 1


async def test_a_request_is_sent_as_it_was_meant() -> None:
    seen: list[bytes] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            if b"content-length: 2" in seen[-1]:
                seen[-1] += await reader.readexactly(2)
            writer.write(OK)

    async with playing(note) as (played, pool):
        await pool.request("POST", "/a?b=c", {"accept": "x"}, b"{}")
        await pool.request("POST", "/a", {}, None)
        await pool.request("GET", "/a", {}, None)
    host = f"host: 127.0.0.1:{played.port}\r\n".encode()
    assert seen == [
        b"POST /a?b=c HTTP/1.1\r\n" + host + b"accept: x\r\ncontent-length: 2\r\n\r\n{}",
        b"POST /a HTTP/1.1\r\n" + host + b"content-length: 0\r\n\r\n",
        b"GET /a HTTP/1.1\r\n" + host + b"\r\n",
    ]


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", b"abc", id="chunks"
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok", id="a word before the answer"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="nothing"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: %d\r\n\r\n%s"
            % (len(zlib.compress(b"packed")), zlib.compress(b"packed")),
            b"packed",
            id="packed",
        ),
    ],
)
async def test_an_answer_may_come_in_many_forms(answer: bytes, body: bytes) -> None:
    async with playing(always(answer)) as (played, pool):
        assert [(await get(pool)).body for _ in range(2)] == [body, body]
    assert played.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", id="it says so"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", id="it is old"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nok", id="its end is the end of the answer"),
    ],
)
async def test_a_connection_that_ends_is_not_used_again(answer: bytes) -> None:
    async with playing(always(answer, then_close=True)) as (played, pool):
        assert [(await get(pool)).body for _ in range(2)] == [b"ok", b"ok"]
    assert played.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="none"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="half a head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", id="half a body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", id="no last chunk"),
        pytest.param(b"nonsense\r\n\r\n", id="not HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", id="two lengths"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", id="badly packed"),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", id="another protocol"
        ),
    ],
)
async def test_an_answer_that_is_not_whole_is_a_failure_after_sending(answer: bytes) -> None:
    async with playing(always(answer, then_close=True)) as (_, pool):
        with pytest.raises(TransportError) as caught:
            await get(pool)
    assert not isinstance(caught.value, NotSent)


async def test_an_answer_nobody_waits_for_any_more_goes_to_nobody() -> None:
    gate = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if b"/late" in head:
                await gate.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + head[4:9])

    async with playing(late, limit=1) as (played, pool):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await pool.request("GET", "/late", {}, None)
        gate.set()
        assert (await get(pool, "/next")).body == b"/next"
    assert played.connections == 2


async def test_words_that_nobody_asked_for_end_the_connection() -> None:
    async with playing(always(OK + OK)) as (played, pool):
        assert (await get(pool)).body == b"ok"
        await asyncio.sleep(0.01)
        assert (await get(pool)).body == b"ok"
    assert played.connections == 2


async def test_no_more_connections_are_opened_than_allowed() -> None:
    async with playing(always(OK), limit=2) as (played, pool):
        responses = await asyncio.gather(*(get(pool) for _ in range(20)))
    assert [response.status for response in responses] == [200] * 20
    assert played.connections == 2


async def test_a_connection_nobody_needed_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "KEEP_ALIVE_S", 0.01)
    async with playing(always(OK)) as (played, pool):
        await asyncio.gather(get(pool), get(pool))
        assert len(pool._all) == 2
        for _ in range(3):
            await asyncio.sleep(0.02)
            await get(pool)
        await asyncio.sleep(0.01)
        assert len(pool._all) == 1
    assert played.connections == 2


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        pytest.param("/x HTTP/1.1\r\nA: b", {}, id="a target that is more"),
        pytest.param("/ä", {}, id="a target that is not ASCII"),
        pytest.param("/x", {"a": "b\r\nc: d"}, id="a value that is more"),
        pytest.param("/x", {"a: b\r\nc": "d"}, id="a name that is more"),
    ],
)
async def test_what_would_be_another_request_is_not_sent(target: str, headers: dict[str, str]) -> None:
    async with playing(always(OK)) as (played, pool):
        with pytest.raises(NotSent):
            await pool.request("GET", target, headers, None)
    assert played.connections == 0


async def test_nothing_is_sent_after_the_end() -> None:
    async with playing(always(OK)) as (_, pool):
        await get(pool)
        pool.close()
        with pytest.raises(NotSent):
            await get(pool)
