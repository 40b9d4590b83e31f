"""The group apps: ReplicaSets, Deployments, StatefulSets, DaemonSets, ControllerRevisions, and what they share."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
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
from kube_embedded.builtins.common.printing import AGE, NAME, NONE, Cell, cell, labels_cell, table, workload_cells
from kube_embedded.builtins.common.rules import Rules, keep_metadata, spec_changed
from kube_embedded.builtins.kinds.storage import check_claim_spec
from kube_embedded.builtins.pod.defaults import default_template
from kube_embedded.builtins.pod.spec import check_template, check_template_metadata


def check_workload_selector(spec: Object, kind: str) -> list[FieldError]:
    """A selector that is there, is valid and selects something."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
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
        detail = "" if kind == "statefulset" else "invalid label selector"
        return [invalid("spec.selector", selector, detail)]
    if selector is None or (selector and not selector_matches(selector, labels)):
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


def internal_strategy(strategy: Object) -> GoInternal:
    """An update strategy, for messages."""
    return GoInternal({"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")})


def check_selector_kept(obj: Object, old: Object) -> list[FieldError]:
    """The selector is fixed for life."""
    return immutable("spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))


_API = "io.k8s.api.apps.v1."


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


def _replica_fields(obj: Object) -> dict[str, str]:
    return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


REPLICA_SETS = Rules(
    component=_API + "ReplicaSet",
    table=table(
        NAME,
        cell("Desired", "spec.replicas", 0, "integer"),
        cell("Current", "status.replicas", 0, "integer"),
        cell("Ready", "status.readyReplicas", 0, "integer"),
        AGE,
        *workload_cells(),
    ),
    defaults=_default_replica_set,
    check=_check_replica_set,
    check_update=check_selector_kept,
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


def _deployment_changed(obj: Object, old: Object) -> bool:
    annotations, before = obj["metadata"].get("annotations"), old["metadata"].get("annotations")
    return spec_changed(obj, old) or bool(annotations != before)


def _ready(obj: Object) -> str:
    return f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"


DEPLOYMENTS = Rules(
    component=_API + "Deployment",
    table=table(
        NAME,
        cell("Ready", _ready),
        cell("Up-to-date", "status.updatedReplicas", 0),
        cell("Available", "status.availableReplicas", 0),
        AGE,
        *workload_cells(),
    ),
    defaults=_default_deployment,
    on_status_update=lambda obj, old, context: keep_metadata(obj, old, "labels"),
    check=_check_deployment,
    check_update=check_selector_kept,
    bumps=_deployment_changed,
    has_status=True,
)


def _owner(obj: Object) -> str:
    owner = next((one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    if owner is None:
        return NONE
    group = owner["apiVersion"].rpartition("/")[0]
    kind = owner["kind"].lower()
    return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"


CONTROLLER_REVISIONS = Rules(
    component=_API + "ControllerRevision",
    table=table(NAME, cell("Controller", _owner), cell("Revision", "revision", 0), AGE),
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


STATEFUL_SETS = Rules(
    component=_API + "StatefulSet",
    table=table(NAME, cell("Ready", _ready), AGE, *workload_cells()[:2]),
    naming=LABEL,
    defaults=_default_stateful_set,
    check=_check_stateful_set,
    check_update=_check_stateful_update,
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


def _daemon_count(name: str, field: str) -> Cell:
    return cell(name, f"status.{field}", 0, "integer")


DAEMON_SETS = Rules(
    component=_API + "DaemonSet",
    table=table(
        NAME,
        _daemon_count("Desired", "desiredNumberScheduled"),
        _daemon_count("Current", "currentNumberScheduled"),
        _daemon_count("Ready", "numberReady"),
        _daemon_count("Up-to-date", "updatedNumberScheduled"),
        _daemon_count("Available", "numberAvailable"),
        cell("Node Selector", lambda obj: labels_cell(obj["spec"]["template"]["spec"].get("nodeSelector"))),
        AGE,
        *workload_cells(),
    ),
    defaults=_default_daemon_set,
    check_update=check_selector_kept,
    bumps=spec_changed,
    has_status=True,
)
