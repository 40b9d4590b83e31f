"""The call to a webhook: the AdmissionReview that is sent, one HTTPS POST, and the reading of its answer.

Nothing is followed, retried or unlimited. What fails is told in the words of the API server; whether that refuses the
request is the caller's to say.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
import string
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from kube_apimachinery.admission import AdmissionRequest, Object
from kube_apimachinery.tls import client_context
from kube_embedded.admission.webhook_config import ServiceReference, Webhook, is_namespace
from kube_embedded.patch.json_operations import json_type

_BASE64 = frozenset(string.ascii_letters + string.digits + "+/")
_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
_V1 = "admission.k8s.io/v1"
_FIELDS: dict[str, tuple[type, str]] = {
    "uid": (str, "types.UID"),
    "allowed": (bool, "bool"),
    "status": (dict, "v1.Status"),
    "patch": (str, "[]uint8"),
    "patchType": (str, "v1.PatchType"),
    "warnings": (list, "[]string"),
}
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Undecodable(Exception):
    """The answer is no AdmissionReview at all."""


class InvalidResponse(Exception):
    """The answer is an AdmissionReview that may not be believed."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request as one webhook sees it: in the version it wants."""

    request: AdmissionRequest
    version: str
    object: Object | None
    old_object: Object | None


@dataclass(frozen=True, slots=True)
class Response:
    allowed: bool
    status: dict[str, Any] | None
    patch: bytes
    patch_type: str
    warnings: tuple[str, ...]


def describe(question: Question, uid: str) -> dict[str, Any]:
    """The `request` of an AdmissionReview; also what matchConditions know as `request`."""
    request = question.request
    kind = _kind(question.object or question.old_object, request, question.version)
    asked = _kind(request.object or request.old_object, request, request.version)
    resource = {"group": request.group, "version": question.version, "resource": request.resource}
    described: dict[str, Any] = {
        "uid": uid,
        "kind": kind,
        "resource": resource,
        "subResource": request.subresource,
        "requestKind": asked,
        "requestResource": {**resource, "version": request.version},
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": namespace_of(request),
        "operation": request.operation,
        "userInfo": _user_info(request),
        "object": question.object,
        "oldObject": question.old_object,
        "dryRun": request.dry_run,
        "options": _options(request),
    }
    for optional in ("subResource", "requestSubResource", "name", "namespace"):
        if not described[optional]:
            del described[optional]
    return described


def _user_info(request: AdmissionRequest) -> dict[str, Any]:
    shown: dict[str, Any] = {"username": request.user, "groups": list(request.groups)}
    if request.user_uid:
        shown["uid"] = request.user_uid
    if request.user_extra:
        shown["extra"] = {key: list(values) for key, values in request.user_extra.items()}
    return shown


def encode(question: Question, uid: str) -> bytes:
    review = {"kind": "AdmissionReview", "apiVersion": _V1, "request": describe(question, uid)}
    return msgspec.json.encode(review)


def namespace_of(request: AdmissionRequest) -> str:
    """A Namespace counts as being in itself."""
    return request.namespace or (request.name if is_namespace(request) else "")


def decode(body: bytes, uid: str, *, mutating: bool) -> Response:
    """The answer, once it is sure to be one to this question."""
    response = _response(body, uid)
    patch, patch_type = _patch(response), response.get("patchType")
    if mutating:
        _check_mutating(patch, patch_type)
    else:
        _check_validating(patch, patch_type)
    return Response(
        allowed=response.get("allowed") is True,
        status=response.get("status"),
        patch=patch,
        patch_type=patch_type or "",
        warnings=tuple(str(warning) for warning in response.get("warnings") or ()),
    )


def _response(body: bytes, uid: str) -> dict[str, Any]:
    review = _review(body)
    response = review.get("response")
    if response is None:
        raise InvalidResponse("webhook response was absent")
    if response.get("uid") != uid:
        raise InvalidResponse(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    if not review.get("kind") or not review.get("apiVersion"):
        group, _, version = (review.get("apiVersion") or "").rpartition("/")
        found = f"{group}/{version}, Kind={review.get('kind') or ''}"
        raise InvalidResponse(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {found}")
    checked: dict[str, Any] = response
    return checked


def _review(body: bytes) -> dict[str, Any]:
    """An object that is an AdmissionReview v1 or does not say what it is, with a response of the right types."""
    try:
        review = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Undecodable(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(review, dict):
        complaint = f"json: cannot unmarshal {json_type(review)} into Go value of type {_TYPE_META}"
        raise Undecodable(f"couldn't get version/kind; json parse error: {complaint}")
    kind, api_version = review.get("kind") or "", review.get("apiVersion") or ""
    if (kind, api_version) == ("AdmissionReview", "admission.k8s.io/v1beta1"):
        raise Undecodable("converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion")
    if kind and (kind != "AdmissionReview" or api_version not in ("", _V1)):
        raise Undecodable(f'no kind "{kind}" is registered for version "{api_version}"')
    _check_types(review.get("response"))
    return review


def _check_types(response: Any) -> None:
    if response is None:
        return
    if not isinstance(response, dict):
        raise Undecodable(f"json: cannot unmarshal {json_type(response)} into Go struct field AdmissionReview.response")
    for field, (wanted, shown) in _FIELDS.items():
        value = response.get(field)
        if value is not None and not isinstance(value, wanted):
            where = f"AdmissionResponse.response.{field} of type {shown}"
            raise Undecodable(f"json: cannot unmarshal {json_type(value)} into Go struct field {where}")


def _check_mutating(patch: bytes, patch_type: Any) -> None:
    if patch and patch_type is None:
        raise InvalidResponse("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise InvalidResponse("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise InvalidResponse('webhook returned invalid response.patchType of ""')


def _check_validating(patch: bytes, patch_type: Any) -> None:
    if patch:
        raise InvalidResponse("validating webhook may not return response.patch")
    if patch_type is not None:
        raise InvalidResponse("validating webhook may not return response.patchType")


def _patch(response: Mapping[str, Any]) -> bytes:
    encoded = response.get("patch") or ""
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        at = next((at for at, char in enumerate(encoded) if char not in _BASE64), len(encoded))
        raise Undecodable(f"illegal base64 data at input byte {at}") from error


def _kind(obj: Object | None, request: AdmissionRequest, version: str) -> dict[str, str]:
    """The object says itself what it is (a Scale or a Binding is not of the resource's group); else the resource."""
    if obj is not None and obj.get("kind") and obj.get("apiVersion"):
        group, _, own = obj["apiVersion"].rpartition("/")
        return {"group": group, "version": own, "kind": obj["kind"]}
    return {"group": request.group, "version": version, "kind": request.kind}


def _options(request: AdmissionRequest) -> dict[str, Any] | None:
    kind = _OPTIONS.get(request.operation)
    if kind is None and not request.options:
        return None
    options: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1", **request.options}
    if request.dry_run:
        options["dryRun"] = ["All"]
    return options


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
        answer_status = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, msgspec.ValidationError):
        answer_status = _Status()
    if answer_status.kind == "Status" and answer_status.message:
        return answer_status.message
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
