"""Affinity between the pods of one gang: which pod sets keep apart from each other, by which node label.

Independent of nodes. Anti-affinity holds in both directions, whichever of the two pod sets asks for it. A pod set that
lists itself keeps its own pods apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from spinney.api.placement.problem import AffinityTerm, PodSet

Pair = tuple[int, int]
"""Two pod sets (indices of their parts), the smaller one first; twice the same: its own pods."""


class UnknownPodSet(ValueError):
    """A term names a path that is no pod set of the gang."""

    def __init__(self, term: str, path: str) -> None:
        super().__init__(f"{term} names {path}, which is not a pod set of this gang")


@dataclass(frozen=True, slots=True)
class GangAffinity:
    """`apart`: per node label the pairs of pod sets that never share a value."""

    apart: Mapping[str, frozenset[Pair]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.apart)

    def own_keys(self, leaf: int) -> tuple[str, ...]:
        """The labels by which the pods of one pod set keep apart from each other."""
        return tuple([key for key, pairs in self.apart.items() if (leaf, leaf) in pairs])

    def others(self, leaf: int, key: str) -> frozenset[int]:
        """The other pod sets that a pod set keeps apart from."""
        pairs = self.apart.get(key, frozenset())
        return frozenset([one if other == leaf else other for one, other in pairs if leaf in (one, other)]) - {leaf}

    def keep_apart(self, key: str, one: int, other: int) -> bool:
        return (min(one, other), max(one, other)) in self.apart.get(key, ())

    def kind(self, leaf: int) -> object:
        """Equal for pod sets that can be exchanged: they keep apart from each other and from the same others."""
        return tuple(
            [
                (key, (leaf, leaf) in pairs, self.others(leaf, key) | {leaf})
                for key, pairs in self.apart.items()
                if self.others(leaf, key)
            ]
        )


NO_AFFINITY = GangAffinity()


def asks_about_others(pods: PodSet) -> bool:
    """Whether a pod set has terms about pod sets of its gang."""
    return bool(pods.pod_anti_affinity)


def without_terms(pods: PodSet) -> PodSet:
    """The pod set without its terms about pod sets of its gang."""
    return replace(pods, pod_anti_affinity=()) if asks_about_others(pods) else pods


def read_gang_affinity(leaves: Sequence[tuple[int, str, PodSet]]) -> GangAffinity:
    """The affinity of a gang with these pod sets (index, path, pod set). Raises UnknownPodSet."""
    if not any(asks_about_others(pods) for _, _, pods in leaves):
        return NO_AFFINITY
    index = {path: at for at, path, _ in leaves}
    apart: dict[str, set[Pair]] = {}
    for at, _, pods in leaves:
        for key in pods.anti_affinity:
            apart.setdefault(key, set()).add((at, at))
        for key, others in _resolved(pods.pod_anti_affinity, "podAntiAffinity", index):
            apart.setdefault(key, set()).update((min(at, other), max(at, other)) for other in others)
    return GangAffinity({key: frozenset(pairs) for key, pairs in sorted(apart.items())})


def _resolved(terms: Iterable[AffinityTerm], name: str, index: Mapping[str, int]) -> Iterator[tuple[str, list[int]]]:
    for term in terms:
        for path in term.pods:
            if path not in index:
                raise UnknownPodSet(name, path)
        yield term.key, [index[path] for path in term.pods]
