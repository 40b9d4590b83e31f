"""The pages on a socket: whole for a visit, the part that changes for htmx, and as a stream of changes.

Loopback unless told otherwise; streams are ended before the listener goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from ssl import SSLContext
from typing import Any

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from kube_apimachinery.loopback import is_loopback
from spinney.serve.dashboard import page_handlers
from spinney.serve.dashboard.auth import AuthMiddleware, AuthSettings
from spinney.serve.dashboard.boxes import RenderCache
from spinney.serve.dashboard.data_sources import Questions
from spinney.serve.dashboard.history import sample
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.page import STATIC, PageContent, render, warm
from spinney.serve.dashboard.page_handlers import Asked, Page, PageContext, form, planned
from spinney.serve.dashboard.streams import Streams, mark

_log = structlog.get_logger("dashboard")

Answer = Callable[[Request], Coroutine[Any, Any, Response]]

PAGES: dict[str, Page] = {
    "/": page_handlers.overview_page,
    "/tree": page_handlers.tree,
    "/gangs": page_handlers.gangs,
    "/gangs/{namespace}/{name}": page_handlers.gang,
    "/nodes/{name}": page_handlers.node,
    "/queues": page_handlers.queues,
    "/topologies": page_handlers.topologies,
    "/history": page_handlers.history,
}
_NAVIGATION = (
    ("/", "Overview"),
    ("/tree", "Topology"),
    ("/gangs", "Gangs"),
    ("/queues", "Queues"),
    ("/topologies", "Topologies"),
    ("/history", "History"),
)
_FOR_A_YEAR = "public, max-age=31536000, immutable"


def application(context: PageContext, streams: Streams, auth_settings: AuthSettings) -> ASGIApp:
    """Read-only but for one form, which asks a question and changes nothing."""
    site = _Site(context, streams)
    routes: list[BaseRoute] = []
    for path, page in PAGES.items():
        routes.append(Route(path, site.whole(page)))
        routes.append(Route(f"/live{path}", site.live(page)))
    routes += [
        Route("/plan", site.plan, methods=["GET", "POST"]),
        Mount("/static", _CachedStaticFiles(directory=STATIC)),
    ]
    if context.questions.metrics is not None:
        routes.append(Route("/metrics", _page_of(context.questions.metrics)))
    app = Starlette(routes=routes, exception_handlers={HTTPException: site.refused, 500: site.failed})
    return AuthMiddleware(app, auth_settings, lambda wrong: render("enter.html", {"wrong": wrong}))


class _CachedStaticFiles(StaticFiles):
    """Our files: their addresses change with their content, so browsers may keep them."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        answer = super().file_response(*given, **named)
        answer.headers["cache-control"] = _FOR_A_YEAR
        return answer


class _Site:
    def __init__(self, context: PageContext, streams: Streams) -> None:
        self._context = context
        self._streams = streams

    def whole(self, page: Page) -> Answer:
        async def answer(request: Request) -> Response:
            await self._context.model.refresh()
            return await self._shown(request, await page(self._context, _asked(request)), live=True)

        return answer

    def live(self, page: Page) -> Answer:
        async def answer(request: Request) -> Response:
            if self._streams.is_full:
                return PlainTextResponse("too many pages are open\n", 503, {"retry-after": "30"})
            if request.method == "HEAD":
                return Response(media_type="text/event-stream")
            asked = _asked(request)
            await self._context.model.refresh()
            known = request.headers.get("last-event-id") or asked.get("mark", "")
            updates = self._streams.follow(lambda: page(self._context, asked), known)
            headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
            return StreamingResponse(updates, media_type="text/event-stream", headers=headers)

        return answer

    async def plan(self, request: Request) -> Response:
        shown = form(self._context) if request.method != "POST" else await planned(self._context, request)
        return await self._shown(request, shown)

    async def refused(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status == 404:
            return await self._shown(request, page_handlers.missing("page", request.url.path))
        return PlainTextResponse(f"{error.detail if isinstance(error, HTTPException) else 'failed'}\n", status)

    async def failed(self, request: Request, error: Exception) -> Response:
        """By our own fault; the log has the rest."""
        _log.error("a page failed by an internal error", page=request.url.path, exc_info=error)
        return PlainTextResponse("this page failed: an internal error; the log says why\n", 500)

    async def _shown(self, request: Request, shown: PageContent, live: bool = False) -> Response:
        built = shown.build()
        part = await asyncio.to_thread(render, shown.template, built)
        if request.headers.get("hx-request") == "true":
            return HTMLResponse(part, shown.status, {"hx-push-url": shown.address} if shown.address else None)
        values = {
            "title": shown.title,
            "head": render(shown.head, built) if shown.head else "",
            "part": part,
            "here": request.url.path,
            "navigation": _NAVIGATION,
            "can_plan": self._context.questions.plan is not None,
            "live": live and shown.status == 200,
            "mark": mark(shown, part),
            "trouble": self._context.questions.trouble(),
        }
        return HTMLResponse(await asyncio.to_thread(render, "page.html", values), shown.status)


def _page_of(metrics: Callable[[], str]) -> Answer:
    async def answer(request: Request) -> Response:
        return PlainTextResponse(metrics())

    return answer


def _asked(request: Request) -> Asked:
    return {**request.query_params, **request.path_params}


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
    model: Model,
    questions: Questions,
    host: str = "127.0.0.1",
    ports: Sequence[int] = (0,),
    token: str = "",
    tls: SSLContext | None = None,
) -> AsyncIterator[str]:
    """Serve on the first free one of the ports while the block runs; gives the URL. Only loopback needs no token.

    `tls` None: plain HTTP.
    """
    if not token and not is_loopback(host):
        raise ValueError(f"pages on {host} need a token: only loopback is served without one")
    streams = Streams(model)
    await streams.refresh()
    await asyncio.to_thread(warm)
    context = PageContext(model, questions, RenderCache(model))
    app = application(context, streams, AuthSettings(token))
    with _first_bound(host, ports) as sock:
        server = _Server(_settings(app, tls))
        following = asyncio.create_task(streams.run(), name="dashboard-streams")
        sampling = asyncio.create_task(sample(context.history, model, streams.refresh), name="dashboard-history")
        serve = asyncio.create_task(server.serve(sockets=[sock]), name="dashboard")
        try:
            while not server.started and not serve.done():  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(_CHECK_S)
            shown = f"[{host}]" if ":" in host else host
            yield f"{'http' if tls is None else 'https'}://{shown}:{sock.getsockname()[1]}"
        finally:
            following.cancel()
            sampling.cancel()
            await asyncio.wait([following, sampling])
            server.should_exit = True
            await asyncio.wait([serve])


def _settings(app: Any, context: SSLContext | None) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=64 * 1024,
    )
    config.load()
    config.ssl = context  # it takes files only, and these change
    return config


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
