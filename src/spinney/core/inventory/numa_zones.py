"""Divided nodes: the slot of the node, a slot for each of its NUMA zones, and the capacity they share.

A pod in a zone takes from the zone and from the node; a pod whose zone is not known takes from the node and, because it
could be in any of them, from every zone. Never limits a zone by a resource that no zone of its node has any of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add, sub

from msgspec.structs import replace

from spinney.api.placement.problem import Amounts, Node, Topology, Zone
from spinney.core.inventory.pods import Ports

Row = list[int]
Rows = tuple[Row, Row]
"""Idle and releasing amounts."""

BOUNDLESS = 1 << 80
"""The amount of a resource that zones do not account for: more than any node has."""


class DividedNode:
    """A divided node: its slot, the slots of its zones by name, and the amounts of each zone by itself."""

    __slots__ = ("names", "own", "slot", "zones")

    def __init__(self, slot: int, zones: Mapping[str, int], own: Iterable[Rows]) -> None:
        self.slot = slot
        self.names = dict(zones)
        self.zones = tuple(zones.values())
        self.own = dict(zip(self.zones, own, strict=True))

    def charged(self, slot: int) -> tuple[int, ...]:
        """The zones from which a pod in this slot takes capacity."""
        return self.zones if slot == self.slot else (slot,)


State = tuple[DividedNode, Rows, Mapping[int, Rows]]
"""A divided node, the amounts of the node, and the amounts of each of its zones by itself."""


class DividedNodes:
    """The divided nodes of an inventory, by the slot of the node and of each zone; keeps their rows consistent."""

    __slots__ = ("_idle", "_ports", "_releasing", "_touch", "by_slot")

    def __init__(self, idle: list[Row], releasing: list[Row], ports: Ports, touch: Callable[[int], None]) -> None:
        self._idle = idle
        self._releasing = releasing
        self._ports = ports
        self._touch = touch
        self.by_slot: dict[int, DividedNode] = {}

    def home(self, slot: int) -> int:
        """The slot of the node that a slot represents or is a zone of."""
        divided = self.by_slot.get(slot)
        return slot if divided is None else divided.slot

    def family(self, slot: int) -> tuple[int, ...]:
        """All slots of the same node."""
        divided = self.by_slot.get(slot)
        return (slot,) if divided is None else (divided.slot, *divided.zones)

    def join(self, divided: DividedNode) -> None:
        """Register these slots as parts of one node."""
        for slot in (divided.slot, *divided.zones):
            self.by_slot[slot] = divided
        self._ports.homes.update(dict.fromkeys(divided.zones, divided.slot))
        self.set(divided, self._node(divided), divided.own)

    def part(self, divided: DividedNode) -> None:
        """Undo `join`; the rows stay as they are."""
        for slot in (divided.slot, *divided.zones):
            del self.by_slot[slot]
            self._ports.homes.pop(slot, None)

    def set(self, divided: DividedNode, node: Rows, own: Mapping[int, Rows]) -> None:
        """Set the amounts of the node and of each zone by itself, and derive what each zone can provide."""
        self._idle[divided.slot], self._releasing[divided.slot] = node
        divided.own = dict(own)
        for zone in divided.zones:
            self._idle[zone], self._releasing[zone] = within(divided.own[zone], node)
            self._touch(zone)
        self._touch(divided.slot)

    def take(self, slot: int, request: Amounts, releasing: bool) -> State:
        """Take from a slot and all slots that share capacity with it; returns the state before."""
        divided = self.by_slot[slot]
        node, before = self._node(divided), divided.own
        own = dict(before)
        for zone in divided.charged(slot):
            own[zone] = _taken(own[zone], request, releasing)
        self.set(divided, _taken(node, request, releasing), own)
        return divided, node, before

    def change(self, divided: DividedNode, before: Node, after: Node) -> None:
        """Apply changed amounts of the zones; the row of the node is already updated."""
        own = {
            zone: (_grown(divided.own[zone][0], old[0], new[0]), _grown(divided.own[zone][1], old[1], new[1]))
            for zone, old, new in zip(divided.zones, own_rows(before), own_rows(after), strict=True)
        }
        self.set(divided, self._node(divided), own)

    def _node(self, divided: DividedNode) -> Rows:
        return self._idle[divided.slot], self._releasing[divided.slot]


def zone_key(node: str, zone: str) -> str:
    """The name of a zone among nodes; it sorts directly after its node and is never displayed."""
    return f"{node}\0{zone}"


def as_node(node: Node, zone: Zone) -> Node:
    """A zone represented as a node: labels, taints and condition of its node, amounts of the zone."""
    return replace(
        node,
        allocatable=zone.allocatable,
        used=zone.used,
        releasing=zone.releasing,
        host_ports=frozenset(),
        zones=(),
        zone_policy="",
    )


def own_rows(node: Node) -> Iterator[Rows]:
    """The amounts of each zone of a node by itself."""
    counted = [any(amounts) for amounts in zip(*(zone.allocatable for zone in node.zones), strict=True)]
    for zone in node.zones:
        left = map(sub, zone.allocatable, zone.used)
        yield (
            [amount if known else BOUNDLESS for amount, known in zip(left, counted, strict=True)],
            list(zone.releasing),
        )


def within(own: Rows, node: Rows) -> Rows:
    """What a zone can provide: at most what it has and what its node has left, now and once everything is released."""
    idle = list(map(min, own[0], node[0]))
    soon = [min(a + b, c + d) for a, b, c, d in zip(own[0], own[1], node[0], node[1], strict=True)]
    return idle, list(map(sub, soon, idle))


def labels_for(topology: Topology, node: Node, zone: str) -> Mapping[str, str]:
    """The labels that assign a slot to domains; the last level of a topology with zones is always the zone.

    Zones of different nodes are distinguished even where no broader level does so.
    """
    if not topology.zones:
        return node.labels
    *above, level = topology.levels
    found = {key: value for key, value in node.labels.items() if key != level}
    if zone:
        alone = bool(above) and node.labels.get(above[-1]) == node.name
        found[level] = zone if alone else f"{node.name}/{zone}"
    return found


def same_zones(one: Node, other: Node) -> bool:
    """Whether two states of a node need the same slots."""
    return _slots_of(one) == _slots_of(other)


def _slots_of(node: Node) -> Sequence[str]:
    return [zone.name for zone in node.zones] if node.is_divided else []


def _taken(rows: Rows, request: Amounts, releasing: bool) -> Rows:
    return list(map(sub, rows[0], request)), list(map(add, rows[1], request)) if releasing else rows[1]


def _grown(row: Row, was: Row, now: Row) -> Row:
    return list(map(add, row, map(sub, now, was)))
