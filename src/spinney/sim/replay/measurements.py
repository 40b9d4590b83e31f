"""What a described cluster has, and what is measured of it over simulated time: use, waiting gangs, fragmentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spinney.core.inventory.counts import Shape
from spinney.core.scheduling.cluster import Cluster
from spinney.sim.replay.cluster import DescribedCluster, Levels
from spinney.sim.replay.gang_shapes import pod_filter, request_of
from spinney.sim.replay.occupancy import Occupancy, cluster_of


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


@dataclass(frozen=True, slots=True)
class Moment:
    """What the gauges show from `at_s` on, until the next moment. All but `waiting` are shares from 0 to 1."""

    at_s: int
    used: float
    waiting: int
    stranded: float
    fragmentation: tuple[float, ...]


class Gauge:
    def __init__(
        self, occupancy: Occupancy, capacity: Capacity, levels: Levels, resource: str, gpus_per_pod: int
    ) -> None:
        self._inventory = occupancy.cluster.inventory
        self._whole = pod_shape(occupancy.cluster, resource, gpus_per_pod)
        self._resource = self._inventory.resources.index(resource)
        self._capacity = capacity
        self._topology = levels.name
        self._size = gpus_per_pod
        self._most = [level // gpus_per_pod for level in (size.largest for size in capacity.levels)]

    def read(self, at_s: int, waiting: int) -> Moment:
        free = self.free
        counts = self._inventory.counts(self._whole)
        together = free // self._size
        return Moment(
            at_s=at_s,
            used=1 - free / self._capacity.gpus,
            waiting=waiting,
            stranded=1 - counts.total * self._size / free if together else 0.0,
            fragmentation=tuple(
                1 - self._largest(depth) / min(together, most) if together and most else 0.0
                for depth, most in enumerate(self._most, start=1)
            ),
        )

    @property
    def free(self) -> int:
        """Free GPUs on nodes that take pods with them."""
        room = self._inventory.room(frozenset({self._whole.filter}), (self._resource,))
        return room.total(self._resource)

    def _largest(self, depth: int) -> int:
        fits = self._inventory.counts(self._whole).at(self._topology, depth)
        return min(int(fits.max(initial=0)), self._most[depth - 1])


@dataclass(frozen=True, slots=True)
class Averages:
    """Means over time."""

    used: float
    waiting: float
    stranded: float
    fragmentation: tuple[float, ...]


class Timeline:
    """Each moment lasts until the next one, the last until `to_s`."""

    def __init__(self, moments: Sequence[Moment], from_s: int, to_s: int) -> None:
        self._from_s, self._to_s = from_s, to_s
        self._starts = np.array([moment.at_s for moment in moments], np.int64)
        self._ends = np.append(self._starts[1:], to_s)
        self._values = np.array([(one.used, one.waiting, one.stranded, *one.fragmentation) for one in moments])

    @property
    def mean(self) -> Averages:
        return self._mean(self._from_s, self._to_s)

    def sampled(self, number: int) -> list[tuple[float, Averages]]:
        """The time cut into so many equal parts: the middle of each and its means."""
        edges = np.linspace(self._from_s, self._to_s, number + 1).tolist()
        return [((start + end) / 2, self._mean(start, end)) for start, end in pairwise(edges)]

    def _mean(self, from_s: float, to_s: float) -> Averages:
        """Of no time at all: the last moment."""
        lasts = np.maximum(0.0, np.minimum(self._ends, to_s) - np.maximum(self._starts, from_s))
        values = np.average(self._values, axis=0, weights=lasts) if lasts.any() else self._values[-1]
        used, waiting, stranded, *fragmentation = values.tolist()
        return Averages(used, waiting, stranded, tuple(fragmentation))
