"""What the webhook answers to a request: admission and conversion reviews, whether it is well, and what others add.

Validation fails closed: a rule that fails denies, whatever else goes wrong is an error of the call, never a yes.
Several sets of rules can be one: each request is judged by the first that handles it. One object that cannot be
converted fails its review as a whole, as the API asks for.
"""

from __future__ import annotations

import asyncio
import base64
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from kube_apimachinery.admission import AdmissionPlugin, AdmissionRequest, Lookup, Object, Verdict
from kube_embedded.admission.chain import of_verdict, shown_name
from kube_embedded.base.errors import (
    ApiError,
    NoSuchPath,
    bad_request,
    internal,
    method_not_allowed,
    timeout,
    too_many_requests,
    unsupported_media_type,
)
from kube_embedded.base.http import JSON_TYPE, HttpReply, HttpRequest, error_reply, json_reply
from spinney.api.documents import BODY, DocumentError, read_json_as
from spinney.api.dynamo_conversion import ConversionError, convert
from spinney.serve.webhook.live_lookup import Reader, RuleFailedError, ask

CONVERT = "/convert"
_EXTENSIONS_V1 = "apiextensions.k8s.io/v1"

Convert = Callable[[Object, str], Object]


class _ConversionRequest(msgspec.Struct, rename="camel"):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[Object] = msgspec.field(default_factory=list)


class _ConversionReview(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _ConversionRequest


async def converted(request: HttpRequest) -> HttpReply:
    """The page."""
    return json_reply(answer(request.body, convert))


def answer(body: bytes, between: Convert) -> dict[str, Any]:
    """The review with its response; raises for what is no review."""
    try:
        review = read_json_as(body, _ConversionReview, limits=BODY)
    except DocumentError as error:
        raise bad_request(f"not a ConversionReview: {error}") from error
    if (review.api_version, review.kind) != (_EXTENSIONS_V1, "ConversionReview"):
        raise bad_request(f"found {review.api_version} {review.kind}, expected {_EXTENSIONS_V1} ConversionReview")
    asked = review.request
    response: dict[str, Any] = {"uid": asked.uid}
    try:
        found = [between(obj, asked.desired_api_version) for obj in asked.objects]
        response |= {"convertedObjects": found, "result": {"status": "Success"}}
    except (ConversionError, RecursionError) as error:
        response |= {"convertedObjects": [], "result": {"status": "Failure", "message": str(error)}}
    return {"apiVersion": _EXTENSIONS_V1, "kind": "ConversionReview", "response": response}


class AdmissionUnion:
    """Rules of different kinds of objects, side by side."""

    def __init__(self, plugins: Sequence[AdmissionPlugin]) -> None:
        self._plugins = tuple(plugins)

    def handles(self, request: AdmissionRequest) -> bool:
        return self._of(request) is not None

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        chosen = self._of(request)
        return chosen.mutate(request, lookup) if chosen is not None else Verdict()

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        chosen = self._of(request)
        return chosen.validate(request, lookup) if chosen is not None else Verdict()

    def _of(self, request: AdmissionRequest) -> AdmissionPlugin | None:
        return next((one for one in self._plugins if one.handles(request)), None)


Operation = dict[str, Any]


def differences(before: Any, after: Any) -> list[Operation]:
    """The operations, parents before children; none where both are the same."""
    found: list[Operation] = []
    _compare(before, after, "", found)
    return found


def _compare(before: Any, after: Any, path: str, found: list[Operation]) -> None:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                found.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})
        for key, value in after.items():
            where = f"{path}/{_escaped(key)}"
            if key not in before:
                found.append({"op": "add", "path": where, "value": value})
            else:
                _compare(before[key], value, where, found)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            _compare(one, other, f"{path}/{index}", found)
    elif type(before) is not type(after) or before != after:
        found.append({"op": "replace", "path": path, "value": after})


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


_V1 = "admission.k8s.io/v1"


class NotAReviewError(ValueError):
    """The body is no AdmissionReview v1."""


class _GroupKind(msgspec.Struct, rename="camel"):
    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = ()
    extra: dict[str, tuple[str, ...]] | None = None


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    kind: _GroupKind
    resource: _GroupKind
    operation: str
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = False
    options: dict[str, Any] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


def read_review(body: bytes) -> AdmissionRequest:
    """The request of a review."""
    try:
        review = read_json_as(body, _Review, limits=BODY)
    except DocumentError as error:
        raise NotAReviewError(f"not an AdmissionReview: {error}") from error
    if (review.api_version, review.kind) != (_V1, "AdmissionReview"):
        raise NotAReviewError(f"found {review.api_version} {review.kind}, expected {_V1} AdmissionReview")
    asked = review.request
    return AdmissionRequest(
        uid=asked.uid,
        operation=asked.operation,
        group=asked.resource.group,
        version=asked.resource.version,
        kind=asked.kind.kind,
        resource=asked.resource.resource,
        subresource=asked.sub_resource,
        namespace=asked.namespace,
        name=asked.name or _name(asked.object),
        user=asked.user_info.username,
        groups=asked.user_info.groups or (),
        object=asked.object,
        old_object=asked.old_object,
        dry_run=bool(asked.dry_run),
        options=asked.options or {},
        user_uid=asked.user_info.uid,
        user_extra=asked.user_info.extra or {},
    )


def _name(obj: Object | None) -> str:
    metadata = (obj or {}).get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return name if isinstance(name, str) else ""


def answer_review(request: AdmissionRequest, verdict: Verdict) -> bytes:
    """The review that answers the request: allowed with a patch where something changes, or a Status with causes."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = _status(request, verdict)
    elif verdict.object is not None:
        operations = differences(request.object, verdict.object)
        if operations:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(operations)).decode()
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    return msgspec.json.encode({"apiVersion": _V1, "kind": "AdmissionReview", "response": response})


def _status(request: AdmissionRequest, verdict: Verdict) -> Mapping[str, Any]:
    shown = of_verdict(request, verdict).status()
    return {key: value for key, value in shown.items() if key not in ("kind", "apiVersion")}


log = structlog.get_logger("webhook")

MUTATE, VALIDATE = "/mutate", "/validate"
ALIVE, READY = ("/healthz", "/livez"), "/readyz"

Page = Callable[[HttpRequest], Awaitable[HttpReply]]
"""Something else that API servers call, such as the conversion of versions."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is done at once, and for how long: shorter than the API server waits."""

    concurrent: int = 64
    deadline_s: float = 8.0


class Webhook:
    """The rules behind HTTP. `handle` takes a request value and gives a reply value; it opens no socket.

    `trouble` says what is wrong at the moment; `pages` are further paths, under the same limits.
    """

    def __init__(
        self,
        plugin: AdmissionPlugin,
        reader: Reader,
        limits: Limits | None = None,
        *,
        trouble: Callable[[], str] = lambda: "",
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        self._plugin = plugin
        self._reader = reader
        self._limits = limits or Limits()
        self._trouble = trouble
        self._pages: dict[str, Page] = {MUTATE: self._reviewed, VALIDATE: self._reviewed, **(pages or {})}
        self._busy = 0
        self.answered: Counter[tuple[str, int]] = Counter()
        """How many calls were answered, by path and status."""
        self.faults: Counter[str] = Counter()
        """How many reviews were denied because a rule failed, by path."""

    async def handle(self, request: HttpRequest) -> HttpReply:
        if request.path in ALIVE:
            return _plain(200, "ok")
        if request.path == READY:
            trouble = self._trouble()
            return _plain(503, trouble) if trouble else _plain(200, "ok")
        reply = await self._answer(request)
        if request.path in self._pages:
            self.answered[request.path, reply.status] += 1
        return reply

    async def _answer(self, request: HttpRequest) -> HttpReply:
        try:
            if request.path not in self._pages:
                raise NoSuchPath
            _check(request)
            return await self._admitted(request)
        except ApiError as error:
            return error_reply(error)
        except Exception:
            log.error("a review failed by our own fault", path=request.path, trace=traceback.format_exc())
            return error_reply(internal("the review could not be answered; the log of the webhook says why"))

    async def _admitted(self, request: HttpRequest) -> HttpReply:
        """One more review at a time than the limit is one too many."""
        if self._busy >= self._limits.concurrent:
            raise too_many_requests("too many reviews at once, please try again later")
        self._busy += 1
        try:
            async with asyncio.timeout(self._limits.deadline_s):
                return await self._pages[request.path](request)
        except TimeoutError:
            raise timeout(f"the cluster could not be read within {self._limits.deadline_s:g} s") from None
        finally:
            self._busy -= 1

    async def _reviewed(self, request: HttpRequest) -> HttpReply:
        try:
            asked = read_review(request.body)
        except NotAReviewError as error:
            raise bad_request(str(error)) from error
        try:
            verdict = await self._judged(asked, request.path)
        except RuleFailedError as error:
            verdict = self._denied_by_our_fault(asked, request.path, error)
        return HttpReply(200, answer_review(asked, verdict))

    def _denied_by_our_fault(self, request: AdmissionRequest, path: str, error: RuleFailedError) -> Verdict:
        """What could not be judged is not let in, and whoever wrote it is told that it is not their mistake."""
        self.faults[path] += 1
        shown = "/".join(filter(None, (request.namespace, shown_name(request))))
        log.error(
            "a rule failed by our own fault",
            path=path,
            operation=request.operation,
            resource=request.resource,
            object=shown,
            exc_info=error,
        )
        cause = type(error.__cause__ or error).__name__
        message = (
            f"{request.kind} {shown} could not be checked: a rule of the Spinney webhook failed ({cause}); "
            "the mistake is Spinney's, and the log of the webhook has the trace"
        )
        return Verdict(False, message=message, code=500)

    async def _judged(self, request: AdmissionRequest, path: str) -> Verdict:
        def rule(request: AdmissionRequest, lookup: Lookup) -> Verdict:
            if not self._plugin.handles(request):
                return Verdict()
            return (self._plugin.mutate if path == MUTATE else self._plugin.validate)(request, lookup)

        verdict = await ask(rule, request, self._reader)
        if not verdict.allowed:
            log.info(
                "refused",
                resource=request.resource,
                namespace=request.namespace,
                name=request.name,
                user=request.user,
                errors=[str(error) for error in verdict.errors] or [verdict.message],
            )
        return verdict


def _plain(status: int, text: str) -> HttpReply:
    return HttpReply(status, f"{text}\n".encode(), content_type="text/plain; charset=utf-8")


def _check(request: HttpRequest) -> None:
    if request.method != "POST":
        raise method_not_allowed()
    content_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if content_type != JSON_TYPE:
        raise unsupported_media_type(f"found content type {content_type!r}, expected {JSON_TYPE}")
