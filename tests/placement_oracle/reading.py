"""A problem in the exchange format, read into plain values for the judges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from placement_oracle.quantities import base_units

Document = dict[str, Any]
Amounts = dict[str, int]
Path = tuple[str, ...]


@dataclass(slots=True)
class Node:
    name: str
    labels: dict[str, str]
    allocatable: Amounts
    used: Amounts
    releasing: Amounts
    taints: list[Document]
    schedulable: bool
    ports: frozenset[int]


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
    resources: list[str]
    topologies: dict[str, list[str]]
    nodes: dict[str, Node]
    gangs: list[Gang]
    options: Document
    _paths: dict[tuple[str, str], Path] = field(default_factory=dict)

    def path(self, topology: str, node: str) -> Path:
        """The node's label values, broad to narrow, as far as it takes part."""
        key = (topology, node)
        if key not in self._paths:
            self._paths[key] = _path(self.topologies[topology], self.nodes[node].labels)
        return self._paths[key]

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
    return World(
        resources,
        {topology["name"]: list(topology.get("levels") or []) for topology in problem.get("topologies") or []},
        {node["name"]: _node(node, resources) for node in problem["nodes"]},
        [_gang(gang, resources) for gang in problem["gangs"]],
        problem.get("options") or {},
    )


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


def _gang(gang: Document, resources: list[str]) -> Gang:
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
        [(member["pods"], member["node"]) for member in gang.get("running") or []],
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
