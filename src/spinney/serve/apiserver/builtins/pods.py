"""Pods: how they begin, what may change in them, how they are selected and shown."""

from __future__ import annotations

from functools import lru_cache

from spinney.api.field_errors import FieldError, forbidden
from spinney.api.values.quantity import milli
from spinney.serve.apiserver.builtins import pod_rows
from spinney.serve.apiserver.builtins.pod_defaults import default_pod
from spinney.serve.apiserver.builtins.pod_spec import check_images, check_pod_spec
from spinney.serve.apiserver.builtins.pod_update import check_pod_status, check_pod_update
from spinney.serve.apiserver.builtins.rules import Rules, keep_metadata, spec_changed, stamp
from spinney.serve.apiserver.resource import Context, Object

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
    columns=pod_rows.COLUMNS,
    cells=pod_rows.row,
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
