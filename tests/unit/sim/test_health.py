"""What kubelets report and what the cluster concludes from silence, as pure functions."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from spinney.sim.nodes.health import declare_unknown, eviction_s, first_status, kubelet_report, wanted_taints
from spinney.sim.objects import Node, Pod

T0 = 1_767_225_600.0
STAMP = "2026-01-01T00:00:00Z"


def make_node(ready: str = "True", state: str = "", taints: list[Any] | None = None, **spec: Any) -> Node:
    status = first_status({"cpu": "8"}, {"cpu": "8"}, "n", "172.16.0.1", T0)
    for each in status["conditions"]:
        if each["type"] == "Ready":
            each["status"] = ready
    annotations = {"spinney.dev/sim-state": state} if state else {}
    return msgspec.convert(
        {
            "metadata": {"name": "n", "annotations": annotations},
            "spec": {"taints": taints or [], **spec},
            "status": status,
        },
        Node,
    )


def ready_of(status: dict[str, Any] | None) -> str | None:
    return next((each["status"] for each in (status or {}).get("conditions", []) if each["type"] == "Ready"), None)


def test_a_healthy_node_has_nothing_to_report() -> None:
    assert kubelet_report(make_node(), "172.16.0.1", T0) is None


def test_a_bare_node_gets_capacity_addresses_and_ready() -> None:
    status = kubelet_report(msgspec.convert({"metadata": {"name": "n"}}, Node), "172.16.0.7", T0)
    assert status is not None
    assert status["capacity"] == status["allocatable"] == {"cpu": "8", "memory": "32Gi", "pods": "110"}
    assert {"type": "InternalIP", "address": "172.16.0.7"} in status["addresses"]
    assert ready_of(status) == "True"


@pytest.mark.parametrize(
    ("ready", "state", "reported"),
    [
        ("True", "notready", "False"),
        ("False", "notready", None),
        ("False", "", "True"),
        ("Unknown", "", "True"),
        ("True", "lost", None),
        ("Unknown", "lost", None),
    ],
)
def test_a_kubelet_reports_its_state_unless_it_is_lost(ready: str, state: str, reported: str | None) -> None:
    assert ready_of(kubelet_report(make_node(ready, state), "172.16.0.1", T0)) == reported


def test_a_condition_of_others_survives_a_report() -> None:
    node = make_node("False")
    foreign = {"type": "GPUHealthy", "status": "True", "extra": "kept"}
    node = msgspec.structs.replace(
        node, status=msgspec.structs.replace(node.status, conditions=(foreign, *node.status.conditions))
    )
    status = kubelet_report(node, "172.16.0.1", T0)
    assert status is not None
    assert foreign in status["conditions"]


def test_silence_makes_every_kubelet_condition_unknown_once() -> None:
    status = declare_unknown(make_node(), T0)
    assert status is not None
    assert {each["status"] for each in status["conditions"]} == {"Unknown"}
    assert declare_unknown(make_node("Unknown"), T0) is None


TAINTS = {
    "ready": (make_node(), None),
    "not ready": (
        make_node("False"),
        {("node.kubernetes.io/not-ready", "NoSchedule"), ("node.kubernetes.io/not-ready", "NoExecute")},
    ),
    "silent": (
        make_node("Unknown"),
        {("node.kubernetes.io/unreachable", "NoSchedule"), ("node.kubernetes.io/unreachable", "NoExecute")},
    ),
    "cordoned": (make_node(unschedulable=True), {("node.kubernetes.io/unschedulable", "NoSchedule")}),
    "recovered": (make_node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), set()),
    "another's taint stays": (
        make_node("Unknown", taints=[{"key": "a", "effect": "NoSchedule"}]),
        {
            ("a", "NoSchedule"),
            ("node.kubernetes.io/unreachable", "NoSchedule"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
        },
    ),
}


@pytest.mark.parametrize("case", TAINTS)
def test_taints_follow_from_the_state_of_the_node(case: str) -> None:
    node, expected = TAINTS[case]
    taints = wanted_taints(node, T0)
    assert (None if taints is None else {(each["key"], each["effect"]) for each in taints}) == expected


UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": STAMP}
EVICTIONS: dict[str, tuple[list[Any], dict[str, Any], float]] = {
    "five minutes by default": ([], UNREACHABLE, T0 + 300),
    "as long as it says": (
        [{"key": UNREACHABLE["key"], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}],
        UNREACHABLE,
        T0 + 30,
    ),
    "for ever": ([{"operator": "Exists"}], UNREACHABLE, math.inf),
    "a taint of a user, at once": ([], {"key": "a", "value": "b", "effect": "NoExecute"}, T0 + 7),
    "a taint of a user, tolerated": (
        [{"key": "a", "operator": "Equal", "value": "b"}],
        {"key": "a", "value": "b", "effect": "NoExecute"},
        math.inf,
    ),
    "no execution, no eviction": ([], {"key": "a", "effect": "NoSchedule"}, math.inf),
}


@pytest.mark.parametrize("case", EVICTIONS)
def test_when_a_pod_has_to_leave_a_tainted_node(case: str) -> None:
    tolerations, taint, expected = EVICTIONS[case]
    pod = msgspec.convert({"spec": {"tolerations": tolerations}}, Pod)
    assert eviction_s(pod, [taint], T0 + 7) == expected
