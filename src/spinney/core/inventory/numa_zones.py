"""Divided nodes: the slot of the node, a slot for each of its zones, and what they share.

A pod in a zone takes from the zone and from the node; a pod whose zone is not known takes from the node and, as nobody
can tell where it is, from every zone. Never holds a zone to a resource that no zone of its node has any of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add, sub

from msgspec.structs import replace

from spinney.api.placement.problem import Amounts, Node, Topology, Zone
from spinney.core.inventory.ports import Ports

Row = list[int]
Rows = tuple[Row, Row]
"""Idle and releasing amounts."""

BOUNDLESS = 1 << 80
"""Of a resource that zones do not account for: more than any node has."""


class DividedNode:
    """A divided node: its slot, the slots of its zones by their names, and what the zones have by themselves."""

    __slots__ = ("names", "own", "slot", "zones")

    def __init__(self, slot: int, zones: Mapping[str, int], own: Iterable[Rows]) -> None:
        self.slot = slot
        self.names = dict(zones)
        self.zones = tuple(zones.values())
        self.own = dict(zip(self.zones, own, strict=True))

    def charged(self, slot: int) -> tuple[int, ...]:
        """The zones that a pod in this slot takes from."""
        return self.zones if slot == self.slot else (slot,)


State = tuple[DividedNode, Rows, Mapping[int, Rows]]
"""A divided node, what the node has, and what each of its zones has by itself."""


class DividedNodes:
    """The divided nodes of an inventory, by the slot of the node and of each zone; keeps their rows true."""

    __slots__ = ("_idle", "_ports", "_releasing", "_touch", "by_slot")

    def __init__(self, idle: list[Row], releasing: list[Row], ports: Ports, touch: Callable[[int], None]) -> None:
        self._idle = idle
        self._releasing = releasing
        self._ports = ports
        self._touch = touch
        self.by_slot: dict[int, DividedNode] = {}

    def home(self, slot: int) -> int:
        """The slot of the node that a slot is, or is a part of."""
        divided = self.by_slot.get(slot)
        return slot if divided is None else divided.slot

    def family(self, slot: int) -> tuple[int, ...]:
        """The slots of the same node."""
        divided = self.by_slot.get(slot)
        return (slot,) if divided is None else (divided.slot, *divided.zones)

    def join(self, divided: DividedNode) -> None:
        """From now on these slots are parts of one node."""
        for slot in (divided.slot, *divided.zones):
            self.by_slot[slot] = divided
        self._ports.homes.update(dict.fromkeys(divided.zones, divided.slot))
        self.set(divided, self._node(divided), divided.own)

    def part(self, divided: DividedNode) -> None:
        """The opposite; the rows stay as they are."""
        for slot in (divided.slot, *divided.zones):
            del self.by_slot[slot]
            self._ports.homes.pop(slot, None)

    def set(self, divided: DividedNode, node: Rows, own: Mapping[int, Rows]) -> None:
        """Set what the node and each zone have by themselves, and from that what each zone can give."""
        self._idle[divided.slot], self._releasing[divided.slot] = node
        divided.own = dict(own)
        for zone in divided.zones:
            self._idle[zone], self._releasing[zone] = within(divided.own[zone], node)
            self._touch(zone)
        self._touch(divided.slot)

    def take(self, slot: int, request: Amounts, releasing: bool) -> State:
        """Take from a slot and all that share with it; answers the state before."""
        divided = self.by_slot[slot]
        node, before = self._node(divided), divided.own
        own = dict(before)
        for zone in divided.charged(slot):
            own[zone] = _taken(own[zone], request, releasing)
        self.set(divided, _taken(node, request, releasing), own)
        return divided, node, before

    def change(self, divided: DividedNode, before: Node, after: Node) -> None:
        """The zones have other amounts now; the row of the node knows already."""
        own = {
            zone: (_grown(divided.own[zone][0], old[0], new[0]), _grown(divided.own[zone][1], old[1], new[1]))
            for zone, old, new in zip(divided.zones, own_rows(before), own_rows(after), strict=True)
        }
        self.set(divided, self._node(divided), own)

    def _node(self, divided: DividedNode) -> Rows:
        return self._idle[divided.slot], self._releasing[divided.slot]


def zone_key(node: str, zone: str) -> str:
    """The name a zone has among nodes; it sorts right behind its node and is never shown."""
    return f"{node}\0{zone}"


def as_node(node: Node, zone: Zone) -> Node:
    """A zone as the node it is a part of: with its labels, taints and condition, and the amounts of the zone."""
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
    """What each zone of a node has by itself."""
    counted = [any(amounts) for amounts in zip(*(zone.allocatable for zone in node.zones), strict=True)]
    for zone in node.zones:
        left = map(sub, zone.allocatable, zone.used)
        yield (
            [amount if known else BOUNDLESS for amount, known in zip(left, counted, strict=True)],
            list(zone.releasing),
        )


def within(own: Rows, node: Rows) -> Rows:
    """What a zone can give: no more than it has, and no more than its node has left, now and once all is released."""
    idle = list(map(min, own[0], node[0]))
    soon = [min(a + b, c + d) for a, b, c, d in zip(own[0], own[1], node[0], node[1], strict=True)]
    return idle, list(map(sub, soon, idle))


def labels_for(topology: Topology, node: Node, zone: str) -> Mapping[str, str]:
    """The labels that seat a slot in a tree: the last level of a topology of zones is the zone, whatever is labelled.

    A zone is told apart from those of other nodes even where no broader level does that.
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
    """Whether two states of a node have the same slots."""
    return _slots_of(one) == _slots_of(other)


def _slots_of(node: Node) -> Sequence[str]:
    return [zone.name for zone in node.zones] if node.is_divided else []


def _taken(rows: Rows, request: Amounts, releasing: bool) -> Rows:
    return list(map(sub, rows[0], request)), list(map(add, rows[1], request)) if releasing else rows[1]


def _grown(row: Row, was: Row, now: Row) -> Row:
    return list(map(add, row, map(sub, now, was)))
