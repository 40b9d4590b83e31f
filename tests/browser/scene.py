"""A cluster worth looking at: two kinds of machines, gangs of several shapes, and some that wait."""

from __future__ import annotations

from typing import Any

import yaml

Json = dict[str, Any]

NODES = """\
name: h100
levels:
  - {name: block, label: h100.example.com/block, count: 2}
  - {name: rack, label: h100.example.com/rack, count: 4}
  - {name: host, count: 8}
capacity: {cpu: 192, memory: 2Ti, nvidia.com/gpu: 8}
---
name: gb200
levels:
  - {name: zone, label: topology.kubernetes.io/zone, count: 1}
  - {name: block, label: gb200.example.com/block, count: 2}
  - {name: rack, label: nvidia.com/gpu.clique, count: 3}
  - {name: host, count: 18}
capacity: {cpu: 144, memory: 960Gi, nvidia.com/gpu: 4}
"""


def topology(name: str, **levels: str) -> Json:
    listed = [{"domain": domain, "key": key} for domain, key in levels.items()]
    head = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "metadata": {"name": name}}
    return {**head, "spec": {"levels": listed}}


H100 = topology("h100", block="h100.example.com/block", rack="h100.example.com/rack", host="kubernetes.io/hostname")
GB200 = topology(
    "gb200",
    zone="topology.kubernetes.io/zone",
    block="gb200.example.com/block",
    rack="nvidia.com/gpu.clique",
    host="kubernetes.io/hostname",
)


def clique(name: str, replicas: int, gpus: int, constraint: Json | None = None) -> Json:
    container = {"name": "main", "image": "example.com/serve:1", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    found: Json = {
        "name": name,
        "spec": {"roleName": name, "replicas": replicas, "podSpec": {"containers": [container]}},
    }
    return {**found, "topologyConstraint": constraint} if constraint else found


def podcliqueset(name: str, on: str, constraint: Json, *cliques: Json, replicas: int = 1, namespace: str = "") -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    template = {"clusterTopologyName": on, "topologyConstraint": constraint, "cliques": list(cliques)}
    head = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": metadata}
    return {**head, "spec": {"replicas": replicas, "template": template}}


def job(name: str, on: str, level: str, pods: int, gpus: int, wish: str = "") -> Json:
    asked = {"kai.scheduler/topology": on, "kai.scheduler/topology-required-placement": level}
    asked |= {"kai.scheduler/topology-preferred-placement": wish} if wish else {}
    container: Json = {"name": "main", "image": "example.com/train:1", "command": ["sleep", "inf"]}
    container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    spec = {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": asked, "labels": {"kai.scheduler/queue": "default-queue"}},
        "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": {"spec": spec}},
    }


RACK = {"packDomain": "rack"}
CHAT = podcliqueset(
    "chat",
    "h100",
    {"pack": {"required": "block", "preferred": "rack"}},
    clique("prefill", 4, 4, RACK),
    clique("decode", 3, 8, RACK),
)
WORKLOADS = [
    CHAT,
    podcliqueset("embed", "h100", RACK, clique("worker", 6, 2), replicas=3),
    podcliqueset("moe", "gb200", {"packDomain": "block"}, clique("expert", 12, 4, RACK), clique("router", 4, 2)),
    job("pretrain", "gb200", "block", 24, 4, wish="rack"),
    job("tune", "h100", "rack", 4, 8),
    job("sweep", "h100", "block", 20, 3, wish="rack"),
    podcliqueset("giant", "h100", RACK, clique("worker", 9, 8)),
    job("wide", "gb200", "rack", 19, 4),
]
PLANNED = podcliqueset("planned", "h100", RACK, clique("worker", 2, 8))


def text(*objects: Json) -> str:
    return yaml.safe_dump_all(objects, sort_keys=False)
