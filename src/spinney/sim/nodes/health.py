"""The health of nodes: what a kubelet says of its node, and what the cluster concludes when it says nothing.

Pure; the annotation `spinney.dev/sim-state` (lost | notready) on a node decides how it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum

from kube_apimachinery.times import format_time
from spinney.sim.objects import (
    NOT_READY,
    STATE,
    UNREACHABLE,
    UNSCHEDULABLE,
    Json,
    Node,
    Pod,
    Toleration,
    condition,
    merged,
    parse_time,
)
from spinney.whatif.inputs.nodes import DEFAULT_CAPACITY

KUBELET_VERSION = "v1.36.3"
_LIFECYCLE_TAINTS = (NOT_READY, UNREACHABLE, UNSCHEDULABLE)
_DEFAULT_TOLERATION_S = 300.0
_PRESSURES = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


class Health(Enum):
    READY = "ready"
    NOT_READY = "notready"
    LOST = "lost"


def health_of(node: Node) -> Health:
    match node.metadata.annotations.get(STATE, ""):
        case "lost":
            return Health.LOST
        case "notready":
            return Health.NOT_READY
        case _:
            return Health.READY


def first_status(capacity: Mapping[str, str], allocatable: Mapping[str, str], name: str, ip: str, now_s: float) -> Json:
    """The status a node registers with."""
    return {
        "capacity": dict(capacity),
        "allocatable": dict(allocatable),
        "conditions": _reported({}, Health.READY, now_s),
        "addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": _node_info(name),
    }


def kubelet_report(node: Node, ip: str, now_s: float) -> Json | None:
    """What the kubelet has to change in the status of its node; None: nothing, or it is lost and silent."""
    health = health_of(node)
    wanted = "True" if health is Health.READY else "False"
    registered = node.status.addresses and node.status.capacity and node.status.allocatable
    if health is Health.LOST or (registered and condition(node.status.conditions, "Ready") == wanted):
        return None
    known = {each["type"]: each for each in node.status.conditions}
    capacity = {**DEFAULT_CAPACITY, **node.status.capacity}
    status = first_status(capacity, {**capacity, **node.status.allocatable}, node.metadata.name, ip, now_s)
    status["conditions"] = merged(node.status.conditions, _reported(known, health, now_s))
    return status


def declare_unknown(node: Node, now_s: float) -> Json | None:
    """The status of a node whose kubelet has been silent too long; None: it says so already."""
    if condition(node.status.conditions, "Ready") == "Unknown":
        return None
    message = "Kubelet stopped posting node status."
    ours = [
        {
            **each,
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": message,
            "lastTransitionTime": format_time(now_s),
        }
        for each in node.status.conditions
        if each["type"] == "Ready" or each["type"] in _PRESSURES
    ]
    return {"conditions": merged(node.status.conditions, ours)}


def wanted_taints(node: Node, now_s: float) -> list[Json] | None:
    """The taints that follow from the node's state, beside those of others; None: they are there."""
    keys: list[tuple[str, str]] = [(UNSCHEDULABLE, "NoSchedule")] if node.spec.unschedulable else []
    match condition(node.status.conditions, "Ready"):
        case "False":
            keys += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
        case "Unknown":
            keys += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    present = {(each["key"], each["effect"]): each for each in node.spec.taints}
    others = [each for each in node.spec.taints if each["key"] not in _LIFECYCLE_TAINTS]
    ours = [present.get(key, {"key": key[0], "effect": key[1], "timeAdded": format_time(now_s)}) for key in keys]
    if {(each["key"], each["effect"]) for each in [*others, *ours]} == set(present):
        return None
    return [*others, *ours]


def eviction_s(pod: Pod, taints: Iterable[Json], seen_s: float) -> float:
    """When a pod has to leave a node with these taints; infinity: never. `seen_s` stands in for a missing time."""
    return min(
        (
            _since_s(taint, seen_s) + _tolerated_s(pod.spec.tolerations, taint)
            for taint in taints
            if taint.get("effect") == "NoExecute"
        ),
        default=math.inf,
    )


def tolerates(toleration: Toleration, taint: Json) -> bool:
    if toleration.effect and toleration.effect != taint.get("effect"):
        return False
    if toleration.key and toleration.key != taint.get("key"):
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.get("value", "")


def _tolerated_s(tolerations: tuple[Toleration, ...], taint: Json) -> float:
    """How long: for ever, or the shortest time named. Node trouble is tolerated for five minutes by default."""
    matching = [each for each in tolerations if tolerates(each, taint)]
    if not matching:
        return _DEFAULT_TOLERATION_S if taint["key"] in (NOT_READY, UNREACHABLE) else 0.0
    limits = [each.toleration_seconds for each in matching if each.toleration_seconds is not None]
    return float(max(0, min(limits))) if limits else math.inf


def _since_s(taint: Json, otherwise_s: float) -> float:
    return parse_time(taint.get("timeAdded")) or otherwise_s


def _reported(known: Mapping[str, Json], health: Health, now_s: float) -> list[Json]:
    reasons = {kind: ("False", *words) for kind, words in _PRESSURES.items()}
    reasons["Ready"] = (
        ("True", "KubeletReady", "kubelet is posting ready status")
        if health is Health.READY
        else ("False", "KubeletNotReady", "container runtime is down")
    )
    stamp = format_time(now_s)
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": _kept(known.get(kind, {}), status) or stamp,
        }
        for kind, (status, reason, message) in reasons.items()
    ]


def _kept(before: Json, status: str) -> str | None:
    return before.get("lastTransitionTime") if before.get("status") == status else None


def _node_info(name: str) -> Json:
    return {
        "architecture": "amd64",
        "bootID": name,
        "containerRuntimeVersion": "simulated://1",
        "kernelVersion": "simulated",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET_VERSION,
        "machineID": name,
        "operatingSystem": "linux",
        "osImage": "Simulated",
        "systemUUID": name,
    }
