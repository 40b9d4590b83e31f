"""How many pods of a shape fit on each node and in each domain.

Each shape is counted by itself, so a domain's count says nothing about pods of different shapes together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import ANY_NODE, Amounts, NodeFilter
from spinney.core.inventory.change_log import Cursor
from spinney.core.inventory.domain_sums import Amounts64, DomainSums
from spinney.core.inventory.free_arrays import LARGEST

if TYPE_CHECKING:
    from spinney.core.inventory.inventory import Inventory

UNBOUNDED = 2**31 - 1


class Shape(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods that fit alike. `single`: at most one per node, whatever is free; host ports imply it."""

    request: Amounts
    filter: NodeFilter = ANY_NODE
    ports: frozenset[int] = frozenset()
    single: bool = False


class Counts:
    """Counts as of the last `refresh`; the arrays change in place and must not be written."""

    __slots__ = ("_cursor", "_epoch", "_fit", "_inventory", "_mask", "_sums", "_waiting", "shape")

    def __init__(self, shape: Shape, waiting: bool, inventory: Inventory) -> None:
        self.shape = shape
        self._waiting = waiting
        self._inventory = inventory
        self._cursor = Cursor(inventory.changes)
        self._epoch = inventory.changes.epoch
        self._sums = DomainSums(np.int32)
        self._mask = inventory.masks.of(shape.filter)
        self._fit = self._counter()

    @property
    def per_node(self) -> npt.NDArray[np.int32]:
        """Count by slot, at most UNBOUNDED."""
        return self._sums.amounts

    @property
    def total(self) -> int:
        return self._sums.total

    def at(self, topology: str, depth: int) -> Amounts64:
        """Count by domain id; depth 0 is the cluster."""
        sums = self._sums.at(topology, depth)
        return self.refresh()._sums.add_level(self._inventory.trees[topology], depth) if sums is None else sums

    def refresh(self) -> Counts:
        """Catch up with the inventory: O(changed slots), or a recount of all nodes when many changed."""
        inventory = self._inventory
        if self._epoch != inventory.changes.epoch:
            self._sums.forget_levels()
            self._epoch = inventory.changes.epoch
        batch = self._cursor.advance(inventory.max_followed())
        if batch is None:
            return self
        if batch.lost:
            self._sums.load(self._count_all())
            return self
        if batch.moves:
            self._mask.refresh()
            self._sums.vacate(batch.moves, len(inventory.idle))
        self._sums.update(batch.slots, self._fit)
        return self

    def _counter(self) -> Callable[[int], int]:
        """A function that counts one slot; it is called for every change, so all it needs is bound in advance."""
        mask, ports, waiting = self._mask, self.shape.ports, self._waiting
        idle, releasing, clash = self._inventory.idle, self._inventory.releasing, self._inventory.port_use.clash
        needs = [(resource, amount) for resource, amount in enumerate(self.shape.request) if amount]
        most = 1 if self.shape.single or ports else UNBOUNDED

        def count(slot: int) -> int:
            if not mask.flags[slot]:
                return 0
            if ports and clash(slot, ports, waiting):
                return 0
            fits, row = most, idle[slot]
            if waiting:
                row = [now + soon for now, soon in zip(row, releasing[slot], strict=True)]
            for resource, amount in needs:
                times = row[resource] // amount
                if times < fits:
                    fits = times
            return fits if fits > 0 else 0

        return count

    def _count_all(self) -> npt.NDArray[np.int64]:
        inventory, shape = self._inventory, self.shape
        free_arrays = inventory.free_arrays
        free_arrays.refresh()
        self._mask.refresh()
        most = 1 if shape.single or shape.ports else UNBOUNDED
        fits = np.full(len(inventory.idle), most, np.int64)
        for resource, amount in enumerate(shape.request):
            if amount > LARGEST:
                fits[:] = 0
            elif amount:
                np.minimum(fits, free_arrays.free(resource, self._waiting) // amount, out=fits)
        np.maximum(fits, 0, out=fits)
        fits *= self._mask.array()
        if shape.ports:
            for slot in inventory.port_use.slots():
                if inventory.port_use.clash(slot, shape.ports, self._waiting):
                    fits[slot] = 0
        return fits
