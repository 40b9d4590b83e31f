"""How much is free in each domain, on nodes that any of some filters admits: the quantity that best fit compares.

Only a sum: what is free on many nodes together may not hold a single pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from spinney.api.placement.problem import NodeFilter
from spinney.core.inventory.change_log import Cursor
from spinney.core.inventory.domain_sums import Amounts64, DomainSums

if TYPE_CHECKING:
    from spinney.core.inventory.inventory import Inventory

LARGEST_ROOM = 2**46
"""Limit per node, so that the sum over 2**17 nodes never exceeds 63 bits."""


class FreeByDomain:
    """Sums as of the last `refresh`; the arrays change in place and must not be written."""

    __slots__ = ("_cursor", "_epoch", "_inventory", "_masks", "_readers", "_sums", "_waiting")

    def __init__(
        self, filters: frozenset[NodeFilter], resources: tuple[int, ...], waiting: bool, inventory: Inventory
    ) -> None:
        self._waiting = waiting
        self._inventory = inventory
        self._cursor = Cursor(inventory.changes)
        self._epoch = inventory.changes.epoch
        self._masks = list({id(mask): mask for mask in map(inventory.masks.of, filters)}.values())
        self._sums = {resource: DomainSums(np.int64) for resource in resources}
        self._readers = [(sums, self._reader(resource)) for resource, sums in self._sums.items()]

    def at(self, topology: str, depth: int, resource: int) -> Amounts64:
        """Sum by domain id; `resource` is one of the indices given at construction, depth 0 is the cluster."""
        sums = self._sums[resource]
        found = sums.at(topology, depth)
        return (
            self.refresh()._sums[resource].add_level(self._inventory.trees[topology], depth) if found is None else found
        )

    def total(self, resource: int) -> int:
        return self._sums[resource].total

    def refresh(self) -> FreeByDomain:
        """Catch up with the inventory: O(changed slots), or a recount of all nodes when many changed."""
        inventory = self._inventory
        if self._epoch != inventory.changes.epoch:
            self._epoch = inventory.changes.epoch
            for sums in self._sums.values():
                sums.forget_levels()
        batch = self._cursor.advance(inventory.max_followed())
        if batch is None:
            return self
        if batch.lost:
            self._add_up_all()
            return self
        if batch.moves:
            for mask in self._masks:
                mask.refresh()
            for sums in self._sums.values():
                sums.vacate(batch.moves, len(inventory.idle))
        for sums, read in self._readers:
            sums.update(batch.slots, read)
        return self

    def _reader(self, resource: int) -> Callable[[int], int]:
        """A function that returns what one slot adds; it is called for every change."""
        masks, idle, releasing, waiting = self._masks, self._inventory.idle, self._inventory.releasing, self._waiting
        single = masks[0] if len(masks) == 1 else None

        def free(slot: int) -> int:
            if single is not None:
                if not single.flags[slot]:
                    return 0
            elif not any(mask.flags[slot] for mask in masks):
                return 0
            amount = idle[slot][resource]
            if waiting:
                amount += releasing[slot][resource]
            if amount <= 0:
                return 0
            return amount if amount < LARGEST_ROOM else LARGEST_ROOM

        return free

    def _add_up_all(self) -> None:
        free_arrays = self._inventory.free_arrays
        free_arrays.refresh()
        admitted = np.zeros(len(self._inventory.idle), np.bool_)
        for mask in self._masks:
            admitted |= mask.refresh().array()
        for resource, sums in self._sums.items():
            sums.load(np.clip(free_arrays.free(resource, self._waiting), 0, LARGEST_ROOM) * admitted)
