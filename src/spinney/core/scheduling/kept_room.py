"""Room that is kept for pods on their way: of scaled gangs, whose base gang is placed (G12), and replacements (G13).

Not recorded: a new leader keeps room anew for gangs that started a moment ago.

Kept for a time, against all gangs but more important ones. It gives way as soon as a node has not enough for the pods
that are really there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from spinney.api.placement.problem import Amounts
from spinney.core.inventory.inventory import Inventory

KEPT_S = 30.0
"""How long a base gang keeps room for its scaled gangs; they are made within a second or two."""


class PodCapacity(NamedTuple):
    """Capacity for one pod on a node, and there in a zone if the node is divided. Host ports are not kept.

    `leaving`: the terminating pod, by uid, whose capacity it is until that has ended.
    """

    request: Amounts
    node: str
    zone: str
    leaving: str = ""


@dataclass(frozen=True, slots=True)
class Room:
    """For one gang. `base`: the gang that has to run for it; `priority`: more important gangs do not heed it."""

    name: str
    base: str
    priority: int
    until_s: float
    pods: tuple[PodCapacity, ...]

    @property
    def nodes(self) -> Counter[str]:
        return Counter(pod.node for pod in self.pods)

    def pod_keys(self) -> Iterator[str]:
        """The names of its pods in the inventory."""
        return (f"kept/{self.name}/{number}" for number in range(len(self.pods)))


class KeptRoom:
    """The rooms by the name of their gang; what they take of an inventory."""

    def __init__(self) -> None:
        self._rooms: dict[str, Room] = {}
        self._of_base: dict[str, dict[str, None]] = {}  # the names of the gangs, in the order in which rooms were kept

    def __bool__(self) -> bool:
        return bool(self._rooms)

    def __contains__(self, name: str) -> bool:
        return name in self._rooms

    def clear(self) -> None:
        """The inventory was replaced."""
        self._rooms.clear()
        self._of_base.clear()

    def keep(self, inventory: Inventory, room: Room) -> None:
        """Take the capacity; nothing where that is in use."""
        if any(inventory.find(node) is None for node in room.nodes):
            return
        self._rooms[room.name] = room
        self._of_base.setdefault(room.base, {})[room.name] = None
        for key, pod in zip(room.pod_keys(), room.pods, strict=True):
            held = inventory.pod(pod.leaving)
            if held is not None:
                inventory.add_pod(pod.leaving, held.node, held.request, held.ports, zone=held.zone)
            else:
                inventory.add_pod(key, pod.node, pod.request, zone=pod.zone)
        if any(_is_short(inventory, node) for node in room.nodes):
            self.drop(inventory, [room.name])

    def drop(self, inventory: Inventory, names: Iterable[str]) -> list[Room]:
        """Give up the rooms of these gangs; returns those that there were."""
        dropped = [self._rooms.pop(name) for name in names if name in self._rooms]
        for room in dropped:
            _open(inventory, room)
            del self._of_base[room.base][room.name]
            if not self._of_base[room.base]:
                del self._of_base[room.base]
        return dropped

    def drop_of(self, inventory: Inventory, base: str) -> list[Room]:
        """Give up all rooms that belong to a base gang."""
        return self.drop(inventory, [*self._of_base.get(base, ())])

    def expire(self, inventory: Inventory, now_s: float) -> list[Room]:
        return self.drop(inventory, [name for name, room in self._rooms.items() if room.until_s <= now_s])

    def yield_on(self, inventory: Inventory, node: str) -> list[Room]:
        """Give up rooms on a node, the least important first, until its capacity suffices."""
        here = [room for room in self._rooms.values() if node in room.nodes] if _is_short(inventory, node) else []
        dropped: list[Room] = []
        for room in sorted(here, key=lambda room: (room.priority, room.name)):
            if _is_short(inventory, node):
                dropped += self.drop(inventory, [room.name])
        return dropped

    def open_for(self, inventory: Inventory, name: str, priority: int) -> None:
        """Inside a trial: a gang may use its own room, and that of less important gangs."""
        for room in self._rooms.values():
            if room.name == name or room.priority < priority:
                _open(inventory, room)


def _open(inventory: Inventory, room: Room) -> None:
    for key, pod in zip(room.pod_keys(), room.pods, strict=True):
        inventory.remove_pod(key)
        inventory.release_pod(pod.leaving)


def _is_short(inventory: Inventory, node: str) -> bool:
    slot = inventory.find(node)
    return slot is not None and any(min(inventory.free(each, waiting=True)) < 0 for each in inventory.family(slot))
