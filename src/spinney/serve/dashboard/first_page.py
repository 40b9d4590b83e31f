"""The pages over a whole cluster as values: how full it is, who waits for what, and its topologies.

The first one has the largest gang each level can take; that of topologies what nodes say about levels, who uses them,
and what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import NodeFilter, Toleration
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import NOWHERE, Tree
from spinney.core.view.explanation import Levels
from spinney.core.view.gang_list import GangRow, urgency
from spinney.core.view.lint import Problem
from spinney.core.view.topology_usage import TopologyUse
from spinney.core.view.tree import CPU, is_accelerator
from spinney.core.view.tree import Tree as ViewTree
from spinney.serve.dashboard.boxes import RenderCache, Unit, unit_of
from spinney.serve.dashboard.model import Model


@dataclass(frozen=True, slots=True)
class LevelRow:
    name: str
    key: str
    domains: int


@dataclass(frozen=True, slots=True)
class TopologyRow:
    name: str
    kinds: tuple[str, ...]
    levels: tuple[LevelRow, ...]
    nodes: int
    outside: int
    unit: Unit
    total: int
    used: int


@dataclass(frozen=True, slots=True)
class TopologiesPage:
    topologies: tuple[TopologyRow, ...]
    uses: tuple[TopologyUse, ...]
    problems: tuple[Problem, ...]


def topologies_page(model: Model, kept: RenderCache, uses: Sequence[TopologyUse]) -> TopologiesPage:
    view = model.trees()
    rows = tuple(_row(tree, unit_of(view, tree)) for tree in view.trees)
    return TopologiesPage(rows, tuple(uses), kept.lint().problems)


def _row(tree: ViewTree, unit: Unit) -> TopologyRow:
    levels = [
        LevelRow(level.name, level.key, sum(1 for _ in tree.root.at(depth)))
        for depth, level in enumerate(tree.levels, start=1)
    ]
    room = tree.room(tree.root)
    shown = (unit.shown(room.capacity), unit.shown(room.used))
    return TopologyRow(tree.name, tree.kinds, tuple(levels), tree.root.nodes, len(tree.outside), unit, *shown)


Amounts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """By node. `leaving` is a part of `used`; `sound`: takes new pods."""

    unit: Unit
    total: Amounts
    used: Amounts
    leaving: Amounts
    ready: npt.NDArray[np.bool_]
    sound: npt.NDArray[np.bool_]

    @property
    def free(self) -> Amounts:
        """What new pods could have now."""
        found: Amounts = np.where(self.sound, np.maximum(self.total - self.used, 0), 0)
        return found


def occupancies(inventory: Inventory) -> list[Occupancy]:
    """One at least; of the accelerator that there is most of first."""
    slots = sorted(slot for slot in inventory.slots() if inventory.home(slot) == slot)
    nodes = [inventory.node(slot) for slot in slots]
    ready = np.array([node.ready for node in nodes], np.bool_)
    sound = np.array([node.ready and not node.unschedulable for node in nodes], np.bool_)
    found = []
    for at in accelerators(inventory.resources, [node.allocatable for node in nodes]):
        total = np.array([node.allocatable[at] for node in nodes], np.int64)
        idle = np.array([inventory.idle[slot][at] for slot in slots], np.int64)
        leaving = np.array([inventory.releasing[slot][at] for slot in slots], np.int64)
        found.append(Occupancy(Unit(inventory.resources[at]), total, total - idle, leaving, ready, sound))
    return found


def accelerators(resources: Sequence[str], offered: Sequence[Sequence[int]]) -> list[int]:
    """Those that nodes offer, most of all first, equals by name; processors where there are none."""
    sums = {at: sum([each[at] for each in offered]) for at, name in enumerate(resources) if is_accelerator(name)}
    kinds = sorted((at for at in sums if sums[at]), key=lambda at: (-sums[at], resources[at]))
    return kinds or [resources.index(CPU)]


MOST_PENDING = 25


@dataclass(frozen=True, slots=True)
class Capacity:
    """Of all nodes. `scattered`: the share of what is free, in percent, that is on nodes of which only a part is."""

    unit: Unit
    nodes: int
    ready: int
    sound: int
    total: int
    used: int
    leaving: int
    free: int
    scattered: int


@dataclass(frozen=True, slots=True)
class Reach:
    """One level: its domains, what is free in the best of them, and how many pods of each size the best one takes."""

    level: str
    key: str
    domains: int
    free: int
    gangs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reaches:
    """One topology. `sizes`: how many units the pods of `gangs` ask for."""

    topology: str
    unit: Unit
    sizes: tuple[int, ...]
    levels: tuple[Reach, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """`others`: of the accelerators that there are less of."""

    capacity: Capacity
    others: tuple[Capacity, ...]
    reaches: tuple[Reaches, ...]
    gangs: int
    waiting: int
    pending: tuple[GangRow, ...]


def overview(model: Model) -> Overview:
    inventory = model.cluster.inventory
    seen, *others = occupancies(inventory)
    rows = model.rows()
    waiting = sorted((row for row in rows if row.waits), key=urgency)
    return Overview(
        capacity(seen),
        tuple(map(capacity, others)),
        reaches(inventory, model.levels()),
        len(rows),
        len(waiting),
        tuple(waiting[:MOST_PENDING]),
    )


def capacity(seen: Occupancy) -> Capacity:
    free, parts = seen.free, seen.unit.parts
    room = int(free.sum())
    scattered = int(free[free < seen.total].sum())
    return Capacity(
        seen.unit,
        len(seen.total),
        int(seen.ready.sum()),
        int(seen.sound.sum()),
        int(seen.total.sum()) // parts,
        int(seen.used.sum()) // parts,
        int(seen.leaving.sum()) // parts,
        room // parts,
        round(100 * scattered / room) if room else 0,
    )


def reaches(inventory: Inventory, levels: Mapping[str, Levels]) -> tuple[Reaches, ...]:
    """Pods of one unit, and pods that take the largest node whole, as far as they ask for nothing else."""
    found = []
    for name, tree in sorted(inventory.trees.items()):
        offered = _offered(inventory, tree)
        at = accelerators(inventory.resources, offered)[0]
        unit = Unit(inventory.resources[at])
        takes = NodeFilter(tolerations=(Toleration(unit.resource, "Exists"),))
        room = inventory.room(frozenset({takes}), (at,))
        sizes = _sizes(max((each[at] for each in offered), default=0), unit.parts)
        shapes = [Shape(_request(inventory, unit.resource, size), takes) for size in sizes]
        short = levels.get(name, Levels()).short
        rows = []
        for depth, key in enumerate(tree.levels, start=1):
            live = sum(1 for domain in range(tree.domains(depth)) if tree.size(depth, domain))
            best = int(room.at(name, depth, at).max(initial=0))
            counts = [int(inventory.counts(shape).at(name, depth).max(initial=0)) for shape in shapes]
            rows.append(Reach(short.get(key) or key.rpartition("/")[2], key, live, unit.shown(best), tuple(counts)))
        found.append(Reaches(name, unit, tuple(map(unit.shown, sizes)), tuple(rows)))
    return tuple(found)


def _offered(inventory: Inventory, tree: Tree) -> list[Sequence[int]]:
    """What the nodes of a topology have."""
    seated = tree.domain_of(1)
    nodes = [slot for slot in inventory.slots() if inventory.home(slot) == slot and seated[slot] != NOWHERE]
    return [inventory.node(slot).allocatable for slot in nodes]


def _sizes(largest: int, least: int) -> list[int]:
    """One unit, and what the largest node has."""
    return sorted({least, largest}) if largest >= least else []


def _request(inventory: Inventory, resource: str, amount: int) -> tuple[int, ...]:
    """A pod that asks for so much of it and for nothing else but its slot."""
    wanted = {resource: amount, "pods": 1}
    return tuple(wanted.get(name, 0) for name in inventory.resources)
