"""Clients that take too long are parted from; in process, with deadlines short enough to wait for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from kube_embedded.server import connections
from kube_embedded.server.embedded import Listen, ServerOptions, build, listening

POST = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\n"
WATCH = b"GET /api/v1/configmaps?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n"
GET = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(connections, "READ_DEADLINE_S", 0.15)
    monkeypatch.setattr(connections, "STALL_DEADLINE_S", 0.3)
    monkeypatch.setattr(connections, "SWEEP_INTERVAL_S", 0.05)
    async with listening(build(ServerOptions()), Listen()) as url:
        yield int(url.rpartition(":")[2])


async def rest(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(5):
        return await reader.read()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /readyz HTTP/1.1\r\nA: ",
        POST + b"Content-Length: 10\r\n\r\n{",
        POST + b"Transfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["nothing", "half-a-head", "half-a-body", "no-chunk"],
)
async def test_a_request_that_does_not_come_to_its_end_is_given_up(port: int, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    assert (await rest(reader)).startswith(b"HTTP/1.1 408 Request Timeout")
    writer.close()


async def test_line_ends_between_requests_do_not_keep_a_connection_for_ever(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(GET)
    assert (await reader.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")
    writer.write(b"\r\n")
    assert (await rest(reader)).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_a_watch_and_an_idle_connection_that_was_used_outlive_the_read_deadline(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(WATCH)
    idle_writer.write(GET)
    await reader.readuntil(b"\r\n\r\n")
    await idle_reader.readuntil(b"\r\n\r\nok")
    for _ in range(10):
        await asyncio.sleep(0.05)
    idle_writer.write(GET)
    assert (await idle_reader.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")
    assert not reader.at_eof()
    writer.close()
    idle_writer.close()


async def test_a_client_that_takes_nothing_is_parted_from(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(GET.replace(b"/readyz", b"/openapi/v3/api/v1") * 50)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(40):
        await asyncio.sleep(0.05)
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    taken = 0
    with contextlib.suppress(ConnectionResetError):
        taken = (await rest(reader)).count(b"HTTP/1.1 200")
    assert taken < 50
    writer.close()
