"""PodDisruptionBudgets."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import (
    check_at_most_100_percent,
    check_int_or_percent,
    check_not_negative,
    check_selector,
    unsupported,
)
from kube_embedded.builtins.common.go_internal_format import GoInternal
from kube_embedded.builtins.common.printing import AGE, NAME, age
from kube_embedded.builtins.common.rules import Rules, spec_changed

_UNHEALTHY = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


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


def _check_status(budget: Object, old: Object) -> list[FieldError]:
    return [error for name in _COUNTS for error in check_not_negative(f"status.{name}", budget["status"].get(name))]


def _row(budget: Object, context: Context) -> list[Any]:
    spec = budget["spec"]
    return [
        budget["metadata"]["name"],
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        (budget.get("status") or {}).get("disruptionsAllowed", 0),
        age(budget, context),
    ]


BUDGETS = Rules(
    component="io.k8s.api.policy.v1.PodDisruptionBudget",
    columns=(
        NAME,
        Column("Min Available"),
        Column("Max Unavailable"),
        Column("Allowed Disruptions", type="integer"),
        AGE,
    ),
    cells=_row,
    check=_check,
    check_status=_check_status,
    bumps=spec_changed,
    has_status=True,
)
