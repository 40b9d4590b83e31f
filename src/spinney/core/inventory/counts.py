"""How many pods of a shape fit, and how much is free, on each node and in each domain.

Each shape is counted by itself, so a domain's count says nothing about pods of different shapes together; what is free
on many nodes together may not hold a single pod. The inventory's lists are authoritative; everything here follows them
on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import ANY_NODE, Amounts, NodeFilter
from spinney.core.inventory.change_log import Changes, Cursor, SlotMove
from spinney.core.inventory.masks import Masks
from spinney.core.inventory.pods import Ports
from spinney.core.inventory.trees import Tree

Row = Sequence[int]

LARGEST = 2**63 - 1
FEW = 1 << 14


class FreeArrays:
    """Arrays indexed by (resource, slot) for idle and releasing amounts."""

    __slots__ = ("_cursor", "_idle", "_idle_rows", "_releasing", "_releasing_rows", "_resources")

    def __init__(self, resources: int, idle: Sequence[Row], releasing: Sequence[Row], changes: Changes) -> None:
        self._resources = resources
        self._idle_rows = idle
        self._releasing_rows = releasing
        self._cursor = Cursor(changes)
        self._idle = self._releasing = np.zeros((resources, 0), np.int64)
        changes.before_trim(self.refresh)

    def free(self, resource: int, waiting: bool) -> Amounts64:
        """Free amounts by slot, limited to 63 bits; valid until the next change. Call `refresh` first."""
        slots = len(self._idle_rows)
        idle = self._idle[resource, :slots]
        return idle + np.minimum(self._releasing[resource, :slots], LARGEST - np.maximum(idle, 0)) if waiting else idle

    def refresh(self) -> None:
        batch = self._cursor.advance(FEW)
        if batch is None:
            return
        if batch.lost:
            self._idle = _transposed(self._idle_rows, self._resources)
            self._releasing = _transposed(self._releasing_rows, self._resources)
        else:
            self._follow(batch.slots)

    def _follow(self, slots: Iterable[int]) -> None:
        if len(self._idle_rows) > self._idle.shape[1]:
            self._idle = _widened(self._idle, len(self._idle_rows))
            self._releasing = _widened(self._releasing, len(self._idle_rows))
        at = list(slots)
        self._idle[:, at] = _transposed([self._idle_rows[slot] for slot in at], self._resources)
        self._releasing[:, at] = _transposed([self._releasing_rows[slot] for slot in at], self._resources)


def _transposed(rows: Sequence[Row], resources: int) -> Amounts64:
    try:
        table = np.array(rows, np.int64)
    except OverflowError:
        table = np.array([[max(-LARGEST, min(LARGEST, amount)) for amount in row] for row in rows], np.int64)
    return np.ascontiguousarray(table.reshape(len(rows), resources).T)


def _widened(table: Amounts64, slots: int) -> Amounts64:
    wider = np.zeros((table.shape[0], slots + slots // 16 + 8), np.int64)
    wider[:, : table.shape[1]] = table
    return wider


Amounts64 = npt.NDArray[np.int64]


class _Level:
    """The sums at one depth of one tree. The buffer exceeds the domains: index -1 collects slots in no domain."""

    __slots__ = ("buffer", "depth", "ids", "sums", "topology", "tree", "view")

    def __init__(self, tree: Tree, depth: int, sums: Amounts64) -> None:
        self.tree = tree
        self.topology = tree.topology.name
        self.depth = depth
        self.ids = tree.domain_of(depth)
        self.reserve(sums)

    def reserve(self, sums: Amounts64) -> None:
        self.sums = np.zeros(len(sums) + len(sums) // 16 + 8, np.int64)
        self.sums[: len(sums)] = sums
        self.buffer = memoryview(self.sums)  # type: ignore[arg-type]
        self.show()

    def show(self) -> None:
        """Extend the view to the number of domains in the tree."""
        domains = self.tree.domains(self.depth)
        if domains >= len(self.sums):
            self.reserve(np.concatenate((self.sums[:-1], np.zeros(domains - len(self.sums) + 1, np.int64))))
            return
        self.view = self.sums[:domains]
        self.view.flags.writeable = False


class DomainSums:
    """`amounts` by slot, their `total`, and sums by domain; a level is summed when first asked for, then maintained."""

    __slots__ = ("_buffer", "_hot", "_kind", "_levels", "_store", "amounts", "total")

    def __init__(self, kind: type[np.int32] | type[np.int64]) -> None:
        self._kind = kind
        self._levels: dict[tuple[str, int], _Level] = {}
        self._hot: list[tuple[list[int], Any]] = []
        self.load(np.zeros(0, kind))

    def load(self, amounts: npt.NDArray[Any]) -> None:
        """Replace all amounts and drop all levels."""
        self.forget_levels()
        self._store = np.zeros(len(amounts) + len(amounts) // 16 + 8, self._kind)
        self._store[: len(amounts)] = amounts
        self._buffer: Any = memoryview(self._store)  # type: ignore[arg-type]
        self.total = int(amounts.sum(dtype=np.int64))
        self._show(len(amounts))

    def forget_levels(self) -> None:
        """Drop all levels, because domain ids became invalid."""
        self._levels.clear()
        self._hot.clear()

    def at(self, topology: str, depth: int) -> Amounts64 | None:
        """Sums by domain id; None: the level has not been added. Depth 0 is the cluster."""
        if depth == 0:
            return np.array([self.total], np.int64)
        level = self._levels.get((topology, depth))
        return None if level is None else level.view

    def add_level(self, tree: Tree, depth: int) -> Amounts64:
        """Sum by domain; the amounts must match the tree as it is now."""
        level = _Level(tree, depth, _sum(self.amounts, tree, depth))
        self._levels[level.topology, depth] = level
        self._hot.append((level.ids, level.buffer))
        return level.view

    def vacate(self, moves: Iterable[SlotMove], slots: int) -> None:
        """Subtract the amounts of moved slots from the domains they left; slots and domains may have been added."""
        buffer = self._buffer
        for slot, left in moves:
            amount = buffer[slot] if slot < len(buffer) else 0
            if amount:
                buffer[slot] = 0
                self.total -= amount
                self._withdraw(amount, left)
        for level in self._levels.values():
            level.show()
        self._hot[:] = [(level.ids, level.buffer) for level in self._levels.values()]
        self._resize(slots)

    def update(self, slots: Collection[int], amount: Callable[[int], int]) -> None:
        """Recompute the amounts of these slots."""
        buffer, hot, gained = self._buffer, self._hot, 0
        for slot in slots:
            found = amount(slot)
            gain = found - buffer[slot]
            if gain:
                buffer[slot] = found
                gained += gain
                for ids, sums in hot:
                    sums[ids[slot]] += gain
        self.total += gained

    def _withdraw(self, amount: int, left: Mapping[str, tuple[int, ...]]) -> None:
        for level in self._levels.values():
            level.buffer[left[level.topology][level.depth - 1]] -= amount

    def _resize(self, slots: int) -> None:
        if slots > len(self._store):
            grown = np.zeros(slots + slots // 16 + 8, self._kind)
            grown[: len(self._store)] = self._store
            self._store = grown
            self._buffer = memoryview(grown)  # type: ignore[arg-type]
        self._show(slots)

    def _show(self, slots: int) -> None:
        self.amounts: npt.NDArray[Any] = self._store[:slots]
        self.amounts.flags.writeable = False


def _sum(amounts: npt.NDArray[Any], tree: Tree, depth: int) -> Amounts64:
    """Sum by domain in integers: floats would lose bytes."""
    sums = np.zeros(tree.domains(depth) + 1, np.int64)
    np.add.at(sums, tree.domain_array(depth), amounts.astype(np.int64, copy=False))
    return sums[:-1]


UNBOUNDED = 2**31 - 1


class Slots(Protocol):
    """What counting reads of an inventory, by slot."""

    idle: list[list[int]]
    releasing: list[list[int]]
    changes: Changes
    masks: Masks
    port_use: Ports
    free_arrays: FreeArrays
    trees: dict[str, Tree]

    def max_followed(self) -> int:
        """With more changed slots a recount of all nodes is faster than following them."""


class Shape(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods that fit alike. `single`: at most one per node, whatever is free; host ports imply it."""

    request: Amounts
    filter: NodeFilter = ANY_NODE
    ports: frozenset[int] = frozenset()
    single: bool = False


class Counts:
    """Counts as of the last `refresh`; the arrays change in place and must not be written."""

    __slots__ = ("_cursor", "_epoch", "_fit", "_inventory", "_mask", "_sums", "_waiting", "shape")

    def __init__(self, shape: Shape, waiting: bool, inventory: Slots) -> None:
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


LARGEST_ROOM = 2**46
"""Limit per node, so that the sum over 2**17 nodes never exceeds 63 bits."""


class FreeByDomain:
    """Sums as of the last `refresh`; the arrays change in place and must not be written."""

    __slots__ = ("_cursor", "_epoch", "_inventory", "_masks", "_readers", "_sums", "_waiting")

    def __init__(
        self, filters: frozenset[NodeFilter], resources: tuple[int, ...], waiting: bool, inventory: Slots
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
