"""Gauges over simulated time: what is in use, who waits, how scattered the room is.

*Fragmentation* of a level: 1 - L / min(F, D), all in pods of a whole host: L is the largest gang that one domain of the
level takes now, F what all free GPUs would make if they lay together, D the largest gang that an empty domain takes. 0:
scattering costs nothing; 1: not a single whole host is free. *Stranded* is the share of free GPUs on hosts that are too
full for such a pod. Both are 0 where too little is free for one pod.
"""

from __future__ import annotations

from dataclasses import dataclass

from spinney.sim.replay.capacity import Capacity, pod_shape
from spinney.sim.replay.levels import Levels
from spinney.sim.replay.occupancy import Occupancy


@dataclass(frozen=True, slots=True)
class Moment:
    """What the gauges show from `at_s` on, until the next moment. All but `waiting` are shares from 0 to 1."""

    at_s: int
    used: float
    waiting: int
    stranded: float
    fragmentation: tuple[float, ...]


class Gauge:
    def __init__(
        self, occupancy: Occupancy, capacity: Capacity, levels: Levels, resource: str, gpus_per_pod: int
    ) -> None:
        self._inventory = occupancy.cluster.inventory
        self._whole = pod_shape(occupancy.cluster, resource, gpus_per_pod)
        self._resource = self._inventory.resources.index(resource)
        self._capacity = capacity
        self._topology = levels.name
        self._size = gpus_per_pod
        self._most = [level // gpus_per_pod for level in (size.largest for size in capacity.levels)]

    def read(self, at_s: int, waiting: int) -> Moment:
        free = self.free
        counts = self._inventory.counts(self._whole)
        together = free // self._size
        return Moment(
            at_s=at_s,
            used=1 - free / self._capacity.gpus,
            waiting=waiting,
            stranded=1 - counts.total * self._size / free if together else 0.0,
            fragmentation=tuple(
                1 - self._largest(depth) / min(together, most) if together and most else 0.0
                for depth, most in enumerate(self._most, start=1)
            ),
        )

    @property
    def free(self) -> int:
        """Free GPUs on nodes that take pods with them."""
        room = self._inventory.room(frozenset({self._whole.filter}), (self._resource,))
        return room.total(self._resource)

    def _largest(self, depth: int) -> int:
        fits = self._inventory.counts(self._whole).at(self._topology, depth)
        return min(int(fits.max(initial=0)), self._most[depth - 1])
