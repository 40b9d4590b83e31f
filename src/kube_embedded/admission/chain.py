"""The way of a write through admission: rules in process first, then webhooks.

First everybody may change the object, then everybody judges it; in between the server validates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kube_apimachinery.admission import AdmissionPlugin, AdmissionRequest, Lookup, Object, Verdict
from kube_embedded.admission import refusal
from kube_embedded.admission.webhook_dispatcher import Rounds, WebhookCaller

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
            raise refusal.of_verdict(request, verdict)
        return verdict
