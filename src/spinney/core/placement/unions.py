"""Sets of domains of one level: what they hold, how far apart they are, and what a partial set can still reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spinney.core.placement.board import Spot

Path = tuple[object, ...]


def apart(one: Path, other: Path, depth: int) -> int:
    """Edges in the tree between two domains of a level; nodes outside the level hang as deep as its domains."""
    common = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        common += 1
    return 2 * (depth - common)


class Union(NamedTuple):
    """A set of domains that grows one by one. `shared` counts its domains by every prefix of their paths."""

    mask: int
    holds: tuple[int, ...]
    paths: tuple[Path, ...]
    together: int  # pairs of domains, counted once for every level they share
    shared: dict[Path, int]

    @classmethod
    def nothing(cls, width: int) -> Union:
        return cls(0, (0,) * width, (), 0, {})

    @classmethod
    def of(cls, spots: Iterable[tuple[Spot, tuple[int, ...]]]) -> Union:
        union: Union | None = None
        for spot, measure in spots:
            union = (union or cls.nothing(len(measure))).plus(spot, measure)
        assert union is not None
        return union

    def plus(self, spot: Spot, measure: tuple[int, ...]) -> Union:
        shared = dict(self.shared)
        together = self.together
        for depth in range(1, len(spot.path)):
            prefix = spot.path[:depth]
            together += shared.get(prefix, 0)
            shared[prefix] = shared.get(prefix, 0) + 1
        holds = tuple([a + b for a, b in zip(self.holds, measure, strict=True)])
        return Union(self.mask | spot.mask, holds, (*self.paths, spot.path), together, shared)

    def distance(self, depth: int) -> int:
        """The sum over all pairs: two edges for every level that a pair does not share."""
        count = len(self.paths)
        return 2 * (depth * (count * (count - 1) // 2) - self.together)


class Choice:
    """The domains a set may grow by, in a fixed order; `unlike[i]` is the next that is no twin of the i-th."""

    def __init__(self, spots: Sequence[Spot], measures: Sequence[tuple[int, ...]], unlike: Sequence[int]) -> None:
        self.spots = spots
        self.measures = measures
        self.unlike = unlike
        width = len(measures[0]) if measures else 0
        self._largest: list[tuple[int, ...]] = [(0,) * width]
        self._parents: list[dict[Path, int]] = [{}]
        for at in range(len(spots) - 1, -1, -1):
            self._largest.append(tuple([max(a, b) for a, b in zip(self._largest[-1], measures[at], strict=True)]))
            parents = self._parents[-1]
            if at % 16 == 0 or at == len(spots) - 1:
                parents = dict(parents)
            self._parents.append(parents)
            parents[spots[at].path[:-1]] = parents.get(spots[at].path[:-1], 0) + 1
        self._largest.reverse()
        self._parents.reverse()

    def could_complete(self, union: Union, at: int, left: int, demand: tuple[int, ...]) -> bool:
        """Whether so many more domains from a position on can hold the demand, each as large as the largest there."""
        largest = self._largest[at]
        return all(want <= have + left * more for want, have, more in zip(demand, union.holds, largest, strict=True))

    def least_distance(self, union: Union, at: int, left: int, demand: tuple[int, ...], depth: int) -> int:
        """A lower bound for a complete set: the missing domains are as near as those left to choose allow."""
        missing = self._missing(union, at, left, demand)
        if not missing:
            return union.distance(depth)
        count = len(union.paths)
        nearest = max(
            (sum(union.shared.get(parent[:up], 0) for up in range(1, len(parent) + 1)) for parent in self._parents[at]),
            default=0,
        )
        sizes = sorted(self._parents[at].values(), reverse=True)
        beside, rest = 0, missing
        for size in sizes:
            here = min(size, rest)
            beside += here * (here - 1) // 2
            rest -= here
        own = missing * (missing - 1) // 2
        return union.distance(depth) + 2 * (missing * (depth * count - nearest) + own + (own - beside))

    def _missing(self, union: Union, at: int, left: int, demand: tuple[int, ...]) -> int:
        """At least so many more domains are needed, by count."""
        most = 0
        for want, have, more in zip(demand, union.holds, self._largest[at], strict=True):
            if want > have and more:
                most = max(most, -(-(want - have) // more))
        return min(most, left)
