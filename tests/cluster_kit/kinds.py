"""Every built-in kind the servers must share: a valid object, a small change to it, and how it is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cluster_kit import objects as o

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One built-in kind: `make(name)` is valid, `change` is a merge patch that is allowed."""

    plural: str
    kind: str
    make: Callable[[str], Json]
    change: Json
    namespaced: bool = True
    status: Json = field(default_factory=dict)
    """A merge patch for the status subresource, where there is one."""


LABEL: Json = {"metadata": {"labels": {"changed": "yes"}}}
CONDITION: Json = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}

KINDS: tuple[Kind, ...] = (
    Kind("configmaps", "ConfigMap", o.config, {"data": {"more": "x"}}),
    Kind("secrets", "Secret", o.secret, {"stringData": {"more": "x"}}),
    Kind("serviceaccounts", "ServiceAccount", lambda n: {"metadata": {"name": n}}, LABEL),
    Kind(
        "pods",
        "Pod",
        o.pod,
        {"spec": {"activeDeadlineSeconds": 60}},
        status={"status": {"phase": "Running", "message": "m"}},
    ),
    Kind(
        "services",
        "Service",
        o.service,
        {"spec": {"sessionAffinity": "ClientIP"}},
        status={"status": {"conditions": [{**CONDITION, "reason": "R", "message": "m"}]}},
    ),
    Kind("events", "Event", lambda n: o.event(n, ""), {"count": 2}),
    Kind("leases", "Lease", o.lease, {"spec": {"holderIdentity": "other"}}),
    Kind("deployments", "Deployment", o.deployment, {"spec": {"replicas": 4}}, status={"status": {"replicas": 2}}),
    Kind("replicasets", "ReplicaSet", o.replicaset, {"spec": {"replicas": 4}}, status={"status": {"replicas": 2}}),
    Kind("statefulsets", "StatefulSet", o.statefulset, {"spec": {"replicas": 4}}, status={"status": {"replicas": 2}}),
    Kind("jobs", "Job", o.job, {"spec": {"activeDeadlineSeconds": 60}}),
    Kind("poddisruptionbudgets", "PodDisruptionBudget", o.budget, {"spec": {"minAvailable": 2}}),
    Kind(
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        o.autoscaler,
        {"spec": {"maxReplicas": 5}},
        status={"status": {"currentReplicas": 2, "desiredReplicas": 2}},
    ),
    Kind("persistentvolumeclaims", "PersistentVolumeClaim", o.claim, LABEL, status={"status": {"phase": "Lost"}}),
    Kind("resourceclaims", "ResourceClaim", o.resource_claim, LABEL),
    Kind("roles", "Role", o.role, {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    Kind("rolebindings", "RoleBinding", lambda n: o.role_binding(n, "r", "u"), LABEL),
    Kind(
        "nodes",
        "Node",
        o.node,
        {"spec": {"unschedulable": True}},
        False,
        {"status": {"capacity": {"cpu": "8"}, "conditions": [CONDITION]}},
    ),
    Kind("namespaces", "Namespace", lambda n: {"metadata": {"name": n}}, LABEL, False),
    Kind(
        "persistentvolumes",
        "PersistentVolume",
        o.volume,
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
        False,
        {"status": {"phase": "Failed", "message": "m"}},
    ),
    Kind("storageclasses", "StorageClass", o.storage_class, {"allowVolumeExpansion": True}, False),
    Kind("runtimeclasses", "RuntimeClass", o.runtime_class, {"overhead": {"podFixed": {"cpu": "1"}}}, False),
    Kind("priorityclasses", "PriorityClass", o.priority_class, {"description": "d"}, False),
    Kind("deviceclasses", "DeviceClass", o.device_class, LABEL, False),
    Kind("resourceslices", "ResourceSlice", lambda n: o.resource_slice(n, "node"), LABEL, False),
    Kind("clusterroles", "ClusterRole", o.cluster_role, LABEL, False),
    Kind("clusterrolebindings", "ClusterRoleBinding", lambda n: o.cluster_role_binding(n, "r", "u"), LABEL, False),
    Kind("customresourcedefinitions", "CustomResourceDefinition", lambda n: o.crd(f"{n}.example.com"), LABEL, False),
)
BY_PLURAL = {kind.plural: kind for kind in KINDS}


def body_of(kind: Kind, name: str, namespace: str) -> Json:
    """A valid object of the kind for this namespace."""
    made = kind.make(name)
    if kind.plural == "events":
        made["involvedObject"]["namespace"] = namespace
    return made
