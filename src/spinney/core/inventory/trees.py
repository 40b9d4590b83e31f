"""The domains of one topology: their names, their nodes, and their hierarchy.

A domain is identified by the tuple of its label values from the broadest level down, never by a joined text or its own
value alone. Each level stores only itself: parents and children are ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import Topology

Ids = npt.NDArray[np.int32]
NOWHERE = -1
FEW = 1024


class TreeLevel:
    """One level with dense domain ids. `ids` (domain by slot) is authoritative; member lists are updated on demand."""

    __slots__ = (
        "_array",
        "_members",
        "_names",
        "_narrowest",
        "_reusable",
        "_stale",
        "_untidy",
        "below",
        "ids",
        "node_count",
        "parents",
        "sizes",
        "values",
    )

    def __init__(self, names: Sequence[str], narrowest: bool) -> None:
        self._names = names
        self.values: list[str] = []
        self.parents: list[int] = []
        self.below: list[dict[str, int]] = []
        self._narrowest = narrowest
        self.sizes: list[int] = []
        self.node_count = 0
        self.ids: list[int] = []
        self._members: list[list[int]] = []
        self._untidy: list[bool] = []
        self._reusable: list[int] = []
        self._stale: list[int] = []
        self._array: Ids = np.zeros(0, np.int32)

    def reserve(self, slots: int) -> None:
        self.ids.extend([NOWHERE] * (slots - len(self.ids)))

    def open(self, parent: int, value: str) -> int:
        """Add a domain and return its new id."""
        self.values.append(value)
        self.parents.append(parent)
        if not self._narrowest:
            self.below.append({})
        self.sizes.append(0)
        self._members.append([])
        self._untidy.append(False)
        return len(self.values) - 1

    def spare(self) -> int | None:
        """The id of an empty domain that may be reused; None if there is none."""
        while self._reusable:
            domain = self._reusable.pop()
            if not self.sizes[domain]:
                return domain
        return None

    def rename(self, domain: int, parent: int, value: str) -> None:
        self.values[domain] = value
        self.parents[domain] = parent

    def enter(self, slot: int, domain: int) -> None:
        self.ids[slot] = domain
        if len(self._stale) <= FEW:
            self._stale.append(slot)
        if domain == NOWHERE:
            return
        self.node_count += 1
        self.sizes[domain] += 1
        if self.sizes[domain] == 1:
            self._members[domain] = [slot]
            return
        members = self._unsorted_members(domain)
        members.append(slot)
        if len(members) > 2 * self.sizes[domain] + 16:
            self._tidy(domain)

    def leave(self, slot: int) -> None:
        domain = self.ids[slot]
        self.ids[slot] = NOWHERE
        if len(self._stale) <= FEW:
            self._stale.append(slot)
        if domain == NOWHERE:
            return
        self.node_count -= 1
        self.sizes[domain] -= 1
        if self.sizes[domain]:
            self._unsorted_members(domain)
        else:
            self._members[domain] = []
            self._untidy[domain] = False
            self._reusable.append(domain)

    def members(self, domain: int) -> list[int]:
        """Slots sorted by node name. A list that was returned is never changed."""
        if self._untidy[domain]:
            self._tidy(domain)
        return self._members[domain]

    def array(self) -> Ids:
        """`ids` as an up-to-date array; not valid after the next move."""
        missing = len(self.ids) - len(self._array)
        if len(self._stale) > FEW:
            self._array = np.array(self.ids, np.int32)
        else:
            if missing:
                self._array = np.concatenate((self._array, np.full(missing, NOWHERE, np.int32)))
            for slot in self._stale:
                self._array[slot] = self.ids[slot]
        self._stale.clear()
        return self._array

    def _unsorted_members(self, domain: int) -> list[int]:
        """A member list that may become unsorted: a copy, because the sorted one may have been returned."""
        if not self._untidy[domain]:
            self._members[domain] = self._members[domain][:]
            self._untidy[domain] = True
        return self._members[domain]

    def _tidy(self, domain: int) -> None:
        """Between calls member lists only grow: remove slots that left or were added twice, and sort."""
        ids, names = self.ids, self._names
        present = {slot for slot in self._members[domain] if ids[slot] == domain}
        self._members[domain] = sorted(present, key=names.__getitem__)
        self._untidy[domain] = False


def distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Number of tree edges between two domains, given by their paths."""
    common = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        common += 1
    return len(one) + len(other) - 2 * common


class Tree:
    """The tree of a topology. Depth 0 is the cluster (one domain, id 0, every node), depth 1 the broadest level.

    An id is stable while its domain has nodes. An empty domain keeps its id until a new domain needs one; ids are never
    reused while a checkpoint is open.
    """

    __slots__ = ("_orders", "_ranks", "_tiers", "levels", "topology")

    def __init__(self, topology: Topology, names: Sequence[str]) -> None:
        self.topology = topology
        self.levels = topology.levels
        self._tiers = [TreeLevel(names, depth == len(self.levels)) for depth in range(len(self.levels) + 1)]
        self._tiers[0].open(0, "")
        self._orders: list[list[int] | None] = [None] * len(self._tiers)
        self._ranks: list[Ids | None] = [None] * len(self._tiers)

    def depth(self, level: str) -> int | None:
        """1 for the broadest level; None: not a level of this topology."""
        return self.levels.index(level) + 1 if level in self.levels else None

    def domains(self, depth: int) -> int:
        """The number of ids, including empty domains."""
        return len(self._tiers[depth].values)

    def domain_of(self, depth: int) -> list[int]:
        """Domain id by slot; NOWHERE for a slot without a node or a node without the labels. Always the same list."""
        return self._tiers[depth].ids

    def domain_array(self, depth: int) -> Ids:
        """`domain_of` as an array; a snapshot that is valid until the next move."""
        return self._tiers[depth].array()

    def size(self, depth: int, domain: int) -> int:
        """How many nodes the domain has."""
        return self._tiers[depth].sizes[domain]

    def node_count(self, depth: int) -> int:
        """How many nodes are in a domain of this level."""
        return self._tiers[depth].node_count

    def path(self, depth: int, domain: int) -> tuple[str, ...]:
        path: list[str] = []
        for tree_level in self._tiers[depth:0:-1]:
            path.append(tree_level.values[domain])
            domain = tree_level.parents[domain]
        return tuple(reversed(path))

    def find(self, path: Sequence[str]) -> int | None:
        """The id of the domain with this path, at depth len(path)."""
        domain = 0
        for tree_level, value in zip(self._tiers, path, strict=False):
            below = tree_level.below[domain].get(value)
            if below is None:
                return None
            domain = below
        return domain

    def parent(self, depth: int, domain: int) -> int:
        return self._tiers[depth].parents[domain]

    def parents(self, depth: int) -> list[int]:
        """Parent id (at depth - 1) by domain id."""
        return self._tiers[depth].parents

    def children(self, depth: int, domain: int) -> list[int]:
        """Ids at depth + 1, sorted by value; empty domains included."""
        if depth == len(self.levels):
            return []
        below = self._tiers[depth].below[domain]
        return [below[value] for value in sorted(below)]

    def members(self, depth: int, domain: int) -> list[int]:
        """The domain's slots, sorted by node name. Must not be changed."""
        return self._tiers[depth].members(domain)

    def rank(self, depth: int) -> Ids:
        """By domain id: its position in the order of all paths at this depth."""
        rank = self._ranks[depth]
        if rank is None:
            order = self.order(depth)
            rank = np.empty(len(order), np.int32)
            rank[order] = np.arange(len(order), dtype=np.int32)
            self._ranks[depth] = rank
        return rank

    def order(self, depth: int) -> list[int]:
        """All domain ids at this depth, sorted by path. Must not be changed."""
        order = self._orders[depth]
        if order is None:
            if depth == 0:
                order = [0]
            else:
                below = self._tiers[depth - 1].below
                order = [below[parent][value] for parent in self.order(depth - 1) for value in sorted(below[parent])]
            self._orders[depth] = order
        return order

    def domain_ids(self, slot: int) -> tuple[int, ...]:
        """The slot's domains at depth 1, 2, ..."""
        return tuple([tree_level.ids[slot] for tree_level in self._tiers[1:]])

    def locate(self, labels: Mapping[str, str]) -> list[str]:
        """The path of a node with these labels, down to the last level without a gap."""
        path: list[str] = []
        for level in self.levels:
            value = labels.get(level)
            if value is None:
                break
            path.append(value)
        return path

    def belongs_at(self, slot: int, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels belongs to the domains that the slot is in."""
        path = self.locate(labels)
        if len(path) < len(self.levels) and self._tiers[len(path) + 1].ids[slot] != NOWHERE:
            return False
        return not path or self.find(path) == self._tiers[len(path)].ids[slot]

    def reserve(self, slots: int) -> None:
        """Extend all levels to this number of slots."""
        for tree_level in self._tiers:
            tree_level.reserve(slots)

    def enter(self, slot: int, labels: Mapping[str, str], reuse: bool) -> None:
        """Add a node to its domains. `reuse`: a new domain may take the id of an empty one."""
        if slot >= len(self._tiers[0].ids):
            self.reserve(slot + 1)
        self._tiers[0].enter(slot, 0)
        domain = 0
        path = self.locate(labels)
        for depth, value in enumerate(path, start=1):
            below = self._tiers[depth - 1].below[domain].get(value)
            domain = self._open(depth, domain, value, reuse) if below is None else below
            self._tiers[depth].enter(slot, domain)

    def leave(self, slot: int) -> None:
        for tree_level in self._tiers:
            tree_level.leave(slot)

    def _open(self, depth: int, parent: int, value: str, reuse: bool) -> int:
        tree_level, above = self._tiers[depth], self._tiers[depth - 1]
        domain = tree_level.spare() if reuse else None
        if domain is None:
            domain = tree_level.open(parent, value)
        else:
            # The empty domain is still registered at its old parent under its old value.
            del above.below[tree_level.parents[domain]][tree_level.values[domain]]
            tree_level.rename(domain, parent, value)
        above.below[parent][value] = domain
        for lower in range(depth, len(self._tiers)):
            self._orders[lower] = self._ranks[lower] = None
        return domain
