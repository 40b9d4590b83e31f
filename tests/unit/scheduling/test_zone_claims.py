"""A pod that says it is in another zone than it is: it costs room, and makes none for it to be missed by others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.api.builtin.node import Node, NodeResourceTopology
from spinney.api.builtin.pod import Pod
from spinney.core.scheduling.cluster import Cluster

GPU = "nvidia.com/gpu"


def node() -> Node:
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}
    return msgspec.convert({"metadata": {"name": "n0"}, "status": {"allocatable": amounts}}, Node)


def published(**available: int) -> NodeResourceTopology:
    zones = [
        {
            "name": name,
            "type": "Node",
            "resources": [{"name": GPU, "capacity": "4", "allocatable": "4", "available": str(left)}],
        }
        for name, left in available.items()
    ]
    attributes = [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]
    document = {"metadata": {"name": "n0"}, "zones": zones, "attributes": attributes}
    return msgspec.convert(document, NodeResourceTopology)


def pod(zone: str) -> Pod:
    metadata: dict[str, Any] = {"name": "p", "namespace": "default", "uid": "p"}
    metadata["annotations"] = {"spinney.dev/zone": zone} if zone else {}
    containers = [{"name": "main", "resources": {"requests": {GPU: "4"}}}]
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n0", "containers": containers}}, Pod)


def free(cluster: Cluster, zone: str) -> int:
    at = list(cluster.inventory.resources).index(GPU)
    return cluster.inventory.free(cluster.inventory.slot_for("n0", zone), waiting=False)[at]


@pytest.mark.parametrize("claimed", ["a", "nowhere", ""])
def test_k12_a_pod_that_claims_another_zone_later_leaves_its_own_no_freer(claimed: str) -> None:
    cluster = Cluster()
    cluster.put_node("n0", node())
    cluster.settle()
    cluster.put_zones("n0", published(a=4, b=4))
    before, after = pod("b"), pod(claimed)
    cluster.put_pod(None, before)
    cluster.put_zones("n0", published(a=4, b=0))
    assert (free(cluster, "a"), free(cluster, "b")) == (4, 0)
    cluster.put_pod(before, after)
    assert free(cluster, "b") <= 0
