"""Pods: how they begin, what may change in them, how they are selected, and their row in `kubectl get pods`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, forbidden
from kube_apimachinery.quantity import milli
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.printing import NONE, age, seconds, since, text
from kube_embedded.builtins.common.rules import Rules, keep_metadata, spec_changed, stamp
from kube_embedded.builtins.pod.defaults import default_pod
from kube_embedded.builtins.pod.spec import check_images, check_pod_spec
from kube_embedded.builtins.pod.update import check_pod_status, check_pod_update

COLUMNS = (
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
                "lastTransitionTime": stamp(context),
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
    columns=COLUMNS,
    cells=row,
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
