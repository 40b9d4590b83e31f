"""The pages on a socket: loopback unless told otherwise, streams ended before the listener goes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import uvicorn

from kube_apimachinery.loopback import is_loopback
from spinney.serve.dashboard.application import application
from spinney.serve.dashboard.auth import AuthSettings
from spinney.serve.dashboard.data_sources import Questions
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.page import warm
from spinney.serve.dashboard.page_handlers import PageContext
from spinney.serve.dashboard.render_cache import RenderCache
from spinney.serve.dashboard.streams import Streams

_GRACE_S = 1
_CHECK_S = 0.01
_MOST_CONNECTIONS = 256


class _Server(uvicorn.Server):
    """Signals are somebody else's to handle."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(
    model: Model, questions: Questions, host: str = "127.0.0.1", ports: Sequence[int] = (0,), token: str = ""
) -> AsyncIterator[str]:
    """Serve on the first free one of the ports while the block runs; gives the URL. Only loopback needs no token."""
    if not token and not is_loopback(host):
        raise ValueError(f"pages on {host} need a token: only loopback is served without one")
    streams = Streams(model)
    await streams.settle()
    await asyncio.to_thread(warm)
    app = application(PageContext(model, questions, RenderCache(model)), streams, AuthSettings(token))
    with _first_bound(host, ports) as sock:
        server = _Server(_settings(app))
        following = asyncio.create_task(streams.run(), name="dashboard-streams")
        serve = asyncio.create_task(server.serve(sockets=[sock]), name="dashboard")
        try:
            while not server.started and not serve.done():  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(_CHECK_S)
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{sock.getsockname()[1]}"
        finally:
            following.cancel()
            await asyncio.wait([following])
            server.should_exit = True
            await asyncio.wait([serve])


def _settings(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=64 * 1024,
    )


def _first_bound(host: str, ports: Sequence[int]) -> socket.socket:
    for port in ports[:-1]:
        with contextlib.suppress(OSError):
            return _bound(host, port)
    return _bound(host, ports[-1])


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; what is in the way is named."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return sock
