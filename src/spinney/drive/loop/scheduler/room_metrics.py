"""Room by topology level, counted at the scrape: what is free, the largest gang that fits, how scattered it is.

Reads the inventory and changes nothing. Domains by name only on levels that have few of them: labels are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from spinney.api.labels import GPU_RESOURCE
from spinney.api.placement.problem import NodeFilter, Toleration
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.state import Inventory
from spinney.core.inventory.trees import Tree

GPU_PODS = NodeFilter(tolerations=(Toleration(GPU_RESOURCE, "Exists"),))
"""Which nodes count: those that pods use which tolerate the usual taint of GPU nodes, and no other."""

MOST_DOMAINS = 64
"""A level with more domains is told as a whole only."""

_FREE = "kai_topology_free", "Free GPUs on nodes that can be used, in all domains of a level", ["topology", "level"]
_LARGEST_FREE = "kai_topology_largest_free", "Free GPUs of the domain that has most", ["topology", "level"]
_DOMAIN_FREE = "kai_topology_domain_free", "Free GPUs of a domain", ["topology", "level", "domain"]
_DOMAINS = "kai_topology_domains", "Domains that have nodes", ["topology", "level"]
_GANG = (
    "kai_topology_largest_gang",
    "Most pods of so many GPUs that one domain takes now",
    ["topology", "level", "gpus"],
)
_SCATTERED = "kai_gpu_fragmentation", "Share of free GPUs on nodes of which only a part is free, 0 to 1", ()


class RoomCollector(Collector):
    """`inventory` is asked at each scrape; None: there is none yet."""

    def __init__(self, inventory: Callable[[], Inventory | None]) -> None:
        self._inventory = inventory

    def describe(self) -> Iterable[Metric]:
        return list(_families().values())

    def collect(self) -> Iterator[Metric]:
        families = _families()
        inventory = self._inventory()
        if inventory is not None and GPU_RESOURCE in inventory.resources:
            _fill(families, inventory)
        yield from families.values()


def _families() -> dict[str, GaugeMetricFamily]:
    every = (_FREE, _LARGEST_FREE, _DOMAIN_FREE, _DOMAINS, _GANG, _SCATTERED)
    return {name: GaugeMetricFamily(name, text, labels=labels) for name, text, labels in every}


def _fill(families: dict[str, GaugeMetricFamily], inventory: Inventory) -> None:
    gpu = inventory.resources.index(GPU_RESOURCE)
    largest = max((inventory.node(slot).allocatable[gpu] for slot in _nodes(inventory)), default=0)
    shapes = {gpus: Shape(_request(inventory, gpu, gpus), GPU_PODS) for gpus in sorted({1, largest} - {0})}
    room = inventory.room(frozenset({GPU_PODS}), (gpu,))
    for name, tree in sorted(inventory.trees.items()):
        for depth, level in enumerate(tree.levels, start=1):
            free = room.at(name, depth, gpu)
            live = [domain for domain in tree.order(depth) if tree.size(depth, domain)]
            labels = [name, level]
            families[_DOMAINS[0]].add_metric(labels, len(live))
            families[_FREE[0]].add_metric(labels, int(free.sum()))
            families[_LARGEST_FREE[0]].add_metric(labels, int(free.max(initial=0)))
            _name_domains(families[_DOMAIN_FREE[0]], tree, depth, live, free.tolist())
            for gpus, shape in shapes.items():
                fits = inventory.counts(shape).at(name, depth)
                families[_GANG[0]].add_metric([*labels, str(gpus)], int(fits.max(initial=0)))
    families[_SCATTERED[0]].add_metric([], _scattered(inventory, gpu))


def _name_domains(family: GaugeMetricFamily, tree: Tree, depth: int, live: list[int], free: list[int]) -> None:
    if len(live) > MOST_DOMAINS:
        return
    for domain in live:
        path = "/".join(tree.path(depth, domain))
        family.add_metric([tree.topology.name, tree.levels[depth - 1], path], free[domain])


def _request(inventory: Inventory, gpu: int, gpus: int) -> tuple[int, ...]:
    """A pod of so many GPUs that asks for nothing else but its slot."""
    wanted = {gpu: gpus} | ({inventory.resources.index("pods"): 1} if "pods" in inventory.resources else {})
    return tuple(wanted.get(resource, 0) for resource in range(len(inventory.resources)))


def _nodes(inventory: Inventory) -> list[int]:
    """Slots of nodes; those of their zones are parts of them."""
    return [slot for slot in inventory.slots() if inventory.home(slot) == slot]


def _scattered(inventory: Inventory, gpu: int) -> float:
    slots = _nodes(inventory)
    free = np.array([max(0, inventory.idle[slot][gpu]) for slot in slots], np.int64)
    size = np.array([inventory.node(slot).allocatable[gpu] for slot in slots], np.int64)
    total = int(free.sum())
    return float(free[free < size].sum() / total) if total else 0.0
