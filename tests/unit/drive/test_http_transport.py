"""The HTTP transport against a real server on loopback: credentials, TLS, streams, and how failures are named."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kube_apimachinery.system_clock import SystemClock
from spinney.drive.client.config.credentials import (
    Certificate,
    Connection,
    Credentials,
    Fixed,
    Grant,
    TokenFile,
    bearer,
)
from spinney.drive.client.errors import CertificateRefused, NotSent, TransportError, TransportTimeout
from spinney.drive.client.http.http_transport import HttpTransport
from unit.drive.tls_kit import Authority, server_context

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
NOBODY = Fixed(Grant())


@asynccontextmanager
async def served(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def transport_to(server: str, credentials: Credentials = NOBODY, **more: Any) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(Connection(server, credentials, **more))
    try:
        yield transport
    finally:
        await transport.close()


async def echo(request: web.Request) -> web.Response:
    body = await request.text()
    seen = f"{request.method} {request.raw_path} {request.headers.get('authorization', '-')} {body}"
    return web.Response(text=seen, headers={"X-Note": "Yes"})


async def test_a_request_arrives_as_it_was_meant() -> None:
    async with served(echo) as server, transport_to(f"{server}/prefix/", Fixed(Grant(bearer("t1")))) as transport:
        response = await transport.request(
            "PATCH", "/api/v1/x", query={"labelSelector": "a=b,c in (d)", "limit": "5"}, body=b"body"
        )
    expected = "PATCH /prefix/api/v1/x?labelSelector=a%3Db%2Cc+in+%28d%29&limit=5 Bearer t1 body"
    assert (response.status, response.body.decode(), response.headers["x-note"]) == (200, expected, "Yes")


async def test_a_redirect_is_not_followed() -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/steal")

    async with served(elsewhere) as server, transport_to(server, Fixed(Grant(bearer("secret")))) as transport:
        assert (await transport.request("GET", "/x")).status == 302


async def test_a_token_file_is_read_again_when_the_server_no_longer_knows_the_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")

    async def only_new(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.headers["authorization"] == "Bearer new" else 401)

    async with served(only_new) as server, transport_to(server, TokenFile(file, SystemClock())) as transport:
        assert (await transport.request("GET", "/x")).status == 401
        file.write_text("new\n")
        assert (await transport.request("GET", "/x")).status == 200


async def test_a_stream_gives_chunks_as_they_come_and_ends_with_the_server() -> None:
    async def two_chunks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(0.02)
        await response.write(b"two\n")
        return response

    async with served(two_chunks) as server, transport_to(server) as transport, transport.stream("/w") as stream:
        assert stream.status == 200
        assert [chunk async for chunk in stream] == [b"one\n", b"two\n"]


async def test_a_refused_stream_can_be_read_whole() -> None:
    async def gone(request: web.Request) -> web.Response:
        return web.Response(status=410, text="gone")

    async with served(gone) as server, transport_to(server) as transport, transport.stream("/w") as stream:
        assert (stream.status, await stream.read()) == (410, b"gone")


async def test_a_stream_that_breaks_is_a_transport_error() -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with served(broken) as server, transport_to(server) as transport:
        with pytest.raises(TransportError):
            async with transport.stream("/w") as stream:
                _ = [chunk async for chunk in stream]


async def test_silence_is_a_timeout() -> None:
    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async with served(silent) as server, transport_to(server) as transport:
        with pytest.raises(TransportTimeout):
            await transport.request("POST", "/x", timeout_s=0.02)


async def test_a_connection_that_is_dropped_after_the_request_may_have_been_served() -> None:
    async def drop(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with served(drop) as server, transport_to(server) as transport:
        with pytest.raises(TransportError) as caught:
            await transport.request("POST", "/x")
    assert not isinstance(caught.value, NotSent)


async def test_a_closed_port_means_nothing_was_sent() -> None:
    async with transport_to("http://127.0.0.1:1") as transport:
        with pytest.raises(NotSent):
            await transport.request("POST", "/x")


async def test_watches_do_not_take_the_connections_of_requests() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path != "/w":
            return web.Response()
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(5)
        return response

    async with served(handler) as server:
        transport = HttpTransport(Connection(server, NOBODY), connections=1)
        async with transport.stream("/w"), transport.stream("/w"):
            assert (await transport.request("GET", "/x", timeout_s=1)).status == 200
        await transport.close()


class TestTls:
    async def test_a_server_of_the_given_authority_is_trusted(self, tmp_path: Path) -> None:
        authority = Authority()
        tls = server_context(tmp_path, authority.leaf("server", "127.0.0.1"))
        async with served(echo, tls) as server, transport_to(server, ca=authority.pem) as transport:
            assert (await transport.request("GET", "/x")).status == 200

    async def test_a_server_of_another_authority_is_refused_and_nothing_is_sent(self, tmp_path: Path) -> None:
        tls = server_context(tmp_path, Authority("other").leaf("server", "127.0.0.1"))
        async with served(echo, tls) as server, transport_to(server, ca=Authority().pem) as transport:
            with pytest.raises(CertificateRefused):
                await transport.request("GET", "/x")

    async def test_a_server_of_another_name_is_refused_unless_that_name_is_expected(self, tmp_path: Path) -> None:
        authority = Authority()
        tls = server_context(tmp_path, authority.leaf("server", "kubernetes.internal"))
        async with served(echo, tls) as server:
            async with transport_to(server, ca=authority.pem) as transport:
                with pytest.raises(CertificateRefused):
                    await transport.request("GET", "/x")
            async with transport_to(server, ca=authority.pem, tls_server_name="kubernetes.internal") as transport:
                assert (await transport.request("GET", "/x")).status == 200

    async def test_a_server_may_go_unverified_only_if_told_so(self, tmp_path: Path) -> None:
        tls = server_context(tmp_path, Authority().leaf("server"))
        async with served(echo, tls) as server, transport_to(server, verify=False) as transport:
            assert (await transport.request("GET", "/x")).status == 200

    async def test_a_client_certificate_is_presented_and_a_renewed_one_opens_new_connections(
        self, tmp_path: Path
    ) -> None:
        authority = Authority()
        tls = server_context(tmp_path, authority.leaf("server", "127.0.0.1"), client_authority=authority)

        async def who(request: web.Request) -> web.Response:
            assert request.transport is not None
            subject = request.transport.get_extra_info("peercert")["subject"]
            return web.Response(text=subject[0][0][1])

        leaves = {name: authority.leaf(name) for name in ("alice", "bob")}
        names = iter(("alice", "alice", "bob"))

        class Rotating:
            async def grant(self) -> Grant:
                leaf = leaves[next(names)]
                return Grant(certificate=Certificate(leaf.certificate, leaf.key))

            def renew(self) -> bool:
                return False

        async with served(who, tls) as server, transport_to(server, Rotating(), ca=authority.pem) as transport:
            seen = [(await transport.request("GET", "/x")).body.decode() for _ in range(3)]
        assert seen == ["alice", "alice", "bob"]
