"""The in-process transport: requests arrive as they were meant, and a watch that is left is gone."""

from __future__ import annotations

import random

import msgspec
import pytest

from kube_apimachinery.system_clock import SystemClock
from kube_embedded.base.http import HttpReply, HttpRequest
from kube_embedded.base.identity import ADMIN
from kube_embedded.server.api_server import ApiServer
from spinney.drive.client.http.transport import TransportError
from spinney.sim.transport import InProcessTransport

PODS = "/api/v1/pods"


class Echo:
    """Answers, and keeps what it was asked."""

    def __init__(self) -> None:
        self.seen: list[HttpRequest] = []

    async def handle(self, request: HttpRequest) -> HttpReply:
        self.seen.append(request)
        return HttpReply(429, b"{}", [("Retry-After", "3")])


async def test_a_request_arrives_with_identity_query_and_lower_case_headers() -> None:
    echo = Echo()
    await InProcessTransport(echo, ADMIN).request(
        "PATCH", PODS, query={"fieldManager": "a b"}, headers={"Content-Type": "x"}, body=b"y"
    )
    (request,) = echo.seen
    assert (request.method, request.path, request.query, request.body) == ("PATCH", PODS, "fieldManager=a+b", b"y")
    assert request.headers == {"content-type": "x"}
    assert request.identity is ADMIN


async def test_answers_have_lower_case_headers() -> None:
    response = await InProcessTransport(Echo(), ADMIN).request("GET", PODS)
    assert response.status == 429
    assert response.headers == {"content-type": "application/json", "retry-after": "3"}


async def test_a_watch_gives_changes_and_leaves_nothing_behind() -> None:
    server = ApiServer(SystemClock(), random.Random(0))
    await server.start()
    transport = InProcessTransport(server, ADMIN)
    namespaces = server.kernel.store.collection("/namespaces")
    async with transport.stream("/api/v1/namespaces", query={"watch": "true"}) as stream:
        chunk = await anext(aiter(stream))
        assert msgspec.json.decode(chunk.splitlines()[0])["type"] == "ADDED"
        assert len(namespaces.watchers) == 1
    assert len(namespaces.watchers) == 0
    await server.stop()


async def test_a_refused_watch_can_be_read() -> None:
    async with InProcessTransport(Echo(), ADMIN).stream(PODS) as stream:
        assert stream.status == 429
        assert await stream.read() == b"{}"


async def test_a_stream_is_no_answer() -> None:
    server = ApiServer(SystemClock(), random.Random(0))
    await server.start()
    with pytest.raises(TransportError, match="stream"):
        await InProcessTransport(server, ADMIN).request("GET", PODS, query={"watch": "true"})
    await server.stop()
