"""The snapshot of a what-if: a live cluster, read once, or one that a file describes.

Only gets and lists; never watches and never writes. Admission rules read single objects live, because a cached one
could be older than what the server would judge by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube_apimachinery.admission import Object
from kube_apimachinery.name_validation import dns_label, dns_subdomain
from kube_apimachinery.system_clock import system_dice
from spinney.api.builtin.claims import PersistentVolume, PersistentVolumeClaim, ResourceClaim, StorageClass
from spinney.api.builtin.node import Node, NodeResourceTopology
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.surroundings import PodDisruptionBudget, PriorityClass, ResourceQuota
from spinney.api.crds.catalog import DEFINITIONS
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology, published
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.core.grouping.queue_and_priority import missing_queues
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.codec import Broken
from spinney.drive.client.errors import ConfigError, Forbidden, NotFound
from spinney.drive.client.paths import ResourcePath
from spinney.drive.scheduler import caches

_PATHS = {
    (one.stored.GROUP, one.stored.PLURAL): ResourcePath(
        one.stored.GROUP, one.stored.VERSION, one.stored.PLURAL, one.stored.NAMESPACED
    )
    for one in DEFINITIONS
} | {("", "pods"): ResourcePath("", "v1", "pods")}


class ClusterReader:
    """Reads our kinds and pods. A kind that is not served, or a name that no server accepts, has no objects."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        if dns_subdomain(name) or (namespace and dns_label(namespace)):
            return None
        try:
            return await self._client.get(_PATHS[group, plural].ref(name, namespace))
        except NotFound:
            return None

    async def list(self, group: str, plural: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        chosen = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        try:
            listing = await self._client.list(Selection(_PATHS[group, plural], namespace, chosen))
        except NotFound:
            return ()
        return listing.items


_PAGE = 5000
_KUBERNETES_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

_KNOWN = "a described cluster has the topology of the operator's configuration, and those that -f gives"
_NONE_KNOWN = "a described cluster has no topologies but those that -f gives"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects by kind. `against`: a description of the source. `notes`: kinds that we may not read.

    `broken`: undecodable objects, under the same field names.
    `if_refused`: the hint to show when admission or a controller refuses an object.
    """

    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    podgroups: Sequence[PodGroup] = ()
    queues: Sequence[Queue] = ()
    topologies: Sequence[Topology] = ()
    cluster_topologies: Sequence[ClusterTopology] = ()
    classes: Sequence[PriorityClass] = ()
    budgets: Sequence[PodDisruptionBudget] = ()
    quotas: Sequence[ResourceQuota] = ()
    claims: Sequence[PersistentVolumeClaim] = ()
    volumes: Sequence[PersistentVolume] = ()
    storage_classes: Sequence[StorageClass] = ()
    resource_claims: Sequence[ResourceClaim] = ()
    node_zones: Sequence[NodeResourceTopology] = ()
    limit_ranges: Sequence[dict[str, Any]] = ()
    broken: Mapping[str, Sequence[Broken]] = field(default_factory=dict)
    against: str = ""
    notes: tuple[str, ...] = ()
    if_refused: str = ""


_READ: dict[str, tuple[ResourcePath, type[Any]]] = {
    "nodes": (caches.NODES, Node),
    "pods": (caches.PODS, Pod),
    "podgroups": (caches.PODGROUPS, PodGroup),
    "queues": (caches.QUEUES, Queue),
    "topologies": (caches.TOPOLOGIES, Topology),
    "cluster_topologies": (caches.CLUSTER_TOPOLOGIES, ClusterTopology),
    "topology_bindings": (caches.TOPOLOGY_BINDINGS, ClusterTopologyBinding),
    "classes": (caches.PRIORITY_CLASSES, PriorityClass),
    "budgets": (caches.BUDGETS, PodDisruptionBudget),
    "quotas": (caches.QUOTAS, ResourceQuota),
    "claims": (caches.CLAIMS, PersistentVolumeClaim),
    "volumes": (caches.VOLUMES, PersistentVolume),
    "storage_classes": (caches.STORAGE_CLASSES, StorageClass),
    "resource_claims": (caches.RESOURCE_CLAIMS, ResourceClaim),
    "node_zones": (caches.NODE_ZONES, NodeResourceTopology),
    "limit_ranges": (ResourcePath("", "v1", "limitranges"), dict),
}
_HELPFUL = (
    "budgets",
    "quotas",
    "claims",
    "volumes",
    "storage_classes",
    "resource_claims",
    "node_zones",
    "limit_ranges",
)
"""Optional kinds: left out where we may not read them, with a note in the result."""


async def read_snapshot(client: ApiClient, against: str = "the cluster") -> Snapshot:
    """Read all kinds concurrently. Raises ClientError if a required kind cannot be read."""
    reader = ApiClient(client.transport, system_dice(), page_limit=_PAGE, unreadable=client.unreadable)
    found: dict[str, Any] = {}
    broken: dict[str, Sequence[Broken]] = {}
    notes: list[str] = []

    async def read(name: str) -> None:
        path, kind = _READ[name]
        found[name] = ()
        try:
            listed = await reader.list(Selection(path), kind)
            found[name], broken[name] = listed.items, listed.broken
        except NotFound:
            if name == "podgroups":
                served = f"{PodGroup.PLURAL}.{PodGroup.GROUP}"
                message = f"the cluster does not serve {served}: apply `spinney manifests crds` first"
                raise ConfigError(message) from None
        except Forbidden:
            if name not in _HELPFUL:
                raise
            notes.append(f"{path.plural} may not be read: the answer leaves them out")

    await asyncio.gather(*map(read, _READ))
    found["cluster_topologies"] = published(found["cluster_topologies"], found.pop("topology_bindings"))
    broken.setdefault("cluster_topologies", ())
    broken["cluster_topologies"] = [*broken["cluster_topologies"], *broken.pop("topology_bindings", ())]
    return Snapshot(**found, broken=broken, against=against, notes=tuple(sorted(notes)))


def described(nodes: Sequence[dict[str, Any]], configuration: OperatorConfiguration, against: str) -> Snapshot:
    """An empty cluster: nodes, the default queues, and the topology that the operator writes."""
    queues = [change.body for change in missing_queues(lambda name: False)]
    classes = [{"metadata": {"name": name}, "value": value} for name, value in _KUBERNETES_CLASSES.items()]
    topologies: list[dict[str, Any]] = []
    if configuration.topology_enabled and configuration.writes_default_topology:
        levels = [msgspec.to_builtins(level) for level in configuration.topology_aware_scheduling.levels]
        topologies.append({"metadata": {"name": configuration.default_topology}, "spec": {"levels": levels}})
    return Snapshot(
        nodes=msgspec.convert(nodes, list[Node], strict=False),
        queues=msgspec.convert(queues, list[Queue], strict=False),
        classes=msgspec.convert(classes, list[PriorityClass], strict=False),
        cluster_topologies=msgspec.convert(topologies, list[ClusterTopology], strict=False),
        against=against,
        if_refused=_KNOWN if topologies else _NONE_KNOWN,
    )
