"""Kubernetes' own kinds, slim: the fields that a scheduler and an operator read, and no others."""

from spinney.api.builtin.claims import (
    DeviceClass,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
    ResourceSlice,
    StorageClass,
)
from spinney.api.builtin.node import CSINode, Node
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, to_selector
from spinney.api.builtin.surroundings import (
    ConfigMap,
    Event,
    Lease,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    Secret,
    Service,
    ServiceAccount,
)
from spinney.api.builtin.workloads import HorizontalPodAutoscaler, Job

__all__ = [
    "CSINode",
    "ConfigMap",
    "DeviceClass",
    "Event",
    "HorizontalPodAutoscaler",
    "Job",
    "LabelSelector",
    "Lease",
    "Namespace",
    "Node",
    "NodeSelector",
    "NodeSelectorTerm",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PriorityClass",
    "ResourceClaim",
    "ResourceSlice",
    "Secret",
    "Service",
    "ServiceAccount",
    "StorageClass",
    "to_selector",
]
