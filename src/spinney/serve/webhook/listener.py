"""The webhook on a socket: TLS always, with certificates that can be replaced while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from ssl import SSLContext

from kube_apimachinery import tls
from kube_embedded.server.connections import Connection, ServerState, close_connections, sweep
from spinney.serve.webhook.handler import Webhook

_BACKLOG = 1024
_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Listener:
    """A webhook that is being served."""

    url: str
    context: SSLContext

    def show(self, certificate: tls.Certificate) -> None:
        """Use another certificate from the next connection on; nobody who is connected notices."""
        tls.show(self.context, certificate)


@contextlib.asynccontextmanager
async def serving(
    webhook: Webhook, certificate: tls.Certificate, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Listener]:
    """Serve while the block runs. Loopback unless told otherwise."""
    context = tls.server_context(certificate)
    state = ServerState(webhook.handle)
    loop = asyncio.get_running_loop()
    with _bound(host, port) as sock:
        taken = sock.getsockname()[1]
        listener = await loop.create_server(lambda: Connection(state), sock=sock, ssl=context, backlog=_BACKLOG)
        sweeping = asyncio.create_task(sweep(state.connections), name="webhook-sweep")
        try:
            shown = f"[{host}]" if ":" in host else host
            yield Listener(f"https://{shown}:{taken}", context)
        finally:
            listener.close()
            sweeping.cancel()
            await asyncio.gather(close_connections(state, _GRACE_S), sweeping, return_exceptions=True)


def _bound(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return sock
