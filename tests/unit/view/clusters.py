"""Objects for views: nodes with labels, pods on them, topologies over keys."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import msgspec

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.clustertopology import ClusterTopology, Topology
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import HOSTNAME, POD_GROUP_NAME

BLOCK, RACK = "example.com/block", "example.com/rack"
GPU = "nvidia.com/gpu"
LINGJUN = Path(__file__).parents[3] / "benchmarks" / "data" / "lingjun-topology.csv"


def node(name: str, *, gpus: int = 8, ready: str = "True", cordoned: bool = False, **labels: Any) -> Node:
    """Labels by the last part of their keys: block, rack; any others as they are in `labels`."""
    keys = {"block": BLOCK, "rack": RACK}
    carried = {HOSTNAME: name} | {keys.get(key, key): value for key, value in labels.items()}
    offered = {"cpu": "64", **({GPU: str(gpus)} if gpus else {})}
    content: dict[str, Any] = {
        "metadata": {"name": name, "labels": carried},
        "spec": {"unschedulable": cordoned},
        "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": ready}]},
    }
    return msgspec.convert(content, Node)


def labelled(name: str, labels: dict[str, str], gpus: int = 8, product: str = "") -> Node:
    own = {"nvidia.com/gpu.product": product} if product else {}
    carried: dict[str, Any] = {HOSTNAME: name, **labels, **own}
    return node(name, gpus=gpus, **carried)


def pod(name: str, where: str = "", gang: str = "", *, gpus: int = 1, phase: str = "Running") -> Pod:
    content: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "ns", "annotations": {POD_GROUP_NAME: gang} if gang else {}},
        "spec": {"nodeName": where, "containers": [{"name": "c", "resources": {"requests": _asked(gpus)}}]},
        "status": {"phase": phase},
    }
    return msgspec.convert(content, Pod)


def cluster_topology(name: str = "t", **levels: str) -> ClusterTopology:
    """Levels by their domains; without any: block, rack, host."""
    keys = levels or {"block": BLOCK, "rack": RACK, "host": HOSTNAME}
    spec = {"levels": [{"domain": domain, "key": key} for domain, key in keys.items()]}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ClusterTopology)


def kai_topology(name: str, *keys: str) -> Topology:
    spec = {"levels": [{"nodeLabel": key} for key in keys]}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Topology)


def podgroup(name: str, topology: str = "") -> PodGroup:
    spec = {"topologyConstraint": {"topology": topology}}
    return msgspec.convert({"metadata": {"name": name, "namespace": "ns"}, "spec": spec}, PodGroup)


def hall(blocks: int = 2, racks: int = 2, hosts: int = 2) -> list[Node]:
    """b0/b0-r0/b0-r0-h0 and so on."""
    return [
        node(f"b{b}-r{r}-h{h}", block=f"b{b}", rack=f"b{b}-r{r}")
        for b in range(blocks)
        for r in range(racks)
        for h in range(hosts)
    ]


def lingjun() -> list[Node]:
    """847 hosts of a production cluster, whose names of top-of-rack groups repeat."""
    with LINGJUN.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    keys = {"core": "example.com/core", "aggregation": "example.com/aggregation", "tor": "example.com/tor"}
    return [labelled(row["host"], {key: row[column] for column, key in keys.items()}) for row in rows]


def _asked(gpus: int) -> dict[str, str]:
    return {"cpu": "1", **({GPU: str(gpus)} if gpus else {})}
