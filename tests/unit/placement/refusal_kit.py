"""Small clusters on which gangs are refused, in the exchange format, and what is said then."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from spinney.api.placement.problem import Gang, Node, Problem
from spinney.api.placement.reading import read_problem
from spinney.api.placement.result import Explanation, Result
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.engine import Engine, place

Document = dict[str, Any]

GPU = "nvidia.com/gpu"
RACK = "example.com/rack"
BLOCK = "example.com/block"


def node(name: str, where: str, gpus: int, **more: Any) -> Document:
    """A node of eight GPUs at `block/rack` with some of them free; an empty `where` gives it no labels."""
    labels = dict(zip((BLOCK, RACK), where.split("/"), strict=False)) if where else {}
    fields = {
        "name": name,
        "labels": labels | more.pop("labels", {}),
        "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"},
        "used": {GPU: str(8 - gpus)},
    }
    return fields | more


def nodes(free: dict[str, list[int]]) -> list[Document]:
    """For each `block/rack` nodes with so many GPUs free, named n0, n1, ..."""
    found: list[Document] = []
    for where, gpus in free.items():
        found += [node(f"n{len(found) + at}", where, each) for at, each in enumerate(gpus)]
    return found


def pods(name: str, count: int, gpus: int, **more: Any) -> Document:
    return {"name": name, "count": count, "request": {"cpu": "1", GPU: str(gpus)}} | more


def gang(name: str = "ns/a", **fields: Any) -> Document:
    return {"name": name, "topology": "net"} | fields


def problem(there: list[Document], *gangs: Document, **options: Any) -> Document:
    return {
        "version": 1,
        "resources": ["cpu", "memory", "pods", GPU],
        "topologies": [{"name": "net", "levels": [BLOCK, RACK]}],
        "nodes": there,
        "gangs": list(gangs),
        "options": options,
    }


def decide(document: Document) -> Result:
    return place(read_problem(document))


def refusal(there: list[Document], *gangs: Document, **options: Any) -> Explanation:
    """The explanation of the last gang."""
    decision = decide(problem(there, *gangs, **options)).gangs[-1]
    assert decision.outcome in ("infeasible", "exhausted"), decision
    assert decision.explanation is not None
    return decision.explanation


def engine_of(asked: Problem) -> Engine:
    """An engine that has admitted what runs and decided nothing."""
    inventory = Inventory.of(asked.resources, asked.topologies, asked.nodes)
    engine = Engine(inventory, {topology.name: topology for topology in asked.topologies}, asked.options)
    for one in asked.gangs:
        engine.admit_running(one)
    return engine


def snapshot(engine: Engine) -> object:
    """Everything that a decision could change."""
    inventory = engine.inventory
    ports = [sorted(inventory.ports(slot, waiting)) for slot in inventory.slots() for waiting in (False, True)]
    live = {name: list(placed_gang.live) for name, placed_gang in engine.placed_gangs.items()}
    return [list(row) for row in inventory.idle], [list(row) for row in inventory.releasing], ports, live


def changed(asked: Problem, at: int, other: Gang) -> Problem:
    """The problem with another gang in a place, and steps enough."""
    gangs = (*asked.gangs[:at], other, *asked.gangs[at + 1 :])
    return Problem(asked.resources, asked.topologies, asked.nodes, gangs, asked.options)


def emptied(asked: Problem, at: int) -> Problem:
    """One gang alone on nodes that hold nothing."""
    nodes = tuple([_emptied(node) for node in asked.nodes])
    return Problem(asked.resources, asked.topologies, nodes, (asked.gangs[at],), asked.options)


def _emptied(node: Node) -> Node:
    none = (0,) * len(node.allocatable)
    zones = tuple([replace(zone, used=none, releasing=none) for zone in node.zones])
    return replace(node, used=none, releasing=none, host_ports=frozenset(), zones=zones)
