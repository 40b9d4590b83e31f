"""Namespaces and the service accounts in them."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.metadata import LABEL
from kube_embedded.builtins.common.printing import AGE, NAME, age
from kube_embedded.builtins.common.rules import Rules

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"


def _defaults(namespace: Object) -> None:
    name = namespace["metadata"].get("name")
    if name:
        namespace["metadata"].setdefault("labels", {})[NAME_LABEL] = name
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _on_create(namespace: Object, context: Context) -> None:
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)


def _on_update(namespace: Object, old: Object, context: Context) -> None:
    """Only the finalize subresource changes spec.finalizers."""
    namespace["spec"] = dict(namespace.get("spec") or {})
    finalizers = old.get("spec", {}).get("finalizers")
    if finalizers:
        namespace["spec"]["finalizers"] = finalizers
    else:
        namespace["spec"].pop("finalizers", None)


def _check_status(namespace: Object, old: Object) -> list[FieldError]:
    deleting = "deletionTimestamp" in namespace["metadata"]
    phase = namespace.get("status", {}).get("phase", "")
    if deleting and phase != "Terminating":
        detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [invalid("status.Phase", phase, detail)]
    if not deleting and phase != "Active":
        return [invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
    return []


def _row(namespace: Object, context: Context) -> list[Any]:
    return [namespace["metadata"]["name"], namespace["status"].get("phase", ""), age(namespace, context)]


NAMESPACES = Rules(
    component="io.k8s.api.core.v1.Namespace",
    columns=(NAME, Column("Status"), AGE),
    cells=_row,
    naming=LABEL,
    namespaced=False,
    defaults=_defaults,
    on_create=_on_create,
    on_update=_on_update,
    check_status=_check_status,
    fields=lambda namespace: {
        "name": namespace["metadata"].get("name", ""),
        "status.phase": namespace.get("status", {}).get("phase", ""),
    },
    has_status=True,
    wipes_status=False,
)


def _clean_secrets(account: Object) -> None:
    """References to secrets carry a name and nothing else."""
    for index, one in enumerate(account.get("secrets") or ()):
        account["secrets"][index] = {"name": one["name"]} if one.get("name") else {}


SERVICE_ACCOUNTS = Rules(
    component="io.k8s.api.core.v1.ServiceAccount",
    columns=(NAME, AGE),
    cells=lambda account, context: [account["metadata"]["name"], age(account, context)],
    defaults=_clean_secrets,
)
