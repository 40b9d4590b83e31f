"""Manifests of cluster objects that request no capacity: nodes, topologies, queues, classes, budgets, volumes.

They count as existing in the cluster while the manifests of workloads are simulated.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import msgspec

from spinney.api.builtin import node_resource_topology
from spinney.api.builtin.node import Node
from spinney.api.builtin.node_resource_topology import NodeResourceTopology
from spinney.api.builtin.policy import PodDisruptionBudget, PriorityClass
from spinney.api.builtin.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from spinney.api.changes import Create, Json
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.queue import Queue
from spinney.api.kinds.topology import Topology
from spinney.core.expansion.backends import Backend
from spinney.drive.client.informers.cache import Cache
from spinney.drive.scheduler.caches import SchedulerCaches
from spinney.whatif.expected.expected_pods import Registry
from spinney.whatif.inputs.manifests import Manifest, ManifestError
from spinney.whatif.inputs.node_files import NodesError, parse_nodes
from spinney.whatif.inputs.snapshot import Snapshot
from spinney.whatif.simulator import ClusterSimulator

Where = Callable[[SchedulerCaches], Cache[Any]]

_KINDS: dict[tuple[str, str], tuple[type[Any], Where]] = {
    ("", "Node"): (Node, lambda views: views.nodes),
    ("", "PersistentVolume"): (PersistentVolume, lambda views: views.volumes),
    ("", "PersistentVolumeClaim"): (PersistentVolumeClaim, lambda views: views.claims),
    ("storage.k8s.io", "StorageClass"): (StorageClass, lambda views: views.storage_classes),
    ("scheduling.k8s.io", "PriorityClass"): (PriorityClass, lambda views: views.priority_classes),
    ("policy", "PodDisruptionBudget"): (PodDisruptionBudget, lambda views: views.budgets),
    (ClusterTopology.GROUP, ClusterTopology.KIND): (ClusterTopology, lambda views: views.cluster_topologies),
    (Topology.GROUP, Topology.KIND): (Topology, lambda views: views.topologies),
    (Queue.GROUP, Queue.KIND): (Queue, lambda views: views.queues),
    (node_resource_topology.GROUP, "NodeResourceTopology"): (NodeResourceTopology, lambda views: views.node_zones),
}
_NO_VIEWS = {"limit_ranges", "broken", "against", "notes", "if_refused"}
_NAMESPACED = ("PersistentVolumeClaim", "PodDisruptionBudget")


def is_cluster_object(manifest: Manifest) -> bool:
    return _group_kind(manifest) in _KINDS


def is_namespaced(kind: str) -> bool:
    """Whether a kind of cluster object (see above) is namespaced."""
    return kind in _NAMESPACED


def put_manifest(shadow: ClusterSimulator, manifest: Manifest, body: Json, registry: Registry) -> None:
    """Put the object of a manifest into the simulated cluster. Raises ManifestError if it is not valid for its kind."""
    kind, where = _KINDS[_group_kind(manifest)]
    if kind is Node:
        body = _node(manifest)
    try:
        made = msgspec.convert(registry.adopt(body), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{manifest}: {error}") from None
    shadow.put(where(shadow.views), made)


def put_snapshot(shadow: ClusterSimulator, snapshot: Snapshot) -> None:
    """Put all objects of a snapshot into the simulated cluster; nodes before pods, PodGroups before both are used."""
    views = shadow.views
    by_field: dict[str, Cache[Any]] = {
        "nodes": views.nodes,
        "topologies": views.topologies,
        "cluster_topologies": views.cluster_topologies,
        "node_zones": views.node_zones,
        "queues": views.queues,
        "classes": views.priority_classes,
        "budgets": views.budgets,
        "quotas": views.quotas,
        "claims": views.claims,
        "volumes": views.volumes,
        "storage_classes": views.storage_classes,
        "resource_claims": views.resource_claims,
        "podgroups": views.podgroups,
        "pods": views.pods,
    }
    assert by_field.keys() == {each.name for each in fields(snapshot)} - _NO_VIEWS
    for name, cache in by_field.items():
        cache.fold_page(getattr(snapshot, name), snapshot.broken.get(name, ()))
    shadow.cluster.settle()


def put_scheduler_topologies(shadow: ClusterSimulator, backends: list[Backend], registry: Registry) -> None:
    """Add the scheduler Topologies that the operator would write for ClusterTopologies without one."""
    for topology in list(shadow.views.cluster_topologies):
        if ("", topology.metadata.name) in shadow.views.topologies:
            continue
        for backend in backends:
            twin = backend.twin_of(topology, lambda *_: None)
            for change in twin.changes if twin is not None else ():
                if isinstance(change, Create):
                    made = msgspec.convert(registry.adopt(change.body), Topology, strict=False)
                    shadow.put(shadow.views.topologies, made)


def _node(manifest: Manifest) -> Json:
    """The node with the defaults of every node, as in a nodes file."""
    try:
        return parse_nodes(json.dumps(manifest.content, default=str), manifest.where)[0]
    except NodesError as error:
        raise ManifestError(str(error)) from None


def _group_kind(manifest: Manifest) -> tuple[str, str]:
    return str(manifest.content["apiVersion"]).rpartition("/")[0], manifest.kind
