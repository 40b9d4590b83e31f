"""The pod-grouper's caches.

Every cache has to be requested before the shared caches run.
"""

from __future__ import annotations

from typing import Any

from spinney.api.changes import Resource, resource_of
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology, find_levels
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.api.labels import POD_GROUP_NAME
from spinney.api.meta import PartialObject
from spinney.core.expansion.objects import PODS
from spinney.core.grouping.group_shape import Lookups
from spinney.core.grouping.owner_chain import Pod
from spinney.core.grouping.queue_and_priority import GrouperSettings
from spinney.drive.apply.change_applier import path_of
from spinney.drive.client.api import Selection
from spinney.drive.client.informers.cache import Cache
from spinney.drive.client.informers.optional_caches import OptionalCaches
from spinney.drive.client.informers.shared_caches import SharedCaches

PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
NEEDED = tuple(resource_of(kind) for kind in (PodGroup, Queue, Topology))


class GrouperCaches:
    """The caches by kind."""

    def __init__(self, caches: SharedCaches, optional_caches: OptionalCaches, settings: GrouperSettings) -> None:
        names = settings.scheduler_names
        ours = f"spec.schedulerName={next(iter(names))}" if len(names) == 1 else ""
        self.pods: Cache[Pod] = caches.cache(
            Selection(path_of(PODS), fields=ours), Pod, indexes={"group": _group, "owner": _owner}
        )
        groups, queues, topologies = (Selection(path_of(resource)) for resource in NEEDED)
        self.podgroups: Cache[PodGroup] = caches.cache(groups, PodGroup)
        self.queues: Cache[PartialObject] = caches.cache(queues, PartialObject)
        self.topologies: Cache[Topology] = caches.cache(topologies, Topology)
        self.cluster_topologies = optional_caches.expect(path_of(resource_of(ClusterTopology)), ClusterTopology)
        bindings = path_of(resource_of(ClusterTopologyBinding))
        self.topology_bindings = optional_caches.expect(bindings, ClusterTopologyBinding)
        self.classes: Cache[PartialObject] = caches.cache(Selection(path_of(PRIORITY_CLASSES)), PartialObject)
        self.lookups = Lookups(
            self._topology_keys,
            self._domains,
            lambda name: ("", name) in self.queues,
            lambda name: ("", name) in self.classes,
            lambda namespace, name: self.podgroups.get((namespace, name)),
            lambda namespace, name: self.pods.get((namespace, name)),
            lambda namespace, name: self.pods.by("group", f"{namespace}/{name}"),
            lambda: [one.metadata.name for one in self.topologies],
            lambda: [one.metadata.name for one in self.queues],
        )

    @property
    def all(self) -> tuple[Cache[Any], ...]:
        return (
            self.pods,
            self.podgroups,
            self.queues,
            self.topologies,
            self.cluster_topologies,
            self.topology_bindings,
            self.classes,
        )

    async def wait_synced(self) -> None:
        for cache in self.all:
            await cache.wait_synced()

    def _topology_keys(self, name: str) -> list[str] | None:
        found = self.topologies.get(("", name))
        return [level.node_label for level in found.spec.levels] if found is not None else None

    def _domains(self, name: str) -> dict[str, str]:
        found = find_levels(name, self.topology_bindings, self.cluster_topologies.get(("", name)))
        return {level.domain: level.key for level in found.spec.levels} if found is not None else {}


def owner_key(pod: Pod) -> str:
    """The controller, else the first owner reference, within the pod's namespace; empty for a pod without an owner."""
    found = pod.metadata.controller or next(iter(pod.metadata.owner_references), None)
    return f"{pod.metadata.namespace}/{found.uid}" if found is not None else ""


def _owner(pod: Pod) -> tuple[str, ...]:
    key = owner_key(pod)
    return (key,) if key else ()


def _group(pod: Pod) -> tuple[str, ...]:
    name = pod.metadata.annotations.get(POD_GROUP_NAME)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()
