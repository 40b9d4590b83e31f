"""The context of a refusal: what the gang still needs, where it may be placed, and how much capacity is there.

Always counts releasing capacity as free, because the refusal already did. Never changes the inventory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import Gang
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.fit.counting import Profile, profile
from spinney.core.placement.gang.child_selection import ChosenChildren, choices
from spinney.core.placement.gang.gang_tree import GangTree, Level, Part, read_gang_tree
from spinney.core.placement.gang.gang_variants import GangVariants

if TYPE_CHECKING:
    from spinney.core.placement.engine import Engine

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

MOST_CHOICES = 16


class TiedDomain(NamedTuple):
    """The domain of another gang that a gang has to share."""

    gang: str
    level: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class RefusalContext:
    """One gang over an engine's inventory. `tied`: the domain it must share; None: it may use all nodes."""

    engine: Engine
    parts: GangTree
    asked: Profile
    tied: TiedDomain | None
    nodes: Flags  # slots with a node that the gang may use

    @property
    def inventory(self) -> Inventory:
        return self.engine.inventory

    def of(self, gang: Gang) -> RefusalContext:
        """The same context for another gang."""
        parts = read_gang_tree(gang, self.engine.topologies)
        return RefusalContext(self.engine, parts, profile(parts, self.inventory.resources), self.tied, self.nodes)

    @cached_property
    def variants(self) -> GangVariants:
        return GangVariants(self.parts)

    @cached_property
    def running(self) -> dict[int, list[int]]:
        """Slots of the running members per pod set."""
        leaves = {leaf.path: leaf.index for leaf in self.parts.leaves}
        found: dict[int, list[int]] = {}
        for member in self.parts.gang.running:
            found.setdefault(leaves[member.pods], []).append(self.inventory.seat(member.node, member.zone))
        return found

    @cached_property
    def needs(self) -> dict[int, int]:
        """Pods that every pod set still needs."""
        return {
            leaf.index: max(0, leaf.pods.min - len(self.running.get(leaf.index, ())))
            for leaf in self.parts.leaves
            if leaf.pods is not None
        }

    @cached_property
    def children(self) -> ChosenChildren:
        """The children that count; where there is a choice, the first one that by count misses least."""
        return min(islice(choices(self.parts, self.needs), MOST_CHOICES), key=self._missing)

    @cached_property
    def active(self) -> list[Part]:
        """The pod sets that still need pods."""
        return self._active(self.children)

    @cached_property
    def shapes(self) -> dict[Shape, int]:
        """Pods needed of each shape."""
        return self._shapes(self.active)

    @cached_property
    def admitted(self) -> Flags:
        """Slots whose node some pod of the gang may use, whatever is free."""
        found = np.zeros(len(self.inventory.idle), np.bool_)
        for wanted in {shape.filter for shape in self.shapes}:
            found |= self.inventory.masks.of(wanted).array()
        return found & self.nodes

    @cached_property
    def countable(self) -> bool:
        """Whether counting is exact: one pod shape, no anti-affinity, NUMA zones, running members or choices."""
        levels = {part.required.topology for part in self.parts.all if part.required is not None}
        return (
            len(self.shapes) == 1
            and not self.inventory.divided
            and len(self.active) == 1
            and len(levels) <= 1
            and not self.running
            and all(part.need == len(part.children) for part in self.parts.all)
            and not any(leaf.pods.anti_affinity for leaf in self.active if leaf.pods is not None)
        )

    def pinned(self, part: Part) -> list[int]:
        """Slots of the running members at or below a part."""
        return [slot for leaf in self.parts.below(part) for slot in self.running.get(leaf.index, ())]

    def per_node(self, shape: Shape) -> npt.NDArray[np.int32]:
        """By slot: how many pods of a shape fit."""
        counts = self.inventory.counts(shape, True).per_node
        return counts if self.tied is None else counts * self.nodes

    def per_domain(self, shape: Shape, level: Level) -> Numbers:
        """By domain id: how many pods of a shape fit."""
        if self.tied is None:
            return self.inventory.counts(shape, True).at(level.topology, level.depth)
        return self.add_up(self.per_node(shape), level)

    def total(self, shape: Shape) -> int:
        if self.tied is None:
            return self.inventory.counts(shape, True).total
        return int(self.per_node(shape).sum(dtype=np.int64))

    def add_up(self, amounts: npt.NDArray[np.int32] | Numbers, level: Level) -> Numbers:
        """By domain id, the sum of amounts by slot; exact up to 53 bits, which is more than any number of pods."""
        tree = self.inventory.trees[level.topology]
        sums = np.bincount(tree.domain_array(level.depth) + 1, amounts, tree.domains(level.depth) + 1)
        return sums[1:].astype(np.int64)

    def domains(self, level: Level) -> Numbers:
        """Ids of the domains of a level that have nodes the gang may use, in the order of their paths."""
        tree = self.inventory.trees[level.topology]
        here = tree.domain_array(level.depth)
        sizes = np.bincount(here[(here >= 0) & self.nodes], minlength=tree.domains(level.depth))
        order = np.array(tree.order(level.depth), np.int64)
        return order[sizes[order] > 0]

    def useful(self) -> Flags:
        """Slots that hold at least one pod of any pod set, including pod sets of children that were not chosen."""
        found = np.zeros(len(self.inventory.idle), np.bool_)
        for shape in self._shapes([leaf for leaf in self.parts.leaves if self.needs[leaf.index]]):
            found |= self.per_node(shape) > 0
        return found

    def requirements(self) -> Iterator[Level]:
        """The required levels of all parts, the broadest first."""
        levels = {part.required for part in self.parts.all if part.required is not None}
        yield from sorted(levels, key=lambda level: (level.depth, level.topology))

    def _active(self, children: ChosenChildren) -> list[Part]:
        found, stack = [], [0]
        while stack:
            part = self.parts.all[stack.pop()]
            if part.pods is not None and self.needs[part.index]:
                found.append(part)
            stack.extend(reversed(children.get(part.index, ())))
        return found

    def _shapes(self, leaves: list[Part]) -> dict[Shape, int]:
        found: dict[Shape, int] = {}
        for leaf in leaves:
            shape = shape_of(leaf)
            found[shape] = found.get(shape, 0) + self.needs[leaf.index]
        return found

    def _missing(self, children: ChosenChildren) -> tuple[int, int]:
        """Shapes of which not a single pod fits, then the number of pods that do not fit."""
        found = [(self.total(shape), need) for shape, need in self._shapes(self._active(children)).items()]
        return sum(not there for there, _ in found), sum(max(0, need - there) for there, need in found)


def shape_of(leaf: Part) -> Shape:
    assert leaf.pods is not None
    return Shape(leaf.pods.request, leaf.pods.filter, leaf.pods.host_ports)
