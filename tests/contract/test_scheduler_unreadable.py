"""Pods that kube-apiserver accepts and no scheduler can mean: everybody else is scheduled, before and after them."""

from __future__ import annotations

from typing import Any

from contract.scheduler_stages import GPU, Hall, tree
from unit.scheduler.scheduler_world import pod, podgroup

Json = dict[str, Any]
VAST = {"memory": "9" * 5000}


def asking(name: str, group: str, amounts: Json, **spec: Any) -> Json:
    containers = [{"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}]
    return pod(name, group, containers=containers, **spec)


def test_a_pod_of_5000_digits_fills_its_node_and_ends_nobody(hall: Hall) -> None:
    hall.build(tree(hosts=2))
    first, second = sorted(each["metadata"]["name"] for each in hall.cluster.list("nodes")["items"])
    hall.make(asking("bound", "", VAST, nodeName=first, schedulerName="nobody"))
    hall.make(podgroup("vast"), asking("vast-0", "vast", VAST))
    for name in ("a", "b"):
        hall.make(podgroup(name), asking(f"{name}-0", name, {"memory": "1Gi", GPU: "1"}))
    assert hall.running("a-", 1) == {"a-0": second}
    assert hall.running("b-", 1) == {"b-0": second}
    hall.says("vast", "memory")
    hall.remove("pods", "bound")
    hall.make(podgroup("c"), asking("c-0", "c", {"memory": "1Gi", GPU: "8"}))
    assert hall.running("c-", 1) == {"c-0": first}
    assert hall.bound("vast-") == {}
