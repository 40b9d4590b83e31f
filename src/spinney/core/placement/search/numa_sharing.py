"""NUMA zones that share a node: pods in different zones of a divided node still use up the same node.

Tracks only nodes that a gang could use up; the zones of all others can be treated as independent nodes. Never takes
more than the node or the zone has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.numa_zones import BOUNDLESS, Rows
from spinney.core.placement.gang.gang_tree import GangTree

Request = Iterable[tuple[int, int]]
"""(resource, amount)"""


class SharedNode:
    """A divided node in a search space: its free amounts, those of each zone by itself, and the zones' node indices."""

    __slots__ = ("free", "home", "mask", "own")

    def __init__(self, free: list[int], own: dict[int, list[int]], home: int | None) -> None:
        self.free = free
        self.own = own
        self.home = home  # the node itself: pods whose zone is not known are counted there
        self.mask = sum(1 << node for node in own)

    def take(self, rows: Sequence[list[int]], node: int, request: Request, count: int) -> None:
        """Take from a zone, or from all if `node` is the node itself; `rows`: what each zone can provide then."""
        zones = [self.own[node]] if node in self.own else list(self.own.values())
        for resource, amount in request:
            self.free[resource] -= amount * count
            for row in zones:
                row[resource] -= amount * count
            for zone, row in self.own.items():
                rows[zone][resource] = min(row[resource], self.free[resource])

    def holds(self, request: Request, ports: frozenset[int]) -> int:
        """How many pods the node as a whole has capacity for."""
        most = min([self.free[resource] // amount for resource, amount in request], default=BOUNDLESS)
        return max(0, min(most, 1) if ports else most)


def find_shared_nodes(
    inventory: Inventory, parts: GangTree, slots: Sequence[int], waiting: bool, all_of_them: bool
) -> Iterator[SharedNode]:
    """The divided nodes among some slots that must be tracked for a gang."""
    place = {slot: node for node, slot in enumerate(slots)}
    nodes = {id(one): one for one in map(inventory.divided.get, slots) if one is not None}
    wanted = _wanted(parts)
    for divided in nodes.values():
        own = {place[zone]: _free(divided.own[zone], waiting) for zone in divided.zones if zone in place}
        free = list(inventory.free(divided.slot, waiting))
        if all_of_them or not _is_loose(parts, wanted, free, own):
            yield SharedNode(free, own, place.get(divided.slot))


def trimmed(
    shared_nodes: Iterable[SharedNode], request: Request, ports: frozenset[int], caps: Mapping[int, int]
) -> dict[int, int]:
    """Capacities for equal pods that can all be used at once; the zones that hold most keep theirs."""
    found = dict(caps)
    for shared_node in shared_nodes:
        here = sorted((node for node in shared_node.own if node in found), key=lambda node: (-found[node], node))
        left = shared_node.holds(request, ports) if len(here) > 1 else BOUNDLESS
        for node in here:
            found[node] = min(found[node], left)
            left -= found[node]
            if not found[node]:
                del found[node]
    return found


def _free(rows: Rows, waiting: bool) -> list[int]:
    return [now + soon for now, soon in zip(*rows, strict=True)] if waiting else list(rows[0])


def _wanted(parts: GangTree) -> list[int]:
    """The largest amounts a gang could request, per resource."""
    requests = [[amount * leaf.pods.count for amount in leaf.pods.request] for leaf in parts.leaves if leaf.pods]
    return [sum(amounts) for amounts in zip(*requests, strict=True)]


def _is_loose(parts: GangTree, wanted: Sequence[int], free: Sequence[int], own: Mapping[int, Sequence[int]]) -> bool:
    """Whether the node is never the limit: its zones run out first, or the gang cannot use up the node."""
    if len(own) < 2:
        return True
    if any(leaf.pods.host_ports for leaf in parts.leaves if leaf.pods):
        return False
    return all(
        not want or want <= have or sum(max(0, row[resource]) for row in own.values()) <= have
        for resource, (want, have) in enumerate(zip(wanted, free, strict=True))
    )
