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
from spinney.core.scheduling.bonds import Bond, Choice
from spinney.core.scheduling.shapes import PodShape

MOST_WATCHES = 1024

T = TypeVar("T", "Watch", Bond)


class Neighbour(msgspec.Struct, frozen=True):
    """A pod that holds room on a node. `leaving`: not for long."""

    pod: Pod
    node: str
    shape: PodShape
    leaving: bool = False


class Watch(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods that all of the choices select. `near`: who is leaving is nobody to be near to.

    `token`: whoever has that number among the host ports is left out, for nobody else gets onto that host anyway.
    """

    choices: tuple[Choice, ...]
    token: int = 0
    near: bool = False

    def sees(self, one: Neighbour) -> bool:
        if (self.near and one.leaving) or self.token in one.shape.host_ports:
            return False
        about = one.pod.metadata
        return all(choice.selects(about.namespace, about.labels) for choice in self.choices)

    @property
    def choice(self) -> Choice:
        """One without which nobody is seen."""
        return self.choices[0]


class _Posts(Generic[T]):
    """Counts per node for each of some things, found by the labels of the pods that they are about."""

    def __init__(self) -> None:
        self.counts: dict[T, Counter[str]] = {}
        self._by_handle: dict[tuple[str, str] | None, dict[T, None]] = {}

    def __bool__(self) -> bool:
        return bool(self.counts)

    def put(self, thing: T) -> Counter[str]:
        self._by_handle.setdefault(thing.choice.handle, {})[thing] = None
        return self.counts.setdefault(thing, Counter())

    def remove(self, thing: T) -> None:
        del self.counts[thing]
        there = self._by_handle[thing.choice.handle]
        del there[thing]
        if not there:
            del self._by_handle[thing.choice.handle]

    def about(self, pod: Pod) -> Iterator[T]:
        """Those that may be about a pod."""
        yield from self._by_handle.get(None, ())
        for pair in pod.metadata.labels.items():
            yield from self._by_handle.get(pair, ())


class Neighbours:
    """`everybody` answers with all who hold room now, whenever somebody is asked for the first time."""

    def __init__(self, everybody: Callable[[], Iterable[Neighbour]]) -> None:
        self._everybody = everybody
        self.clear()

    @property
    def matter(self) -> bool:
        """Whether anybody was asked for, or keeps others off."""
        return bool(self._watched or self._repelling)

    @property
    def repel(self) -> bool:
        return bool(self._repelling)

    def enter(self, one: Neighbour) -> bool:
        """Somebody holds room; whether that is somebody whom others want to be near to."""
        self._count(one, 1)
        found = [watch for watch in self._watched.about(one.pod) if watch in self._wanted and watch.sees(one)]
        self._wanted.difference_update(found)
        return bool(found)

    def leave(self, one: Neighbour) -> None:
        """Somebody who has entered, just so, holds it no more."""
        self._count(one, -1)

    def clear(self) -> None:
        """Nobody has entered, and nobody was asked for."""
        self._watched: _Posts[Watch] = _Posts()
        self._repelling: _Posts[Bond] = _Posts()
        self._wanted: set[Watch] = set()

    def nodes(self, watch: Watch) -> Counter[str]:
        """How many there are on which nodes. Read only."""
        known = self._watched.counts.get(watch)
        if known is not None:
            return known
        if len(self._watched.counts) >= MOST_WATCHES:
            self._watched, self._wanted = _Posts(), set()
        found = self._watched.put(watch)
        found.update(one.node for one in self._everybody() if watch.sees(one))
        return found

    def want(self, watch: Watch) -> None:
        """Somebody waits for one more of these; they have been asked for."""
        self._wanted.add(watch)

    def repelling(self, pod: Pod, ports: frozenset[int]) -> Iterator[tuple[str, Counter[str]]]:
        """Labels and nodes: where one of these nodes is, by that label, the pod must not be."""
        about: Mapping[str, str] = pod.metadata.labels
        for bond in self._repelling.about(pod):
            if bond.token not in ports and bond.choice.selects(pod.metadata.namespace, about):
                yield bond.key, self._repelling.counts[bond]

    def repels(self, pod: Pod) -> bool:
        return any(True for _ in self.repelling(pod, frozenset()))

    def _count(self, one: Neighbour, times: int) -> None:
        for watch in self._watched.about(one.pod):
            if watch.sees(one):
                _add(self._watched.counts[watch], one.node, times)
        for bond in one.shape.bonds.apart:
            _add(self._repelling.put(bond), one.node, times)
            if not self._repelling.counts[bond]:
                self._repelling.remove(bond)


def _add(counts: Counter[str], node: str, times: int) -> None:
    counts[node] += times
    if not counts[node]:
        del counts[node]
