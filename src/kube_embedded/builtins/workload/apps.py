"""ReplicaSets, Deployments and ControllerRevisions."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import (
    check_at_most_100_percent,
    check_int_or_percent,
    check_not_negative,
    immutable,
    unsupported,
)
from kube_embedded.builtins.common.printing import AGE, NAME, age, container_cells, selector_cell
from kube_embedded.builtins.common.rules import Rules, keep_metadata, spec_changed
from kube_embedded.builtins.pod.defaults import default_template
from kube_embedded.builtins.workload import common

_API = "io.k8s.api.apps.v1."
_WIDE = (Column("Containers", priority=1), Column("Images", priority=1), Column("Selector", priority=1))


def _integer(name: str) -> Column:
    return Column(name, type="integer")


def _default_replica_set(obj: Object) -> None:
    obj["spec"].setdefault("replicas", 1)
    default_template(obj["spec"]["template"])


def _check_replica_set(obj: Object) -> list[FieldError]:
    spec = obj["spec"]
    errors = check_not_negative("spec.replicas", spec["replicas"])
    errors += check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += common.check_workload_selector(spec, "deployment")
    errors += common.check_workload_template(spec, "replicaset")
    return errors + common.check_no_deadline(spec, "ReplicaSet")


_REPLICA_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")


def _check_replica_status(obj: Object, old: Object) -> list[FieldError]:
    errors = common.check_counts(obj["status"], _REPLICA_COUNTS)
    return errors + common.check_within_replicas(obj["status"], _REPLICA_COUNTS[1:4])


def _replica_set_row(obj: Object, context: Context) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, context),
        *container_cells(spec["template"]["spec"]),
        selector_cell(spec.get("selector")),
    ]


def _replica_fields(obj: Object) -> dict[str, str]:
    return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


REPLICA_SETS = Rules(
    component=_API + "ReplicaSet",
    columns=(NAME, _integer("Desired"), _integer("Current"), _integer("Ready"), AGE, *_WIDE),
    cells=_replica_set_row,
    defaults=_default_replica_set,
    check=_check_replica_set,
    check_update=common.check_selector_kept,
    check_status=_check_replica_status,
    fields=_replica_fields,
    bumps=spec_changed,
    has_status=True,
)


def _default_deployment(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    default_template(spec["template"])


def _check_deployment(obj: Object) -> list[FieldError]:
    spec = obj["spec"]
    errors = check_not_negative("spec.replicas", spec["replicas"])
    errors += common.check_workload_selector(spec, "deployment")
    errors += common.check_workload_template(spec, "deployment")
    errors += common.check_no_deadline(spec, "ReplicaSet")
    errors += _check_strategy(spec["strategy"])
    errors += check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += check_not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec["progressDeadlineSeconds"]
    errors += check_not_negative("spec.progressDeadlineSeconds", deadline)
    if deadline <= spec.get("minReadySeconds", 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def _check_strategy(strategy: Object) -> list[FieldError]:
    path = "spec.strategy"
    match strategy["type"]:
        case "Recreate":
            detail = "may not be specified when strategy `type` is 'Recreate'"
            return [forbidden(f"{path}.rollingUpdate", detail)] if "rollingUpdate" in strategy else []
        case "RollingUpdate":
            return _check_rolling(strategy["rollingUpdate"], f"{path}.rollingUpdate")
        case _:
            return [unsupported(path, common.internal_strategy(strategy), ("Recreate", "RollingUpdate"))]


def _check_rolling(rolling: Object, path: str) -> list[FieldError]:
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    errors = check_int_or_percent(f"{path}.maxUnavailable", unavailable)
    errors += check_int_or_percent(f"{path}.maxSurge", surge)
    if unavailable in (0, "0%") and surge in (0, "0%"):
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + check_at_most_100_percent(f"{path}.maxUnavailable", unavailable)


_DEPLOYMENT_COUNTS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
)


def _check_deployment_status(obj: Object, old: Object) -> list[FieldError]:
    status = obj["status"]
    errors = common.check_counts(status, _DEPLOYMENT_COUNTS)
    errors += common.check_within_replicas(status, ("updatedReplicas", "readyReplicas", "availableReplicas"))
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        detail = "cannot be greater than readyReplicas"
        errors.append(invalid("status.availableReplicas", status["availableReplicas"], detail))
    return errors


def _deployment_changed(obj: Object, old: Object) -> bool:
    annotations, before = obj["metadata"].get("annotations"), old["metadata"].get("annotations")
    return spec_changed(obj, old) or bool(annotations != before)


def _deployment_row(obj: Object, context: Context) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, context),
        *container_cells(spec["template"]["spec"]),
        selector_cell(spec.get("selector")),
    ]


DEPLOYMENTS = Rules(
    component=_API + "Deployment",
    columns=(NAME, Column("Ready"), Column("Up-to-date"), Column("Available"), AGE, *_WIDE),
    cells=_deployment_row,
    defaults=_default_deployment,
    on_status_update=lambda obj, old, context: keep_metadata(obj, old, "labels"),
    check=_check_deployment,
    check_update=common.check_selector_kept,
    check_status=_check_deployment_status,
    bumps=_deployment_changed,
    has_status=True,
)


def _check_revision(obj: Object) -> list[FieldError]:
    return check_not_negative("revision", obj.get("revision", 0))


def _check_revision_data(obj: Object) -> list[FieldError]:
    found = obj.get("data")
    if found is None:
        return [required("data", "data is mandatory")]
    return [] if isinstance(found, dict) else [required("data", "data must be a valid JSON object")]


def _revision_row(obj: Object, context: Context) -> list[Any]:
    owners = obj["metadata"].get("ownerReferences") or ()
    owner = next((one for one in owners if one.get("controller")), None)
    shown = "<none>"
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        shown = (
            f"{owner['kind'].lower()}.{group}/{owner['name']}" if group else f"{owner['kind'].lower()}/{owner['name']}"
        )
    return [obj["metadata"]["name"], shown, obj.get("revision", 0), age(obj, context)]


CONTROLLER_REVISIONS = Rules(
    component=_API + "ControllerRevision",
    columns=(NAME, Column("Controller"), Column("Revision"), AGE),
    cells=_revision_row,
    check=_check_revision,
    check_create=_check_revision_data,
    check_update=lambda obj, old: immutable("data", obj.get("data"), old.get("data")),
)
