"""How many domains of a level equal pods need inside each domain above it; redone only where counts changed."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from spinney.core.inventory.counts import Counts
from spinney.core.inventory.trees import Tree

NEVER = np.int64(2**31)
_MOST = 16

Ids = npt.NDArray[np.int64]


class _Entry:
    __slots__ = ("fewest", "order", "parents", "seen")

    def __init__(self, order: object, parents: Ids, domains: int) -> None:
        self.order = order
        self.parents = parents
        self.seen: Ids = np.full(len(parents), -1, np.int64)
        self.fewest: Ids = np.full(domains, NEVER, np.int64)


class Spans:
    """A small store; entries are told apart by shape, topology, level and number of pods."""

    def __init__(self) -> None:
        self._entries: OrderedDict[object, _Entry] = OrderedDict()
        self._ancestors: dict[tuple[str, int, int], tuple[object, npt.NDArray[np.intp]]] = {}

    def fewest(self, counts: Counts, tree: Tree, depth: int, need: int) -> Ids:
        """By domain id at the level above: how many domains at `depth` hold `need` pods; NEVER if they do not."""
        entry = self._entry(counts, tree, depth, need)
        held = counts.at(tree.topology.name, depth)
        for parent in np.unique(entry.parents[np.flatnonzero(held != entry.seen)]).tolist():
            entry.fewest[parent] = _fewest(sorted(held[tree.children(depth - 1, parent)].tolist(), reverse=True), need)
        entry.seen = held.copy()
        return entry.fewest

    def _entry(self, counts: Counts, tree: Tree, depth: int, need: int) -> _Entry:
        key = (counts.shape, tree.topology.name, depth, need)
        entry = self._entries.get(key)
        order = tree.rank(depth)  # made anew whenever domains come, go or are renamed
        if entry is None or entry.order is not order:
            entry = _Entry(order, np.array(tree.parents(depth), np.int64), tree.domains(depth - 1))
            self._entries[key] = entry
            if len(self._entries) > _MOST:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return entry

    def ancestors(self, tree: Tree, depth: int, above: int) -> npt.NDArray[np.intp]:
        """By domain id at `depth`: the domain at `above` that holds it."""
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
