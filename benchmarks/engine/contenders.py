"""The two that are compared: the engine and the greedy baseline, each on an inventory of its own.

`decide` is what is timed; the rest turns answers into members and takes gangs out again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from benchmarks.engine.clusters import RESOURCES, TOPOLOGIES
from benchmarks.greedy import Greedy
from spinney.api.placement.problem import Gang, Group, Node, Options, PodSet, Topology
from spinney.api.placement.result import Decision
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.engine import Engine

Members = list[tuple[str, str]]
"""Path of the pod set and name of the node, one per pod."""


class Contender(Protocol):
    name: str
    inventory: Inventory

    def decide(self, gang: Gang) -> Any: ...

    def members(self, answer: Any) -> Members | None:
        """None: not placed."""

    def leave(self, gang: Gang, members: Members) -> None: ...


class Ours:
    """The engine."""

    name = "spinney"

    def __init__(self, inventory: Inventory, topologies: Mapping[str, Topology], options: Options) -> None:
        self.inventory = inventory
        self.engine = Engine(inventory, topologies, options)
        self.decide = self.engine.decide

    def members(self, answer: Decision) -> Members | None:
        if answer.outcome != "placed":
            return None
        return [(placement.pods, placement.node) for placement in answer.placements]

    def leave(self, gang: Gang, members: Members) -> None:
        self.engine.placed_gangs.pop(gang.name)
        _give_back(self.inventory, gang, members)


class Baseline:
    """The greedy placement."""

    name = "greedy"

    def __init__(self, inventory: Inventory, topologies: Mapping[str, Topology], **favours: bool) -> None:
        self.inventory = inventory
        self.decide = Greedy(inventory, topologies, **favours).place

    def members(self, answer: list[tuple[str, int]] | None) -> Members | None:
        return None if answer is None else [(path, self.inventory.name(slot)) for path, slot in answer]

    def leave(self, gang: Gang, members: Members) -> None:
        _give_back(self.inventory, gang, members)


def both(
    nodes: Sequence[Node],
    topologies: Mapping[str, Topology] = TOPOLOGIES,
    resources: Sequence[str] = RESOURCES,
    options: Options | None = None,
) -> tuple[Contender, Contender]:
    """The engine and the baseline, each with its own inventory of the same nodes."""
    first, second = (Inventory.of(resources, tuple(topologies.values()), nodes) for _ in range(2))
    return Ours(first, topologies, options or Options()), Baseline(second, topologies)


def pod_sets(group: Group, path: str = "") -> dict[str, PodSet]:
    """Leaves by path."""
    prefix = f"{path}/" if path else ""
    found = {f"{prefix}{pods.name}": pods for pods in group.pods}
    for inner in group.groups:
        found |= pod_sets(inner, f"{prefix}{inner.name}")
    return found


def _give_back(inventory: Inventory, gang: Gang, members: Members) -> None:
    leaves = pod_sets(gang.root)
    for path, node in members:
        inventory.give(inventory.slot(node), leaves[path].request, leaves[path].host_ports)
