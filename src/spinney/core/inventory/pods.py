"""What takes capacity on nodes: pods and reservations by key, also on nodes that do not exist (yet), and host ports."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import sub

import msgspec

from spinney.api.placement.problem import Amounts, Node

Use = dict[int, int]
NONE: frozenset[int] = frozenset()


class Ports:
    """Counts uses, because two pods may claim one port while one of them is terminating.

    `homes`: for a slot that is part of another one, the slot where its ports are counted.
    """

    __slots__ = ("_leaving", "_staying", "homes")

    def __init__(self) -> None:
        self._staying: dict[int, Use] = {}
        self._leaving: dict[int, Use] = {}
        self.homes: dict[int, int] = {}

    def used(self, slot: int, waiting: bool) -> Collection[int]:
        """Ports that are not available; with `waiting` those of terminating pods are."""
        slot = self.homes.get(slot, slot)
        staying = self._staying.get(slot)
        leaving = None if waiting else self._leaving.get(slot)
        if leaving:
            return leaving.keys() | staying.keys() if staying else leaving.keys()
        return staying.keys() if staying else NONE

    def clash(self, slot: int, ports: Iterable[int], waiting: bool) -> bool:
        used = self.used(slot, waiting)
        return bool(used) and any(port in used for port in ports)

    def is_shared(self, slot: int, ports: Iterable[int], waiting: bool) -> bool:
        """Whether one of the ports is claimed more than once; with `waiting` terminating pods do not count."""
        slot = self.homes.get(slot, slot)
        staying = self._staying.get(slot) or {}
        leaving = {} if waiting else self._leaving.get(slot) or {}
        return any(staying.get(port, 0) + leaving.get(port, 0) > 1 for port in ports)

    def slots(self) -> Iterable[int]:
        """Slots with any port in use."""
        found = self._staying.keys() | self._leaving.keys()
        return found.union(part for part, home in self.homes.items() if home in found) if self.homes else found

    def use(self, slot: int, ports: Iterable[int], times: int, leaving: bool) -> None:
        """Claim ports `times` over, or give them back with negative times."""
        by_slot = self._leaving if leaving else self._staying
        slot = self.homes.get(slot, slot)
        used = by_slot.setdefault(slot, {})
        for port in ports:
            count = used.get(port, 0) + times
            if count:
                used[port] = count
            else:
                del used[port]
        if not used:
            del by_slot[slot]

    def lift(self, slot: int) -> tuple[Use | None, Use | None]:
        """Clear the slot; returns its state for `restore`."""
        return self._staying.pop(slot, None), self._leaving.pop(slot, None)

    def restore(self, slot: int, lifted: tuple[Use | None, Use | None]) -> None:
        staying, leaving = lifted
        if staying:
            self._staying[slot] = staying
        if leaving:
            self._leaving[slot] = leaving


def capacity(node: Node) -> list[int]:
    """The part of a node's allocatable that is available for pods."""
    return list(map(sub, node.allocatable, node.used))


class Pod(msgspec.Struct, frozen=True, gc=False):
    """What takes capacity on a node. `releasing`: it is terminating; `zone`: its zone on a divided node, if known."""

    node: str
    request: Amounts
    ports: frozenset[int] = frozenset()
    releasing: bool = False
    zone: str = ""


class Pods:
    """Pods by key and by node."""

    __slots__ = ("_by_key", "_by_node")

    def __init__(self) -> None:
        self._by_key: dict[str, Pod] = {}
        self._by_node: dict[str, set[str]] = {}

    def get(self, key: str) -> Pod | None:
        return self._by_key.get(key)

    def keys_on(self, node: str) -> list[str]:
        return sorted(self._by_node.get(node, ()))

    def on(self, node: str) -> Iterable[Pod]:
        return [self._by_key[key] for key in self._by_node.get(node, ())]

    def put(self, key: str, pod: Pod | None) -> Pod | None:
        """Store the pod, or delete it with None. Returns the previous one."""
        before = self._by_key.pop(key, None)
        if before is not None:
            keys = self._by_node[before.node]
            keys.discard(key)
            if not keys:
                del self._by_node[before.node]
        if pod is not None:
            self._by_key[key] = pod
            self._by_node.setdefault(pod.node, set()).add(key)
        return before
