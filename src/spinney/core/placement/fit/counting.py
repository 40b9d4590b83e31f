"""What counting alone says: whether a gang is hopeless, and which domains or regions of nodes could hold it.

A region is a part of the nodes that can be searched by itself: a gang whose root has a required level lies in one
domain, so every such domain that could hold it by count is a region, tightest first. Counts are necessary, not
sufficient: no node or domain that a placement could use is ever left out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import NodeFilter
from spinney.core.inventory.counts import Counts, Shape
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import NOWHERE, Tree
from spinney.core.placement.gang.gang_tree import GangTree, Level, Part, asked_resources

NEVER = np.int64(2**31)
_MOST_ENTRIES = 16

DomainIds = npt.NDArray[np.int64]


class _NeededEntry:
    __slots__ = ("fewest", "order", "parents", "seen")

    def __init__(self, order: object, parents: DomainIds, domains: int) -> None:
        self.order = order
        self.parents = parents
        self.seen: DomainIds = np.full(len(parents), -1, np.int64)
        self.fewest: DomainIds = np.full(domains, NEVER, np.int64)


class DomainsNeeded:
    """A small cache of how many domains equal pods need, keyed by shape, topology, level and number of pods."""

    def __init__(self) -> None:
        self._entries: OrderedDict[object, _NeededEntry] = OrderedDict()
        self._ancestors: dict[tuple[str, int, int], tuple[object, npt.NDArray[np.intp]]] = {}

    def fewest(self, counts: Counts, tree: Tree, depth: int, need: int) -> DomainIds:
        """By domain id at the level above: the fewest domains at `depth` that hold `need` pods, or NEVER."""
        entry = self._entry(counts, tree, depth, need)
        held = counts.at(tree.topology.name, depth)
        for parent in np.unique(entry.parents[np.flatnonzero(held != entry.seen)]).tolist():
            entry.fewest[parent] = _fewest(sorted(held[tree.children(depth - 1, parent)].tolist(), reverse=True), need)
        entry.seen = held.copy()
        return entry.fewest

    def _entry(self, counts: Counts, tree: Tree, depth: int, need: int) -> _NeededEntry:
        key = (counts.shape, tree.topology.name, depth, need)
        entry = self._entries.get(key)
        order = tree.rank(depth)  # made anew whenever domains come, go or are renamed
        if entry is None or entry.order is not order:
            entry = _NeededEntry(order, np.array(tree.parents(depth), np.int64), tree.domains(depth - 1))
            self._entries[key] = entry
            if len(self._entries) > _MOST_ENTRIES:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return entry

    def ancestors(self, tree: Tree, depth: int, above: int) -> npt.NDArray[np.intp]:
        """By domain id at `depth`: the domain at depth `above` that contains it."""
        key = (tree.topology.name, depth, above)
        order, known = self._ancestors.get(key, (None, None))
        if known is None or order is not tree.rank(depth):
            known = np.arange(tree.domains(depth))
            for level in range(depth, above, -1):
                known = np.array(tree.parents(level), np.intp)[known]
            self._ancestors[key] = (tree.rank(depth), known)
        return known


def _fewest(held: list[int], need: int) -> int:
    total = 0
    for count, amount in enumerate(held, start=1):
        total += amount
        if total >= need:
            return count
    return int(NEVER)


Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Profile:
    """The properties of a gang that counting uses. `simple`: counting may even decide the gang without a search."""

    simple: bool
    topology: str = ""
    preference: Level | None = None
    elastic: bool = False
    wanted: tuple[int, ...] = ()
    filters: frozenset[NodeFilter] = frozenset()
    shapes: list[tuple[tuple[Shape, int], ...]] = field(default_factory=list)  # per part: pods needed of each shape
    order: list[tuple[int, ...]] = field(default_factory=list)  # per part: its children, hardest first
    all_shapes: frozenset[Shape] = frozenset()
    extras: dict[Shape, int] = field(default_factory=dict)


def profile(parts: GangTree, resources: Sequence[str]) -> Profile:
    pods = [leaf.pods for leaf in parts.leaves if leaf.pods is not None]
    levels = {level for part in parts.all for level in (part.required, part.preferred) if level is not None}
    topologies = {level.topology for level in levels}
    preferences = {part.preferred for part in parts.preferences}
    plain = not any(one.host_ports or one.anti_affinity or one.filter.preferred or not one.min for one in pods)
    plain = plain and not parts.affinity
    found = Profile(
        simple=plain
        and bool(pods)
        and not parts.gang.running
        and not parts.gang.tied_to
        and len(topologies) <= 1
        and (not preferences or (len(preferences) == 1 and len(pods) == 1))
        and all(part.need == len(part.children) for part in parts.all),
        topology=min(topologies, default=""),
        preference=next(iter(preferences), None),
        elastic=any(one.count > one.min for one in pods),
        wanted=tuple(asked_resources(parts, resources)),
        filters=frozenset(one.filter for one in pods),
    )
    _add_up(parts, found)
    return found


def _add_up(parts: GangTree, found: Profile) -> None:
    """Sum up the pods that are certainly needed: children that `minGroups` may leave out are not counted."""
    runs: dict[str, int] = {}
    for member in parts.gang.running:
        runs[member.pods] = runs.get(member.pods, 0) + 1
    totals: list[dict[Shape, int]] = [{} for _ in parts.all]
    shapes: list[Shape] = []
    for part in reversed(parts.all):
        mine = totals[part.index]
        if part.pods is not None:
            shape = Shape(part.pods.request, part.pods.filter, part.pods.host_ports)
            shapes.append(shape)
            need = part.pods.min - runs.get(part.path, 0)
            if need > 0:
                mine[shape] = need
            if part.pods.count > part.pods.min:
                found.extras[shape] = found.extras.get(shape, 0) + part.pods.count - part.pods.min
        if part.need < len(part.children):
            continue
        for child in part.children:
            for shape, need in totals[child].items():
                mine[shape] = mine.get(shape, 0) + need
    found.shapes = [tuple(mine.items()) for mine in totals]
    found.all_shapes = frozenset(shapes)
    if len(parts.all) > 2:
        sizes = [[-sum(need * shape.request[r] for shape, need in mine) for r in found.wanted] for mine in found.shapes]
        found.order = [tuple(sorted(part.children, key=sizes.__getitem__)) for part in parts.all]


class Counting:
    """Counts over an inventory; `domains_needed` caches repeated computations."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.domains_needed = DomainsNeeded()

    def could_hold(self, parts: GangTree, asked: Profile, part: Part, depth: int, waiting: bool) -> Flags:
        """By domain id of the part's topology at a depth: whether everything below the part could be there."""
        assert part.required is not None
        topology = part.required.topology
        tree = self.inventory.trees[topology]
        fits = np.ones(tree.domains(depth), np.bool_)
        for shape, need in asked.shapes[part.index]:
            fits &= self.inventory.counts(shape, waiting).at(topology, depth) >= need
        if part.need < len(part.children):
            return fits
        for child in {parts.all[child].kind: parts.all[child] for child in part.children}.values():
            level = child.required
            if level is None or level.topology != topology or level.depth <= depth or _is_one_pod(asked, child):
                continue
            inside = np.flatnonzero(self.could_hold(parts, asked, child, level.depth, waiting))
            reachable = np.zeros(len(fits), np.bool_)
            reachable[self.domains_needed.ancestors(tree, level.depth, depth)[inside]] = True
            fits &= reachable
        return fits

    def is_hopeless(self, parts: GangTree, asked: Profile, waiting: bool) -> bool:
        """Whether counting proves that the minimum cannot be placed."""
        root = asked.shapes[0]
        if any(self.inventory.counts(shape, waiting).total < need for shape, need in root):
            return True
        certain = [True] * len(parts.all)
        for part in parts.all:
            if part.parent >= 0:
                above = parts.all[part.parent]
                certain[part.index] = certain[above.index] and above.need == len(above.children)
            if part.required is None or not certain[part.index] or not asked.shapes[part.index]:
                continue
            if not self.could_hold(parts, asked, part, part.required.depth, waiting).any():
                return True
        return False


def _is_one_pod(asked: Profile, part: Part) -> bool:
    """Whether a part needs a single pod, so that its own level adds nothing to the node's capacity."""
    shapes = asked.shapes[part.index]
    return part.pods is not None and len(shapes) == 1 and shapes[0][1] == 1


SMALL = 256  # up to this many nodes, splitting costs more than it saves


class Region(NamedTuple):
    """Slots of a search space, and those of them that new pods may use (None: all)."""

    slots: list[int]
    usable: frozenset[int] | None = None


def find_regions(
    counting: Counting, parts: GangTree, asked: Profile, scope: list[int] | None, waiting: bool, spread: bool
) -> Iterator[Region]:
    """Regions in best-fit order; together they contain every possible placement."""
    inventory = counting.inventory
    pinned = sorted({inventory.slot_for(member.node, member.zone) for member in parts.gang.running})
    if scope is not None:
        yield Region(sorted({*scope, *pinned}), frozenset(scope))
        return
    root = parts.all[0].required
    if len(inventory.slots()) <= SMALL:
        yield Region(sorted(inventory.slots()))
    elif root is None:
        yield Region(sorted({*_promising(counting, asked, waiting), *pinned}))
    else:
        yield from _domains(counting, parts, asked, root, pinned, waiting, spread)


def _promising(counting: Counting, asked: Profile, waiting: bool) -> list[int]:
    """Nodes on which at least one pod of the gang fits."""
    inventory = counting.inventory
    fits = np.zeros(len(inventory.idle), np.bool_)
    for shape in asked.all_shapes:
        fits |= inventory.counts(shape, waiting).per_node > 0
    return [int(slot) for slot in np.flatnonzero(fits)]


def _domains(
    counting: Counting, parts: GangTree, asked: Profile, root: Level, pinned: list[int], waiting: bool, spread: bool
) -> Iterator[Region]:
    tree = counting.inventory.trees[root.topology]
    ids = np.flatnonzero(counting.could_hold(parts, asked, parts.all[0], root.depth, waiting))
    if pinned:
        homes = {tree.domain_of(root.depth)[slot] for slot in pinned}
        if len(homes) > 1 or NOWHERE in homes:
            return
        ids = ids[ids == homes.pop()]
    room = counting.inventory.room(asked.filters, asked.wanted)
    keys: list[npt.NDArray[np.signedinteger]] = [tree.rank(root.depth)[ids]]
    for depth in range(1, root.depth + 1):  # of equal domains the one in the fuller parent comes first
        domains = counting.domains_needed.ancestors(tree, root.depth, depth)[ids]
        for resource in reversed(asked.wanted):
            amounts = room.at(root.topology, depth, resource)[domains]
            keys.append(-amounts if spread else amounts)
    if asked.elastic:
        keys.append(-_extras(counting, asked, root, waiting)[ids])
    slots = (list(tree.members(root.depth, int(ids[at]))) for at in np.lexsort(keys))
    yield from map(Region, _distinct(slots, counting, parts, asked, root, waiting))


def _distinct(
    found: Iterator[list[int]], counting: Counting, parts: GangTree, asked: Profile, root: Level, waiting: bool
) -> Iterator[list[int]]:
    """Only the first of several domains that differ only in their names: a placement in another one is as good.

    Compares the nodes in the order of their names: free amounts, the pods each could hold, and the domains below the
    root that they share. Where more matters (host ports, anti-affinity, NUMA zones, another tree) all domains count as
    different.
    """
    levels = {level.topology for part in parts.all for level in (part.required, part.preferred) if level is not None}
    choosy = any(leaf.pods is not None and (leaf.pods.anti_affinity or leaf.pods.host_ports) for leaf in parts.leaves)
    if choosy or parts.affinity or len(levels) > 1 or counting.inventory.divided:
        yield from found
        return
    inventory, tree = counting.inventory, counting.inventory.trees[root.topology]
    fits = [inventory.counts(shape, waiting).per_node for shape in asked.all_shapes]
    below = [tree.domain_of(depth) for depth in range(root.depth + 1, len(tree.levels) + 1)]
    seen: set[object] = set()
    for slots in found:
        amounts = tuple([tuple(inventory.free(slot, waiting)) for slot in slots])
        symmetry_class = (
            amounts,
            *(each[slots].tobytes() for each in fits),
            *(_shared([ids[slot] for slot in slots]) for ids in below),
        )
        if symmetry_class not in seen:
            seen.add(symmetry_class)
            yield slots


def _shared(ids: list[int]) -> tuple[int, ...]:
    """Which nodes share a domain: each domain is numbered by its first node; a node in no domain gets NOWHERE."""
    first: dict[int, int] = {}
    return tuple([NOWHERE if each == NOWHERE else first.setdefault(each, at) for at, each in enumerate(ids)])


def _extras(counting: Counting, asked: Profile, root: Level, waiting: bool) -> npt.NDArray[np.int64]:
    """By domain id: how many elastic pods beyond the minimum it could take, by count."""
    needs = dict(asked.shapes[0])
    total = np.zeros(counting.inventory.trees[root.topology].domains(root.depth), np.int64)
    for shape, extra in asked.extras.items():
        left = counting.inventory.counts(shape, waiting).at(root.topology, root.depth) - needs.get(shape, 0)
        total += np.clip(left, 0, extra)
    return total
