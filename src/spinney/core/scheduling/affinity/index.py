"""Index of pods that hold capacity by the affinity terms of other pods: their nodes, and the pods that they repel.

A query is counted when it is first asked, and kept up to date from then on. Nodes are known by name only.
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
    """A pod that holds capacity on a node. `leaving`: it is terminating or a victim."""

    pod: Pod
    node: str
    shape: PodShape
    leaving: bool = False


class AffinityQuery(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods that all of the selectors match. `near`: terminating pods do not count.

    `token`: pods with that number among their host ports are left out, since the port check keeps others off their
    host.
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
        """One that every matching pod meets."""
        return self.pod_selectors[0]


class _NodeCounts(Generic[T]):
    """Counts per node for each term or query, found by the labels of the pods that they select."""

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
        """Those that may select a pod."""
        yield from self._by_handle.get(None, ())
        for pair in pod.metadata.labels.items():
            yield from self._by_handle.get(pair, ())


class AffinityIndex:
    """`everybody` lists all pods that hold capacity; it is called when a query is asked for the first time."""

    def __init__(self, everybody: Callable[[], Iterable[PlacedPod]]) -> None:
        self._everybody = everybody
        self.clear()

    @property
    def matter(self) -> bool:
        """Whether there are any queries, or pods that repel others."""
        return bool(self._watched or self._repelling)

    @property
    def repel(self) -> bool:
        return bool(self._repelling)

    def enter(self, one: PlacedPod) -> bool:
        """A pod holds capacity now; whether other pods were waiting for a pod like it."""
        self._count(one, 1)
        found = [query for query in self._watched.about(one.pod) if query in self._wanted and query.sees(one)]
        self._wanted.difference_update(found)
        return bool(found)

    def leave(self, one: PlacedPod) -> None:
        """A pod that was entered with these values does not hold capacity any more."""
        self._count(one, -1)

    def clear(self) -> None:
        """Forget all pods and queries."""
        self._watched: _NodeCounts[AffinityQuery] = _NodeCounts()
        self._repelling: _NodeCounts[AffinityTerm] = _NodeCounts()
        self._wanted: set[AffinityQuery] = set()

    def nodes(self, query: AffinityQuery) -> Counter[str]:
        """The number of matching pods by node. Read only."""
        known = self._watched.counts.get(query)
        if known is not None:
            return known
        if len(self._watched.counts) >= MOST_QUERIES:
            self._watched, self._wanted = _NodeCounts(), set()
        found = self._watched.put(query)
        found.update(one.node for one in self._everybody() if query.sees(one))
        return found

    def want(self, query: AffinityQuery) -> None:
        """A pod waits for one more match of this query, which was asked before."""
        self._wanted.add(query)

    def repelling(self, pod: Pod, ports: frozenset[int]) -> Iterator[tuple[str, Counter[str]]]:
        """Labels and nodes: the pod must not be in the domain, by that label, of any of these nodes."""
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
