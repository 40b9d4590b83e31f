"""Who may come in, and what browsers are told about the pages: nothing is read or run from anywhere else.

Loopback is for whoever is on this machine, under its own names only: a name of somebody else that leads here is
refused. Anywhere else a token is asked for.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "spinney-dashboard"
ENTER = "/enter"
_LONGEST_TOKEN = 4096
_MONTH_S = 30 * 24 * 3600
_LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """`token` empty: nobody is asked for one, and only names of this machine lead here."""

    token: str = ""

    @property
    def session(self) -> str:
        """What a cookie holds: proof of the token, not the token."""
        return hmac.new(self.token.encode(), b"spinney dashboard", "sha256").hexdigest()

    def is_token(self, given: str) -> bool:
        return len(given) <= _LONGEST_TOKEN and hmac.compare_digest(given.encode(), self.token.encode())

    def is_session(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.session.encode())


class AuthMiddleware:
    """The application behind its doors. `ask`: the page that asks for a token; told whether one was wrong."""

    def __init__(self, app: ASGIApp, auth_settings: AuthSettings, ask: Callable[[bool], str]) -> None:
        self._app = app
        self._auth_settings = auth_settings
        self._ask = ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = await self._judge(Request(scope, receive))
        await (answer or self._app)(scope, receive, _with_headers(send))

    async def _judge(self, request: Request) -> Response | None:
        """None: come in."""
        headers = request.headers
        if request.method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("only GET, HEAD and POST\n", 405, {"allow": "GET, HEAD, POST"})
        if not self._auth_settings.token and not _LOOPBACK.fullmatch(headers.get("host", "")):
            return PlainTextResponse("this page is served under the names of this machine only\n", 421)
        if request.method == "POST" and not _is_from_here(headers):
            return PlainTextResponse("forms are taken from these pages only\n", 403)
        return await self._ask_for_token(request) if self._auth_settings.token else None

    async def _ask_for_token(self, request: Request) -> Response | None:
        auth_settings, path = self._auth_settings, request.url.path
        if path.startswith("/static/") or auth_settings.is_session(request.cookies.get(COOKIE, "")):
            return None
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and auth_settings.is_token(given.strip()):
            return None
        if request.method == "POST" and path == ENTER:
            return self._enter(await _field(request, "token"), "/", request.url.scheme == "https")
        if request.method == "GET" and "token" in request.query_params:
            rest = [each for each in request.query_params.multi_items() if each[0] != "token"]
            on_to = f"{path}?{urlencode(rest)}" if rest else path
            return self._enter(request.query_params["token"], on_to, request.url.scheme == "https")
        return HTMLResponse(self._ask(False), 401, {"www-authenticate": "Bearer", "cache-control": "no-store"})

    def _enter(self, given: str, on_to: str, secure: bool) -> Response:
        if not self._auth_settings.is_token(given.strip()):
            return HTMLResponse(self._ask(True), 401, {"cache-control": "no-store"})
        answer = RedirectResponse("/" + on_to.lstrip("/\\"), 303, {"cache-control": "no-store"})
        session = self._auth_settings.session
        answer.set_cookie(COOKIE, session, max_age=_MONTH_S, httponly=True, samesite="lax", secure=secure)
        return answer


async def _field(request: Request, name: str) -> str:
    """One field of a short form."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST_TOKEN:
            return ""
    return dict(parse_qsl(body.decode("utf-8", "replace"))).get(name, "")


def _is_from_here(headers: Headers) -> bool:
    """Browsers say where a form comes from; who says nothing is no browser."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending
