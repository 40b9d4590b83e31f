"""StatefulSets: claim templates as volumes, and the few fields that may change."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.cluster.storage import check_claim_spec
from kube_embedded.builtins.common.field_checks import (
    check_label,
    check_not_negative,
)
from kube_embedded.builtins.common.go_internal_format import GoInternal
from kube_embedded.builtins.common.metadata import LABEL
from kube_embedded.builtins.common.printing import AGE, NAME, age, container_cells
from kube_embedded.builtins.common.rules import Rules, spec_changed
from kube_embedded.builtins.pod.defaults import default_template
from kube_embedded.builtins.workload import common

_API = "io.k8s.api.apps.v1."
_WIDE = (Column("Containers", priority=1), Column("Images", priority=1), Column("Selector", priority=1))
_STATEFUL_MUTABLE = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)


def _default_stateful_set(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"]
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    default_template(spec["template"])
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim["spec"].setdefault("volumeMode", "Filesystem")
        claim["status"].setdefault("phase", "Pending")


def _check_stateful_set(obj: Object) -> list[FieldError]:
    spec = obj["spec"]
    policy = spec["podManagementPolicy"]
    errors: list[FieldError] = []
    if policy not in ("OrderedReady", "Parallel"):
        errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    errors += _check_update_strategy(spec["updateStrategy"])
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        errors += check_claim_spec(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
    errors += check_not_negative("spec.replicas", spec["replicas"])
    errors += check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    if spec.get("serviceName"):
        errors += check_label("spec.serviceName", spec["serviceName"])
    errors += common.check_workload_selector(spec, "statefulset")
    errors += common.check_workload_template(_with_claimed_volumes(spec), "statefulset")
    return errors + common.check_no_deadline(spec, "StatefulSet")


def _check_update_strategy(strategy: Object) -> list[FieldError]:
    path = "spec.updateStrategy"
    rolling = strategy.get("rollingUpdate")
    match strategy["type"]:
        case "RollingUpdate":
            if rolling is None:
                return []
            return check_not_negative(f"{path}.rollingUpdate.partition", rolling["partition"])
        case "OnDelete":
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            shown = GoInternal({"Partition": (rolling or {}).get("partition", 0), "MaxUnavailable": None})
            return [] if rolling is None else [invalid(f"{path}.rollingUpdate", shown, detail)]
        case _:
            return [invalid(path, common.internal_strategy(strategy), "must be 'RollingUpdate' or 'OnDelete'")]


def _with_claimed_volumes(spec: Object) -> Object:
    """The spec as its pods will see it: every claim template is a volume, names of hosts come from the set."""
    pod = {key: value for key, value in spec["template"]["spec"].items() if key not in ("subdomain", "hostname")}
    claims = [one["metadata"].get("name", "") for one in spec.get("volumeClaimTemplates") or ()]
    if claims:
        volumes: list[Any] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        pod["volumes"] = volumes + [one for one in pod.get("volumes") or () if one["name"] not in claims]
    return {**spec, "template": {**spec["template"], "spec": pod}}


def _check_stateful_update(obj: Object, old: Object) -> list[FieldError]:
    spec, was = dict(obj["spec"]), dict(old["spec"])
    for name in _STATEFUL_MUTABLE:
        spec.pop(name, None)
        was.pop(name, None)
    if spec == was:
        return []
    detail = (
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
        "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    )
    return [forbidden("spec", detail)]


_STATEFUL_COUNTS = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


def _check_stateful_status(obj: Object, old: Object) -> list[FieldError]:
    status = obj["status"]
    errors = common.check_counts(status, _STATEFUL_COUNTS)
    errors += common.check_within_replicas(status, _STATEFUL_COUNTS[1:])
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        detail = "cannot be greater than status.readyReplicas"
        errors.append(invalid("status.availableReplicas", status["availableReplicas"], detail))
    return errors


def _stateful_set_row(obj: Object, context: Context) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [obj["metadata"]["name"], ready, age(obj, context), *container_cells(spec["template"]["spec"])]


STATEFUL_SETS = Rules(
    component=_API + "StatefulSet",
    columns=(NAME, Column("Ready"), AGE, *_WIDE[:2]),
    cells=_stateful_set_row,
    naming=LABEL,
    defaults=_default_stateful_set,
    check=_check_stateful_set,
    check_update=_check_stateful_update,
    check_status=_check_stateful_status,
    bumps=spec_changed,
    has_status=True,
)
