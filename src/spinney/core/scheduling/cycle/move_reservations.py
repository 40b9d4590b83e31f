"""Reservations for moved pods: capacity is kept for the replacement that the owner of a moved pod creates.

A reservation is opened at the moment its gang is decided, so that no other gang gets the capacity. It expires if the
owner creates no replacement, and it is lost if the process ends after the move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from kube_apimachinery.clock import Clock
from spinney.api.builtin.pod import Pod
from spinney.core.scheduling.cluster import Cluster, ReservedCapacity
from spinney.core.scheduling.cycle.snapshot import Key, group_of

RESERVED_S = 60.0
"""How long an owner may take to create the replacement."""


@dataclass(frozen=True, slots=True)
class MoveReservation:
    """Capacity for the replacement of a pod, until a deadline."""

    pod: Pod
    node: str
    until_s: float

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid


class MoveReservations:
    """`requeue_after` schedules another look at a key after that many seconds."""

    def __init__(self, cluster: Cluster, clock: Clock, requeue_after: Callable[[Key, float], None]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._requeue_after = requeue_after
        self._kept: dict[Key, dict[str, MoveReservation]] = {}

    def keep(self, moves: Iterable[tuple[Pod, str]]) -> None:
        """Reserve for pods about to be moved; skips those that have a reservation already or do not fit."""
        for pod, node in moves:
            key = group_of(pod)
            reservation = MoveReservation(_successor(pod), node, self._clock.monotonic() + RESERVED_S)
            if reservation.uid not in self._kept.get(key, ()):
                self._take(key, reservation)
                self._requeue_after(key, RESERVED_S)

    def open(self, key: Key) -> list[MoveReservation]:
        """Release the reservations of a gang and return those that have not expired."""
        found = self._kept.pop(key, {})
        for reservation in found.values():
            self._cluster.release(reservation.uid)
        return [reservation for reservation in found.values() if reservation.until_s > self._clock.monotonic()]

    def close(self, key: Key, opened: Iterable[MoveReservation], taken: Iterable[str]) -> None:
        """Reserve again what the gang has not taken: one less for each of its pods that got an assignment now."""
        nodes = Counter(taken)
        left = []
        for reservation in opened:
            if nodes[reservation.node] > 0:
                nodes[reservation.node] -= 1
            else:
                left.append(reservation)
        for reservation in left[nodes.total() :]:
            self._take(key, reservation)

    def expire(self, key: Key) -> None:
        """Drop reservations whose replacement did not come in time."""
        now_s = self._clock.monotonic()
        for reservation in [
            reservation for reservation in self._kept.get(key, {}).values() if reservation.until_s <= now_s
        ]:
            self._drop(key, reservation.uid)

    def withdraw(self, pods: Iterable[Pod]) -> None:
        """Drop the reservations of pods that are not moved after all."""
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

    def _take(self, key: Key, reservation: MoveReservation) -> None:
        self._cluster.reserve(reservation.pod, reservation.node)
        if self._cluster.reserved_capacity(reservation.node) is ReservedCapacity.LOST:
            self._cluster.release(reservation.uid)
        else:
            self._kept.setdefault(key, {})[reservation.uid] = reservation


def _successor(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, uid=f"after-{pod.metadata.uid}")
    return msgspec.structs.replace(pod, metadata=metadata)
