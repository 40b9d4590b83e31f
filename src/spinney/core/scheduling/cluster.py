"""The cluster state of the scheduler: nodes, pods and topologies folded into one inventory, and the reservations in it.

A reservation is never lost: events of a pod without a node do not release the capacity reserved for it. What is derived
from the inventory (an engine, slots) is valid for one `generation` only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum

import msgspec

from spinney.api.builtin import node as nodes
from spinney.api.builtin.node import Node, NodeResourceTopology
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.clustertopology import AnyTopology
from spinney.api.kinds.clustertopology import Topology as KaiTopology
from spinney.api.labels import HOSTNAME, KAI_NODE_POOL, POD_GROUP_NAME
from spinney.api.placement import problem
from spinney.api.placement.problem import Amounts, Taint, Term, Topology
from spinney.core.expansion.backends.kai import topology_keys
from spinney.core.inventory.inventory import Inventory
from spinney.core.scheduling.affinity.index import AffinityIndex, PlacedPod
from spinney.core.scheduling.amounts import MOST_ASKED, below_hosts, offered, with_zones, zone_of
from spinney.core.scheduling.gang.pod_shape import shapes_on
from spinney.core.scheduling.kept_room import KeptRoom, Room

BASE = ("cpu", "memory", "pods")
"""Resources that are counted even if no node offers them."""

_UNREADABLE = "unreadable/"  # prefix of the uid; no real uid looks like it


class ReservedCapacity(Enum):
    """The state of the capacity that is reserved on a node."""

    READY = "ready"  # it is free
    LEAVING = "leaving"  # it will be free once the terminating pods are gone
    LOST = "lost"  # it will not become free


class _HeldCapacity(msgspec.Struct, frozen=True):
    """The capacity that a pod holds on a node, bound or reserved. The pod is the cached object."""

    pod: Pod
    node: str
    releasing: bool = False
    zone: str = ""


class Cluster:
    """`generation` grows when inventory or topologies are replaced, `improved` when capacity may have been freed.

    A node may offer a new resource: the inventory is rebuilt with it when `settle` is called.
    """

    def __init__(self, node_pool: str = "") -> None:
        self.inventory = Inventory(BASE)
        self.topologies: dict[str, Topology] = {}
        self.generation = 0
        self.improved = 0
        self._node_pool = node_pool
        self._resources = set(BASE)
        self._nodes: dict[str, Node] = {}
        self._zones: dict[str, NodeResourceTopology] = {}
        self._held: dict[str, _HeldCapacity] = {}
        self.affinity_index = AffinityIndex(lambda: map(self._placed_pod, self._held.values()))
        self._unreadable: dict[str, str] = {}
        self._reserved: set[str] = set()
        self._nominated: dict[str, Pod] = {}  # without a node, but promised one by whichever scheduler
        self._victims: set[str] = set()
        self._kept_room = KeptRoom()
        self._kai: dict[str, KaiTopology] = {}
        self._grove: dict[str, AnyTopology] = {}
        self._outgrown = False
        self._capacity: Counter[str] = Counter()

    # Events

    def put_node(self, name: str, node: Node | None) -> None:
        """Take over a new or changed node; None, or a node of another node pool, removes it."""
        if node is None or node.metadata.labels.get(KAI_NODE_POOL, "") != self._node_pool:
            gone = self._nodes.pop(name, None)
            if gone is not None:
                self._count_capacity(gone, -1)
                if not self._outgrown:
                    self.inventory.remove_node(name)
            return
        before = self._nodes.get(name)
        if before is not None and _same(before, node):
            return
        if before is not None:
            self._count_capacity(before, -1)
        self._count_capacity(node, 1)
        self._nodes[name] = node
        self.improved += 1
        if not self._resources.issuperset(node.status.allocatable):
            self._resources.update(node.status.allocatable)
            self._outgrown = True
        if not self._outgrown:
            self.inventory.put_node(self._projected(node))
            self._yield_room(name)

    def put_zones(self, name: str, published: NodeResourceTopology | None) -> None:
        """Take over what a node publishes about its zones; None: nothing any more. The node may be added later."""
        before = self._zones.pop(name, None)
        if published is not None:
            self._zones[name] = published
        node = self._nodes.get(name)
        if node is None or self._outgrown or _publishes_the_same(before, published):
            return
        slots = self.inventory.family(self.inventory.slot(name))
        self.inventory.put_node(self._projected(node))
        if slots != self.inventory.family(self.inventory.slot(name)):
            self.generation += 1
        self.improved += 1

    def put_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Take over a new, changed or deleted pod. With a node it holds capacity until its end, whoever placed it."""
        some = new or old
        assert some is not None
        uid = some.metadata.uid
        self._note_nomination(uid, new)
        if new is None or _is_over(new):
            self._reserved.discard(uid)
            self._victims.discard(uid)
            self._forget(uid)
            return
        if not new.spec.node_name:
            return
        self._reserved.discard(uid)
        before = self._held.get(uid)
        releasing = uid in self._victims or new.metadata.deletion_timestamp is not None
        held = _HeldCapacity(new, new.spec.node_name, releasing, zone_of(new))
        if before is not None and _holds_the_same(before, held):
            self._held[uid] = held
            return
        self._hold(uid, held)
        if before is not None and before.zone != held.zone:
            self._recount_zones(held.node)
        if before is not None and (before.node != held.node or before.releasing != held.releasing):
            self.improved += 1

    def put_unreadable(self, uid: str, node: str) -> None:
        """A pod that cannot be decoded runs on a node (empty: no longer): the node counts as full."""
        if self._unreadable.pop(uid, "") and not node:
            self.improved += 1
            self.inventory.remove_pod(_UNREADABLE + uid)
        elif node:
            self._unreadable[uid] = node
            self._fill(uid, node)

    def put_kai_topology(self, name: str, topology: KaiTopology | None) -> None:
        if topology is None:
            self._kai.pop(name, None)
        else:
            self._kai[name] = topology
        self._choose_topology(name)

    def put_cluster_topology(self, name: str, topology: AnyTopology | None) -> None:
        """Used where there is no KAI topology of that name."""
        if topology is None:
            self._grove.pop(name, None)
        else:
            self._grove[name] = topology
        self._choose_topology(name)

    def settle(self) -> None:
        """Rebuild the inventory if nodes offer resources that it does not count yet."""
        if not self._outgrown:
            return
        self._outgrown = False
        self._kept_room.clear()
        self.generation += 1
        resources = (*BASE, *sorted(self._resources - set(BASE)))
        self.inventory = Inventory(resources, list(self.topologies.values()))
        everybody, self._held = self._held, {}
        self.affinity_index.clear()
        for uid, held in everybody.items():
            self._hold(uid, held)
        for uid, name in self._unreadable.items():
            self._fill(uid, name)
        for node in self._nodes.values():
            self.inventory.put_node(self._projected(node))

    @property
    def capacity(self) -> Amounts:
        """What the nodes that take pods offer together, whoever uses it."""
        return tuple([self._capacity[name] for name in self.inventory.resources])

    def _count_capacity(self, node: Node, times: int) -> None:
        if _readiness(node) in ("", "True") and not node.spec.unschedulable:
            for name, amount in node.status.allocatable.items():
                self._capacity[name] += times * offered(name, amount)

    # Nominations by others

    def _note_nomination(self, uid: str, pod: Pod | None) -> None:
        before = self._nominated.pop(uid, None)
        if pod is not None and _is_nominated(pod):
            self._nominated[uid] = pod
        after = self._nominated.get(uid)
        if before is not None and (after is None or after.status != before.status):
            self.improved += 1

    @property
    def has_nominated(self) -> bool:
        return bool(self._nominated)

    def hold_nominated(self, priority: int, gang: str) -> None:
        """Take the room of nominated pods that are no less important than a gang, and not its own; inside a trial.

        Victims of another scheduler's preemption leave for the pod that it nominated. Who takes that room makes it
        preempt again, for ever.
        """
        for uid, pod in self._nominated.items():
            important = (pod.spec.priority or 0) >= priority
            if important and uid not in self._held and "/".join(_gang_of(pod)) != gang:
                shape = shapes_on(self.inventory.resources).of(pod)
                self.inventory.add_pod(uid, pod.status.nominated_node_name, shape.request, shape.host_ports)

    # Room kept for gangs on their way

    @property
    def has_kept_room(self) -> bool:
        return bool(self._kept_room)

    def keeps_room_for(self, gang: str) -> bool:
        return gang in self._kept_room

    def keep_room(self, room: Room, used: Iterable[str] = ()) -> None:
        """Keep room for a gang, if there is any; what was kept before is given up. `used`: as for `drop_room`."""
        self.drop_room(room.name, [*room.nodes.elements(), *used])
        self._kept_room.keep(self.inventory, room)

    def drop_room(self, gang: str, used: Iterable[str] = ()) -> None:
        """Give up the room of a gang. `used`: the nodes of its pods; where they are all it kept, nothing is freed."""
        dropped = self._kept_room.drop(self.inventory, [gang])
        self.improved += any(room.nodes - Counter(used) for room in dropped)

    def drop_room_of(self, base: str) -> None:
        """Give up the rooms of a base gang's followers."""
        self.improved += bool(self._kept_room.drop_of(self.inventory, base))

    def expire_room(self, now_s: float) -> None:
        self.improved += bool(self._kept_room.expire(self.inventory, now_s))

    def open_room(self, gang: str, priority: int) -> None:
        """Let a gang use the room that is kept for it, and for less important ones; inside a trial."""
        self._kept_room.open_for(self.inventory, gang, priority)

    def path_above(self, topology: str | None, node: str) -> tuple[Term, ...]:
        """The domains that a node is in, broad to narrow, without itself; nothing if the node or a label is missing."""
        known, found = self.topologies.get(topology or ""), self._nodes.get(node)
        if known is None or found is None:
            return ()
        labels = found.metadata.labels
        levels = [key for key in known.levels[: len(known.levels) - known.zones] if key != HOSTNAME]
        return tuple(Term(key, "In", (labels[key],)) for key in levels) if labels.keys() >= set(levels) else ()

    def _yield_room(self, node: str) -> None:
        if self._kept_room:
            self.improved += bool(self._kept_room.yield_on(self.inventory, node))

    # Reservations and victims

    def reserve(self, pod: Pod, node: str, zone: str = "") -> None:
        """Reserve capacity on a node, and in a zone of it if given, for a pod that is not bound yet."""
        uid = pod.metadata.uid
        self._reserved.add(uid)
        self._hold(uid, _HeldCapacity(pod, node, zone=zone))

    def release(self, uid: str) -> None:
        """Release a reservation; a pod that has its node by now keeps its capacity."""
        if uid in self._reserved:
            self._reserved.discard(uid)
            self._forget(uid)

    def mark_victims(self, uids: Iterable[str]) -> None:
        """Mark pods as victims: their capacity counts as that of terminating pods."""
        for uid in uids:
            held = self._held.get(uid)
            if held is not None and uid not in self._victims:
                self._victims.add(uid)
                self._set_releasing(uid, held, True)

    def unmark_victims(self, uids: Iterable[str]) -> None:
        """Pods are no victims any more; those that terminate already still count as terminating."""
        for uid in uids:
            held = self._held.get(uid)
            if held is not None and uid in self._victims:
                self._victims.discard(uid)
                self._set_releasing(uid, held, held.pod.metadata.deletion_timestamp is not None)

    @property
    def has_victims(self) -> bool:
        return bool(self._victims)

    def is_victim(self, uid: str) -> bool:
        return uid in self._victims

    @property
    def pending_victims(self) -> list[Pod]:
        """Victims that are not terminating yet."""
        found = [self._held[uid].pod for uid in sorted(self._victims)]
        return [pod for pod in found if pod.metadata.deletion_timestamp is None]

    def running_pod(self, uid: str) -> Pod | None:
        """The pod that holds capacity, bound or reserved; None: there is none (any more)."""
        held = self._held.get(uid)
        return held.pod if held is not None else None

    def reserved_capacity(self, node: str, ports: Collection[int] = ()) -> ReservedCapacity:
        """Whether the reservations on a node can be bound; `ports`: the host ports that they use there."""
        slot = self.inventory.find(node)
        if slot is None:
            return ReservedCapacity.LOST
        found = self.inventory.node(slot)
        if not found.ready or found.unschedulable or not self._fits(slot, ports, waiting=True):
            return ReservedCapacity.LOST
        return ReservedCapacity.READY if self._fits(slot, ports, waiting=False) else ReservedCapacity.LEAVING

    def _fits(self, slot: int, ports: Collection[int], *, waiting: bool) -> bool:
        is_overcommitted = min(self.inventory.free(slot, waiting=waiting)) < 0
        return not is_overcommitted and not self.inventory.port_use.is_shared(slot, ports, waiting)

    def ports(self, uid: str) -> frozenset[int]:
        """The host ports of a pod that holds capacity."""
        held = self.inventory.pod(uid)
        return held.ports if held is not None else frozenset()

    def touch(self) -> None:
        """Capacity may have been freed for a reason that is not visible here."""
        self.improved += 1

    @property
    def is_outgrown(self) -> bool:
        """Whether the inventory lacks a resource, and all changes since, until `settle` is called."""
        return self._outgrown

    def is_sound(self, node: str) -> bool:
        """Whether the node exists, is schedulable and is not overcommitted."""
        slot = self.inventory.find(node)
        if slot is None:
            return False
        found = self.inventory.node(slot)
        return found.ready and not found.unschedulable and min(self.inventory.free(slot, waiting=False)) >= 0

    # Internals

    def _fill(self, uid: str, node: str) -> None:
        self.inventory.add_pod(_UNREADABLE + uid, node, (MOST_ASKED,) * len(self.inventory.resources))

    def _hold(self, uid: str, held: _HeldCapacity) -> None:
        before = self._held.get(uid)
        self._held[uid] = held
        if not self._outgrown:
            shape = shapes_on(self.inventory.resources).of(held.pod)
            self.inventory.add_pod(uid, held.node, shape.request, shape.host_ports, held.releasing, held.zone)
            self._yield_room(held.node)
            if shape.affinity_terms.apart or self.affinity_index.matter:
                self._update_affinity(before, held)

    def _update_affinity(self, before: _HeldCapacity | None, after: _HeldCapacity) -> None:
        if before is not None:
            self.affinity_index.leave(self._placed_pod(before))
            if before.pod.metadata.labels != after.pod.metadata.labels:
                self.improved += 1
        if self.affinity_index.enter(self._placed_pod(after)):
            self.improved += 1

    def _placed_pod(self, held: _HeldCapacity) -> PlacedPod:
        return PlacedPod(held.pod, held.node, shapes_on(self.inventory.resources).of(held.pod), held.releasing)

    def _set_releasing(self, uid: str, held: _HeldCapacity, releasing: bool) -> None:
        if held.releasing != releasing:
            self.improved += 1
            self._hold(uid, msgspec.structs.replace(held, releasing=releasing))

    def _forget(self, uid: str) -> None:
        held = self._held.pop(uid, None)
        if held is None:
            return
        self.improved += 1
        if not self._outgrown:
            self.inventory.remove_pod(uid)
            if self.affinity_index.matter:
                self.affinity_index.leave(self._placed_pod(held))

    def _recount_zones(self, name: str) -> None:
        """A pod changed its zone: count again what its node publishes as used there and no known pod holds."""
        node = self._nodes.get(name)
        if node is not None and name in self._zones and not self._outgrown:
            self.inventory.put_node(self._projected(node))

    def _projected(self, node: Node) -> problem.Node:
        stated = node.status.allocatable
        amounts = tuple(offered(name, stated[name]) if name in stated else 0 for name in self.inventory.resources)
        nothing = (0,) * len(amounts)
        ready = node.condition("Ready")
        projected = problem.Node(
            name=node.metadata.name,
            labels=node.metadata.labels,
            allocatable=amounts,
            used=nothing,
            releasing=nothing,
            taints=_taints(node.spec.taints),
            unschedulable=node.spec.unschedulable,
            ready=ready is None or ready.status == "True",
        )
        published = self._zones.get(node.metadata.name)
        if published is None:
            return projected
        there = [self.inventory.pod(uid) for uid in self.inventory.pods_on(projected.name)]
        held = [(pod.zone, pod.request) for pod in there if pod is not None]
        return with_zones(projected, published, self.inventory.resources, held)

    def _choose_topology(self, name: str) -> None:
        levels = self._levels(name)
        before = self.topologies.get(name)
        if levels is None:
            self.topologies.pop(name, None)
            self.inventory.remove_topology(name)
        else:
            grove = self._grove.get(name)
            topology = Topology(name, levels)
            self.topologies[name] = below_hosts(topology, grove) if grove is not None else topology
            self.inventory.put_topology(self.topologies[name])
        if self.topologies.get(name) != before:
            self.generation += 1
            self.improved += 1

    def _levels(self, name: str) -> tuple[str, ...] | None:
        kai, grove = self._kai.get(name), self._grove.get(name)
        if kai is not None:
            return tuple(level.node_label for level in kai.spec.levels)
        return tuple(topology_keys(grove)) if grove is not None else None


def _is_nominated(pod: Pod) -> bool:
    is_leaving = pod.metadata.deletion_timestamp is not None or _is_over(pod)
    return bool(pod.status.nominated_node_name) and not pod.spec.node_name and not is_leaving


def _gang_of(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.annotations.get(POD_GROUP_NAME, "")


def _is_over(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _holds_the_same(before: _HeldCapacity, after: _HeldCapacity) -> bool:
    same_place = (before.node, before.zone, before.releasing) == (after.node, after.zone, after.releasing)
    same_labels = before.pod.metadata.labels == after.pod.metadata.labels
    return same_place and same_labels and before.pod.spec.containers == after.pod.spec.containers


def _same(before: Node, after: Node) -> bool:
    """Whether nothing differs that placement depends on; heartbeats do not count."""
    return (
        before.metadata.labels == after.metadata.labels
        and before.spec == after.spec
        and before.status.allocatable == after.status.allocatable
        and _readiness(before) == _readiness(after)
    )


def _publishes_the_same(before: NodeResourceTopology | None, after: NodeResourceTopology | None) -> bool:
    """Whether only the timestamps differ."""
    if before is None or after is None:
        return before is after
    return (before.zones, before.attributes, before.topology_policies) == (
        after.zones,
        after.attributes,
        after.topology_policies,
    )


def _readiness(node: Node) -> str:
    ready = node.condition("Ready")
    return ready.status if ready is not None else ""


def _taints(found: Iterable[nodes.Taint]) -> tuple[Taint, ...]:
    return tuple(Taint(taint.key, taint.value, taint.effect) for taint in found)
