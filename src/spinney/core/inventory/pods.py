"""Pods and reservations by key, including those on nodes that do not exist (yet)."""

from __future__ import annotations

from collections.abc import Iterable
from operator import sub

import msgspec

from spinney.api.placement.problem import Amounts, Node


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
