"""The context of a refusal: what the gang still needs, where it may be placed, and how much capacity is there.

Also makes the variants of the gang that are tried: one part alone, another level, another number of pods. Always counts
releasing capacity as free, because the refusal already did. Never changes the inventory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from spinney.api.placement.problem import Gang, Group, PodSet, Running
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.attempt import PlacementState
from spinney.core.placement.fit.counting import Profile, profile
from spinney.core.placement.gang.gang_tree import ChosenChildren, GangTree, Level, Part, choices, read_gang_tree
from spinney.core.placement.gang.pod_affinity import without_terms


class GangVariants:
    """The groups and pod sets of a gang in the order of its parts, each with its own or inherited topology."""

    def __init__(self, parts: GangTree) -> None:
        self.parts = parts
        self._found: list[Group | PodSet] = []
        self._list(parts.gang.root, None)

    def alone(self, part: Part, within: Level | None = None) -> Gang:
        """A gang of one part with its running members; `within`: a level that all of it must share in addition to its
        own. Terms about other pod sets are left out: what does not fit without them does not fit with them.
        """
        if part.parent < 0 and within is None:
            return self.parts.gang if self.parts.gang.tied_to is None else replace(self.parts.gang, tied_to=None)
        found = _without_terms(self._found[part.index])
        if isinstance(found, Group) and within is None:
            root, cut = replace(found, name=""), len(part.path) + 1 if part.path else 0
        else:
            root = Group("", groups=(found,)) if isinstance(found, Group) else Group("", pods=(found,))
            cut = len(part.path) - len(found.name)
        if within is not None:
            root = replace(root, topology=within.topology, required=within.key)
        return replace(self.parts.gang, root=root, running=self._running(part, cut), tied_to=None)

    def with_level(self, part: Part, level: str | None) -> Gang:
        """The gang with another required level for a part (None: no required level)."""
        return self._with(part, replace(self._found[part.index], required=level))

    def with_count(self, leaf: Part, count: int) -> Gang:
        """The gang with another number of pods in a pod set, all of them part of the minimum."""
        assert leaf.pods is not None
        return self._with(leaf, replace(leaf.pods, count=count, min=count))

    def _list(self, group: Group, inherited: str | None) -> None:
        topology = group.topology if group.topology is not None else inherited
        self._found.append(replace(group, topology=topology))
        for child in group.groups:
            self._list(child, topology)
        for pods in group.pods:
            self._found.append(pods if pods.topology is not None else replace(pods, topology=topology))

    def _running(self, part: Part, cut: int) -> tuple[Running, ...]:
        """The running members of a part, with the first `cut` characters of their paths removed."""
        if not self.parts.gang.running:
            return ()
        names = {leaf.path: leaf.path[cut:] for leaf in self.parts.below(part)}
        return tuple([Running(names[one.pods], one.node) for one in self.parts.gang.running if one.pods in names])

    def _with(self, part: Part, changed: Group | PodSet) -> Gang:
        """Rebuild the tree from a changed part up to the root."""
        while part.parent >= 0:
            above = self.parts.all[part.parent]
            group = self._found[above.index]
            assert isinstance(group, Group)
            at = above.children.index(part.index)
            if isinstance(changed, Group):
                group = replace(group, groups=(*group.groups[:at], changed, *group.groups[at + 1 :]))
            else:
                at -= len(group.groups)
                group = replace(group, pods=(*group.pods[:at], changed, *group.pods[at + 1 :]))
            part, changed = above, group
        assert isinstance(changed, Group)
        return replace(self.parts.gang, root=changed)


def _without_terms(part: Group | PodSet) -> Group | PodSet:
    if isinstance(part, PodSet):
        return without_terms(part)
    groups = [_without_terms(child) for child in part.groups]
    return replace(
        part,
        groups=tuple([group for group in groups if isinstance(group, Group)]),
        pods=tuple([without_terms(pods) for pods in part.pods]),
    )


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

    engine: PlacementState
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
            found.setdefault(leaves[member.pods], []).append(self.inventory.slot_for(member.node, member.zone))
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
            and not self.parts.affinity
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
