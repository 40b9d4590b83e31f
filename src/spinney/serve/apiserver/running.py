"""The embedded server on a socket: uvicorn around the application, loopback unless told otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from spinney.serve.apiserver.asgi import Application
from spinney.serve.apiserver.connections import Connection, drop_stalled, sweep
from spinney.serve.apiserver.server import ApiServer


@dataclass(frozen=True, slots=True)
class Listen:
    """Where and how to listen. Anything but loopback needs TLS."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

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
        application = Application(server)
        runner = _runner(application, listen)
        serving = asyncio.create_task(runner.serve(sockets=[sock]), name="apiserver-http")
        sweeping = asyncio.create_task(sweep(runner.server_state.connections), name="apiserver-sweep")
        try:
            while not runner.started and not serving.done():  # noqa: ASYNC110 - uvicorn tells nobody that it started
                await asyncio.sleep(0.005)
            scheme = "https" if listen.certificate else "http"
            host = f"[{listen.host}]" if ":" in listen.host else listen.host
            yield f"{scheme}://{host}:{port}"
        finally:
            drop_stalled(runner.server_state.connections)
            application.end_streams()
            runner.should_exit = True
            sweeping.cancel()
            await asyncio.gather(serving, sweeping, return_exceptions=True)
            await server.stop()


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


def _runner(application: Application, listen: Listen) -> uvicorn.Server:
    config = uvicorn.Config(
        application,
        http=Connection,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=4096,
        timeout_keep_alive=120,
        timeout_graceful_shutdown=1,
        ssl_certfile=str(listen.certificate) if listen.certificate else None,
        ssl_keyfile=str(listen.key) if listen.key else None,
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
    )
    runner = uvicorn.Server(config)
    runner.capture_signals = contextlib.nullcontext  # type: ignore[assignment]  # signals are the command's
    return runner
