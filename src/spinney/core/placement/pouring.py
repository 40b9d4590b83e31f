"""Pods poured into nodes by arithmetic, first choice everywhere: how many certainly fit, however large the cluster.

A lower bound, never a proof that no more would fit.
"""

from __future__ import annotations

import numpy as np

from spinney.core.placement.case import Case, Numbers, shape_of
from spinney.core.placement.parts import Level, Part


class Pour:
    """What is left (nodes in rows, wanted resources in columns) after as many pods as greed places, and how many."""

    def __init__(self, case: Case, slots: Numbers, free: Numbers) -> None:
        self.case = case
        self.slots = slots
        self.left = free.copy()
        self.placed: dict[int, int] = {}
        self._active = {leaf.index for leaf in case.active}
        self._pour(case.parts.all[0], np.arange(len(slots)))

    def _pour(self, part: Part, rows: Numbers) -> None:
        """Into the tightest domain that holds the whole part, else into the one that holds most; small kids first."""
        leaves = [leaf for leaf in self.case.parts.below(part) if leaf.index in self._active]
        if not leaves:
            return
        if part.required is not None:
            rows = self._choose(part, part.required, leaves, rows)
        if part.pods is not None:
            self._fill(part, rows)
            return
        kids = [self.case.parts.all[kid] for kid in self.case.kids[part.index]]
        for kid in sorted(kids, key=lambda kid: (self._weight(kid), kid.index)):
            self._pour(kid, rows)

    def _choose(self, part: Part, level: Level, leaves: list[Part], rows: Numbers) -> Numbers:
        tree = self.case.inventory.trees[level.topology]
        domain = tree.domain_array(level.depth)[self.slots[rows]].astype(np.int64)
        open_to = domain >= 0
        for slot in self.case.pinned(part):
            open_to &= domain == tree.domain_of(level.depth)[slot]
        rows, domain = rows[open_to], domain[open_to]
        if not len(rows):
            return rows
        held = np.zeros(tree.domains(level.depth))
        for leaf in leaves:
            fit = self._fit(leaf, rows)
            held += np.minimum(np.bincount(domain, fit, len(held)), self.case.needs[leaf.index])
        room = np.bincount(domain, self.left[rows, 0], len(held)) if self.left.shape[1] else held
        best = np.flatnonzero(held == held.max())
        tightest = best[np.lexsort((tree.rank(level.depth)[best], room[best]))[0]]
        return np.asarray(rows[domain == tightest])

    def _fill(self, leaf: Part, rows: Numbers) -> None:
        fit = self._fit(leaf, rows)
        here = np.minimum(fit, np.maximum(0, self.case.needs[leaf.index] - (np.cumsum(fit) - fit)))
        self.left[rows] -= here[:, None] * self._size(leaf)[None, :]
        self.placed[leaf.index] = int(here.sum())

    def _fit(self, leaf: Part, rows: Numbers) -> Numbers:
        """By row: how many pods of a pod set; those that look at neighbours are left out."""
        assert leaf.pods is not None
        if leaf.pods.anti_affinity or leaf.pods.host_ports:
            return np.zeros(len(rows), np.int64)
        fit: Numbers = np.minimum(self.case.per_node(shape_of(leaf))[self.slots[rows]], self.case.needs[leaf.index])
        fit = fit.astype(np.int64)
        for at, amount in enumerate(self._size(leaf).tolist()):
            if amount:
                np.minimum(fit, self.left[rows, at] // amount, out=fit)
        return fit

    def _size(self, leaf: Part) -> Numbers:
        assert leaf.pods is not None
        return np.array([leaf.pods.request[r] for r in self.case.asked.wanted], np.int64)

    def _weight(self, part: Part) -> list[int]:
        """What the pods below a part ask for together."""
        leaves = [leaf for leaf in self.case.parts.below(part) if leaf.index in self._active]
        sizes = [self._size(leaf).tolist() for leaf in leaves]
        return [
            sum(size[at] * self.case.needs[leaf.index] for size, leaf in zip(sizes, leaves, strict=True))
            for at in range(len(self.case.asked.wanted))
        ]
