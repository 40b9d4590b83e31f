"""Service accounts, roles and bindings as objects of the API."""

from __future__ import annotations

from typing import Any

from spinney.api.roles.catalog import ROLES
from spinney.api.roles.grants import Grant

NAMESPACE = "spinney-system"
_RBAC = "rbac.authorization.k8s.io"
_PART_OF = {"app.kubernetes.io/part-of": "spinney"}

Object = dict[str, Any]


def user_of(role: str, namespace: str = NAMESPACE) -> str:
    """The user name under which the API server knows a role."""
    return f"system:serviceaccount:{namespace}:{role}"


def users_in(namespace: str = NAMESPACE) -> dict[str, str]:
    """The user name of every role."""
    return {role: user_of(role, namespace) for role in ROLES}


def rbac_objects(namespace: str = NAMESPACE) -> list[Object]:
    """One service account for each role, with its rights bound to it; the namespace is not among them."""
    return [obj for role in ROLES for obj in _of_role(role, namespace)]


def _of_role(role: str, namespace: str) -> list[Object]:
    rights = ROLES[role]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(role, namespace)}
    objects = [account, *_bound(role, (*rights.cluster, *rights.foreign), namespace, "")]
    if rights.own_namespace:
        objects += _bound(role, rights.own_namespace, namespace, namespace)
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
