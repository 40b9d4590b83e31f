"""The objects by which a real API server learns to ask us, and about what.

Narrow: our kinds only, and never in system namespaces or in our own.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spinney.api.crds import Conversion
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.kinds.dynamographdeployment_v1alpha1 import DynamoGraphDeploymentV1Alpha1
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import APP_MANAGED_BY, MANAGED_BY_OPERATOR
from spinney.api.meta import Kind
from spinney.api.reserved_keys import RESERVED, SCHEDULER_POD_KEYS
from spinney.api.roles.catalog import WEBHOOK_CONFIGURATION
from spinney.core.admission.authorizer import OPERATIONS as GUARDED
from spinney.core.admission.authorizer import PROTECTED, exempt_users
from spinney.core.admission.dynamo.dynamo_admission import OPERATIONS as GRAPH_OPERATIONS
from spinney.core.admission.operator_admission import GROUP, OPERATIONS, SCHEDULER_KINDS
from spinney.core.admission.settings import AdmissionSettings
from spinney.serve.webhook import policies
from spinney.serve.webhook.certificates import Merge
from spinney.serve.webhook.handler import CONVERT, MUTATE, VALIDATE
from spinney.serve.webhook.policies import is_refused, is_status_refused, keys_rules, status_rules

CLUSTER_KINDS = ("clustertopologies", "clustertopologybindings")


SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")
TIMEOUT_S = 10
_REGISTRATION = "admissionregistration.k8s.io/v1"
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the API server finds the webhook: a URL, or a Service. Without a bundle somebody else fills it in."""

    bundle_pem: bytes = b""
    url: str = ""
    service_namespace: str = ""
    service_name: str = ""
    service_port: int = 443

    def client_config(self, path: str) -> dict[str, Any]:
        trust = {"caBundle": encoded_bundle(self.bundle_pem)} if self.bundle_pem else {}
        if self.url:
            return {"url": f"{self.url}{path}", **trust}
        service = {"namespace": self.service_namespace, "name": self.service_name}
        return {"service": {**service, "path": path, "port": self.service_port}, **trust}

    def conversion(self) -> Conversion:
        """The same place, for the conversion of versions."""
        bundle = encoded_bundle(self.bundle_pem)
        if self.url:
            return Conversion(bundle, url=f"{self.url}{CONVERT}")
        return Conversion(bundle, "", self.service_namespace, self.service_name, CONVERT, self.service_port)


def encoded_bundle(pem: bytes) -> str:
    """As a `caBundle` holds it."""
    return base64.b64encode(pem).decode()


def _decoded_bundle(encoded: str) -> bytes:
    """Whatever somebody else has put there."""
    try:
        return base64.b64decode(encoded)
    except ValueError:
        return b""


def trusting(configuration: dict[str, Any], merge: Merge) -> dict[str, Any] | None:
    """What has to be applied to a configuration for all its webhooks to be trusted; None: nothing."""
    hooks = configuration.get("webhooks") or []
    before = [hook["clientConfig"].get("caBundle") or "" for hook in hooks]
    bundle = encoded_bundle(merge(b"".join(map(_decoded_bundle, dict.fromkeys(before)))))
    if all(each == bundle for each in before):
        return None
    trusted = [{"name": hook["name"], "clientConfig": {"caBundle": bundle}} for hook in hooks]
    return {"apiVersion": _REGISTRATION, "kind": configuration["kind"], "webhooks": trusted}


def trusting_conversion(definition: dict[str, Any], merge: Merge) -> dict[str, Any] | None:
    """The same for the conversion of a kind; None also where nobody is asked to convert."""
    conversion = definition["spec"].get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return None
    before = conversion["webhook"]["clientConfig"].get("caBundle") or ""
    bundle = encoded_bundle(merge(_decoded_bundle(before)))
    if bundle == before:
        return None
    trusted = {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}
    return {"apiVersion": definition["apiVersion"], "kind": definition["kind"], "spec": trusted}


def webhook_configurations(
    address: Address,
    own_namespaces: Sequence[str],
    name: str = WEBHOOK_CONFIGURATION,
    settings: AdmissionSettings | None = None,
) -> list[Any]:
    """A mutating and a validating configuration.

    Defaulting may fail open, for validation refuses what was not defaulted; validation fails closed. With settings
    there are webhooks for what only roles of ours write, and for what the operator made if that is protected.
    """
    exempt = sorted({*SYSTEM_NAMESPACES, *own_namespaces})
    mutating = [
        _hook(address, MUTATE, resource, exempt) | {"failurePolicy": "Ignore", "reinvocationPolicy": "IfNeeded"}
        for resource in (*CLUSTER_KINDS, "podcliquesets")
    ]
    graphs = _graph_hook(address, MUTATE, exempt)
    mutating.append(graphs | {"failurePolicy": "Ignore", "reinvocationPolicy": "IfNeeded"})
    validating = [
        _hook(address, VALIDATE, resource, exempt) | {"failurePolicy": "Fail"}
        for resource in (*CLUSTER_KINDS, "podcliquesets")
    ]
    validating += [_scheduler_hook(address, kind, exempt) for kind in SCHEDULER_KINDS]
    validating.append(_graph_hook(address, VALIDATE, exempt) | {"failurePolicy": "Fail"})
    if settings is not None:
        validating += _boundary(address, exempt, settings)
    if settings is not None and settings.protects_managed:
        validating.append(_guard(address, exempt, settings))
    return [
        _configuration("MutatingWebhookConfiguration", name, mutating),
        _configuration("ValidatingWebhookConfiguration", name, validating),
    ]


def _configuration(kind: str, name: str, hooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": _REGISTRATION, "kind": kind, "metadata": {"name": name}, "webhooks": hooks}


def _hook(address: Address, path: str, resource: str, exempt: list[str]) -> dict[str, Any]:
    namespaced = resource not in CLUSTER_KINDS
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": ["v1alpha1"],
        "resources": [resource],
        "operations": list(OPERATIONS),
        "scope": "Namespaced" if namespaced else "Cluster",
    }
    hook = _frame(f"{path.strip('/')}.{resource}", address, path, [rule])
    return hook | {"namespaceSelector": _outside(exempt)} if namespaced else hook


def _scheduler_hook(address: Address, kind: type[Kind], exempt: list[str]) -> dict[str, Any]:
    rule = {
        "apiGroups": [kind.GROUP],
        "apiVersions": [kind.VERSION],
        "resources": [kind.PLURAL],
        "operations": list(OPERATIONS),
        "scope": "Namespaced" if kind.NAMESPACED else "Cluster",
    }
    hook = _frame(f"validate.{kind.PLURAL}", address, VALIDATE, [rule]) | {"failurePolicy": "Fail"}
    return hook | {"namespaceSelector": _outside(exempt)} if kind.NAMESPACED else hook


def _graph_hook(address: Address, path: str, exempt: list[str]) -> dict[str, Any]:
    """Each version is judged as it was written, never converted first: errors name the fields that the user knows."""
    stored = DynamoGraphDeployment
    rule = {
        "apiGroups": [stored.GROUP],
        "apiVersions": [DynamoGraphDeploymentV1Alpha1.VERSION, stored.VERSION],
        "resources": [stored.PLURAL],
        "operations": list(GRAPH_OPERATIONS),
        "scope": "Namespaced",
    }
    hook = _frame(f"{path.strip('/')}.{stored.PLURAL}", address, path, [rule])
    return hook | {"matchPolicy": "Exact", "namespaceSelector": _outside(exempt)}


def _boundary(address: Address, exempt: list[str], settings: AdmissionSettings) -> list[dict[str, Any]]:
    """What only roles of ours write. Asked, for its words, only about what it will refuse: others wait for nobody."""
    asked = [
        (f"validate.reserved.{row.resource}", keys_rules(row), is_refused(row, settings))
        for row in RESERVED
        if (row.group, row.resource) != (PodGroup.GROUP, PodGroup.PLURAL)
    ]
    asked.append(("validate.status", status_rules(), is_status_refused(settings)))
    return [
        _frame(name, address, VALIDATE, rules)
        | {
            "failurePolicy": "Fail",
            "namespaceSelector": _outside(exempt),
            "matchConditions": [{"name": "refused", "expression": expression}],
        }
        for name, rules, expression in asked
    ]


def _guard(address: Address, exempt: list[str], settings: AdmissionSettings) -> dict[str, Any]:
    """Asked only about what carries the operator's label, and never about what exempt users do: should we be gone,
    those who clean up still get through.
    """
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "resources": sorted(plural for of, plural in PROTECTED if of == group),
            "operations": list(GUARDED),
            "scope": "Namespaced",
        }
        for group in sorted({group for group, _ in PROTECTED})
    ]
    return _frame("validate.managed", address, VALIDATE, rules) | {
        "failurePolicy": "Fail",
        "namespaceSelector": _outside(exempt),
        "objectSelector": {"matchLabels": {APP_MANAGED_BY: MANAGED_BY_OPERATOR}},
        "matchConditions": [
            {
                "name": "not-exempt",
                "expression": f"!(request.userInfo.username in {policies.words(exempt_users(settings))})",
            },
            {"name": "not-scheduling", "expression": _not_scheduling(settings)},
        ],
    }


def _not_scheduling(settings: AdmissionSettings) -> str:
    """As `managed_rules.is_scheduling` has it: marks of the scheduler on pods wait for nobody."""
    return policies.none_of(
        policies.user_in(settings.scheduler_users),
        'request.resource.resource == "pods"',
        'request.operation == "UPDATE"',
        "object.spec == oldObject.spec",
        *(policies.same("metadata", name) for name in ("ownerReferences", "finalizers")),
        *(policies.same_entries(name, SCHEDULER_POD_KEYS) for name in ("labels", "annotations")),
    )


def _frame(name: str, address: Address, path: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": f"{name}.spinney.dev",
        "clientConfig": address.client_config(path),
        "rules": rules,
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
        "admissionReviewVersions": ["v1"],
    }


def _outside(exempt: list[str]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": _NAMESPACE_NAME, "operator": "NotIn", "values": exempt}]}
