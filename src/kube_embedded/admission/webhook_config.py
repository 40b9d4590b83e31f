"""One webhook of a configuration, compiled: which requests it wants, its matchConditions, and how it is called."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from kube_apimachinery.admission import AdmissionRequest, Object
from kube_apimachinery.selectors import Selector, from_object


class Program(Protocol):
    """A compiled expression."""

    def evaluate(self, bindings: Mapping[str, Any]) -> Any: ...


Compile = Callable[[str, Sequence[str]], Program]
"""An expression and the names it may use, to a program; raises ValueError where it cannot be compiled."""

NAMES = ("object", "oldObject", "request")


@dataclass(frozen=True, slots=True)
class Condition:
    name: str
    expression: str
    program: Program | None  # None: it could not be compiled
    error: str = ""


class Match(Enum):
    YES = "yes"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Failed:
    """Some conditions could not be evaluated, none was false."""

    message: str


def compile_conditions(conditions: Sequence[Mapping[str, str]], compile_cel: Compile) -> tuple[Condition, ...]:
    """A stored condition that does not compile fails when asked, it does not break its neighbours."""
    return tuple(_compile_condition(one["name"], one["expression"], compile_cel) for one in conditions)


def match(conditions: Sequence[Condition], bindings: Mapping[str, Any]) -> Match | Failed:
    failures = []
    for condition in conditions:
        outcome = _evaluate(condition, bindings)
        if outcome is False:
            return Match.NO
        if isinstance(outcome, str):
            failures.append(outcome)
    if not failures:
        return Match.YES
    return Failed(failures[0] if len(failures) == 1 else f"[{', '.join(dict.fromkeys(failures))}]")


def _compile_condition(name: str, expression: str, compile_cel: Compile) -> Condition:
    try:
        return Condition(name, expression, compile_cel(expression, NAMES))
    except Exception as error:
        return Condition(name, expression, None, f"compile error: {error}")


def _evaluate(condition: Condition, bindings: Mapping[str, Any]) -> bool | str:
    """True or false, or what went wrong. Any exception of the expression language is a failed condition."""
    if condition.program is None:
        return condition.error
    try:
        outcome = condition.program.evaluate(bindings)
    except Exception as error:
        return f"expression '{condition.expression}' resulted in error: {error}"
    return outcome if isinstance(outcome, bool) else f"cel expression evaluates to {outcome!r}, expected a bool"


_EXEMPT_GROUP = "admissionregistration.k8s.io"
_EXEMPT_KINDS = frozenset(
    {
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
_DEFAULT_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class ServiceReference:
    namespace: str
    name: str
    port: int
    path: str

    @property
    def host(self) -> str:
        """The name that the service's certificate must carry."""
        return f"{self.name}.{self.namespace}.svc"


@dataclass(frozen=True, slots=True)
class Rule:
    """Operations on resources. An asterisk stands for all; `pods/*` is every subresource, `*/*` everything."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[tuple[str, str]]
    scope: str

    def matches(self, request: AdmissionRequest, version: str) -> bool:
        return (
            _has(self.operations, request.operation)
            and _has(self.groups, request.group)
            and _has(self.versions, version)
            and self._in_scope(request)
            and self._wants(request.resource, request.subresource)
        )

    def _in_scope(self, request: AdmissionRequest) -> bool:
        if self.scope == "*":
            return True
        namespaced = bool(request.namespace) and not is_namespace(request)
        return namespaced if self.scope == "Namespaced" else not namespaced

    def _wants(self, resource: str, subresource: str) -> bool:
        return any((left in ("*", resource)) and (right in ("*", subresource)) for left, right in self.resources)


@dataclass(frozen=True, slots=True)
class Webhook:
    """Compiled. `key` tells it from every other webhook, whatever its name."""

    key: tuple[str, int, str]
    name: str
    rules: tuple[Rule, ...]
    equivalent: bool
    namespaces: Selector
    objects: Selector
    conditions: tuple[Condition, ...]
    ignores_failure: bool
    timeout_s: int
    url: str
    service: ServiceReference | None
    ca_bundle: bytes | None
    dry_run_safe: bool
    speaks_v1: bool
    reinvoked: bool

    def version_wanted(self, request: AdmissionRequest, served: Sequence[str]) -> str | None:
        """The version in which it wants the request; None where no rule matches.

        The request's own version goes first; then, for Equivalent, the first rule's first other served version.
        """
        if any(rule.matches(request, request.version) for rule in self.rules):
            return request.version
        if not self.equivalent:
            return None
        others = [version for version in served if version != request.version]
        return next((v for rule in self.rules for v in others if rule.matches(request, v)), None)

    def wants_object(self, request: AdmissionRequest) -> bool:
        """The selector must match the object as it was or as it will be."""
        if not self.objects.requirements:
            return True
        both = (request.object, request.old_object)
        return any(obj is not None and self.objects.matches(labels_of(obj)) for obj in both)


def compile_webhooks(configurations: Sequence[Mapping[str, Any]], compile_cel: Compile) -> tuple[Webhook, ...]:
    """The webhooks of all configurations in the order of calls: by configuration name, then as listed."""
    ordered = sorted(configurations, key=lambda one: one["metadata"]["name"])
    return tuple(
        _compile(configuration["metadata"]["name"], index, webhook, compile_cel)
        for configuration in ordered
        for index, webhook in enumerate(configuration.get("webhooks") or ())
    )


def is_exempt(request: AdmissionRequest) -> bool:
    """The objects that configure admission never pass through it: nobody may lock themselves out."""
    return request.group == _EXEMPT_GROUP and request.kind in _EXEMPT_KINDS


def is_namespace(request: AdmissionRequest) -> bool:
    return request.resource == "namespaces" and request.group == ""


def labels_of(obj: Object | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _compile(configuration: str, index: int, webhook: Mapping[str, Any], compile_cel: Compile) -> Webhook:
    client = webhook.get("clientConfig") or {}
    return Webhook(
        key=(configuration, index, webhook["name"]),
        name=webhook["name"],
        rules=tuple(_rule(rule) for rule in webhook.get("rules") or ()),
        equivalent=webhook.get("matchPolicy", "Equivalent") == "Equivalent",
        namespaces=from_object(webhook.get("namespaceSelector") or {}),
        objects=from_object(webhook.get("objectSelector") or {}),
        conditions=compile_conditions(webhook.get("matchConditions") or (), compile_cel),
        ignores_failure=webhook.get("failurePolicy", "Fail") == "Ignore",
        timeout_s=webhook.get("timeoutSeconds") or _DEFAULT_TIMEOUT_S,
        url=client.get("url") or "",
        service=_service(client.get("service")),
        ca_bundle=_bundle(client.get("caBundle")),
        dry_run_safe=webhook.get("sideEffects") in ("None", "NoneOnDryRun"),
        speaks_v1="v1" in (webhook.get("admissionReviewVersions") or ()),
        reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
    )


def _rule(rule: Mapping[str, Any]) -> Rule:
    return Rule(
        operations=frozenset(rule.get("operations") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        versions=frozenset(rule.get("apiVersions") or ()),
        resources=frozenset(_split(resource) for resource in rule.get("resources") or ()),
        scope=rule.get("scope") or "*",
    )


def _split(resource: str) -> tuple[str, str]:
    left, _, right = resource.partition("/")
    return left, right


def _service(service: Mapping[str, Any] | None) -> ServiceReference | None:
    if service is None:
        return None
    return ServiceReference(
        service["namespace"], service["name"], service.get("port") or 443, service.get("path") or "/"
    )


def _bundle(encoded: str | None) -> bytes | None:
    """Undecodable bundles trust nobody: the call will fail, as failurePolicy says."""
    if not encoded:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return b"undecodable"


def _has(allowed: frozenset[str], wanted: str) -> bool:
    return "*" in allowed or wanted in allowed
