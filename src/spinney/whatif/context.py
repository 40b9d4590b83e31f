"""What is there already: manifests of cluster objects that request no capacity, and objects of a planned workload.

Nodes, topologies, queues, classes, budgets and volumes of manifests count as existing while workloads are simulated.
Existing objects of a workload stay, and only its missing pods are simulated; a described cluster has none. Read-only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec

from spinney.api.builtin import node as node_resource_topology
from spinney.api.builtin.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from spinney.api.builtin.node import Node, NodeResourceTopology
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.surroundings import PodDisruptionBudget, PriorityClass
from spinney.api.changes import Create, Json
from spinney.api.documents import LINE, DocumentError, read_document
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology, published
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.queue import Queue
from spinney.api.labels import APP_PART_OF, KAI_TOP_OWNER_METADATA, POD_GROUP_NAME, PODCLIQUE
from spinney.core.expansion.backends import Backend
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import Forbidden, NotFound
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.caches import SchedulerCaches
from spinney.serve.webhook.live_lookup import Reader
from spinney.whatif.expected.expected_pods import ExpectedPods, Registry
from spinney.whatif.expected.podcliqueset import NOTHING, ExistingSet
from spinney.whatif.inputs.manifests import Manifest, ManifestError
from spinney.whatif.inputs.nodes import NodesError, parse_nodes
from spinney.whatif.inputs.snapshot import Snapshot
from spinney.whatif.simulator import ClusterSimulator
from spinney.whatif.workloads import OWNER_PATHS

_ENDS = ("Complete", "Completed", "Succeeded", "Failed")
"""Condition types of finished Jobs, JobSets and training jobs, successful or failed."""


@dataclass(frozen=True, slots=True)
class ExistingOwner:
    """An existing owner and the names of its live pods. `ended`: it creates no more pods.

    `waiting`: the number of its pods without a node, by PodGroup.
    """

    uid: str
    pods: frozenset[str]
    ended: bool = False
    waiting: Mapping[Key, int] = field(default_factory=dict)


def waiting_of_set(snapshot: Snapshot, body: Json) -> Mapping[Key, int]:
    """The number of pods of a PodCliqueSet without a node, by PodGroup."""
    return _waiting(_pods_of_set(snapshot, body))


def _pods_of_set(snapshot: Snapshot, body: Json) -> list[Pod]:
    namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
    named = [pod for pod in snapshot.pods if pod.metadata.labels.get(APP_PART_OF) == name and pod.is_here]
    return [pod for pod in named if pod.metadata.namespace == namespace]


def _waiting(pods: Iterable[Pod]) -> Mapping[Key, int]:
    return Counter(
        (pod.metadata.namespace, group)
        for pod in pods
        if not pod.spec.node_name and (group := pod.metadata.annotations.get(POD_GROUP_NAME))
    )


async def existing_set(reader: Reader | None, snapshot: Snapshot, body: Json) -> tuple[str, ExistingSet]:
    """The uid of an existing PodCliqueSet and its existing objects; an empty uid if it does not exist."""
    metadata = body["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    live = await reader.get(PodCliqueSet.GROUP, PodCliqueSet.PLURAL, namespace, name) if reader is not None else None
    if reader is None or live is None:
        return "", NOTHING
    labels = {APP_PART_OF: name}
    replicas: dict[str, int] = {}
    for kind in (PodClique, PodCliqueScalingGroup):
        for one in await reader.list(kind.GROUP, kind.PLURAL, namespace, labels):
            replicas[one["metadata"]["name"]] = int(one["spec"].get("replicas", 0))
    mine = _pods_of_set(snapshot, body)
    counts = Counter(pod.metadata.labels.get(PODCLIQUE, "") for pod in mine)
    return live["metadata"]["uid"], ExistingSet(counts, replicas, any(pod.spec.node_name for pod in mine))


async def existing(client: ApiClient | None, snapshot: Snapshot, body: Json) -> ExistingOwner | None:
    """An existing owner of any other kind, identified by the PodGroups that were created for it."""
    path = OWNER_PATHS.get(body["kind"])
    if client is None or path is None:
        return None
    metadata = body["metadata"]
    try:
        found: Mapping[str, Any] = await client.get(path.ref(metadata["name"], metadata["namespace"]))
    except (NotFound, Forbidden):
        return None
    uid = found["metadata"]["uid"]
    groups = {
        group.metadata.name
        for group in snapshot.podgroups
        if group.metadata.namespace == metadata["namespace"] and _top_uid(group.metadata.annotations) == uid
    }
    mine = [pod for pod in snapshot.pods if pod.is_here and pod.metadata.namespace == metadata["namespace"]]
    mine = [pod for pod in mine if pod.metadata.annotations.get(POD_GROUP_NAME) in groups]
    return ExistingOwner(uid, frozenset(pod.metadata.name for pod in mine), _has_ended(found), _waiting(mine))


def without_existing(expected_pods: list[ExpectedPods], there: ExistingOwner) -> list[ExpectedPods]:
    """The missing pods: those with names that do not exist yet, limited to the number that is missing."""
    if there.ended:
        return []
    left = [[pod for pod in expected.pods if pod["metadata"]["name"] not in there.pods] for expected in expected_pods]
    total = sum(len(expected.pods) for expected in expected_pods)
    surplus = sum(map(len, left)) - max(0, total - len(there.pods))
    kept = []
    for expected, pods in zip(expected_pods, left, strict=True):
        dropped = min(surplus, len(pods))
        surplus -= dropped
        if pods[dropped:]:
            kept.append(replace(expected, pods=tuple(pods[dropped:])))
    return kept


def _has_ended(owner: Mapping[str, Any]) -> bool:
    conditions = (owner.get("status") or {}).get("conditions") or ()
    return any(one.get("type") in _ENDS and one.get("status") == "True" for one in conditions)


def _top_uid(annotations: Mapping[str, str]) -> str:
    written = annotations.get(KAI_TOP_OWNER_METADATA, "")
    found = next((line for line in written.splitlines() if line.startswith("uid:")), "")
    try:
        uid = read_document(found, limits=LINE)["uid"] if found else ""
    except (DocumentError, TypeError, KeyError):
        return ""
    return uid if isinstance(uid, str) else ""


Where = Callable[[SchedulerCaches], Cache[Any]]

_KINDS: dict[tuple[str, str], tuple[type[Any], Where]] = {
    ("", "Node"): (Node, lambda views: views.nodes),
    ("", "PersistentVolume"): (PersistentVolume, lambda views: views.volumes),
    ("", "PersistentVolumeClaim"): (PersistentVolumeClaim, lambda views: views.claims),
    ("storage.k8s.io", "StorageClass"): (StorageClass, lambda views: views.storage_classes),
    ("scheduling.k8s.io", "PriorityClass"): (PriorityClass, lambda views: views.priority_classes),
    ("policy", "PodDisruptionBudget"): (PodDisruptionBudget, lambda views: views.budgets),
    (ClusterTopology.GROUP, ClusterTopology.KIND): (ClusterTopology, lambda views: views.cluster_topologies),
    (ClusterTopology.GROUP, ClusterTopologyBinding.KIND): (
        ClusterTopologyBinding,
        lambda views: views.cluster_topologies,
    ),
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


def put_manifest(simulator: ClusterSimulator, manifest: Manifest, body: Json, registry: Registry) -> None:
    """Put the object of a manifest into the simulated cluster. Raises ManifestError if it is not valid for its kind."""
    kind, where = _KINDS[_group_kind(manifest)]
    if kind is Node:
        body = _node(manifest)
    try:
        made = msgspec.convert(registry.adopt(body), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{manifest}: {error}") from None
    for each in published([], [made]) if isinstance(made, ClusterTopologyBinding) else [made]:
        simulator.put(where(simulator.views), each)


def put_snapshot(simulator: ClusterSimulator, snapshot: Snapshot) -> None:
    """Put all objects of a snapshot into the simulated cluster; nodes before pods, PodGroups before both are used."""
    views = simulator.views
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
    simulator.cluster.settle()


def put_scheduler_topologies(simulator: ClusterSimulator, backends: list[Backend], registry: Registry) -> None:
    """Add the scheduler Topologies that the operator would write for ClusterTopologies without one."""
    for topology in list(simulator.views.cluster_topologies):
        if ("", topology.metadata.name) in simulator.views.topologies:
            continue
        for backend in backends:
            twin = backend.twin_of(topology, lambda *_: None)
            for change in twin.changes if twin is not None else ():
                if isinstance(change, Create):
                    made = msgspec.convert(registry.adopt(change.body), Topology, strict=False)
                    simulator.put(simulator.views.topologies, made)


def _node(manifest: Manifest) -> Json:
    """The node with the defaults of every node, as in a nodes file."""
    try:
        return parse_nodes(json.dumps(manifest.content, default=str), manifest.where)[0]
    except NodesError as error:
        raise ManifestError(str(error)) from None


def _group_kind(manifest: Manifest) -> tuple[str, str]:
    return str(manifest.content["apiVersion"]).rpartition("/")[0], manifest.kind
