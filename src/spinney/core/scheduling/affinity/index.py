"""Pods that hold room, by what others say about them: on which nodes they are, and whom they keep off.

Counts from the first time that somebody is asked for, and is kept up to date from then on. Never judges a node: it only
knows their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.core.scheduling.affinity.terms import AffinityTerm, PodSelector
from spinney.core.scheduling.gang.pod_shape import PodShape

MOST_QUERIES = 1024

T = TypeVar("T", "AffinityQuery", AffinityTerm)


class PlacedPod(msgspec.Struct, frozen=True):
    """A pod that holds room on a node. `leaving`: not for long."""

    pod: Pod
    node: str
    shape: PodShape
    leaving: bool = False


class AffinityQuery(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods that all of the choices select. `near`: who is leaving is nobody to be near to.

    `token`: whoever has that number among the host ports is left out, for nobody else gets onto that host anyway.
    """

    pod_selectors: tuple[PodSelector, ...]
    token: int = 0
    near: bool = False

    def sees(self, one: PlacedPod) -> bool:
        if (self.near and one.leaving) or self.token in one.shape.host_ports:
            return False
        about = one.pod.metadata
        return all(pod_selector.selects(about.namespace, about.labels) for pod_selector in self.pod_selectors)

    @property
    def pod_selector(self) -> PodSelector:
        """One without which nobody is seen."""
        return self.pod_selectors[0]


class _NodeCounts(Generic[T]):
    """Counts per node for each of some things, found by the labels of the pods that they are about."""

    def __init__(self) -> None:
        self.counts: dict[T, Counter[str]] = {}
        self._by_handle: dict[tuple[str, str] | None, dict[T, None]] = {}

    def __bool__(self) -> bool:
        return bool(self.counts)

    def put(self, thing: T) -> Counter[str]:
        self._by_handle.setdefault(thing.pod_selector.handle, {})[thing] = None
        return self.counts.setdefault(thing, Counter())

    def remove(self, thing: T) -> None:
        del self.counts[thing]
        there = self._by_handle[thing.pod_selector.handle]
        del there[thing]
        if not there:
            del self._by_handle[thing.pod_selector.handle]

    def about(self, pod: Pod) -> Iterator[T]:
        """Those that may be about a pod."""
        yield from self._by_handle.get(None, ())
        for pair in pod.metadata.labels.items():
            yield from self._by_handle.get(pair, ())


class AffinityIndex:
    """`everybody` answers with all who hold room now, whenever somebody is asked for the first time."""

    def __init__(self, everybody: Callable[[], Iterable[PlacedPod]]) -> None:
        self._everybody = everybody
        self.clear()

    @property
    def matter(self) -> bool:
        """Whether anybody was asked for, or keeps others off."""
        return bool(self._watched or self._repelling)

    @property
    def repel(self) -> bool:
        return bool(self._repelling)

    def enter(self, one: PlacedPod) -> bool:
        """Somebody holds room; whether that is somebody whom others want to be near to."""
        self._count(one, 1)
        found = [query for query in self._watched.about(one.pod) if query in self._wanted and query.sees(one)]
        self._wanted.difference_update(found)
        return bool(found)

    def leave(self, one: PlacedPod) -> None:
        """Somebody who has entered, just so, holds it no more."""
        self._count(one, -1)

    def clear(self) -> None:
        """Nobody has entered, and nobody was asked for."""
        self._watched: _NodeCounts[AffinityQuery] = _NodeCounts()
        self._repelling: _NodeCounts[AffinityTerm] = _NodeCounts()
        self._wanted: set[AffinityQuery] = set()

    def nodes(self, query: AffinityQuery) -> Counter[str]:
        """How many there are on which nodes. Read only."""
        known = self._watched.counts.get(query)
        if known is not None:
            return known
        if len(self._watched.counts) >= MOST_QUERIES:
            self._watched, self._wanted = _NodeCounts(), set()
        found = self._watched.put(query)
        found.update(one.node for one in self._everybody() if query.sees(one))
        return found

    def want(self, query: AffinityQuery) -> None:
        """Somebody waits for one more of these; they have been asked for."""
        self._wanted.add(query)

    def repelling(self, pod: Pod, ports: frozenset[int]) -> Iterator[tuple[str, Counter[str]]]:
        """Labels and nodes: where one of these nodes is, by that label, the pod must not be."""
        about: Mapping[str, str] = pod.metadata.labels
        for term in self._repelling.about(pod):
            if term.token not in ports and term.pod_selector.selects(pod.metadata.namespace, about):
                yield term.key, self._repelling.counts[term]

    def repels(self, pod: Pod) -> bool:
        return any(True for _ in self.repelling(pod, frozenset()))

    def _count(self, one: PlacedPod, times: int) -> None:
        for query in self._watched.about(one.pod):
            if query.sees(one):
                _add(self._watched.counts[query], one.node, times)
        for term in one.shape.affinity_terms.apart:
            _add(self._repelling.put(term), one.node, times)
            if not self._repelling.counts[term]:
                self._repelling.remove(term)


def _add(counts: Counter[str], node: str, times: int) -> None:
    counts[node] += times
    if not counts[node]:
        del counts[node]
