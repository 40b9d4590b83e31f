"""Leases."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import NOT_NEGATIVE
from kube_embedded.builtins.common.printing import AGE, NAME, age
from kube_embedded.builtins.common.rules import Rules


def _drop_strategy(lease: Object) -> None:
    """Coordinated election is not served: its fields are dropped as an API server without it does."""
    for name in ("strategy", "preferredHolder"):
        lease["spec"].pop(name, None)


def _check(lease: Object) -> list[FieldError]:
    spec = lease["spec"]
    errors: list[FieldError] = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE))
    if spec.get("preferredHolder") and not spec.get("strategy"):
        errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return errors


def _row(lease: Object, context: Context) -> list[Any]:
    return [lease["metadata"]["name"], lease["spec"].get("holderIdentity", ""), age(lease, context)]


LEASES = Rules(
    component="io.k8s.api.coordination.v1.Lease",
    columns=(NAME, Column("Holder"), AGE),
    cells=_row,
    defaults=_drop_strategy,
    check=_check,
)
