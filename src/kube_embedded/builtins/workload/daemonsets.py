"""DaemonSets and the generation of their template."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid, required
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import (
    check_int_or_percent,
    check_not_negative,
    unsupported,
)
from kube_embedded.builtins.common.printing import AGE, NAME, age, container_cells, labels_cell, selector_cell
from kube_embedded.builtins.common.rules import Rules, spec_changed
from kube_embedded.builtins.pod.defaults import default_template
from kube_embedded.builtins.workload import common

_API = "io.k8s.api.apps.v1."
_WIDE = (Column("Containers", priority=1), Column("Images", priority=1), Column("Selector", priority=1))


def _integer(name: str) -> Column:
    return Column(name, type="integer")


def _default_daemon_set(obj: Object) -> None:
    spec = obj["spec"]
    strategy = spec["updateStrategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    default_template(spec["template"])


def _check_daemon_set(obj: Object) -> list[FieldError]:
    spec = obj["spec"]
    errors = common.check_workload_selector(spec, "daemonset")
    errors += common.check_workload_template(spec, "daemonset")
    errors += common.check_no_deadline(spec, "DaemonSet")
    errors += check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    return errors + _check_daemon_strategy(spec["updateStrategy"])


def _check_daemon_strategy(strategy: Object) -> list[FieldError]:
    path = "spec.updateStrategy"
    if strategy["type"] == "OnDelete":
        return []
    if strategy["type"] != "RollingUpdate":
        return [unsupported(path, common.internal_strategy(strategy), ("RollingUpdate", "OnDelete"))]
    rolling = strategy["rollingUpdate"]
    errors = check_int_or_percent(f"{path}.rollingUpdate.maxUnavailable", rolling["maxUnavailable"])
    errors += check_int_or_percent(f"{path}.rollingUpdate.maxSurge", rolling["maxSurge"])
    unavailable, surge = rolling["maxUnavailable"] not in (0, "0%"), rolling["maxSurge"] not in (0, "0%")
    if unavailable and surge:
        detail = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid(f"{path}.rollingUpdate.maxSurge", rolling["maxSurge"], detail))
    elif not unavailable and not surge:
        errors.append(required(f"{path}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def _count_template_generation(obj: Object, context: Context) -> None:
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations.setdefault("deprecated.daemonset.template.generation", "1")


def _raise_template_generation(obj: Object, old: Object, context: Context) -> None:
    key = "deprecated.daemonset.template.generation"
    before = int((old["metadata"].get("annotations") or {}).get(key, "0"))
    changed = obj["spec"]["template"] != old["spec"]["template"]
    obj["metadata"].setdefault("annotations", {})[key] = str(before + 1 if changed else before)


def _daemon_set_row(obj: Object, context: Context) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels_cell(spec["template"]["spec"].get("nodeSelector")),
        age(obj, context),
        *container_cells(spec["template"]["spec"]),
        selector_cell(spec.get("selector")),
    ]


DAEMON_SETS = Rules(
    component=_API + "DaemonSet",
    columns=(
        NAME,
        *(_integer(name) for name in ("Desired", "Current", "Ready", "Up-to-date", "Available")),
        Column("Node Selector"),
        AGE,
        *_WIDE,
    ),
    cells=_daemon_set_row,
    defaults=_default_daemon_set,
    on_create=_count_template_generation,
    on_update=_raise_template_generation,
    check=_check_daemon_set,
    check_update=lambda obj, old: common.check_selector_kept(obj, old) + _check_daemon_set(obj),
    updates_checked=False,
    bumps=spec_changed,
    has_status=True,
)
