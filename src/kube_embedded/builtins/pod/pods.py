"""Pods: how they begin, what may change in them, how they are selected, and their row in `kubectl get pods`.

An update may change very little in a pod that exists, unless the pod is still gated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, required
from kube_apimachinery.quantity import milli
from kube_apimachinery.times import format_time, seconds
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import MAX_INT32, check_subdomain, immutable
from kube_embedded.builtins.common.metadata import GoInternal
from kube_embedded.builtins.common.printing import NONE, Table, age, since, text
from kube_embedded.builtins.common.rules import Rules, keep_metadata, spec_changed
from kube_embedded.builtins.pod.defaults import default_pod
from kube_embedded.builtins.pod.placement import check_tolerations
from kube_embedded.builtins.pod.spec import check_images, check_pod_spec

UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def check_pod_update(obj: Object, old: Object) -> list[FieldError]:
    spec, was = obj["spec"], old["spec"]
    if spec == was:
        return []
    errors = check_pod_spec(spec) + check_images(spec)
    for name in ("containers", "initContainers"):
        found, stop = _check_container_count(spec.get(name) or [], was.get(name) or [], f"spec.{name}")
        errors += found
        if stop:
            return errors
    errors += _check_deadline(spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds"))
    errors += _check_added_tolerations(spec.get("tolerations") or [], was.get("tolerations") or [])
    errors += _check_removed_gates(spec.get("schedulingGates") or [], was.get("schedulingGates") or [])
    return errors + _check_nothing_else(spec, was)


def _check_container_count(new: list[Object], old: list[Object], path: str) -> tuple[list[FieldError], bool]:
    if len(new) != len(old):
        return [forbidden(path, "pod updates may not add or remove containers")], True
    errors: list[FieldError] = []
    for index, container in enumerate(new):
        image = container.get("image", "")
        if not image:
            errors.append(required(f"{path}[{index}].image"))
        elif image != image.strip():
            errors.append(invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace"))
    return errors, False


def _check_deadline(new: int | None, old: int | None) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        detail = "must not update from a positive integer to nil value"
        return [] if old is None else [invalid(path, None, detail)]
    if not 0 <= new <= MAX_INT32:
        return [invalid(path, new, f"must be between 0 and {MAX_INT32}, inclusive")]
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")]
    return []


def _check_added_tolerations(new: list[Object], old: list[Object]) -> list[FieldError]:
    plain = [{**one, "tolerationSeconds": None} for one in new]
    if any({**one, "tolerationSeconds": None} not in plain for one in old):
        return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]
    return check_tolerations("spec.tolerations", new)


def _check_removed_gates(new: list[Object], old: list[Object]) -> list[FieldError]:
    known = {one["name"] for one in old}
    words = "only deletion is allowed, but found new scheduling gate"
    return [
        forbidden(f"spec.schedulingGates[{index}].name", f"{words} '{one['name']}'")
        for index, one in enumerate(new)
        if one["name"] not in known
    ]


def _check_nothing_else(spec: Object, was: Object) -> list[FieldError]:
    munged = dict(spec)
    for name in ("containers", "initContainers"):
        if munged.get(name):
            munged[name] = [_with_image(new, old) for new, old in zip(munged[name], was[name], strict=True)]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _take(munged, was, name)
    if was.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        _take(munged, was, "terminationGracePeriodSeconds")
    errors = _allow_tightening(munged, was) if was.get("schedulingGates") else []
    if munged != was:
        changed = ", ".join(sorted(key for key in munged.keys() | was.keys() if munged.get(key) != was.get(key)))
        detail = f"pod updates may not change fields other than {UPDATABLE}\nchanged: {changed}"
        errors.append(forbidden("spec", detail))
    return errors


def _with_image(new: Object, old: Object) -> Object:
    return {**new, "image": old.get("image", "")}


def _take(munged: Object, was: Object, name: str) -> None:
    if name in was:
        munged[name] = was[name]
    else:
        munged.pop(name, None)


def _allow_tightening(munged: Object, was: Object) -> list[FieldError]:
    """A gated pod may be told more about where it must go, never less."""
    errors: list[FieldError] = []
    new_selector, old_selector = munged.get("nodeSelector") or {}, was.get("nodeSelector") or {}
    if any(new_selector.get(key) != value for key, value in old_selector.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", new_selector, detail))
    _take(munged, was, "nodeSelector")
    new_affinity = (munged.get("affinity") or {}).get("nodeAffinity")
    old_affinity = (was.get("affinity") or {}).get("nodeAffinity")
    if new_affinity != old_affinity:
        errors += _check_affinity_change(new_affinity or {}, old_affinity or {})
        rest = {key: value for key, value in (munged.get("affinity") or {}).items() if key != "nodeAffinity"}
        if old_affinity is not None:
            rest["nodeAffinity"] = old_affinity
        if rest or "affinity" in was:
            munged["affinity"] = rest
        else:
            munged.pop("affinity", None)
    return errors


def _check_affinity_change(new: Object, old: Object) -> list[FieldError]:
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    old_terms: list[Any] = (old.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    new_terms: list[Any] = (new.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if old_terms and len(old_terms) != len(new_terms):
        shown = GoInternal([_internal_term(one) for one in new_terms] or None)
        return [invalid(path, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")]
    return [
        invalid(
            f"{path}[{index}]",
            GoInternal(_internal_term(new_terms[index])),
            "only additions are allowed (no mutations or deletions)",
        )
        for index, old_term in enumerate(old_terms)
        if not _only_added(new_terms[index], old_term)
    ]


def _internal_term(term: Object) -> Object:
    def shown(one: Object) -> Object:
        return {"Key": one.get("key", ""), "Operator": one.get("operator", ""), "Values": one.get("values")}

    def listed(name: str) -> list[Object] | None:
        return [shown(one) for one in term[name]] if name in term else None

    return {"MatchExpressions": listed("matchExpressions"), "MatchFields": listed("matchFields")}


def _only_added(new: Object, old: Object) -> bool:
    if not old.get("matchExpressions") and not old.get("matchFields"):
        return not new.get("matchExpressions") and not new.get("matchFields")
    return all(
        (new.get(name) or [])[: len(old.get(name) or [])] == (old.get(name) or [])
        for name in ("matchExpressions", "matchFields")
    )


def check_pod_status(obj: Object, old: Object) -> list[FieldError]:
    status, was = obj["status"], old["status"]
    errors: list[FieldError] = []
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != was.get("nominatedNodeName"):
        errors += check_subdomain("status.nominatedNodeName", nominated)
    errors += immutable("status.qosClass", status.get("qosClass", ""), was.get("qosClass", ""))
    errors += _check_restarted(status, was, old["spec"].get("restartPolicy", "Always"))
    return errors


def _check_restarted(status: Object, was: Object, policy: str) -> list[FieldError]:
    """A container that ended for good does not come back."""
    if policy == "Always":
        return []
    errors: list[FieldError] = []
    now = {one["name"]: one for one in status.get("containerStatuses") or ()}
    for index, before in enumerate(was.get("containerStatuses") or ()):
        ended = before["state"].get("terminated")
        if ended is None or (ended.get("exitCode", 0) != 0 and policy == "OnFailure"):
            continue
        after = now.get(before["name"])
        if after is not None and "terminated" not in after["state"]:
            where = f"status.containerStatuses[{index}].state"
            errors.append(forbidden(where, "may not be transitioned to non-terminated state"))
    return errors


_COLUMNS = (
    Column("Name", format="name"),
    Column("Ready"),
    Column("Status"),
    Column("Restarts"),
    Column("Age"),
    Column("IP", priority=1),
    Column("Node", priority=1),
    Column("Nominated Node", priority=1),
    Column("Readiness Gates", priority=1),
)


@dataclass(slots=True)
class _Tally:
    """What is counted while walking over the container statuses."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, status: Object) -> None:
        self.restarts += status.get("restartCount", 0)
        finished = (status.get("lastState") or {}).get("terminated", {}).get("finishedAt")
        if finished and (not self.last_restart or seconds(finished) > seconds(self.last_restart)):
            self.last_restart = finished


def row(pod: Object, context: Context) -> list[Any]:
    spec, status = pod["spec"], pod.get("status") or {}
    sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or ()) + len(sidecars)
    tally = _tally(spec, status, sidecars)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            tally.reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            tally.reason = "Terminating"
    restarts = str(tally.restarts)
    if tally.restarts and tally.last_restart:
        restarts = f"{tally.restarts} ({since(tally.last_restart, context)} ago)"
    addresses = status.get("podIPs") or [{}]
    return [
        pod["metadata"]["name"],
        f"{tally.ready}/{total}",
        tally.reason,
        restarts,
        age(pod, context),
        text(addresses[0].get("ip"), NONE),
        text(spec.get("nodeName"), NONE),
        text(status.get("nominatedNodeName"), NONE),
        _readiness_gates(spec, status),
    ]


def _tally(spec: Object, status: Object, sidecars: set[str]) -> _Tally:
    conditions = status.get("conditions") or ()
    tally = _Tally(status.get("reason") or status.get("phase", ""))
    if any(one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated" for one in conditions):
        tally.reason = "SchedulingGated"
    waiting = _init_reason(spec, status, sidecars, tally)
    if waiting:
        tally.reason = waiting
        if not _is_true(conditions, "Initialized"):
            return tally
    tally.restarts, tally.last_restart = 0, ""
    for one in status.get("initContainerStatuses") or ():
        if one["name"] in sidecars:
            tally.count_restarts(one)
    _main_reason(status, conditions, tally)
    return tally


def _init_reason(spec: Object, status: Object, sidecars: set[str], tally: _Tally) -> str:
    """Why the pod is still initialising; empty when it is not."""
    for index, one in enumerate(status.get("initContainerStatuses") or ()):
        tally.count_restarts(one)
        state = one.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if one["name"] in sidecars and one.get("started"):
            tally.ready += bool(one.get("ready"))
            continue
        if ended is not None:
            return f"Init:{_ended_reason(ended)}"
        reason = state.get("waiting", {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(spec.get('initContainers') or ())}"
    return ""


def _ended_reason(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _main_reason(status: Object, conditions: Any, tally: _Tally) -> None:
    running, failure = False, ""
    for one in reversed(status.get("containerStatuses") or ()):
        tally.count_restarts(one)
        state = one.get("state") or {}
        if state.get("waiting", {}).get("reason"):
            tally.reason = state["waiting"]["reason"]
        elif "terminated" in state:
            tally.reason = _ended_reason(state["terminated"])
            if state["terminated"].get("exitCode", 0) != 0:
                failure = tally.reason
        elif one.get("ready") and "running" in state:
            running = True
            tally.ready += 1
    if tally.reason == "Completed":
        if running and _is_true(conditions, "Ready"):
            tally.reason = "Running"
        elif failure:
            tally.reason = failure
        elif running:
            tally.reason = "NotReady"


def _is_true(conditions: Any, kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = spec.get("readinessGates")
    if not gates:
        return NONE
    passed = sum(_is_true(status.get("conditions") or (), gate["conditionType"]) for gate in gates)
    return f"{passed}/{len(gates)}"


_COUNTED = ("cpu", "memory")


def _on_create(pod: Object, context: Context) -> None:
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": format_time(context.now_s),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _on_status_update(pod: Object, old: Object, context: Context) -> None:
    keep_metadata(pod, old, "ownerReferences")
    status = pod.setdefault("status", {})
    status.setdefault("qosClass", old.get("status", {}).get("qosClass", ""))


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort; an absent request counts as the limit."""
    if "resources" in spec:
        demands = [spec["resources"]]
    else:
        demands = [
            one.get("resources") or {} for name in ("containers", "initContainers") for one in spec.get(name) or ()
        ]
    guaranteed, anything = True, False
    for demand in demands:
        limits, requests = demand.get("limits"), demand.get("requests")
        asks, equal = _classify(tuple(limits.items()) if limits else (), tuple(requests.items()) if requests else ())
        anything = anything or asks
        guaranteed = guaranteed and equal
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


@lru_cache(maxsize=2048)
def _classify(limits: tuple[tuple[str, str], ...], requests: tuple[tuple[str, str], ...]) -> tuple[bool, bool]:
    """Whether a container asks for anything, and whether all it asks for is also its limit."""
    limited = _positive(limits)
    asked = limited | _positive(requests)
    return bool(asked), len(limited) == len(_COUNTED) and asked == limited


def _positive(amounts: tuple[tuple[str, str], ...]) -> dict[str, int]:
    counted = {name: milli(value) for name, value in amounts if name in _COUNTED}
    return {name: amount for name, amount in counted.items() if amount > 0}


def _check(pod: Object) -> list[FieldError]:
    spec = pod["spec"]
    errors = check_pod_spec(spec) + check_images(spec)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", detail))
    return errors


def _fields(pod: Object) -> dict[str, str]:
    spec, status = pod["spec"], pod.get("status") or {}
    addresses = status.get("podIPs")
    return {
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": addresses[0].get("ip", "") if addresses else "",
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


PODS = Rules(
    component="io.k8s.api.core.v1.Pod",
    table=Table(_COLUMNS, row),
    defaults=default_pod,
    on_create=_on_create,
    on_status_update=_on_status_update,
    check_create=_check,
    check_update=check_pod_update,
    check_status=check_pod_status,
    fields=_fields,
    bumps=spec_changed,
    has_status=True,
    wipes_status=False,
)
