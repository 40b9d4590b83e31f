"""The inventory: everything placement knows about the cluster, changed in place.

The authoritative state is kept per slot in plain lists; everything derived is updated when it is read. Every change can
be rolled back while a checkpoint is open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import add, sub
from typing import Any

from spinney.api.placement.problem import Amounts, Node, NodeFilter, Topology
from spinney.core.inventory.change_log import FROM_NOWHERE, Changes, SlotDomains
from spinney.core.inventory.counts import Counts, FreeArrays, FreeByDomain, Shape
from spinney.core.inventory.filters import seen_by_filters
from spinney.core.inventory.masks import Column, LRUCache, Masks, read_allocatable
from spinney.core.inventory.numa_zones import (
    DividedNode,
    DividedNodes,
    Row,
    as_node,
    labels_for,
    own_rows,
    same_zones,
    zone_key,
)
from spinney.core.inventory.pods import NONE, Pod, Pods, Ports, Use, capacity
from spinney.core.inventory.trees import Tree

Inverse = tuple[Callable[..., object], tuple[Any, ...]]


class UndoLog:
    """A stack of inverses, and its lengths at the open checkpoints."""

    __slots__ = ("_marks", "entries", "recording")

    def __init__(self) -> None:
        self.entries: list[Inverse] = []
        self.recording = False
        self._marks: list[int] = []

    def record(self, undo: Callable[..., object], *arguments: Any) -> None:
        if self.recording:
            self.entries.append((undo, arguments))

    def checkpoint(self) -> int:
        self._marks.append(len(self.entries))
        self.recording = True
        return len(self._marks)

    def rollback(self, mark: int) -> None:
        """Undo everything since the checkpoint, the last change first, and close it and those nested in it."""
        length = self._length_at(mark)
        entries = self.entries
        while len(entries) > length:
            undo, arguments = entries.pop()
            undo(*arguments)
        self._close(mark)

    def commit(self, mark: int) -> None:
        """Close the checkpoint and those nested in it, keeping the changes; an outer one can still roll them back."""
        self._length_at(mark)
        self._close(mark)

    def _length_at(self, mark: int) -> int:
        if not 1 <= mark <= len(self._marks):
            raise ValueError(f"checkpoint {mark} is not open: {len(self._marks)} are")
        return self._marks[mark - 1]

    def _close(self, mark: int) -> None:
        del self._marks[mark - 1 :]
        if not self._marks:
            self.recording = False
            self.entries.clear()


MOST_COUNTS = 64
MOST_ROOMS = 16


class Inventory:
    """Nodes in slots (small integers, reused), topology trees and pods; supports raw changes for what-if trials.

    `idle[slot]` is allocatable less everything in use (negative after a shrink), `releasing[slot]` the part in use by
    terminating pods; both are indexed like `resources` and zero in a slot without a node. Read only: rows are shared,
    and a changed row is a new list. A divided node has a slot for itself, where no new pod is placed, and one per NUMA
    zone, whose amounts are what the zone can provide, so taking from one zone may leave less in the others.
    """

    def __init__(self, resources: Sequence[str], topologies: Sequence[Topology] = ()) -> None:
        self.resources = tuple(resources)
        self.idle: list[list[int]] = []
        self.releasing: list[list[int]] = []
        self.trees: dict[str, Tree] = {}
        self.changes = Changes()
        self.port_use = Ports()
        self._nothing = [0] * len(self.resources)
        self._nodes: list[Node | None] = []
        self._names: list[str] = []
        self._slots: dict[str, int] = {}
        self._vacant: list[int] = []
        self._pods = Pods()
        self._undo = UndoLog()
        self._touch = self.changes.touch
        self._set_idle = self._restore_idle
        self._zones: dict[int, str] = {}
        self._divisions = DividedNodes(self.idle, self.releasing, self.port_use, self._touch)
        self.divided = self._divisions.by_slot
        self.home = self._divisions.home
        self.family = self._divisions.family
        self.masks = Masks(self._nodes, self.changes)
        self.capacity = Column(self._nodes, self.changes, read_allocatable)
        self.free_arrays = FreeArrays(len(self.resources), self.idle, self.releasing, self.changes)
        self._counts: LRUCache[tuple[Shape, bool], Counts] = LRUCache(MOST_COUNTS, lambda key: Counts(*key, self))
        self._rooms: LRUCache[tuple[frozenset[NodeFilter], tuple[int, ...], bool], FreeByDomain] = LRUCache(
            MOST_ROOMS, lambda key: FreeByDomain(*key, self)
        )
        for topology in topologies:
            self.put_topology(topology)

    @classmethod
    def of(cls, resources: Sequence[str], topologies: Sequence[Topology], nodes: Iterable[Node]) -> Inventory:
        inventory = cls(resources, topologies)
        for node in nodes:
            inventory.put_node(node)
        return inventory

    # Reading

    def slot(self, name: str) -> int:
        return self._slots[name]

    def find(self, name: str) -> int | None:
        """The slot of a node; None if there is no such node."""
        return self._slots.get(name)

    def name(self, slot: int) -> str:
        return self._names[slot]

    def node(self, slot: int) -> Node:
        node = self._nodes[slot]
        if node is None:
            raise KeyError(f"slot {slot} has no node")
        return node

    def slot_for(self, node: str, zone: str = "") -> int:
        """The slot of a pod on a node: that of its zone if the node is divided and the zone is
        known, else the node's.
        """
        slot = self._slots[node]
        divided = self.divided.get(slot) if zone else None
        return slot if divided is None else divided.names.get(zone, slot)

    def zone(self, slot: int) -> str:
        """The name of the zone that a slot stands for; empty for the slot of a node."""
        return self._zones.get(slot, "") if self._zones else ""

    def slots(self) -> Collection[int]:
        """Slots with a node or a zone, in no particular order."""
        return self._slots.values()

    def node_count(self) -> int:
        """The number of nodes; zones are no nodes."""
        return len(self._slots) - len(self._zones)

    def tree(self, topology: str) -> Tree | None:
        return self.trees.get(topology)

    def pod(self, key: str) -> Pod | None:
        return self._pods.get(key)

    def pods_on(self, node: str) -> list[str]:
        """Keys of the pods on a node, sorted; the node need not exist."""
        return self._pods.keys_on(node)

    def free(self, slot: int, waiting: bool) -> list[int]:
        """Idle amounts; with `waiting` also those still releasing. Read only."""
        idle = self.idle[slot]
        return [now + soon for now, soon in zip(idle, self.releasing[slot], strict=True)] if waiting else idle

    def ports(self, slot: int, waiting: bool) -> Collection[int]:
        """Host ports in use; with `waiting` those of terminating pods count as free."""
        return self.port_use.used(slot, waiting)

    def counts(self, shape: Shape, waiting: bool = False) -> Counts:
        """How many pods of the shape fit, up to date."""
        return self._counts.get((shape, waiting)).refresh()

    def room(self, filters: frozenset[NodeFilter], resources: tuple[int, ...], waiting: bool = False) -> FreeByDomain:
        """How much of these resources is free on nodes that any of the filters admits, up to date."""
        return self._rooms.get((filters, resources, waiting)).refresh()

    def max_followed(self) -> int:
        """The number of changed slots up to which an incremental update is cheaper than a full recount."""
        return 64 + len(self.idle) // 50

    # Updates

    def put_node(self, node: Node) -> None:
        """Add a node or update it."""
        for amounts in (node.allocatable, node.used, node.releasing):
            self._check_length("node", node.name, amounts)
        self.changes.trim()
        slot = self._slots.get(node.name)
        if slot is not None:
            before = self.node(slot)
            if before == node:
                return
            if same_zones(before, node):
                replace = self._replace_divided if slot in self.divided else self._replace
                replace(slot, node)
                self._undo.record(replace, slot, before)
                return
            self.remove_node(node.name)
        self._add_slot(node.name, node)
        if node.is_divided:
            self._divide(node)
        for pod in self._pods.on(node.name):
            self._occupy(pod, 1)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay known. No effect if there is no such node."""
        slot = self._slots.get(name)
        if slot is None:
            return
        divided = self.divided.get(slot)
        if divided is not None:
            self._divisions.part(divided)
            self._undo.record(self._divisions.join, divided)
            for zone in divided.zones:
                self._take_out(zone)
        self._take_out(slot)

    def put_topology(self, topology: Topology) -> None:
        """Add a topology or replace it."""
        before = self.trees.get(topology.name)
        if before is not None and before.topology == topology:
            return
        tree = Tree(topology, self._names)
        for slot in sorted(self._slots.values()):
            tree.enter(slot, labels_for(topology, self.node(slot), self.zone(slot)), reuse=False)
        self._set_tree(topology.name, tree)
        self._undo.record(self._set_tree, topology.name, before)

    def remove_topology(self, name: str) -> None:
        """Remove a topology. No effect if there is no such topology."""
        before = self.trees.get(name)
        if before is not None:
            self._set_tree(name, None)
            self._undo.record(self._set_tree, name, before)

    def add_pod(
        self,
        key: str,
        node: str,
        request: Amounts,
        ports: frozenset[int] = NONE,
        releasing: bool = False,
        zone: str = "",
    ) -> None:
        """A pod (or a reservation) takes capacity on a node, now or once the node appears. A known key is replaced.

        On a divided node it takes capacity in its `zone`; if the zone is not known, in every zone.
        """
        self._check_length("pod", key, request)
        self._put_pod(key, Pod(node, request, ports, releasing, zone))

    def release_pod(self, key: str) -> None:
        """Mark a pod as terminating. No effect if it is not known."""
        pod = self._pods.get(key)
        if pod is not None:
            self._put_pod(key, Pod(pod.node, pod.request, pod.ports, True, pod.zone))

    def remove_pod(self, key: str) -> None:
        """Remove a pod and free its capacity. No effect if it is not known."""
        self._put_pod(key, None)

    # Trials: anonymous changes and rollback

    def take(
        self, slot: int, request: Amounts, ports: frozenset[int] = NONE, times: int = 1, releasing: bool = False
    ) -> None:
        """Take capacity for `times` anonymous pods; `releasing`: they are terminating already."""
        if times != 1:
            request = tuple([amount * times for amount in request])
        if self.divided and slot in self.divided:
            self._undo.record(self._divisions.set, *self._divisions.take(slot, request, releasing))
        else:
            row = self.idle[slot]
            self.idle[slot] = list(map(sub, row, request))
            self._touch(slot)
            if self._undo.recording:
                self._undo.entries.append((self._set_idle, (slot, row)))
            if releasing:
                row = self.releasing[slot]
                self.releasing[slot] = list(map(add, row, request))
                self._undo.record(self.releasing.__setitem__, slot, row)
        if not self._undo.recording:
            self.changes.trim()
        if ports:
            self.port_use.use(slot, ports, times, releasing)
            self._undo.record(self.port_use.use, slot, ports, -times, releasing)

    def give(
        self, slot: int, request: Amounts, ports: frozenset[int] = NONE, times: int = 1, releasing: bool = False
    ) -> None:
        """The opposite of `take`."""
        self.take(slot, request, ports, -times, releasing)

    def checkpoint(self) -> int:
        """Open a checkpoint: later changes can be rolled back. Checkpoints nest."""
        self.changes.trim()
        return self._undo.checkpoint()

    def rollback(self, mark: int) -> None:
        """Undo everything since the checkpoint, in O(changes), and close it and those nested in it."""
        self._undo.rollback(mark)

    def commit(self, mark: int) -> None:
        """Keep all changes and close the checkpoint and those nested in it."""
        self._undo.commit(mark)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Roll back all changes made inside the block."""
        mark = self.checkpoint()
        try:
            yield
        finally:
            self.rollback(mark)

    # Single steps and their inverses, which the undo log replays

    def _restore_idle(self, slot: int, row: list[int]) -> None:
        self.idle[slot] = row
        self._touch(slot)

    def _put_pod(self, key: str, pod: Pod | None) -> None:
        before = self._pods.get(key)
        if before == pod:
            return
        self._pods.put(key, pod)
        self._undo.record(self._pods.put, key, before)
        if before is not None:
            self._occupy(before, -1)
        if pod is not None:
            self._occupy(pod, 1)

    def _occupy(self, pod: Pod, times: int) -> None:
        if pod.node in self._slots:
            self.take(self.slot_for(pod.node, pod.zone), pod.request, pod.ports, times, pod.releasing)

    def _set_tree(self, name: str, tree: Tree | None) -> None:
        if tree is None:
            self.trees.pop(name, None)
        else:
            tree.reserve(len(self._names))
            self.trees[name] = tree
        self.changes.epoch += 1

    def _add_slot(self, name: str, node: Node) -> int:
        """Put a node, or a zone represented as a node, into a slot of its own."""
        if not self._vacant:
            self._vacant.append(len(self._nodes))
            self._nodes.append(None)
            self._names.append("")
            self.idle.append(self._nothing)
            self.releasing.append(self._nothing)
        slot = self._vacant[-1]
        releasing = list(node.releasing) if any(node.releasing) else self._nothing
        self._restore_slot(slot, name, node, capacity(node), releasing, (dict.fromkeys(node.host_ports, 1), None))
        self._undo.record(self._vacate_slot, slot)
        return slot

    def _take_out(self, slot: int) -> None:
        name, node, idle, releasing = self._names[slot], self.node(slot), self.idle[slot], self.releasing[slot]
        ports = self._vacate_slot(slot)
        self._undo.record(self._restore_slot, slot, name, node, idle, releasing, ports)

    def _restore_slot(
        self, slot: int, name: str, node: Node, idle: Row, releasing: Row, ports: tuple[Use | None, Use | None]
    ) -> None:
        """Put a node into the slot that was vacated last."""
        self._vacant.pop()
        self._nodes[slot] = node
        self._names[slot] = name
        self._slots[name] = slot
        if name != node.name:
            self._zones[slot] = name[len(node.name) + 1 :]
        self.idle[slot] = idle
        self.releasing[slot] = releasing
        self.port_use.restore(slot, ports)
        for tree in self.trees.values():
            tree.enter(slot, self._labels(tree, slot), reuse=not self._undo.recording)
        self.changes.move(slot, FROM_NOWHERE)

    def _vacate_slot(self, slot: int) -> tuple[Use | None, Use | None]:
        left = self._slot_domains(slot)
        for tree in self.trees.values():
            tree.leave(slot)
        del self._slots[self._names[slot]]
        self._zones.pop(slot, None)
        self._nodes[slot] = None
        self._names[slot] = ""
        self.idle[slot] = self.releasing[slot] = self._nothing
        self._vacant.append(slot)
        self.changes.move(slot, left)
        return self.port_use.lift(slot)

    def _replace(self, slot: int, node: Node) -> None:
        """Update a node in place; capacity that was taken from it stays taken."""
        before = self.node(slot)
        self._nodes[slot] = node
        was, now = capacity(before), capacity(node)
        self.idle[slot] = list(map(add, self.idle[slot], map(sub, now, was)))
        grown = map(sub, node.releasing, before.releasing)
        self.releasing[slot] = list(map(add, self.releasing[slot], grown))
        self.port_use.use(slot, before.host_ports - node.host_ports, -1, leaving=False)
        self.port_use.use(slot, node.host_ports - before.host_ports, 1, leaving=False)
        if seen_by_filters(before) == seen_by_filters(node):
            self._touch(slot)
            return
        left = self._slot_domains(slot)
        for tree in self.trees.values():
            labels = self._labels(tree, slot)
            if not tree.belongs_at(slot, labels):
                tree.leave(slot)
                tree.enter(slot, labels, reuse=not self._undo.recording)
        self.changes.move(slot, left)

    def _labels(self, tree: Tree, slot: int) -> Mapping[str, str]:
        return labels_for(tree.topology, self.node(slot), self.zone(slot))

    def _divide(self, node: Node) -> None:
        """Give every zone of a newly added node a slot."""
        zones = {zone.name: self._add_slot(zone_key(node.name, zone.name), as_node(node, zone)) for zone in node.zones}
        divided = DividedNode(self._slots[node.name], zones, own_rows(node))
        self._divisions.join(divided)
        self._undo.record(self._divisions.part, divided)

    def _replace_divided(self, slot: int, node: Node) -> None:
        """Update a node that keeps the same zones; capacity that was taken from it stays taken."""
        divided, before = self.divided[slot], self.node(slot)
        self._replace(slot, node)
        for zone, one in zip(divided.zones, node.zones, strict=True):
            self._replace(zone, as_node(node, one))
        self._divisions.change(divided, before, node)

    def _check_length(self, kind: str, name: str, amounts: Amounts) -> None:
        if len(amounts) != len(self.resources):
            found, expected = len(amounts), len(self.resources)
            raise ValueError(f"{kind} {name} has {found} amounts, expected {expected}: {self.resources}")

    def _slot_domains(self, slot: int) -> SlotDomains:
        return {name: tree.domain_ids(slot) for name, tree in self.trees.items()}
