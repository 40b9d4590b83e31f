"""The transport over HTTP: our own keep-alive connection pool for requests, and one aiohttp connection per watch.

Never follows a redirect, never retries a write, and never sends a token anywhere but to the server it is for.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from spinney.drive.client.config.credentials import Certificate, Connection
from spinney.drive.client.errors import CertificateRefused, ConfigError, NotSent, TransportError, TransportTimeout
from spinney.drive.client.http.connection_pool import CONNECT_S, KEEP_ALIVE_S, Endpoint, Pool, watch_peer
from spinney.drive.client.http.transport import Response

_CONNECTIONS = 48
_READ_BUFFER = 1 << 20
_HEADERS = {"user-agent": "spinney", "accept-encoding": "identity"}


@dataclass(slots=True)
class _Pools:
    """Connections with one client certificate: a pool for requests, as many as needed for watches."""

    certificate: Certificate | None
    requests: Pool
    watches: aiohttp.ClientSession

    async def close(self) -> None:
        self.requests.close()
        await self.watches.close()


class _HttpStream:
    """A watch in progress."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = _lower(response.headers)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for chunk in self._response.content.iter_any():
                yield chunk

    async def read(self) -> bytes:
        with _translated():
            return await self._response.read()


class HttpTransport:
    """Requests to one server. Connections are opened when first needed, inside the running loop."""

    def __init__(self, connection: Connection, *, connections: int = _CONNECTIONS) -> None:
        self._connection = connection
        self._connections = connections
        self._base = connection.server.rstrip("/")
        self._prefix = URL(self._base, encoded=True).raw_path.rstrip("/")
        self._pools: _Pools | None = None
        self._retired: _Pools | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        async def once() -> Response:
            pools, presented = await self._ready(headers)
            target = f"{self._prefix}{path}?{urlencode(query)}" if query else self._prefix + path
            try:
                async with asyncio.timeout(timeout_s):
                    return await pools.requests.request(method, target, presented, body)
            except TimeoutError as error:
                raise TransportTimeout(f"{method} {path}: no answer in {timeout_s} s") from error

        response = await once()
        if response.status == 401 and self._connection.credentials.renew():
            return await once()
        return response

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[_HttpStream]:
        pools, presented = await self._ready(headers)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        with _translated():
            reply = await pools.watches.get(
                URL(f"{self._base}{path}?{urlencode(query)}" if query else f"{self._base}{path}", encoded=True),
                headers=presented,
                timeout=timeout,
                allow_redirects=False,
                server_hostname=self._connection.tls_server_name,
            )
        if reply.status == 401:
            self._connection.credentials.renew()
        try:
            yield _HttpStream(reply)
        finally:
            reply.close()

    async def close(self) -> None:
        for pools in (self._pools, self._retired):
            if pools is not None:
                await pools.close()
        self._pools = self._retired = None

    async def _ready(self, headers: Mapping[str, str] | None) -> tuple[_Pools, dict[str, str]]:
        grant = await self._connection.credentials.grant()
        if self._pools is None or self._pools.certificate != grant.certificate:
            await self._open(grant.certificate)
        assert self._pools is not None
        return self._pools, {**_HEADERS, **(headers or {}), **grant.headers}

    async def _open(self, certificate: Certificate | None) -> None:
        """Open new connections for a new certificate; requests on the previous ones may finish."""
        tls = tls_context(self._connection, certificate) if self._base.startswith("https:") else None
        before, self._retired = self._retired, self._pools
        place = _endpoint(self._base, tls, self._connection.tls_server_name)
        self._pools = _Pools(certificate, Pool(place, self._connections), _session(tls))
        if before is not None:
            await before.close()


def _endpoint(base: str, tls: ssl.SSLContext | None, tls_name: str | None) -> Endpoint:
    url = URL(base, encoded=True)
    if url.raw_host is None or url.port is None:
        raise ConfigError(f"server: found {base!r}, expected http:// or https:// and a host")
    return Endpoint(url.raw_host, url.port, url.host_port_subcomponent or url.raw_host, tls, tls_name)


def tls_context(connection: Connection, certificate: Certificate | None) -> ssl.SSLContext:
    """A TLS context with the connection's CA, else the system's; without verification if the connection says so."""
    context = ssl.create_default_context()
    if connection.ca is not None:
        context = ssl.create_default_context(cadata=_pem_text(connection))
    if not connection.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load(context, certificate, connection.source)
    return context


def _pem_text(connection: Connection) -> str:
    text = (connection.ca or b"").decode("ascii", "replace")
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{connection.source}: certificate-authority: no PEM certificates: {error}") from error
    return text


def _load(context: ssl.SSLContext, certificate: Certificate, source: str) -> None:
    """The ssl module reads keys from files only; this file is private to us and exists for one call."""
    with tempfile.TemporaryDirectory(prefix="spinney-") as directory:
        chain, key = Path(directory, "chain.pem"), Path(directory, "key.pem")
        for path, content in ((chain, certificate.certificate), (key, certificate.key)):
            path.touch(mode=0o600)
            path.write_bytes(content)
        try:
            context.load_cert_chain(chain, key, password=lambda: "")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"{source}: client certificate and key do not load: {error}") from error


def _session(tls: ssl.SSLContext | None) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=0, ssl=tls or False, keepalive_timeout=KEEP_ALIVE_S, socket_factory=_watched_socket
    )
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=True,
        read_bufsize=_READ_BUFFER,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


def _watched_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    watch_peer(made)
    return made


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@contextmanager
def _translated() -> Iterator[None]:
    """Translates aiohttp exceptions into transport errors."""
    try:
        yield
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        raise CertificateRefused(str(error)) from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise NotSent(str(error)) from error
    except TimeoutError as error:
        raise TransportTimeout("no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise TransportError(f"{type(error).__name__}: {error}") from error
