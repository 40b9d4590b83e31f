"""The embedded server on a socket: a listener and the connections it takes, loopback unless told otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from kube_apimachinery.loopback import is_loopback
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
