"""What the tests of the inventory share: small clusters, and a model that keeps no sums and counts everything anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import Amounts, Node, NodeFilter, Taint, Topology
from spinney.core.inventory.counts import UNBOUNDED, Shape
from spinney.core.inventory.filters import admits
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.pods import Pod

RESOURCES = ("cpu", "gpu")
NETWORK = Topology("network", ("zone", "block", "rack"))
POWER = Topology("power", ("feed",))


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    allocatable: Amounts = (1000, 8),
    used: Amounts = (0, 0),
    releasing: Amounts = (0, 0),
    *,
    taints: tuple[Taint, ...] = (),
    unschedulable: bool = False,
    ready: bool = True,
    host_ports: frozenset[int] = frozenset(),
) -> Node:
    return Node(name, labels or {}, allocatable, used, releasing, taints, unschedulable, ready, host_ports)


def racked(name: str, zone: str, block: str, rack: str, gpus: int = 8) -> Node:
    return node(name, {"zone": zone, "block": block, "rack": rack}, (1000, gpus))


def gpus_at(inventory: Inventory, topology: str, depth: int) -> dict[tuple[str, ...], int]:
    """How many one-GPU pods fit, by path, domains without nodes left out."""
    return by_path(inventory, topology, depth, inventory.counts(Shape((0, 1))).at(topology, depth))


def by_path(inventory: Inventory, topology: str, depth: int, sums: npt.NDArray[np.int64]) -> dict[tuple[str, ...], int]:
    tree = inventory.trees[topology]
    assert len(sums) == tree.domains(depth)
    empty = {i for i in range(len(sums)) if not tree.size(depth, i)}
    assert all(sums[i] == 0 for i in empty)
    return {tree.path(depth, i): int(amount) for i, amount in enumerate(sums) if i not in empty}


@dataclass
class Taken:
    request: Amounts
    ports: frozenset[int]
    times: int
    releasing: bool


@dataclass
class Model:
    """The slow twin: what is known, and every answer worked out from it."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    topologies: dict[str, Topology] = field(default_factory=dict)
    taken: dict[str, list[Taken]] = field(default_factory=dict)

    def holders(self, name: str) -> list[Taken]:
        pods = [Taken(pod.request, pod.ports, 1, pod.releasing) for pod in self.pods.values() if pod.node == name]
        return pods + self.taken.get(name, [])

    def free(self, name: str, waiting: bool) -> list[int]:
        known = self.nodes[name]
        held = [h for h in self.holders(name) if not (waiting and h.releasing)]
        free = [whole - used for whole, used in zip(known.allocatable, known.used, strict=True)]
        if waiting:
            free = [amount + soon for amount, soon in zip(free, known.releasing, strict=True)]
        return [amount - sum(h.request[r] * h.times for h in held) for r, amount in enumerate(free)]

    def ports(self, name: str, waiting: bool) -> set[int]:
        staying = dict.fromkeys(self.nodes[name].host_ports, 1)
        leaving: dict[int, int] = {}
        for holder in self.holders(name):
            claims = leaving if holder.releasing else staying
            for port in holder.ports:
                claims[port] = claims.get(port, 0) + holder.times
        return set(staying) if waiting else set(staying) | set(leaving)

    def count(self, shape: Shape, name: str, waiting: bool) -> int:
        if not admits(shape.filter, self.nodes[name]) or shape.ports & self.ports(name, waiting):
            return 0
        free = self.free(name, waiting)
        fits = [max(0, free[r]) // amount for r, amount in enumerate(shape.request) if amount]
        return min([*fits, 1 if shape.single or shape.ports else UNBOUNDED])

    def room(self, filters: frozenset[NodeFilter], resource: int, name: str, waiting: bool) -> int:
        if not any(admits(wanted, self.nodes[name]) for wanted in filters):
            return 0
        return max(0, self.free(name, waiting)[resource])

    def path(self, topology: str, name: str) -> tuple[str, ...]:
        path: list[str] = []
        for level in self.topologies[topology].levels:
            if level not in self.nodes[name].labels:
                break
            path.append(self.nodes[name].labels[level])
        return tuple(path)

    def summed(self, topology: str, depth: int, amounts: Mapping[str, int]) -> dict[tuple[str, ...], int]:
        sums: dict[tuple[str, ...], int] = {}
        for name, amount in amounts.items():
            path = self.path(topology, name)[:depth]
            if len(path) == depth:
                sums[path] = sums.get(path, 0) + amount
        return sums

    def members(self, topology: str, depth: int) -> dict[tuple[str, ...], list[str]]:
        members: dict[tuple[str, ...], list[str]] = {}
        for name in sorted(self.nodes):
            path = self.path(topology, name)[:depth]
            if len(path) == depth:
                members.setdefault(path, []).append(name)
        return members
