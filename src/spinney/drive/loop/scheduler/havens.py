"""Places kept for pods that are moved: whoever their owner makes in their stead finds room there.

A place is opened when the gang that it is kept for is decided, in the same breath, so that nobody else gets it. Never
kept for ever: an owner who makes nobody anew loses it, and so does a process that ends after the move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.clock import Clock
from spinney.core.scheduling.cluster import Cluster, Room
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.views import group_of

KEPT_S = 60.0
"""So long an owner may take to make a pod anew."""


@dataclass(frozen=True, slots=True)
class Haven:
    """Room for the successor of a pod, until a time."""

    pod: Pod
    node: str
    until_s: float

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid


class Havens:
    """`look_after` asks to be called back for a key after so many seconds."""

    def __init__(self, cluster: Cluster, clock: Clock, look_after: Callable[[Key, float], None]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._look_after = look_after
        self._kept: dict[Key, dict[str, Haven]] = {}

    def keep(self, moves: Iterable[tuple[Pod, str]]) -> None:
        """Room for pods that are about to be moved; one that is kept already, or has no room, is left as it is."""
        for pod, node in moves:
            key = group_of(pod)
            haven = Haven(_successor(pod), node, self._clock.monotonic() + KEPT_S)
            if haven.uid not in self._kept.get(key, ()):
                self._take(key, haven)
                self._look_after(key, KEPT_S)

    def open(self, key: Key) -> list[Haven]:
        """Give the places of a gang free; those still good are answered."""
        found = self._kept.pop(key, {})
        for haven in found.values():
            self._cluster.release(haven.uid)
        return [haven for haven in found.values() if haven.until_s > self._clock.monotonic()]

    def close(self, key: Key, opened: Iterable[Haven], taken: Iterable[str]) -> None:
        """Keep the places of a gang that it has not taken: so many fewer as pods of it have seats now."""
        nodes = Counter(taken)
        left = []
        for haven in opened:
            if nodes[haven.node] > 0:
                nodes[haven.node] -= 1
            else:
                left.append(haven)
        for haven in left[nodes.total() :]:
            self._take(key, haven)

    def expire(self, key: Key) -> None:
        """Nobody came in time."""
        now_s = self._clock.monotonic()
        for haven in [haven for haven in self._kept.get(key, {}).values() if haven.until_s <= now_s]:
            self._drop(key, haven.uid)

    def withdraw(self, pods: Iterable[Pod]) -> None:
        """Pods that stay where they are need no other place."""
        for pod in pods:
            self._drop(group_of(pod), _successor(pod).metadata.uid)

    def has_any(self, key: Key) -> bool:
        return key in self._kept

    def _drop(self, key: Key, uid: str) -> None:
        kept = self._kept.get(key, {})
        if kept.pop(uid, None) is not None:
            self._cluster.release(uid)
        if not kept:
            self._kept.pop(key, None)

    def _take(self, key: Key, haven: Haven) -> None:
        self._cluster.reserve(haven.pod, haven.node)
        if self._cluster.room(haven.node) is Room.LOST:
            self._cluster.release(haven.uid)
        else:
            self._kept.setdefault(key, {})[haven.uid] = haven


def _successor(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, uid=f"after-{pod.metadata.uid}")
    return msgspec.structs.replace(pod, metadata=metadata)
