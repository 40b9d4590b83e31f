"""Which slots a filter admits, for all nodes at once.

Equivalent to calling `filters.admits` for every node, but each distinct condition and label value is judged only once.
Conditions and labels are columns of small codes by slot, valid only within their column; code 0 is a slot without a
value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from spinney.api.placement.problem import Amounts, Node, NodeFilter, NodeTerm, Taint, Term, Toleration
from spinney.core.inventory.change_log import Changes
from spinney.core.inventory.filters import admits, condition, holds, named, well_formed

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """Keeps the `most` values that were used last."""

    __slots__ = ("_kept", "_make", "_most")

    def __init__(self, most: int, make: Callable[[K], V]) -> None:
        self._most = most
        self._make = make
        self._kept: dict[K, V] = {}

    def get(self, key: K) -> V:
        kept = self._kept
        value = kept.pop(key, None)
        if value is None:
            value = self._make(key)
            if len(kept) >= self._most:
                del kept[next(iter(kept))]
        kept[key] = value  # inserted last: dicts keep insertion order, so the first key is the oldest
        return value


Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Nodes = Sequence[Node | None]
Condition = tuple[tuple[Taint, ...], bool, bool]
Reader = Callable[[Iterable[Node | None]], Iterable[Any]]

MAX_FOLLOWED = 4096
"""Number of moves up to which an incremental update is faster than recomputing."""


class Column:
    """One code per slot for the value that `read` returns for its node; `read` is called for many nodes at a time."""

    __slots__ = ("_changes", "_codes", "_nodes", "_read", "_seen", "numbers")

    def __init__(self, nodes: Nodes, changes: Changes, read: Reader) -> None:
        self._nodes = nodes
        self._changes = changes
        self._read = read
        self._seen = -1
        self.numbers: dict[Any, int] = {}

    def codes(self) -> Codes:
        moved = self._changes.moved
        start = self._seen - moved.trimmed
        if self._seen < 0 or start < 0 or len(moved.entries) - start > MAX_FOLLOWED:
            self.numbers = {None: 0}
            self._codes = np.array(self._number(self._nodes), np.int32)
        else:
            self._follow(sorted({move.slot for move in moved.entries[start:]}))
        self._seen = moved.end()
        return self._codes

    def select(self, wanted: Iterable[Any]) -> Flags:
        """Slots that have one of these values."""
        codes = self.codes()
        table = np.zeros(len(self.numbers), np.bool_)
        for value in wanted:
            number = self.numbers.get(value)
            if number is not None:
                table[number] = True
        return table[codes]

    def judge(self, verdict: Callable[[Any], bool]) -> Flags:
        """Slots whose value passes the predicate; a slot without a value is judged by None."""
        codes = self.codes()
        return np.array([verdict(value) for value in self.numbers], np.bool_)[codes]

    def _follow(self, slots: Sequence[int]) -> None:
        missing = len(self._nodes) - len(self._codes)
        if missing:
            self._codes = np.concatenate((self._codes, np.zeros(missing, np.int32)))
        for slot, code in zip(slots, self._number([self._nodes[slot] for slot in slots]), strict=True):
            self._codes[slot] = code

    def _number(self, nodes: Iterable[Node | None]) -> list[int]:
        numbers = self.numbers
        return [numbers.setdefault(value, len(numbers)) for value in self._read(nodes)]


def read_conditions(nodes: Iterable[Node | None]) -> Iterable[Condition | None]:
    """Taints, cordon and readiness; few nodes differ in them.

    None: no pod is placed on the node itself, though perhaps in its zones. A generator, because creating that many
    tuples at once would trigger the garbage collector.
    """
    return (
        None if node is None or (node.zones and node.is_divided) else (node.taints, node.unschedulable, node.ready)
        for node in nodes
    )


def read_allocatable(nodes: Iterable[Node | None]) -> Iterable[Amounts | None]:
    """What empty nodes have; few nodes differ in it."""
    return [None if node is None else node.allocatable for node in nodes]


def read_label(key: str) -> Reader:
    def read(nodes: Iterable[Node | None]) -> Iterable[str | None]:
        return [None if node is None else node.labels.get(key) for node in nodes]

    return read


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
        if self._seen >= 0 and start >= 0 and len(moved.entries) - start <= MAX_FOLLOWED:
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
    """The most recently used masks, and the columns they are computed from."""

    __slots__ = ("_conditions", "_labels", "_masks", "changes", "nodes")

    def __init__(self, nodes: Nodes, changes: Changes) -> None:
        self.nodes = nodes
        self.changes = changes
        self._conditions = Column(nodes, changes, read_conditions)
        self._labels: LRUCache[str, Column] = LRUCache(
            MOST_COLUMNS, lambda key: Column(nodes, changes, read_label(key))
        )
        self._masks: LRUCache[NodeFilter, Mask] = LRUCache(MOST_MASKS, lambda wanted: Mask(wanted, self))

    def of(self, wanted: NodeFilter) -> Mask:
        """The mask of a filter, up to date. Filters that differ only in their preferences share one."""
        hard = NodeFilter(wanted.selector, wanted.required, (), wanted.tolerations, wanted.company)
        return self._masks.get(hard).refresh()

    def compute(self, wanted: NodeFilter) -> Flags:
        flags = self._conditions.judge(lambda state: _usable(wanted.tolerations, state))
        for key, value in wanted.selector:
            flags &= self._labels.get(key).select((value,))
        if wanted.required is not None:
            flags &= self._any(wanted.required)
        for expression in wanted.company:
            flags &= self._label(expression)
        return flags

    def _any(self, terms: tuple[NodeTerm, ...]) -> Flags:
        flags = np.zeros(len(self.nodes), np.bool_)
        for term in terms:
            if term.expressions or term.fields:
                flags |= self._all(term)
        return flags

    def _all(self, term: NodeTerm) -> Flags:
        flags = np.ones(len(self.nodes), np.bool_)
        for expression in term.expressions:
            flags &= self._label(expression)
        for expression in term.fields:
            flags &= np.array([node is not None and named(expression, node.name) for node in self.nodes], np.bool_)
        return flags

    def _label(self, expression: Term) -> Flags:
        if not well_formed(expression):
            return np.zeros(len(self.nodes), np.bool_)
        column = self._labels.get(expression.key)
        match expression.operator:
            case "In":
                return column.select(expression.values)
            case "NotIn":
                return ~column.select(expression.values)
            case _:
                return column.judge(lambda value: holds(expression, value))


def _usable(tolerations: tuple[Toleration, ...], state: Condition | None) -> bool:
    return state is not None and condition(tolerations, *state) is None
