"""Topology trees built from cluster objects and updated incrementally.

Unchanged branches are the same values in the next view: a change costs its own branches, not the whole cluster. A
branch is summed from its direct children, never from its nodes again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod, PodSpec
from spinney.api.kinds.clustertopology import AnyTopology, Topology, by_known_name
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import POD_GROUP_NAME
from spinney.core.expansion.backends.kai import topology_keys
from spinney.core.scheduling.amounts import offered
from spinney.core.scheduling.gang.pod_shape import requests
from spinney.core.view.node_state import taint_words
from spinney.core.view.tree import (
    CORDONED,
    CPU,
    NOT_READY,
    Domain,
    Gang,
    Host,
    Level,
    Outside,
    ResourceUsage,
    Tree,
    View,
    is_accelerator,
    most_of,
    natural,
    sum_of,
)


class _Branch:
    """A mutable domain. `value` is its last published value; None: something below it has changed."""

    __slots__ = ("below", "hosts", "parent", "path", "value")

    def __init__(self, path: tuple[str, ...], parent: _Branch | None) -> None:
        self.path = path
        self.parent = parent
        self.below: dict[str, _Branch] = {}
        self.hosts: set[str] = set()
        self.value: Domain | None = None

    def invalidate(self) -> None:
        branch: _Branch | None = self
        while branch is not None:
            branch.value = None
            branch = branch.parent


class TopologyTreeBuilder:
    """Builds the tree of one topology from its nodes."""

    def __init__(self, name: str, levels: tuple[Level, ...], kinds: tuple[str, ...]) -> None:
        self._name = name
        self._levels = levels
        self._kinds = kinds
        self._root = _Branch((), None)
        self._branch_of_node: dict[str, _Branch] = {}
        self._misses: dict[str, tuple[str, ...]] = {}

    def place_node(self, name: str, labels: Mapping[str, str]) -> None:
        """Add a node to its domain; a node that lacks a key is in no domain."""
        self.remove(name)
        misses = tuple([level.key for level in self._levels if level.key not in labels])
        if misses:
            self._misses[name] = misses
            return
        branch = self._root
        for level in self._levels:
            value = labels[level.key]
            below = branch.below.get(value)
            if below is None:
                below = branch.below[value] = _Branch((*branch.path, value), branch)
            branch = below
        branch.hosts.add(name)
        branch.invalidate()
        self._branch_of_node[name] = branch

    def remove(self, name: str) -> None:
        self._misses.pop(name, None)
        branch = self._branch_of_node.pop(name, None)
        if branch is None:
            return
        branch.hosts.discard(name)
        branch.invalidate()
        while branch.parent is not None and not (branch.hosts or branch.below):
            del branch.parent.below[branch.path[-1]]
            branch = branch.parent

    def invalidate(self, name: str) -> None:
        branch = self._branch_of_node.get(name)
        if branch is not None:
            branch.invalidate()

    def tree(self, hosts: Mapping[str, Host], resources: int) -> Tree:
        root = _domain_of(self._root, hosts, resources)
        outside = [Outside(hosts[name], misses) for name, misses in self._misses.items()]
        outside.sort(key=lambda one: natural(one.host.name))
        return Tree(self._name, self._levels, root, most_of(root.rooms), tuple(outside), self._kinds)


def _domain_of(branch: _Branch, hosts: Mapping[str, Host], resources: int) -> Domain:
    if branch.value is None:
        below = [_domain_of(branch.below[name], hosts, resources) for name in _in_order(branch.below)]
        here = [hosts[name] for name in _in_order(branch.hosts)]
        parts: Sequence[Domain | Host] = below or here
        branch.value = Domain(
            path=branch.path,
            rooms=parts[0].rooms if len(parts) == 1 else sum_of(parts, resources),
            nodes=sum(one.nodes for one in below) + len(here),
            unusable=sum(one.unusable for one in below) + sum(bool(host.state) for host in here),
            gangs=parts[0].gangs if len(parts) == 1 else _gangs(parts),
            loose=sum([one.loose for one in parts]),
            domains=tuple(below),
            hosts=tuple(here),
        )
    return branch.value


def _gangs(parts: Sequence[Domain | Host]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.gangs.items():
            found[name] = found.get(name, 0) + count
    return dict(sorted(found.items()))


def _in_order(names: Collection[str]) -> list[str]:
    return sorted(names, key=natural) if len(names) > 1 else list(names)


_MOST_SHAPES = 65_536


def view_of(
    nodes: Iterable[Node],
    pods: Iterable[Pod] = (),
    groups: Iterable[PodGroup] = (),
    topologies: Iterable[Topology] = (),
    cluster_topologies: Iterable[AnyTopology] = (),
) -> View:
    """The trees of a cluster as it is now. Linear in nodes and pods."""
    index = TopologyIndex()
    for kai in topologies:
        index.put_topology(kai.metadata.name, kai)
    for name, grove in by_known_name(cluster_topologies).items():
        index.put_cluster_topology(name, grove)
    for node in nodes:
        index.put_node(node.metadata.name, node)
    for group in groups:
        index.put_group(group)
    for pod in pods:
        index.put_pod(None, pod)
    return index.view()


class TopologyIndex:
    """Follows nodes, pods, PodGroups and topologies, in any order; `view` is cheap where little has changed."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._hosts: dict[str, Host] = {}
        self._stale: set[str] = set()
        self._pods: dict[str, _PodUsage] = {}
        self._on: dict[str, dict[str, _PodUsage]] = {}
        self._gangs: dict[str, list[int]] = {}
        self._groups: dict[str, PodGroup] = {}
        self._kai: dict[str, Topology] = {}
        self._grove: dict[str, AnyTopology] = {}
        self._builders: dict[str, TopologyTreeBuilder] = {}
        self._offered: dict[str, int] = {CPU: 0}
        self._resources: tuple[str, ...] = (CPU,)
        self._asked = _Requests()

    def put_node(self, name: str, node: Node | None) -> None:
        """Add or update a node; None removes it."""
        before = self._nodes.pop(name, None)
        if before is not None:
            self._count_offers(before, -1)
        if node is None:
            self._hosts.pop(name, None)
            self._stale.discard(name)
            for builder in self._builders.values():
                builder.remove(name)
            return
        self._nodes[name] = node
        self._count_offers(node, 1)
        self._stale.add(name)
        if before is None or before.metadata.labels != node.metadata.labels:
            for builder in self._builders.values():
                builder.place_node(name, node.metadata.labels)

    def put_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Add, update or remove a pod. A finished pod uses nothing; a terminating one does until it is deleted."""
        some = new or old
        assert some is not None
        key = f"{some.metadata.namespace}/{some.metadata.name}"
        self._forget(key)
        if new is None or new.status.phase in ("Succeeded", "Failed"):
            return
        group, node = new.metadata.annotations.get(POD_GROUP_NAME, ""), new.spec.node_name
        gang = f"{new.metadata.namespace}/{group}" if group else ""
        held = self._pods[key] = _PodUsage(node, gang, self._asked.of(new) if node else {})
        if gang:
            self._gangs.setdefault(gang, [0, 0])[0 if node else 1] += 1
        if node:
            self._on.setdefault(node, {})[key] = held
            self._stale.add(node)

    def put_group(self, group: PodGroup, *, is_gone: bool = False) -> None:
        name = f"{group.metadata.namespace}/{group.metadata.name}"
        if is_gone:
            self._groups.pop(name, None)
        else:
            self._groups[name] = group

    def put_topology(self, name: str, topology: Topology | None) -> None:
        """The scheduler's Topology: its levels take precedence."""
        _put(self._kai, name, topology)
        self._rebuild_tree(name)

    def put_cluster_topology(self, name: str, topology: AnyTopology | None) -> None:
        """Gives levels their short names, and the levels where the scheduler has no topology of that name."""
        _put(self._grove, name, topology)
        self._rebuild_tree(name)

    def view(self) -> View:
        self._update_resources()
        for name in self._stale:
            node = self._nodes.get(name)
            if node is not None and (host := self._host(node)) != self._hosts.get(name):
                self._hosts[name] = host
                for builder in self._builders.values():
                    builder.invalidate(name)
        self._stale.clear()
        trees = [builder.tree(self._hosts, len(self._resources)) for _, builder in sorted(self._builders.items())]
        return View(self._resources, tuple(trees), self._gang_values())

    def _forget(self, key: str) -> None:
        held = self._pods.pop(key, None)
        if held is None:
            return
        if held.node:
            del self._on[held.node][key]
            self._stale.add(held.node)
        if held.gang:
            counts = self._gangs[held.gang]
            counts[0 if held.node else 1] -= 1
            if counts == [0, 0]:
                del self._gangs[held.gang]

    def _rebuild_tree(self, name: str) -> None:
        kai, grove = self._kai.get(name), self._grove.get(name)
        if kai is None and grove is None:
            self._builders.pop(name, None)
            return
        short = {level.key: level.domain for level in grove.spec.levels} if grove is not None else {}
        keys = [level.node_label for level in kai.spec.levels] if kai is not None else []
        keys = keys or (topology_keys(grove) if grove is not None else [])
        kinds = ((grove.KIND,) if grove is not None else ()) + (("Topology",) if kai is not None else ())
        builder = TopologyTreeBuilder(name, tuple(Level(key, short.get(key, "")) for key in keys), kinds)
        for each, node in self._nodes.items():
            builder.place_node(each, node.metadata.labels)
        self._builders[name] = builder

    def _count_offers(self, node: Node, by: int) -> None:
        for resource in node.status.allocatable:
            if resource in self._offered or is_accelerator(resource):
                self._offered[resource] = self._offered.get(resource, 0) + by

    def _update_resources(self) -> None:
        """A resource that is new or gone changes every value."""
        found = sorted(name for name, count in self._offered.items() if count > 0 and name != CPU)
        resources = (*found, CPU)
        if resources != self._resources:
            self._resources = resources
            self._stale.update(self._nodes)

    def _host(self, node: Node) -> Host:
        state = _state(node)
        pods = self._on.get(node.metadata.name, {}).values()
        gangs: dict[str, list[_PodUsage]] = {}
        loose = 0
        for held in pods:
            if held.gang:
                gangs.setdefault(held.gang, []).append(held)
            elif len(held.asks) > (CPU in held.asks):
                loose += 1
        rooms = tuple([self._room(node, resource, pods, state) for resource in self._resources])
        counts = {gang: len(gangs[gang]) for gang in sorted(gangs)}
        taints = tuple(map(taint_words, node.spec.taints))
        return Host(node.metadata.name, rooms, state, counts, loose, self._held(gangs), taints)

    def _held(self, gangs: Mapping[str, list[_PodUsage]]) -> dict[str, tuple[int, ...]]:
        return {
            gang: tuple([sum([pod.asks.get(resource, 0) for pod in gangs[gang]]) for resource in self._resources])
            for gang in sorted(gangs)
        }

    def _room(self, node: Node, resource: str, pods: Iterable[_PodUsage], state: str) -> ResourceUsage:
        capacity = offered(resource, node.status.allocatable.get(resource, 0))
        used = 0
        for held in pods:
            used += held.asks.get(resource, 0)
        return ResourceUsage(capacity, used, 0 if state else max(0, capacity - used)) if capacity or used else _NOTHING

    def _gang_values(self) -> dict[str, Gang]:
        found = {}
        for name in sorted(self._gangs.keys() | self._groups.keys()):
            bound, waiting = self._gangs.get(name, (0, 0))
            group = self._groups.get(name)
            found[name] = Gang(name, bound, waiting, _topology(group) if group is not None else "")
        return found


class _PodUsage(msgspec.Struct, frozen=True, gc=False):
    """A live pod: its node and its gang, if any, and its requests."""

    node: str
    gang: str
    asks: Mapping[str, int]


class _Requests:
    """The requests of pods for the resources of the view; cached by pod template."""

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, int]] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def of(self, pod: Pod) -> dict[str, int]:
        key = self._encode(_essence(pod.spec))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            asked = requests(pod)
            found = {name: amount for name, amount in asked.items() if amount and _counts(name)}
            self._known[key] = found
        return found


_NOTHING = ResourceUsage()


def _essence(spec: PodSpec) -> object:
    """Everything that requests depend on; the usual pod has one container and nothing else."""
    asked = [one.resources.requests for one in spec.containers]
    if not (spec.init_containers or spec.resources or spec.overhead):
        return asked
    first = [(one.resources.requests, one.restart_policy) for one in spec.init_containers]
    return asked, first, spec.resources, spec.overhead


def _topology(group: PodGroup) -> str:
    """The topology that the gang asks for, or the first part of it that does."""
    parts = [part.topology_constraint for part in group.spec.sub_groups]
    asked = [group.spec.topology_constraint, *(part for part in parts if part is not None)]
    return next((one.topology for one in asked if one.topology), "")


def _counts(resource: str) -> bool:
    return resource == CPU or is_accelerator(resource)


def _state(node: Node) -> str:
    ready = node.condition("Ready")
    if ready is not None and ready.status != "True":
        return NOT_READY
    return CORDONED if node.spec.unschedulable else ""


def _put(kept: dict[str, Any], name: str, one: Any) -> None:
    if one is None:
        kept.pop(name, None)
    else:
        kept[name] = one
