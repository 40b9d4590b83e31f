"""The pages under their addresses: whole for a visit, the part that changes for htmx, and as a stream of news."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from spinney.serve.dashboard import page_handlers
from spinney.serve.dashboard.auth import AuthMiddleware, AuthSettings
from spinney.serve.dashboard.page import STATIC, PageContent, render
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
    "/topologies": page_handlers.topologies,
}
_NAVIGATION = (("/", "Overview"), ("/tree", "Topology"), ("/gangs", "Gangs"), ("/topologies", "Topologies"))
_FOR_A_YEAR = "public, max-age=31536000, immutable"


def application(context: PageContext, streams: Streams, auth_settings: AuthSettings) -> ASGIApp:
    """Read-only but for one form, which asks a question and changes nothing."""
    site = _Site(context, streams)
    routes: list[BaseRoute] = []
    for path, page in PAGES.items():
        routes.append(Route(path, site.whole(page)))
        routes.append(Route(f"/live{path}", site.live(page)))
    routes += [
        Route("/cells/tree", site.cells),
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
            await self._context.model.settle()
            return await self._shown(request, await page(self._context, _asked(request)), live=True)

        return answer

    def live(self, page: Page) -> Answer:
        async def answer(request: Request) -> Response:
            if self._streams.is_full:
                return PlainTextResponse("too many pages are open\n", 503, {"retry-after": "30"})
            if request.method == "HEAD":
                return Response(media_type="text/event-stream")
            asked = _asked(request)
            await self._context.model.settle()
            known = request.headers.get("last-event-id") or asked.get("mark", "")
            news = self._streams.follow(lambda: page(self._context, asked), known)
            headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
            return StreamingResponse(news, media_type="text/event-stream", headers=headers)

        return answer

    async def cells(self, request: Request) -> Response:
        await self._context.model.settle()
        return JSONResponse(page_handlers.tree_cells(self._context, _asked(request)))

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
        _log.error("a page failed by our own fault", page=request.url.path, exc_info=error)
        return PlainTextResponse("this page failed by our own fault; the log says why\n", 500)

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
