"""What a described cluster has: GPUs, hosts, domains and how large they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from spinney.core.inventory.counts import Shape
from spinney.core.scheduling.cluster import Cluster
from spinney.sim.replay.cluster import DescribedCluster
from spinney.sim.replay.gang_shapes import pod_filter, request_of
from spinney.sim.replay.occupancy import cluster_of


@dataclass(frozen=True, slots=True)
class LevelSize:
    """A level: how many domains have GPUs, and how many GPUs the largest has."""

    name: str
    key: str
    domains: int
    largest: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """Nodes that take pods with the resource; `host` is the amount on the largest of them, `gpus` that of all."""

    nodes: int
    gpus: int
    host: int
    levels: tuple[LevelSize, ...]


def capacity_of(described: DescribedCluster, resource: str) -> Capacity:
    cluster = cluster_of(described)
    inventory, fits = cluster.inventory, cluster.inventory.counts(pod_shape(cluster, resource, 1)).per_node
    slots = [slot for slot in inventory.slots() if fits[slot]]
    at = inventory.resources.index(resource)
    amounts = {slot: inventory.node(slot).allocatable[at] for slot in slots}
    sizes = []
    for depth, level in enumerate(described.levels.levels, start=1):
        domain_of = inventory.trees[described.levels.name].domain_of(depth)
        domains: Counter[int] = Counter()
        for slot in slots:
            if domain_of[slot] >= 0:
                domains[domain_of[slot]] += amounts[slot]
        sizes.append(LevelSize(level.name, level.key, len(domains), max(domains.values(), default=0)))
    return Capacity(len(slots), sum(amounts.values()), max(amounts.values(), default=0), tuple(sizes))


def pod_shape(cluster: Cluster, resource: str, size: int) -> Shape:
    """A pod of so many GPUs that asks for nothing else."""
    return Shape(request_of(cluster.inventory.resources, {resource: size}), pod_filter(resource))
