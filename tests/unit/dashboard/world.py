"""A cluster of values for the pages: views that are filled by hand and tell about it, as watches do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.api.labels import GPU_RESOURCE, HOSTNAME, KAI_SUBGROUP_NAME, POD_GROUP_NAME
from spinney.serve.dashboard.data_sources import Key, Views

T = TypeVar("T")
Json = dict[str, Any]

BLOCK, RACK = "example.com/block", "example.com/rack"


@dataclass(frozen=True)
class Changed(Generic[T]):
    key: Key
    old: T | None
    new: T | None


class Filled(Generic[T]):
    """A view that is filled by hand."""

    def __init__(self) -> None:
        self._items: dict[Key, T] = {}
        self._subscribers: list[Callable[[Any], None]] = []

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def get(self, key: Key) -> T | None:
        return self._items.get(key)

    def subscribe(self, subscriber: Callable[[Any], None]) -> Callable[[], None]:
        self._subscribers.append(subscriber)
        for key, item in self._items.items():
            subscriber(Changed(key, None, item))
        return lambda: self._subscribers.remove(subscriber)

    def put(self, key: Key, new: T | None) -> None:
        old = self._items.pop(key, None)
        if new is not None:
            self._items[key] = new
        for subscriber in self._subscribers:
            subscriber(Changed(key, old, new))


class World:
    """Nodes, pods, gangs and topologies, put in one by one."""

    def __init__(self) -> None:
        self.nodes: Filled[Node] = Filled()
        self.pods: Filled[Pod] = Filled()
        self.groups: Filled[PodGroup] = Filled()
        self.topologies: Filled[Topology] = Filled()
        self.cluster_topologies: Filled[ClusterTopology] = Filled()
        self.topology_bindings: Filled[ClusterTopologyBinding] = Filled()
        self.sets: Filled[Json] = Filled()
        self.queues: Filled[Queue] = Filled()
        self.views = Views(
            self.nodes,
            self.pods,
            self.groups,
            self.topologies,
            self.cluster_topologies,
            self.topology_bindings,
            self.sets,
            self.queues,
        )

    def node(
        self,
        name: str,
        *,
        gpus: int = 8,
        cordoned: bool = False,
        ready: bool = True,
        kind: str = GPU_RESOURCE,
        labels: Mapping[str, str] = MappingProxyType({}),
        taints: tuple[str, str] | None = None,
    ) -> None:
        document = {
            "metadata": {"name": name, "uid": f"node-{name}", "labels": {HOSTNAME: name, **labels}},
            "spec": {
                "unschedulable": cordoned,
                "taints": [{"key": taints[0], "value": taints[1], "effect": "NoSchedule"}] if taints else [],
            },
            "status": {
                "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", kind: str(gpus)},
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            },
        }
        self.nodes.put(("", name), msgspec.convert(document, Node, strict=False))

    def rack(self, block: str, rack: str, nodes: int, *, gpus: int = 8) -> None:
        for number in range(nodes):
            self.node(f"{rack}-n{number}", gpus=gpus, labels={BLOCK: block, RACK: rack})

    def topology(self, name: str = "hall", **levels: str) -> None:
        chosen = levels or {"block": BLOCK, "rack": RACK, "host": HOSTNAME}
        listed = [{"domain": domain, "key": key} for domain, key in chosen.items()]
        found = msgspec.convert({"metadata": {"name": name}, "spec": {"levels": listed}}, ClusterTopology)
        self.cluster_topologies.put(("", name), found)

    def gang(
        self, name: str, *, namespace: str = "default", queue: str = "main", on: str = "hall", **more: Any
    ) -> None:
        metadata = {"name": name, "namespace": namespace, "uid": f"group-{name}", **more}
        spec = {"queue": queue, "topologyConstraint": {"topology": on, "preferredTopologyLevel": RACK}}
        self.groups.put((namespace, name), msgspec.convert({"metadata": metadata, "spec": spec}, PodGroup))

    def mistaken(self, name: str, job: str, why: str, namespace: str = "default") -> None:
        """A pod that the pod-grouper keeps out of any gang."""
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": True}
        metadata = {"name": name, "namespace": namespace, "uid": f"pod-{name}", "ownerReferences": [owner]}
        said = {"type": "PodScheduled", "status": "False", "reason": "PodGrouperWarning", "message": why}
        document = {"metadata": metadata, "status": {"phase": "Pending", "conditions": [said]}}
        self.pods.put((namespace, name), msgspec.convert(document, Pod, strict=False))

    def pod(
        self,
        name: str,
        gang: str = "",
        node: str = "",
        *,
        namespace: str = "default",
        gpus: int = 8,
        phase: str = "Running",
    ) -> None:
        document = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"pod-{namespace}-{name}",
                "annotations": {POD_GROUP_NAME: gang} if gang else {},
                "labels": {KAI_SUBGROUP_NAME: ""},
            },
            "spec": {
                "nodeName": node,
                "schedulerName": "kai-scheduler",
                "containers": [{"name": "main", "resources": {"requests": {GPU_RESOURCE: str(gpus)}}}],
            },
            "status": {"phase": phase if node else "Pending"},
        }
        self.pods.put((namespace, name), msgspec.convert(document, Pod, strict=False))

    def gone(self, name: str, namespace: str = "default") -> None:
        self.pods.put((namespace, name), None)


def hall() -> World:
    """Two blocks of two racks of four nodes; one gang is placed, one waits."""
    world = World()
    world.topology()
    for block in ("b0", "b1"):
        for rack in ("r0", "r1"):
            world.rack(block, f"{block}-{rack}", 4)
    world.gang("placed")
    world.pod("placed-0", "placed", "b0-r0-n0")
    world.pod("placed-1", "placed", "b0-r0-n1", gpus=4)
    world.gang("waiting", queue="other")
    world.pod("waiting-0", "waiting")
    return world
