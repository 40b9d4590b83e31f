"""The way of a write through admission: rules in process first, then webhooks; and how a refusal looks to the client.

First everybody may change the object, then everybody judges it; in between the server validates it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from kube_apimachinery.admission import AdmissionPlugin, AdmissionRequest, Lookup, Object, Verdict
from kube_embedded.admission import webhook_client, webhook_config
from kube_embedded.admission.webhook_client import CallFailed, InvalidResponse, Post, Question, Response, Undecodable
from kube_embedded.admission.webhook_config import (
    Compile,
    Webhook,
    compile_webhooks,
    is_exempt,
    is_namespace,
    labels_of,
)
from kube_embedded.base import errors
from kube_embedded.base.errors import ApiError
from kube_embedded.patch.json_operations import PatchFailed, apply_operations, json_type

# Webhooks called out to: which ones a request meets, in which order, and what comes of their answers. Mutating ones
# go one after the other, each seeing the work of those before; validating ones go all at once.

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


Normalise = Callable[[AdmissionRequest, Object], Object]
"""What the server does to a body it has read: prune, convert types, set defaults. Run after every patch."""


class Versions(Protocol):
    """Other versions in which a resource is served."""

    def served(self, group: str, resource: str) -> Sequence[str]: ...

    def convert(self, obj: Object, group: str, resource: str, version: str) -> Object: ...


class OneVersion:
    """Nothing is served in more than one version."""

    def served(self, group: str, resource: str) -> Sequence[str]:
        return ()

    def convert(self, obj: Object, group: str, resource: str, version: str) -> Object:
        raise ValueError(f"{resource}.{group} is not served in version {version}")


@dataclass(slots=True)
class Rounds:
    """What must be called again after a later change. Only what was called before can be."""

    called: set[tuple[str, int, str]] = field(default_factory=set)
    due: set[tuple[str, int, str]] = field(default_factory=set)

    def changed(self) -> None:
        self.due |= self.called
        self.called = set()


class WebhookCaller:
    """Holds the compiled configurations and talks to the webhooks they name."""

    def __init__(
        self,
        post: Post,
        compile_cel: Compile,
        new_uid: Callable[[], str],
        lookup: Lookup,
        *,
        versions: Versions | None = None,
        normalise: Normalise | None = None,
    ) -> None:
        self._post = post
        self._compile_cel = compile_cel
        self._new_uid = new_uid
        self._lookup = lookup
        self._versions = versions or OneVersion()
        self._normalise = normalise or (lambda request, obj: obj)
        self._mutating: tuple[Webhook, ...] = ()
        self._validating: tuple[Webhook, ...] = ()

    def set_configurations(
        self, mutating: Sequence[Mapping[str, Any]], validating: Sequence[Mapping[str, Any]]
    ) -> None:
        self._mutating = compile_webhooks(mutating, self._compile_cel)
        self._validating = compile_webhooks(validating, self._compile_cel)

    def is_idle(self, request: AdmissionRequest) -> bool:
        """No rule of any webhook matches; selectors and conditions are not asked."""
        if not self._mutating and not self._validating:
            return True
        if is_exempt(request):
            return True
        served = self._versions.served(request.group, request.resource)
        hooks = (*self._mutating, *self._validating)
        return all(hook.version_wanted(request, served) is None for hook in hooks)

    async def mutate(
        self, request: AdmissionRequest, warn: Warn, rounds: Rounds, *, again: bool = False
    ) -> tuple[Object | None, bool]:
        """The object after all mutating webhooks, and whether any of them changed it."""
        changed_at_all = False
        if is_exempt(request):
            return request.object, False
        for hook in self._mutating:
            question = self._question(hook, request)
            if question is None or (again and hook.key not in rounds.due):
                continue
            patched = await self._mutate_once(hook, question, warn)
            if patched is not None:
                before = request
                request = replace(request, object=self._normalised(request, patched))
                if request.object != before.object:
                    rounds.changed()
                    changed_at_all = True
            if hook.reinvoked:
                rounds.called.add(hook.key)
        return request.object, changed_at_all

    async def validate(self, request: AdmissionRequest, warn: Warn) -> None:
        """All at once; all are heard; of several refusals the first webhook's is told."""
        if is_exempt(request):
            return
        asked = [(hook, question) for hook in self._validating if (question := self._question(hook, request))]
        if not asked:
            return
        outcomes = await asyncio.gather(*(self._validate_once(hook, question, warn) for hook, question in asked))
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _mutate_once(self, hook: Webhook, question: Question, warn: Warn) -> Object | None:
        """The patched object, or None where nothing is to be patched."""
        try:
            response = await self._ask(hook, question, mutating=True)
            for warning in response.warnings:
                warn(warning)
            if not response.allowed:
                raise denied(hook.name, response.status)
            return _patched(hook, question, response)
        except _Failed as failure:
            if hook.ignores_failure:
                return None
            raise internal(f'failed calling webhook "{hook.name}": {failure}') from failure

    async def _validate_once(self, hook: Webhook, question: Question, warn: Warn) -> ApiError | None:
        try:
            response = await self._ask(hook, question, mutating=False)
        except ApiError as error:
            return error
        except _Failed as failure:
            if hook.ignores_failure:
                return None
            return internal(f'failed calling webhook "{hook.name}": {failure}')
        for warning in response.warnings:
            warn(warning)
        return None if response.allowed else denied(hook.name, response.status)

    async def _ask(self, hook: Webhook, question: Question, *, mutating: bool) -> Response:
        if question.request.dry_run and not hook.dry_run_safe:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        if not hook.speaks_v1:
            complaint = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise _Failed(f"could not create admission objects: {complaint}")
        uid = self._new_uid()
        try:
            body = await self._post(hook, webhook_client.encode(question, uid))
            return webhook_client.decode(body, uid, mutating=mutating)
        except CallFailed as error:
            raise _Failed(str(error)) from error
        except Undecodable as error:
            raise _Failed(f"failed to call webhook: {error}") from error
        except InvalidResponse as error:
            raise _Failed(f"received invalid webhook response: {error}") from error

    def _question(self, hook: Webhook, request: AdmissionRequest) -> Question | None:
        """The request as this webhook wants it, or None where it does not want it."""
        served = self._versions.served(request.group, request.resource) if hook.equivalent else ()
        version = hook.version_wanted(request, served)
        if version is None or not hook.wants_object(request) or not self._wants_namespace(hook, request):
            return None
        question = Question(
            request,
            version,
            self._in_version(request, request.object, version),
            self._in_version(request, request.old_object, version),
        )
        return question if self._meets_conditions(hook, question) else None

    def _wants_namespace(self, hook: Webhook, request: AdmissionRequest) -> bool:
        if not hook.namespaces.requirements or not (request.namespace or is_namespace(request)):
            return True
        return hook.namespaces.matches(self._namespace_labels(request))

    def _namespace_labels(self, request: AdmissionRequest) -> Mapping[str, str]:
        """A namespace that is being written is asked itself; every other one is looked up."""
        if is_namespace(request) and not request.subresource and request.operation in ("CREATE", "UPDATE"):
            return labels_of(request.object)
        name = webhook_client.namespace_of(request)
        namespace = self._lookup("", "namespaces", "", name)
        if namespace is None:
            raise errors.not_found("", "namespaces", name)
        return labels_of(namespace)

    def _meets_conditions(self, hook: Webhook, question: Question) -> bool:
        if not hook.conditions:
            return True
        described = webhook_client.describe(question, "")
        bindings = {"object": question.object, "oldObject": question.old_object, "request": described}
        match webhook_config.match(hook.conditions, bindings):
            case webhook_config.Failed(message):
                if hook.ignores_failure:
                    return False
                request = question.request
                raise errors.forbidden(request.group, request.resource, request.name, message)
            case outcome:
                return outcome is webhook_config.Match.YES

    def _in_version(self, request: AdmissionRequest, obj: Object | None, version: str) -> Object | None:
        if obj is None or version == request.version or not _is_of(obj, request):
            return obj
        return self._convert(request, obj, version)

    def _own_version(self, request: AdmissionRequest, obj: Object) -> Object:
        own = f"{request.group}/{request.version}" if request.group else request.version
        if not _is_of(obj, request) or obj.get("apiVersion") == own:
            return obj
        return self._convert(request, obj, request.version)

    def _normalised(self, request: AdmissionRequest, patched: Object) -> Object:
        """What the webhook made of it, as the server would have read it; nobody but the webhook is to blame."""
        own = self._own_version(request, patched)
        try:
            return self._normalise(request, own)
        except ApiError as error:
            raise internal(error.message) from error

    def _convert(self, request: AdmissionRequest, obj: Object, version: str) -> Object:
        try:
            return self._versions.convert(obj, request.group, request.resource, version)
        except ValueError as error:
            raise internal(str(error)) from error


class _Failed(Exception):
    """The webhook gave no answer that can be used; failurePolicy decides."""


def _is_of(obj: Object, request: AdmissionRequest) -> bool:
    """Whether it is an object of the resource itself (a Scale or a Binding is of another kind)."""
    return str(obj.get("apiVersion", "")).rpartition("/")[0] == request.group and obj.get("kind") == request.kind


def _patched(hook: Webhook, question: Question, response: Response) -> Object | None:
    if not response.patch:
        return None
    operations = _operations(response.patch)
    if not operations:
        return None
    if question.object is None:
        complaint = f'admission webhook "{hook.name}" attempted to modify the object, which is not supported'
        raise internal(f"{complaint} for this operation")
    if response.patch_type != "JSONPatch":
        raise _Failed(f'unsupported patch type "{response.patch_type}"')
    try:
        patched = apply_operations(question.object, operations)
    except PatchFailed as error:
        raise internal(str(error)) from error
    if not isinstance(patched, dict):
        raise internal(f'admission webhook "{hook.name}" replaced the object by something that is none')
    return patched


def _operations(patch: bytes) -> list[dict[str, Any]]:
    try:
        decoded = msgspec.json.decode(patch)
    except msgspec.DecodeError as error:
        raise _Failed(f"received undecodable patch in webhook response: {error}") from error
    unfit = decoded if not isinstance(decoded, list) else next((o for o in decoded if not isinstance(o, dict)), None)
    if unfit is not None or decoded is None:
        wanted = "jsonpatch.Operation" if isinstance(decoded, list) else "jsonpatch.Patch"
        complaint = f"json: cannot unmarshal {json_type(unfit)} into Go value of type {wanted}"
        raise _Failed(f"received undecodable patch in webhook response: {complaint}")
    operations: list[dict[str, Any]] = decoded
    return operations
