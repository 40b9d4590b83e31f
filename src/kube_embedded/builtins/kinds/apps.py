"""The group apps: ReplicaSets, Deployments, StatefulSets, DaemonSets, ControllerRevisions, and what they share."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import (
    check_at_most_100_percent,
    check_int_or_percent,
    check_label,
    check_not_negative,
    check_selector,
    immutable,
    selector_matches,
    unsupported,
)
from kube_embedded.builtins.common.metadata import LABEL, GoInternal
from kube_embedded.builtins.common.printing import AGE, NAME, age, container_cells, labels_cell, selector_cell
from kube_embedded.builtins.common.rules import Rules, keep_metadata, spec_changed
from kube_embedded.builtins.kinds.storage import check_claim_spec
from kube_embedded.builtins.pod.defaults import default_template
from kube_embedded.builtins.pod.spec import check_template, check_template_metadata


def check_workload_selector(spec: Object, kind: str) -> list[FieldError]:
    """A selector that is there, is valid and selects something."""
    selector = spec.get("selector")
    if selector is None:
        return [] if kind == "daemonset" else [required("spec.selector")]
    errors = check_selector("spec.selector", selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return errors


def check_workload_template(spec: Object, kind: str) -> list[FieldError]:
    """A template whose labels the selector finds, and whose pods run for ever."""
    template, selector = spec["template"], spec.get("selector")
    labels = template["metadata"].get("labels") or {}
    errors: list[FieldError] = []
    if selector is not None and check_selector("", selector):
        if kind != "daemonset":
            detail = "" if kind == "statefulset" else "invalid label selector"
            errors.append(invalid("spec.selector", selector, detail))
            return errors
    elif selector is None or (selector and not selector_matches(selector, labels)):
        detail = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, detail))
    errors += check_template(template)
    if kind == "statefulset":  # which looks at labels and annotations twice
        errors += check_template_metadata(template)
    policy = template["spec"].get("restartPolicy", "")
    if policy != "Always":
        errors.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return errors


def check_no_deadline(spec: Object, kind: str) -> list[FieldError]:
    if "activeDeadlineSeconds" not in spec["template"]["spec"]:
        return []
    path = "spec.template.spec.activeDeadlineSeconds"
    return [forbidden(path, f"activeDeadlineSeconds in {kind} is not Supported")]


def check_counts(status: Object, names: tuple[str, ...]) -> list[FieldError]:
    """Counts of a status: none negative."""
    return [error for name in names for error in check_not_negative(f"status.{name}", status.get(name))]


def check_within_replicas(status: Object, names: tuple[str, ...]) -> list[FieldError]:
    """Counts of a status that are parts of `replicas`."""
    total = status.get("replicas", 0)
    return [
        invalid(f"status.{name}", status[name], "cannot be greater than status.replicas")
        for name in names
        if status.get(name, 0) > total
    ]


def internal_strategy(strategy: Object) -> GoInternal:
    """An update strategy, for messages."""
    return GoInternal({"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")})


def check_selector_kept(obj: Object, old: Object) -> list[FieldError]:
    """The selector is fixed for life."""
    return immutable("spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))


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
    errors += check_workload_selector(spec, "deployment")
    errors += check_workload_template(spec, "replicaset")
    return errors + check_no_deadline(spec, "ReplicaSet")


_REPLICA_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")


def _check_replica_status(obj: Object, old: Object) -> list[FieldError]:
    errors = check_counts(obj["status"], _REPLICA_COUNTS)
    return errors + check_within_replicas(obj["status"], _REPLICA_COUNTS[1:4])


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
    check_update=check_selector_kept,
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
    errors += check_workload_selector(spec, "deployment")
    errors += check_workload_template(spec, "deployment")
    errors += check_no_deadline(spec, "ReplicaSet")
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
            return [unsupported(path, internal_strategy(strategy), ("Recreate", "RollingUpdate"))]


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
    errors = check_counts(status, _DEPLOYMENT_COUNTS)
    errors += check_within_replicas(status, ("updatedReplicas", "readyReplicas", "availableReplicas"))
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
    check_update=check_selector_kept,
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
    errors += check_workload_selector(spec, "statefulset")
    errors += check_workload_template(_with_claimed_volumes(spec), "statefulset")
    return errors + check_no_deadline(spec, "StatefulSet")


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
            return [invalid(path, internal_strategy(strategy), "must be 'RollingUpdate' or 'OnDelete'")]


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
    errors = check_counts(status, _STATEFUL_COUNTS)
    errors += check_within_replicas(status, _STATEFUL_COUNTS[1:])
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
    errors = check_workload_selector(spec, "daemonset")
    errors += check_workload_template(spec, "daemonset")
    errors += check_no_deadline(spec, "DaemonSet")
    errors += check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    return errors + _check_daemon_strategy(spec["updateStrategy"])


def _check_daemon_strategy(strategy: Object) -> list[FieldError]:
    path = "spec.updateStrategy"
    if strategy["type"] == "OnDelete":
        return []
    if strategy["type"] != "RollingUpdate":
        return [unsupported(path, internal_strategy(strategy), ("RollingUpdate", "OnDelete"))]
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
    check_update=lambda obj, old: check_selector_kept(obj, old) + _check_daemon_set(obj),
    updates_checked=False,
    bumps=spec_changed,
    has_status=True,
)
