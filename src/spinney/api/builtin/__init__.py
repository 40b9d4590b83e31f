"""Kubernetes' own kinds, slim: the fields that a scheduler and an operator read, and no others."""

from spinney.api.builtin.config import ConfigMap, Event, Lease, Namespace, Secret, Service, ServiceAccount
from spinney.api.builtin.node import CSINode, Node
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.policy import PodDisruptionBudget, PriorityClass
from spinney.api.builtin.resource_claim import DeviceClass, ResourceClaim, ResourceSlice
from spinney.api.builtin.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, to_selector
from spinney.api.builtin.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
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
