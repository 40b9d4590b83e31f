"""Which slots a filter admits, for all nodes at once.

Says the same as `filters.admits`, node by node; it only asks each distinct condition and label value once.
"""

from __future__ import annotations

import numpy as np

from spinney.api.placement.problem import NodeFilter, NodeTerm, Term, Toleration
from spinney.core.inventory.changes import Changes
from spinney.core.inventory.columns import PATIENCE, Column, Condition, Flags, Nodes, read_conditions, read_label
from spinney.core.inventory.filters import admits, condition, holds, named, well_formed
from spinney.core.inventory.recent import Recent

MOST_MASKS = 64
MOST_COLUMNS = 64


class Mask:
    """One byte per slot: 1 where the filter admits the node."""

    __slots__ = ("_masks", "_seen", "_wanted", "flags")

    def __init__(self, wanted: NodeFilter, masks: Masks) -> None:
        self._wanted = wanted
        self._masks = masks
        self._seen = -1
        self.flags = bytearray()

    def refresh(self) -> Mask:
        moved = self._masks.changes.moved
        start = self._seen - moved.trimmed
        if self._seen >= 0 and start >= 0 and len(moved.entries) - start <= PATIENCE:
            self._follow({move.slot for move in moved.entries[start:]})
        else:
            self.flags = bytearray(self._masks.compute(self._wanted).tobytes())
        self._seen = moved.end()
        return self

    def array(self) -> Flags:
        return np.frombuffer(self.flags, np.bool_)

    def _follow(self, slots: set[int]) -> None:
        nodes = self._masks.nodes
        if len(self.flags) < len(nodes):
            self.flags = self.flags + bytes(len(nodes) - len(self.flags))
        for slot in slots:
            node = nodes[slot]
            self.flags[slot] = node is not None and admits(self._wanted, node)


class Masks:
    """The masks asked for last, and the columns they are computed from."""

    __slots__ = ("_conditions", "_labels", "_masks", "changes", "nodes")

    def __init__(self, nodes: Nodes, changes: Changes) -> None:
        self.nodes = nodes
        self.changes = changes
        self._conditions = Column(nodes, changes, read_conditions)
        self._labels: Recent[str, Column] = Recent(MOST_COLUMNS, lambda key: Column(nodes, changes, read_label(key)))
        self._masks: Recent[NodeFilter, Mask] = Recent(MOST_MASKS, lambda wanted: Mask(wanted, self))

    def of(self, wanted: NodeFilter) -> Mask:
        """Up to date. Filters that differ only in what they prefer share one."""
        hard = NodeFilter(wanted.selector, wanted.required, (), wanted.tolerations, wanted.company)
        return self._masks.get(hard).refresh()

    def compute(self, wanted: NodeFilter) -> Flags:
        flags = self._conditions.judge(lambda state: _usable(wanted.tolerations, state))
        for key, value in wanted.selector:
            flags &= self._labels.get(key).select((value,))
        if wanted.required is not None:
            flags &= self._any(wanted.required)
        for wish in wanted.company:
            flags &= self._label(wish)
        return flags

    def _any(self, terms: tuple[NodeTerm, ...]) -> Flags:
        flags = np.zeros(len(self.nodes), np.bool_)
        for term in terms:
            if term.expressions or term.fields:
                flags |= self._all(term)
        return flags

    def _all(self, term: NodeTerm) -> Flags:
        flags = np.ones(len(self.nodes), np.bool_)
        for wish in term.expressions:
            flags &= self._label(wish)
        for wish in term.fields:
            flags &= np.array([node is not None and named(wish, node.name) for node in self.nodes], np.bool_)
        return flags

    def _label(self, wish: Term) -> Flags:
        if not well_formed(wish):
            return np.zeros(len(self.nodes), np.bool_)
        column = self._labels.get(wish.key)
        match wish.operator:
            case "In":
                return column.select(wish.values)
            case "NotIn":
                return ~column.select(wish.values)
            case _:
                return column.judge(lambda value: holds(wish, value))


def _usable(tolerations: tuple[Toleration, ...], state: Condition | None) -> bool:
    return state is not None and condition(tolerations, *state) is None
