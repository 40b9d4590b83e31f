"""The call to a webhook: one HTTPS POST, nothing followed, nothing retried, nothing unlimited.

What fails is told in the words of the API server; whether that refuses the request is the caller's to say.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from kube_apimachinery.tls import client_context
from kube_embedded.admission.webhook_config import ServiceReference, Webhook

MAX_RESPONSE = 16 * 1024 * 1024
_SESSIONS = 200
_SHOWN_BODY = 2048
_CALLING = "failed to call webhook"
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}
_SUCCESS = range(200, 207)
_MEANINGS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_WRONG_NAME = (62, 64)  # OpenSSL: hostname mismatch, IP address mismatch
_WRONG_TIME = (9, 10)  # OpenSSL: not yet valid, expired


class CallFailed(Exception):
    """No usable answer: refused, timed out, not trusted, not 200, too large."""


class _Status(msgspec.Struct):
    kind: str = ""
    message: str = ""


class Post(Protocol):
    """Sends a review to a webhook and brings back the body of the answer. The simulation has its own."""

    async def __call__(self, webhook: Webhook, body: bytes) -> bytes: ...


Resolve = Callable[[ServiceReference], tuple[str, int]]
"""Where a Service listens, as (host, port); raises LookupError where nobody knows."""


def resolve_nothing(service: ServiceReference) -> tuple[str, int]:
    """The default: there is no service network here."""
    raise LookupError(f'service "{service.name}" not found')


@dataclass(frozen=True, slots=True)
class _Target:
    url: str
    shown: str  # as the configuration names it
    authority: str
    server_name: str


class HttpsPost:
    """Connections are kept, one pool per trust bundle and server name."""

    def __init__(self, resolve: Resolve = resolve_nothing) -> None:
        self._resolve = resolve
        self._sessions: OrderedDict[bytes | None, aiohttp.ClientSession] = OrderedDict()

    async def __call__(self, webhook: Webhook, body: bytes) -> bytes:
        target = self._target(webhook)
        try:
            async with asyncio.timeout(webhook.timeout_s):
                return await self._post(webhook, target, body)
        except CallFailed:
            raise
        except TimeoutError as error:
            raise CallFailed(f'{_CALLING}: Post "{target.shown}": context deadline exceeded') from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallFailed(f'{_CALLING}: Post "{target.shown}": {_words(error)}') from error

    async def close(self) -> None:
        while self._sessions:
            await self._sessions.popitem()[1].close()

    async def _post(self, webhook: Webhook, target: _Target, body: bytes) -> bytes:
        session = await self._session(webhook.ca_bundle)
        headers = {**_HEADERS, "Host": target.authority}
        async with session.post(
            target.url, data=body, headers=headers, allow_redirects=False, server_hostname=target.server_name
        ) as response:
            answer = await _limited(response)
            if response.status not in _SUCCESS:
                raise CallFailed(f"{_CALLING}: {_refusal(response.status, answer)}")
            if not answer:
                shown = f"status code: {response.status} and content type: {response.headers.get('Content-Type', '')}"
                raise CallFailed(f"{_CALLING}: 0-length response with {shown}")
            return answer

    def _target(self, webhook: Webhook) -> _Target:
        query = f"timeout={webhook.timeout_s}s"
        if webhook.service is None:
            url = f"{webhook.url}?{query}"
            parts = urlsplit(webhook.url)
            return _Target(url, url, parts.netloc, parts.hostname or "")
        service = webhook.service
        shown = f"https://{service.host}:{service.port}{service.path}?{query}"
        try:
            host, port = self._resolve(service)
        except LookupError as error:
            raise CallFailed(f'{_CALLING}: Post "{shown}": {error.args[0]}') from error
        authority = f"{service.host}:{service.port}"
        return _Target(f"https://{host}:{port}{service.path}?{query}", shown, authority, service.host)

    async def _session(self, bundle: bytes | None) -> aiohttp.ClientSession:
        session = self._sessions.get(bundle)
        if session is None:
            connector = aiohttp.TCPConnector(ssl=_context(bundle), limit=0, keepalive_timeout=90)
            timeout = aiohttp.ClientTimeout(total=None)
            session = aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
            self._sessions[bundle] = session
            if len(self._sessions) > _SESSIONS:
                await self._sessions.popitem(last=False)[1].close()
        self._sessions.move_to_end(bundle)
        return session


def _context(bundle: bytes | None) -> ssl.SSLContext:
    try:
        return client_context(bundle)
    except (ssl.SSLError, ValueError) as error:
        complaint = "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
        raise CallFailed(complaint) from error


async def _limited(response: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_RESPONSE:
            raise CallFailed(f"{_CALLING}: the response is larger than {MAX_RESPONSE} bytes")
        parts.append(part)
    return b"".join(parts)


def _refusal(status: int, body: bytes) -> str:
    """What an answer that is no success means; a Status in it speaks for itself."""
    text = body[:_SHOWN_BODY].decode(errors="replace").strip()
    try:
        told = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, msgspec.ValidationError):
        told = _Status()
    if told.kind == "Status" and told.message:
        return told.message
    if status in _MEANINGS:
        return _MEANINGS[status]
    if status in (403, 406, 415) and text:
        return text
    if status >= 500:
        return (
            f"an error on the server ({msgspec.json.encode(text).decode()}) has prevented the request from succeeding"
        )
    return f"the server responded with the status code {status} but did not return more information"


def _words(error: Exception) -> str:
    """A failed connection in the words of the API server, as far as the library tells."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _distrust(error.certificate_error, error.host)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = (error.os_error.strerror or str(error.os_error)).lower()
        refused = isinstance(error.os_error, ConnectionRefusedError)
        return f"dial tcp {error.host}:{error.port}: connect: {'connection refused' if refused else reason}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error)


def _distrust(error: Exception, host: str) -> str:
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else 0
    if code in _WRONG_NAME:
        why = f"certificate is not valid for {host}"
    elif code in _WRONG_TIME:
        why = "certificate has expired or is not yet valid"
    else:
        why = "certificate signed by unknown authority"
    return f"tls: failed to verify certificate: x509: {why}"
