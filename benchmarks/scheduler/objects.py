"""Nodes, gangs and sets of the scheduler's benchmarks."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

GANG = 8
RACK = "topology.kubernetes.io/rack"
NAMESPACE = "bench"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS_PATH = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{NAMESPACE}/podgroups"
SETS_PATH = f"/apis/grove.io/v1alpha1/namespaces/{NAMESPACE}/podcliquesets"
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_HOSTS_PER_RACK, _RACKS_PER_ZONE, _GPUS = 16, 16, 8


def node(number: int) -> Json:
    """A host of eight GPUs; sixteen are a rack, sixteen racks a zone."""
    rack, name = number // _HOSTS_PER_RACK, f"host-{number:06d}"
    labels = {_ZONE: f"zone-{rack // _RACKS_PER_ZONE:03d}", RACK: f"rack-{rack:05d}", _HOST: name}
    amounts = {"cpu": "192", "memory": "2048Gi", "pods": "110", "nvidia.com/gpu": str(_GPUS)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def _container() -> Json:
    env = [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(8)]
    limits = {"nvidia.com/gpu": "1"}
    resources = {"requests": {"cpu": "4", "memory": "16Gi", **limits}, "limits": limits}
    return {"name": "main", "image": "example.com/model:1", "env": env, "resources": resources}


def podgroup(name: str) -> Json:
    """A gang of eight in one rack."""
    constraint = {"topology": "bench", "requiredTopologyLevel": RACK}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minMember": GANG, "queue": "default-queue", "topologyConstraint": constraint},
    }


def pod(name: str, group: str) -> Json:
    annotations = {"pod-group-name": group, "kai.scheduler/skip-podgrouper": "true"} if group else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"schedulerName": "kai-scheduler" if group else "nobody", "containers": [_container()]},
    }


def podcliqueset(name: str, pods: int = GANG) -> Json:
    """One clique in one rack."""
    spec = {"roleName": "worker", "replicas": pods, "minAvailable": pods, "podSpec": {"containers": [_container()]}}
    template = {"topologyConstraint": {"packDomain": "rack"}, "cliques": [{"name": "worker", "spec": spec}]}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "template": template},
    }


def topology() -> Json:
    levels = [{"nodeLabel": key} for key in (_ZONE, RACK, _HOST)]
    metadata = {"name": "bench"}
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": metadata,
        "spec": {"levels": levels},
    }


def queue() -> Json:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"cpu": free, "gpu": free, "memory": free}}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "default-queue"},
        "spec": spec,
    }
