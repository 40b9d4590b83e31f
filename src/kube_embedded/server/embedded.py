"""The embedded server put together for use (tokens, durability, our converters and rules), and on a socket.

It listens on loopback unless told otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kube_apimachinery.admission import AdmissionPlugin
from kube_apimachinery.clock import Clock, Dice
from kube_apimachinery.loopback import is_loopback
from kube_apimachinery.system_clock import SystemClock
from kube_embedded.access.tokens import Authentication, ServiceAccountTokens, create_key
from kube_embedded.base.identity import AnonymousAccess, Authenticator, Identity, StaticTokens
from kube_embedded.base.resource import Converter
from kube_embedded.base.store import SqliteJournal
from kube_embedded.server.api_server import ApiServer
from kube_embedded.server.connections import Connection, ServerState, close_connections, sweep

_BACKLOG = 4096
_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Listen:
    """Where and how to listen. Anything but loopback needs TLS."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def check(self) -> None:
        if not self.is_loopback and self.certificate is None:
            raise ValueError(f"listening on {self.host} needs a certificate: only loopback is served without TLS")


@contextlib.asynccontextmanager
async def listening(server: ApiServer, listen: Listen) -> AsyncIterator[str]:
    """Serve while the block runs; gives the URL. The server is started and stopped here too."""
    listen.check()
    with _bound(listen) as sock:
        port = sock.getsockname()[1]
        await server.start()
        state = ServerState(server.handle)
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: Connection(state), sock=sock, ssl=_tls(listen), backlog=_BACKLOG)
        sweeping = asyncio.create_task(sweep(state.connections), name="apiserver-sweep")
        try:
            scheme = "https" if listen.certificate else "http"
            host = f"[{listen.host}]" if ":" in listen.host else listen.host
            yield f"{scheme}://{host}:{port}"
        finally:
            listener.close()
            sweeping.cancel()
            await asyncio.gather(close_connections(state, _GRACE_S), sweeping, return_exceptions=True)
            await server.stop()


def _tls(listen: Listen) -> ssl.SSLContext | None:
    if listen.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(listen.certificate, listen.key)
    return context


def _bound(listen: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((listen.host, listen.port))
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {listen.host}:{listen.port}: {error.strerror}") from None
    return sock


_ISSUER = "https://kubernetes.default.svc"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to build a server. Without tokens, whoever reaches it over loopback is its admin."""

    tokens: Mapping[str, Identity] | None = None
    nobody: AnonymousAccess = AnonymousAccess.ADMIN_ON_LOOPBACK
    data_dir: Path | None = None
    plugins: Sequence[AdmissionPlugin] = ()
    converters: Mapping[tuple[str, str], Converter] | None = None


def build(options: ServerOptions, clock: Clock | None = None, dice: Dice | None = None) -> ApiServer:
    """A server that is not started yet."""
    server: ApiServer | None = None

    def exists(namespace: str, name: str, uid: str) -> bool:
        found = server.kernel.store.get("/serviceaccounts", namespace, name) if server is not None else None
        return found is not None and found.uid == uid

    accounts = ServiceAccountTokens(_signing_key(options.data_dir), _ISSUER, exists=exists)
    sources = (StaticTokens(options.tokens or {}), accounts)
    server = ApiServer(
        clock or SystemClock(),
        dice or random.Random(),
        plugins=options.plugins,
        converters=options.converters,
        authentication=Authentication(Authenticator(sources, options.nobody), accounts),
        journal=SqliteJournal(options.data_dir) if options.data_dir is not None else None,
    )
    return server


def _signing_key(data_dir: Path | None) -> bytes:
    """Kept beside the data, so that tokens outlive a restart as the objects do."""
    if data_dir is None:
        return create_key()
    data_dir.mkdir(parents=True, exist_ok=True)
    path = data_dir / "service-account.key"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(create_key())
    return path.read_bytes()
