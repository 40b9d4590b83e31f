"""A problem in the exchange format, read into plain values for the judges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from placement_oracle.quantities import base_units

Document = dict[str, Any]
Amounts = dict[str, int]
Path = tuple[str, ...]


SINGLE = "single-numa-node"


@dataclass(slots=True)
class Node:
    """A node, or a zone of one: then `home` is where the node itself is found."""

    name: str
    labels: dict[str, str]
    allocatable: Amounts
    used: Amounts
    releasing: Amounts
    taints: list[Document]
    schedulable: bool
    ports: frozenset[int]
    home: str = ""
    zone: str = ""


@dataclass(slots=True)
class TreeNode:
    """A gang (path ""), a group or a pod set."""

    path: str
    depth: int
    leaf: bool
    topology: str | None
    required: str | None
    preferred: str | None
    min_groups: int | None = None
    children: list[TreeNode] = field(default_factory=list)
    count: int = 0
    min: int = 0
    request: Amounts = field(default_factory=dict)
    spec: Document = field(default_factory=dict)

    def walk(self) -> Iterator[TreeNode]:
        """Itself and everything below, breadth first."""
        row = [self]
        while row:
            yield from row
            row = [child for node in row for child in node.children]

    def leaves(self) -> list[TreeNode]:
        return [node for node in self.walk() if node.leaf]

    @property
    def least(self) -> int:
        """How many children must be satisfied."""
        return len(self.children) if self.min_groups is None else self.min_groups


@dataclass(slots=True)
class Gang:
    name: str
    root: TreeNode
    priority: int
    preemptible: bool
    tied_to: Document | None
    running: list[tuple[str, str]]
    leaf: dict[str, TreeNode]

    def constrained(self, kind: str) -> list[TreeNode]:
        """The tree nodes with `required` or `preferred`, in the order in which preferences count."""
        found = [node for node in self.root.walk() if getattr(node, kind) is not None]
        return sorted(found, key=lambda node: (node.depth, node.leaf))


@dataclass(slots=True)
class World:
    """`nodes` are the seats of pods: nodes, and the zones of those where one zone has to hold a pod."""

    resources: list[str]
    topologies: dict[str, list[str]]
    nodes: dict[str, Node]
    gangs: list[Gang]
    options: Document
    of_zones: frozenset[str] = frozenset()
    _paths: dict[tuple[str, str], Path] = field(default_factory=dict)
    _zones: dict[str, list[str]] | None = None

    def home(self, seat: str) -> str:
        return self.nodes[seat].home or seat

    def charged(self, seat: str) -> list[str]:
        """Every seat that a pod takes room from: its zone and the node; all zones where its own is not known."""
        if self.nodes[seat].home:
            return [seat, self.nodes[seat].home]
        return [seat, *self.zones(seat)]

    def zones(self, home: str) -> list[str]:
        if self._zones is None:
            self._zones = {}
            for name, node in self.nodes.items():
                self._zones.setdefault(node.home, []).append(name)
        return self._zones.get(home, [])

    def seat(self, where: Document, node: str = "node", zone: str = "zone") -> str:
        """The seat that a document names."""
        return _seat(self.nodes, where[node], where.get(zone))

    def where(self, seat: str) -> Document:
        """How a document names a seat."""
        node = self.nodes[seat]
        return {"node": node.name, "zone": node.zone} if node.zone else {"node": node.name}

    def path(self, topology: str, node: str) -> Path:
        """The node's label values, broad to narrow, as far as it takes part."""
        key = (topology, node)
        if key not in self._paths:
            self._paths[key] = self._path(topology, self.nodes[node])
        return self._paths[key]

    def _path(self, topology: str, node: Node) -> Path:
        levels = self.topologies[topology]
        if topology not in self.of_zones:
            return _path(levels, node.labels)
        path = _path(levels[:-1], node.labels)
        if len(path) < len(levels) - 1 or not node.zone:
            return path
        return (*path, node.zone if path and path[-1] == node.name else f"{node.name}/{node.zone}")

    def depth(self, tree_node: TreeNode, level: str) -> int:
        """How many levels there are from the broadest down to this one."""
        assert tree_node.topology is not None
        return self.topologies[tree_node.topology].index(level) + 1

    def gang(self, name: str) -> Gang | None:
        return next((gang for gang in self.gangs if gang.name == name), None)


def read(problem: Document | World) -> World:
    if isinstance(problem, World):
        return problem
    resources = list(problem["resources"])
    topologies = problem.get("topologies") or []
    nodes = {seat: found for node in problem["nodes"] for seat, found in _seats(node, resources)}
    return World(
        resources,
        {topology["name"]: list(topology.get("levels") or []) for topology in topologies},
        nodes,
        [_gang(gang, resources, nodes) for gang in problem["gangs"]],
        problem.get("options") or {},
        frozenset(topology["name"] for topology in topologies if topology.get("zones")),
    )


def _seat(nodes: dict[str, Node], node: str, zone: str | None) -> str:
    return f"{node} {zone}" if zone and f"{node} {zone}" in nodes else node


def _seats(node: Document, resources: list[str]) -> Iterator[tuple[str, Node]]:
    whole = _node(node, resources)
    zones = (node.get("zones") or []) if node.get("zonePolicy") == SINGLE else []
    known = [
        resource for resource in resources if any(base_units_of(zone, "allocatable", resource) > 0 for zone in zones)
    ]
    for zone in zones:
        part = _node({**node, **zone, "used": zone.get("used"), "releasing": zone.get("releasing")}, resources)
        part.name, part.home, part.zone, part.ports = node["name"], node["name"], zone["name"], frozenset()
        for resource in set(resources) - set(known):
            part.allocatable[resource] = whole.allocatable[resource]
            part.used[resource] = part.releasing[resource] = 0
        yield f"{node['name']} {zone['name']}", part
    whole.schedulable = whole.schedulable and not zones
    yield node["name"], whole


def base_units_of(holder: Document, part: str, resource: str) -> int:
    return base_units(resource, (holder.get(part) or {}).get(resource, 0), up=False)


def _path(levels: list[str], labels: dict[str, str]) -> Path:
    values: list[str] = []
    for level in levels:
        if level not in labels:
            break
        values.append(labels[level])
    return tuple(values)


def _node(node: Document, resources: list[str]) -> Node:
    def amounts(name: str, up: bool) -> Amounts:
        given = node.get(name) or {}
        return {resource: base_units(resource, given.get(resource, 0), up=up) for resource in resources}

    return Node(
        node["name"],
        node.get("labels") or {},
        amounts("allocatable", False),
        amounts("used", True),
        amounts("releasing", False),
        node.get("taints") or [],
        bool(node.get("ready", True)) and not node.get("unschedulable", False),
        frozenset(node.get("hostPorts") or []),
    )


def _gang(gang: Document, resources: list[str], nodes: dict[str, Node]) -> Gang:
    root = _tree(gang, "", 0, None, resources)
    leaf: dict[str, TreeNode] = {}
    for node in root.leaves():
        leaf.setdefault(node.path, node)
    return Gang(
        gang["name"],
        root,
        gang.get("priority") or 0,
        gang.get("preemptible", True),
        gang.get("tiedTo"),
        [(member["pods"], _seat(nodes, member["node"], member.get("zone"))) for member in gang.get("running") or []],
        leaf,
    )


def _tree(group: Document, path: str, depth: int, topology: str | None, resources: list[str]) -> TreeNode:
    topology = group.get("topology") or topology
    node = TreeNode(path, depth, False, topology, group.get("required"), group.get("preferred"))
    node.min_groups = group.get("minGroups")
    below = f"{path}/" if path else ""
    for child in group.get("groups") or []:
        node.children.append(_tree(child, below + child["name"], depth + 1, topology, resources))
    for child in group.get("pods") or []:
        node.children.append(_leaf(child, below + child["name"], depth + 1, topology, resources))
    return node


def _leaf(pods: Document, path: str, depth: int, topology: str | None, resources: list[str]) -> TreeNode:
    node = TreeNode(path, depth, True, pods.get("topology") or topology, pods.get("required"), pods.get("preferred"))
    node.count = pods.get("count", 1)
    node.min = pods.get("min", node.count)
    request = pods.get("request") or {}
    node.request = {resource: base_units(resource, request.get(resource, 0), up=True) for resource in resources}
    if "pods" in node.request:
        node.request["pods"] = 1
    node.spec = pods
    return node
