"""A cluster in one file, as `kubectl get -o yaml` would dump it: nodes, topologies, gangs and their pods."""

from __future__ import annotations

from typing import Any

import yaml

from spinney.api.labels import HOSTNAME, POD_GROUP_NAME

BLOCK, RACK = "example.com/block", "example.com/rack"
GPU = "nvidia.com/gpu"


def busy() -> str:
    """Two blocks: in b0 a gang over a rack and a half, in b1 broken nodes and ten idle racks; one node outside."""
    objects = [_topology()]
    objects += [_node("b0", f"r{r}", h) for r in range(2) for h in range(4)]
    objects += [_node("b1", f"r{r}", h) for r in range(10) for h in range(4)]
    objects[9]["spec"] = {"unschedulable": True}
    objects[10]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    objects += [{**_node("", "", 0), "metadata": {"name": "control-plane", "labels": {HOSTNAME: "control-plane"}}}]
    objects += [_pod("default", "llm-0", f"b0-r0-h{h}", 8) for h in range(4)]
    objects += [_pod("default", "llm-0", f"b0-r1-h{h}", 4, f"-{h}") for h in range(2)]
    objects += [_pod("default", "small", "b0-r1-h0", 1, "-s"), _pod("default", "", "b0-r1-h3", 2)]
    objects += [_pod("default", "llm-0", "", 4, "-waits"), _group("default", "llm-0"), _group("research", "idle")]
    return yaml.safe_dump_all(objects, sort_keys=False)


def _topology() -> dict[str, Any]:
    levels = [{"domain": "block", "key": BLOCK}, {"domain": "rack", "key": RACK}, {"domain": "host", "key": HOSTNAME}]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "hall"},
        "spec": {"levels": levels},
    }


def _node(block: str, rack: str, host: int) -> dict[str, Any]:
    name = f"{block}-{rack}-h{host}"
    labels = {BLOCK: block, RACK: f"{block}-{rack}", HOSTNAME: name}
    offered = {"cpu": "64", GPU: "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": offered, "allocatable": offered},
    }


def _pod(namespace: str, gang: str, node: str, gpus: int, ending: str = "") -> dict[str, Any]:
    name = f"{gang or 'alone'}-{node or 'none'}{ending}"
    containers = [{"name": "c", "resources": {"requests": {GPU: str(gpus)}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": {POD_GROUP_NAME: gang} if gang else {}},
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": "Running" if node else "Pending"},
    }


def _group(namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"topologyConstraint": {"topology": "hall"}},
    }
