"""PriorityClasses, RuntimeClasses and PodDisruptionBudgets: what is said about pods elsewhere than in them."""

from __future__ import annotations

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
from kube_embedded.builtins.common.field_checks import (
    check_at_most_100_percent,
    check_int_or_percent,
    check_label,
    check_selector,
    immutable,
    unsupported,
)
from kube_embedded.builtins.common.metadata import GoInternal
from kube_embedded.builtins.common.printing import AGE, NAME, cell, flag, table
from kube_embedded.builtins.common.resource_requirements import check_resource_value
from kube_embedded.builtins.common.rules import Rules, spec_changed
from kube_embedded.builtins.pod.placement import check_tolerations

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
_POLICIES = ("PreemptLowerPriority", "Never")


_SYSTEM_VALUES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _check_class(obj: Object) -> list[FieldError]:
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


PRIORITY_CLASSES = Rules(
    component="io.k8s.api.scheduling.v1.PriorityClass",
    table=table(
        NAME,
        cell("Value", "value", 0, "integer"),
        flag("Global-Default", "globalDefault"),
        AGE,
        cell("PreemptionPolicy", "preemptionPolicy"),
    ),
    namespaced=False,
    defaults=lambda obj: obj.setdefault("preemptionPolicy", "PreemptLowerPriority") and None,
    check=_check_class,
    check_update=_check_update,
    updates_checked=False,
    bumps=lambda obj, old: False,
)


def _check_runtime_class(obj: Object) -> list[FieldError]:
    handler = obj.get("handler")
    errors = check_label("handler", handler) if handler else [required("handler")]
    for name, value in ((obj.get("overhead") or {}).get("podFixed") or {}).items():
        errors += check_resource_value(f"overhead.podFixed.limits[{name}]", name, value)
    return errors + check_tolerations("scheduling.tolerations", (obj.get("scheduling") or {}).get("tolerations") or [])


RUNTIME_CLASSES = Rules(
    component="io.k8s.api.node.v1.RuntimeClass",
    table=table(NAME, cell("Handler", "handler"), AGE),
    namespaced=False,
    check=_check_runtime_class,
    check_update=lambda obj, old: immutable("handler", obj.get("handler"), old.get("handler")),
)


_UNHEALTHY = ("AlwaysAllow", "IfHealthyBudget")


def _check(budget: Object) -> list[FieldError]:
    spec = budget["spec"]
    errors: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        errors.append(invalid("spec", _internal_spec(spec), "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        if name in spec:
            errors += check_int_or_percent(f"spec.{name}", spec[name])
            errors += check_at_most_100_percent(f"spec.{name}", spec[name])
    errors += check_selector("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _UNHEALTHY:
        errors.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, _UNHEALTHY))
    return errors


def _internal_spec(spec: Object) -> GoInternal:
    return GoInternal(
        {
            "MinAvailable": spec.get("minAvailable"),
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec.get("maxUnavailable"),
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
    )


BUDGETS = Rules(
    component="io.k8s.api.policy.v1.PodDisruptionBudget",
    table=table(
        NAME,
        cell("Min Available", lambda budget: str(budget["spec"].get("minAvailable", "N/A"))),
        cell("Max Unavailable", lambda budget: str(budget["spec"].get("maxUnavailable", "N/A"))),
        cell("Allowed Disruptions", "status.disruptionsAllowed", 0, "integer"),
        AGE,
    ),
    check=_check,
    bumps=spec_changed,
    has_status=True,
)
