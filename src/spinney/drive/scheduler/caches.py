"""The caches that the scheduler reads, and whether a cache already shows the scheduler's own writes.

All caches have to be requested before the informers run.
"""

from __future__ import annotations

from typing import Any, TypeVar

from spinney.api.builtin import node
from spinney.api.builtin.claims import PersistentVolume, PersistentVolumeClaim, ResourceClaim, StorageClass
from spinney.api.builtin.node import Node, NodeResourceTopology
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.surroundings import ConfigMap, PodDisruptionBudget, PriorityClass, ResourceQuota
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.api.labels import POD_GROUP_NAME
from spinney.api.meta import Kind
from spinney.core.scheduling.gang.priorities import limits_class
from spinney.core.scheduling.volumes import Volumes, claims_of
from spinney.drive.client.api import Selection
from spinney.drive.client.codec import Broken
from spinney.drive.client.informers.cache import Cache, Change
from spinney.drive.client.informers.optional_caches import OptionalCaches
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.paths import Key, ResourcePath

T = TypeVar("T")

PODS = ResourcePath("", "v1", "pods")
NODES = ResourcePath("", "v1", "nodes", namespaced=False)
EVENTS = ResourcePath("", "v1", "events")
CLAIMS = ResourcePath("", "v1", "persistentvolumeclaims")
VOLUMES = ResourcePath("", "v1", "persistentvolumes", namespaced=False)
STORAGE_CLASSES = ResourcePath("storage.k8s.io", "v1", "storageclasses", namespaced=False)
PRIORITY_CLASSES = ResourcePath("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
BUDGETS = ResourcePath("policy", "v1", "poddisruptionbudgets")
QUOTAS = ResourcePath("", "v1", "resourcequotas")
CONFIG_MAPS = ResourcePath("", "v1", "configmaps")
RESOURCE_CLAIMS = ResourcePath("resource.k8s.io", "v1", "resourceclaims")
NODE_ZONES = ResourcePath(node.GROUP, node.VERSION, node.PLURAL, namespaced=False)


def path_of(kind: type[Kind]) -> ResourcePath:
    return ResourcePath(kind.GROUP, kind.VERSION, kind.PLURAL, kind.NAMESPACED)


PODGROUPS = path_of(PodGroup)
QUEUES = path_of(Queue)
TOPOLOGIES = path_of(Topology)
CLUSTER_TOPOLOGIES = path_of(ClusterTopology)
TOPOLOGY_BINDINGS = path_of(ClusterTopologyBinding)

NEEDED = (PODGROUPS, QUEUES, TOPOLOGIES)
"""Kinds without which nothing can be scheduled; the scheduler waits until they are served."""

_SHOWN = 200
_OTHERS = "~"  # no namespace begins with it


class SchedulerCaches:
    """The caches by kind. `names`: the scheduler names that it serves; pods of other schedulers are cached too."""

    def __init__(self, caches: SharedCaches, names: frozenset[str], optional_caches: OptionalCaches) -> None:
        def groups(pod: Pod) -> tuple[str, ...]:
            name = pod.metadata.annotations.get(POD_GROUP_NAME, "")
            if pod.spec.scheduler_name in names:
                return (f"{pod.metadata.namespace}/{name}",)
            return (f"{_OTHERS}{pod.metadata.namespace}/{name}",) if name else ()

        def claims(pod: Pod) -> tuple[str, ...]:
            return tuple([f"{pod.metadata.namespace}/{name}" for name in claims_of(pod)]) if pod.spec.volumes else ()

        def config_maps(pod: Pod) -> tuple[str, ...]:
            named = pod.spec.config_maps if not pod.spec.node_name else None
            return tuple([f"{pod.metadata.namespace}/{name}" for name in named]) if named else ()

        def view(resource: ResourcePath, kind: type[T]) -> Cache[T]:
            return caches.cache(Selection(resource), kind)

        self.pods: Cache[Pod] = caches.cache(
            Selection(PODS), Pod, indexes={"group": groups, "claim": claims, "config map": config_maps}
        )
        self.nodes = view(NODES, Node)
        self.podgroups = view(PODGROUPS, PodGroup)
        self.queues = view(QUEUES, Queue)
        self.topologies = view(TOPOLOGIES, Topology)
        self.cluster_topologies = optional_caches.expect(CLUSTER_TOPOLOGIES, ClusterTopology)
        self.topology_bindings = optional_caches.expect(TOPOLOGY_BINDINGS, ClusterTopologyBinding)
        self.node_zones = optional_caches.expect(NODE_ZONES, NodeResourceTopology)
        self.resource_claims = optional_caches.expect(RESOURCE_CLAIMS, ResourceClaim)
        self.priority_classes = view(PRIORITY_CLASSES, PriorityClass)
        self.budgets = view(BUDGETS, PodDisruptionBudget)
        self.quotas: Cache[ResourceQuota] = caches.cache(
            Selection(QUOTAS), ResourceQuota, indexes={"namespace": lambda quota: (quota.metadata.namespace,)}
        )
        self.config_maps = caches.cache(Selection(CONFIG_MAPS, metadata_only=True), ConfigMap)
        self.claims = view(CLAIMS, PersistentVolumeClaim)
        self.volumes = view(VOLUMES, PersistentVolume)
        self.storage_classes = view(STORAGE_CLASSES, StorageClass)
        self.volume_lookups = Volumes(
            lambda namespace, name: self.claims.get((namespace, name)),
            lambda name: self.volumes.get(("", name)),
            lambda name: self.storage_classes.get(("", name)),
            lambda namespace, name: self.pods.by("claim", f"{namespace}/{name}"),
        )
        self.pods.subscribe(lambda change: _confirm_seen(self.pods, change))
        self.podgroups.subscribe(lambda change: _confirm_seen(self.podgroups, change))
        self.claims.subscribe(lambda change: _confirm_seen(self.claims, change))
        self.queues.subscribe(lambda change: _confirm_seen(self.queues, change))
        self._unreadable: dict[Key, dict[Key, str]] = {}  # decoding errors of pods, by PodGroup
        self._named_by: dict[Key, Key] = {}  # the PodGroup of each of those pods
        self.pods.subscribe_broken(self._note_unreadable)

    @property
    def all(self) -> list[Cache[Any]]:
        found: list[Cache[Any]] = [self.pods, self.nodes, self.podgroups, self.queues, self.topologies]
        found += [self.priority_classes, self.budgets, self.quotas, self.claims, self.volumes, self.storage_classes]
        found.append(self.config_maps)
        return [*found, self.cluster_topologies, self.topology_bindings, self.node_zones, self.resource_claims]

    @property
    def written_by_leaders(self) -> list[Cache[Any]]:
        """What a leader writes and its successor bases decisions on."""
        return [self.pods, self.podgroups, self.claims]

    async def wait_synced(self) -> None:
        for cache in self.all:
            await cache.wait_synced()

    @property
    def synced(self) -> bool:
        return all(cache.synced for cache in self.all)

    def is_limited(self, namespace: str, priority_class: str) -> bool:
        """Whether a quota of the namespace limits pods of the priority class."""
        return any(limits_class(quota, priority_class) for quota in self.quotas.by("namespace", namespace))

    def podgroup(self, key: Key) -> PodGroup | None:
        return self.podgroups.get(key)

    def pod(self, key: Key) -> Pod | None:
        return self.pods.get(key)

    def resource_claim(self, namespace: str, name: str) -> ResourceClaim | None:
        return self.resource_claims.get((namespace, name))

    def has_config_map(self, namespace: str, name: str) -> bool:
        """Also before ConfigMaps are known, as in a what-if: they are made with the workload."""
        return (namespace, name) in self.config_maps or not self.config_maps.synced

    def pods_of(self, group: Key) -> list[Pod]:
        """This scheduler's pods in the PodGroup, sorted by name."""
        return self.pods.by("group", f"{group[0]}/{group[1]}")

    def is_of_others(self, group: Key) -> bool:
        """Whether the PodGroup has pods, all of them of other schedulers."""
        value = f"{group[0]}/{group[1]}"
        return bool(self.pods.by("group", _OTHERS + value)) and not self.pods.by("group", value)

    def unreadable(self, namespace: str, name: str) -> str:
        """What of a gang cannot be decoded, as a sentence; "" if nothing."""
        group = self.podgroups.broken.get((namespace, name))
        if group is not None:
            return f"PodGroup {name} can not be read: {group.problem[:_SHOWN]}"
        pods = self._unreadable.get((namespace, name))
        if not pods:
            return ""
        key, problem = min(pods.items())
        more = f" (and {len(pods) - 1} more)" if len(pods) > 1 else ""
        return f"pod {'/'.join(key)} can not be read: {problem[:_SHOWN]}{more}"

    def group_of_unreadable(self, thing: Broken) -> Key:
        """The PodGroup that a pod named while it could be decoded, else the one in its raw annotations."""
        pod = self.pods.get(thing.key)
        annotations = pod.metadata.annotations if pod is not None else thing.annotations
        return (thing.key[0], annotations.get(POD_GROUP_NAME, ""))

    def _note_unreadable(self, before: Broken | None, after: Broken | None) -> None:
        if before is not None:
            group = self._named_by.pop(before.key)
            del self._unreadable[group][before.key]
            if not self._unreadable[group]:
                del self._unreadable[group]
        if after is not None:
            group = self._named_by[after.key] = self.group_of_unreadable(after)
            self._unreadable.setdefault(group, {})[after.key] = after.problem

    def is_seen(self, cache: Cache[Any], key: Key) -> bool:
        """Whether the cache shows our last write to the object."""
        return _is_shown(cache, key)

    def is_fresh(self, group: Key) -> bool:
        """Whether the caches show our last writes to a PodGroup and its pods."""
        if not _is_shown(self.podgroups, group):
            return False
        if not self.pods.expectations.pending:
            return True
        return all(_is_shown(self.pods, (pod.metadata.namespace, pod.metadata.name)) for pod in self.pods_of(group))


def _is_shown(cache: Cache[Any], key: Key) -> bool:
    pending = cache.expectations.pending.get(key)
    if pending is None:
        return True
    if not cache.shows(key, pending):
        return False
    cache.expectations.forget(key, pending)
    return True


def _confirm_seen(cache: Cache[Any], change: Change[Any]) -> None:
    """Forget the expectations that a change fulfils."""
    if cache.expectations.pending:
        _is_shown(cache, change.key)
