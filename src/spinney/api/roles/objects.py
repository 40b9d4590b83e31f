"""Service accounts, roles and bindings as objects of the API."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from spinney.api.roles.catalog import OPERATOR_LEASE, ROLES, SCHEDULER_RECORDS, WEBHOOK_CERTIFICATES, Grant, grant

NAMESPACE = "spinney-system"
_RBAC = "rbac.authorization.k8s.io"
_LEASES = "coordination.k8s.io"
_PART_OF = {"app.kubernetes.io/part-of": "spinney"}

Object = dict[str, Any]


def user_of(role: str, namespace: str = NAMESPACE) -> str:
    """The user name under which the API server knows a role."""
    return f"system:serviceaccount:{namespace}:{role}"


def users_in(namespace: str = NAMESPACE) -> dict[str, str]:
    """The user name of every role."""
    return {role: user_of(role, namespace) for role in ROLES}


@dataclass(frozen=True, slots=True)
class Names:
    """What a configuration may name otherwise: the Lease of the operator, where Leases and the keys of records are
    (empty: with the roles), and the Secret of the webhook.
    """

    lease: str = OPERATOR_LEASE
    lease_namespace: str = ""
    certificates: str = WEBHOOK_CERTIFICATES

    def applied(self, one: Grant) -> Grant:
        configured = {OPERATOR_LEASE: self.lease, WEBHOOK_CERTIFICATES: self.certificates}
        return replace(one, names=tuple(configured.get(name, name) for name in one.names))

    def place(self, one: Grant, namespace: str) -> str:
        """Where a right is given: schedulers that share a Lease share the keys of their records."""
        is_shared = one.group == _LEASES or SCHEDULER_RECORDS in one.names
        return self.lease_namespace if is_shared and self.lease_namespace else namespace


def rbac_objects(namespace: str = NAMESPACE, names: Names | None = None) -> list[Object]:
    """One service account for each role, with its rights bound to it; the namespace is not among them.

    And the Secret for the keys of the scheduler's records, empty: the scheduler may fill it, but make none.
    """
    named = names or Names()
    metadata = _metadata(SCHEDULER_RECORDS, named.lease_namespace or namespace)
    keys = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    return [*(obj for role in ROLES for obj in _of_role(role, namespace, named)), keys]


_TENANTS = {
    "view": (
        grant("grove.io", "podcliquesets podcliques podcliquescalinggroups", "get list watch"),
        grant("scheduler.grove.io", "podgangs", "get list watch"),
        grant("scheduling.run.ai", "podgroups", "get list watch"),
        grant("nvidia.com", "dynamographdeployments", "get list watch"),
    ),
    "edit": (
        grant("grove.io", "podcliquesets", "create update patch delete"),
        grant("grove.io", "podcliquesets/scale podcliques/scale podcliquescalinggroups/scale", "get update patch"),
        grant("scheduling.run.ai", "podgroups", "create update patch delete"),
        grant("nvidia.com", "dynamographdeployments", "create update patch delete"),
    ),
}
"""What tenants may do in their namespaces. What the roles make of workloads is theirs to look at only; queues and
topologies are the administrators'.
"""


def metrics_roles(namespace: str = NAMESPACE) -> list[Object]:
    """Every role may ask the API server who reads its metrics; `spinney-metrics-reader` is for those who do."""
    reviews = (
        grant("authentication.k8s.io", "tokenreviews", "create"),
        grant("authorization.k8s.io", "subjectaccessreviews", "create"),
    )
    asks, binding = _bound("metrics", reviews, namespace, "")
    binding["subjects"] = [{"kind": "ServiceAccount", "name": role, "namespace": namespace} for role in ROLES]
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    reader = {**asks, "metadata": _metadata("spinney-metrics-reader"), "rules": rules}
    return [asks, binding, reader]


def tenant_roles() -> list[Object]:
    """ClusterRoles that add our kinds to `view`, `edit` and `admin` of Kubernetes."""
    aggregated = "rbac.authorization.k8s.io/aggregate-to-"
    into = {"view": ("view", "edit", "admin"), "edit": ("edit", "admin")}
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": f"spinney-tenant-{name}",
                "labels": {**_PART_OF, **{f"{aggregated}{other}": "true" for other in into[name]}},
            },
            "rules": [one.rule() for one in rules],
        }
        for name, rules in _TENANTS.items()
    ]


def _of_role(role: str, namespace: str, names: Names) -> list[Object]:
    rights = ROLES[role]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(role, namespace)}
    objects = [account, *_bound(role, (*rights.cluster, *rights.foreign), namespace, "")]
    within: dict[str, list[Grant]] = {}
    for one in rights.own_namespace:
        within.setdefault(names.place(one, namespace), []).append(names.applied(one))
    for place, grants in within.items():
        objects += _bound(role, tuple(grants), namespace, place)
    return objects


def _bound(role: str, grants: tuple[Grant, ...], namespace: str, within: str) -> list[Object]:
    kind = "Role" if within else "ClusterRole"
    metadata = _metadata(role, within) if within else _metadata(f"spinney-{role}")
    name = metadata["name"]
    rules = [one.rule() for one in grants]
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": dict(metadata),
            "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": namespace}],
        },
    ]


def _metadata(name: str, namespace: str = "") -> Object:
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": dict(_PART_OF)}
