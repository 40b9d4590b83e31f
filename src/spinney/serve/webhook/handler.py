"""What the webhook answers to a request: reviews under two paths, whether it is well, and what others add.

Validation fails closed: a rule that fails denies, whatever else goes wrong is an error of the call, never a yes.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from kube_apimachinery.admission import AdmissionPlugin, AdmissionRequest, Lookup, Verdict
from kube_embedded.admission.chain import shown_name
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
from kube_embedded.base.http import JSON_TYPE, HttpReply, HttpRequest, error_reply
from spinney.serve.webhook.live_lookup import Reader, RuleFailedError, ask
from spinney.serve.webhook.reviews import NotAReviewError, answer_review, read_review

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
            f"{request.kind} {shown} could not be judged: a rule of the Spinney webhook failed ({cause}); "
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
