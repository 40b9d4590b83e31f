"""PriorityClasses."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import immutable, unsupported
from kube_embedded.builtins.common.printing import AGE, NAME, age
from kube_embedded.builtins.common.rules import Rules

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
_POLICIES = ("PreemptLowerPriority", "Never")


_SYSTEM_VALUES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _check(obj: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith(SYSTEM_PREFIX):
        why = _why_not_system(name, value, obj.get("globalDefault", False))
        if why:
            detail = (
                f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
            )
            errors.append(forbidden("metadata.name", detail))
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        errors.append(forbidden("value", detail))
    policy = obj.get("preemptionPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(unsupported("preemptionPolicy", policy, _POLICIES))
    return errors


def _why_not_system(name: str, value: int, global_default: bool) -> str:
    if name not in _SYSTEM_VALUES:
        return f"{name} is not a known system priority class"
    if value != _SYSTEM_VALUES[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM_VALUES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if global_default else ""


def _check_update(obj: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if obj.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + immutable("preemptionPolicy", obj.get("preemptionPolicy"), old.get("preemptionPolicy"))


def _row(obj: Object, context: Context) -> list[Any]:
    return [
        obj["metadata"]["name"],
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        age(obj, context),
        obj.get("preemptionPolicy", ""),
    ]


PRIORITY_CLASSES = Rules(
    component="io.k8s.api.scheduling.v1.PriorityClass",
    columns=(
        NAME,
        Column("Value", type="integer"),
        Column("Global-Default", type="boolean"),
        AGE,
        Column("PreemptionPolicy"),
    ),
    cells=_row,
    namespaced=False,
    defaults=lambda obj: obj.setdefault("preemptionPolicy", "PreemptLowerPriority") and None,
    check=_check,
    check_update=_check_update,
    updates_checked=False,
    bumps=lambda obj, old: False,
)
