"""How the values of node labels lie in each other, and which keys can be levels of one topology.

A key lies in another where each of its values has one value of the other around it. Names that repeat under several
parents are no obstacle where the keys are known to belong together: a domain is its path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from spinney.api.domains import rank
from spinney.core.placement.wording import many
from spinney.core.view.discovery_keys import KnownKey
from spinney.core.view.tree import Json

_FEW = 20
"""One node in so many with a wrong label does not make a key useless."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    key: str
    why: str

    def to_json(self) -> Json:
        return {"key": self.key, "why": self.why}


class Nesting:
    """Looks at nodes that all carry the keys that are asked about."""

    def __init__(self, labels: Sequence[Mapping[str, str]]) -> None:
        self._labels = labels
        self._parents = cache(self._find_parents)

    def common_keys(self) -> list[str]:
        if not self._labels:
            return []
        common = set(self._labels[0])
        for labels in self._labels[1:]:
            common.intersection_update(labels)
        return sorted(common)

    def count(self, key: str) -> int:
        return len({labels[key] for labels in self._labels})

    def is_unique(self, key: str) -> bool:
        return self.count(key) == len(self._labels)

    def sizes(self, keys: Sequence[str]) -> list[int]:
        """How many nodes each domain of the last key has."""
        return list(Counter(tuple(labels[key] for key in keys) for labels in self._labels).values())

    def is_nested(self, inner: str, outer: str) -> bool:
        return all(len(parents) == 1 for parents in self._parents(inner, outer).values())

    def is_same(self, one: str, other: str) -> bool:
        return self.is_nested(one, other) and self.is_nested(other, one)

    def is_path(self, inner: str, outer: str) -> bool:
        """Whether the inner key can be read as a path below the outer one: it divides what the outer one holds, and
        its names repeat as names do, or but for a few nodes.
        """
        parents = self._parents(inner, outer)
        domains = sum(map(len, parents.values()))
        if domains <= self.count(outer):
            return False
        return self._strays(inner, outer) * _FEW <= len(self._labels) or domains * 2 <= len(self._labels)

    def witness(self, inner: str, outer: str) -> str:
        """A value of the inner key with two around it."""
        torn = {value: parents for value, parents in self._parents(inner, outer).items() if len(parents) > 1}
        value = min(torn)
        first, second = sorted(torn[value])[:2]
        return f"{value} lies in {first} and in {second}"

    def remark(self, outer: str, inner: str) -> str:
        torn = [value for value, parents in self._parents(inner, outer).items() if len(parents) > 1]
        if not torn:
            return ""
        return f"{many(len(torn), 'name')} under several parents, such as {min(torn)}: see topology lint"

    def _strays(self, inner: str, outer: str) -> int:
        """Nodes that are not where most nodes of their value are."""
        return sum(sum(parents.values()) - max(parents.values()) for parents in self._parents(inner, outer).values())

    def _find_parents(self, inner: str, outer: str) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for labels in self._labels:
            found.setdefault(labels[inner], Counter())[labels[outer]] += 1
        return found


def chain(candidates: Sequence[KnownKey], nesting: Nesting) -> tuple[list[KnownKey], list[LeftOut]]:
    """Levels broad to narrow, and why the others are none of them. Earlier candidates win."""
    levels: list[KnownKey] = []
    left_out: list[LeftOut] = []
    for one in candidates:
        why = _refused(one, levels, nesting)
        if why:
            left_out.append(LeftOut(one.key, why))
        else:
            levels.insert(_position(one, levels, nesting), one)
    return levels, left_out


def _refused(one: KnownKey, levels: Sequence[KnownKey], nesting: Nesting) -> str:
    count = nesting.count(one.key)
    if nesting.is_unique(one.key) and count > 1:
        return "it has another value on every node"
    for other in levels:
        if nesting.is_same(one.key, other.key) and (count > 1 or one.domain == other.domain):
            return f"its domains are those of {other.key}"
    for other in levels:
        if not (_lies_in(one, other, nesting) or _lies_in(other, one, nesting)):
            inner, outer = (one, other) if count >= nesting.count(other.key) else (other, one)
            return f"it crosses {other.key}: {nesting.witness(inner.key, outer.key)}"
    return ""


def _position(one: KnownKey, levels: Sequence[KnownKey], nesting: Nesting) -> int:
    """Before the first level that lies in it; of keys that divide nothing the broader name is the broader level."""
    for at, other in enumerate(levels):
        is_broader = _lies_in(other, one, nesting)
        if nesting.is_same(one.key, other.key):
            is_broader = rank(one.domain) < rank(other.domain)
        if is_broader:
            return at
    return len(levels)


def _lies_in(inner: KnownKey, outer: KnownKey, nesting: Nesting) -> bool:
    """By names, or by paths where the keys themselves say which is broader."""
    if nesting.is_nested(inner.key, outer.key):
        return True
    is_ordered = rank(outer.domain) < rank(inner.domain)
    if nesting.is_nested(outer.key, inner.key):
        return False
    return is_ordered and nesting.is_path(inner.key, outer.key)
