"""The way of a write through admission: rules in process first, then webhooks; and how a refusal looks to the client.

First everybody may change the object, then everybody judges it; in between the server validates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kube_apimachinery.admission import AdmissionPlugin, AdmissionRequest, Lookup, Object, Verdict
from kube_embedded.admission.webhook_dispatcher import Rounds, WebhookCaller
from kube_embedded.base import errors
from kube_embedded.base.errors import ApiError

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def forbidden(request: AdmissionRequest, why: str) -> ApiError:
    """403 about the object of the request, by its name or else by what its name would start with."""
    return errors.forbidden(request.group, request.resource, shown_name(request), why)


def shown_name(request: AdmissionRequest) -> str:
    """The name in a refusal, or else what a generated name would start with."""
    metadata = (request.object or {}).get("metadata") or {}
    return request.name or metadata.get("name") or metadata.get("generateName") or "Unknown"


def of_verdict(request: AdmissionRequest, verdict: Verdict) -> ApiError:
    """422 with one cause per field error, or the verdict's own code, or 403."""
    if verdict.code:
        return ApiError(verdict.code, _REASONS.get(verdict.code, ""), verdict.message)
    if verdict.errors:
        return errors.invalid(request.group, request.kind, request.name, verdict.errors)
    return forbidden(request, verdict.message)


def internal(message: str) -> ApiError:
    """500 with the cause, as every failure inside the server is told."""
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def denied(webhook: str, status: dict[str, Any] | None) -> ApiError:
    """What a webhook answered with allowed=false: its code where that is an error at all, its reason and details."""
    given = status or {}
    code = int(given.get("code") or 0)
    reason = str(given.get("reason") or "")
    explanation = given.get("message") or reason
    text = f'admission webhook "{webhook}" denied the request'
    message = f"{text}: {explanation}" if explanation else f"{text} without explanation"
    return ApiError(code if code >= 400 else 400, reason, message, given.get("details"))


Warn = Callable[[str], None]
Ask = Callable[[AdmissionRequest, Lookup], Verdict]


class AdmissionChain:
    """Raises ApiError for what is refused; plug-ins may raise it themselves or return a verdict."""

    def __init__(self, plugins: Sequence[AdmissionPlugin], webhooks: WebhookCaller | None, lookup: Lookup) -> None:
        self._plugins = tuple(plugins)
        self._webhooks = webhooks
        self._lookup = lookup

    def set_configurations(
        self, mutating: Sequence[Mapping[str, Any]], validating: Sequence[Mapping[str, Any]]
    ) -> None:
        """Call on every change of a webhook configuration; they are compiled here, once."""
        if self._webhooks is not None:
            self._webhooks.set_configurations(mutating, validating)

    def is_idle(self, request: AdmissionRequest) -> bool:
        """Nothing would be called, so the server may skip both steps (and the copies they need)."""
        for plugin in self._plugins:
            if plugin.handles(request):
                return False
        return self._webhooks is None or self._webhooks.is_idle(request)

    def asks_only(self, plugin: AdmissionPlugin, request: AdmissionRequest) -> bool:
        """Nobody but this plug-in would be called."""
        if any(one is not plugin and one.handles(request) for one in self._plugins):
            return False
        return self._webhooks is None or self._webhooks.is_idle(request)

    async def mutate(self, request: AdmissionRequest, warn: Warn) -> Object | None:
        """The object to store, or None where nobody changed it (a deletion has none)."""
        obj = self._by_plugins(request, warn)
        if self._webhooks is not None and not self._webhooks.is_idle(request):
            obj = await self._by_webhooks(self._webhooks, replace(request, object=obj), warn)
        return None if obj is request.object else obj

    async def _by_webhooks(self, webhooks: WebhookCaller, request: AdmissionRequest, warn: Warn) -> Object | None:
        """Once, and where something changed, plug-ins and those webhooks that ask for it once more."""
        rounds = Rounds()
        obj, changed = await webhooks.mutate(request, warn, rounds)
        if not changed:
            return obj
        again = self._by_plugins(replace(request, object=obj), warn)
        if again != obj:
            rounds.changed()
        obj, _ = await webhooks.mutate(replace(request, object=again), warn, rounds, again=True)
        return obj

    async def validate(self, request: AdmissionRequest, warn: Warn) -> None:
        for plugin in self._plugins:
            if plugin.handles(request):
                self._verdict(plugin.validate, request, warn)
        if self._webhooks is not None:
            await self._webhooks.validate(request, warn)

    def _by_plugins(self, request: AdmissionRequest, warn: Warn) -> Object | None:
        obj = request.object
        for plugin in self._plugins:
            if plugin.handles(request):
                seen = request if obj is request.object else replace(request, object=obj)
                changed = self._verdict(plugin.mutate, seen, warn).object
                obj = obj if changed is None else changed
        return obj

    def _verdict(self, ask: Ask, request: AdmissionRequest, warn: Warn) -> Verdict:
        verdict = ask(request, self._lookup)
        for warning in verdict.warnings:
            warn(warning)
        if not verdict.allowed:
            raise of_verdict(request, verdict)
        return verdict
