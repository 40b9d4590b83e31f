"""Affinity between the pods of one gang: which pod sets keep apart, come together or spread, by which node label.

Independent of nodes. Anti-affinity holds in both directions, whichever of the two pod sets asks for it; a pod set that
lists itself keeps its own pods apart. Affinity to pod sets that include the own one brings all of them into one domain;
affinity to others only asks that each pod has one of theirs in its domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from spinney.api.placement.problem import AffinityTerm, PodSet

Pair = tuple[int, int]
"""Two pod sets (indices of their parts), the smaller one first; twice the same: its own pods."""


class UnknownPodSet(ValueError):
    """A term names a path that is no pod set of the gang."""

    def __init__(self, term: str, path: str) -> None:
        super().__init__(f"{term} names {path}, which is not a pod set of this gang")


class Together(NamedTuple):
    """Pod sets whose pods are all in one domain of a label."""

    key: str
    leaves: frozenset[int]


class Near(NamedTuple):
    """Every pod of a set is in a domain that holds a pod of another set, or in one that is listed."""

    key: str
    leaf: int
    others: frozenset[int]
    domains: frozenset[str] = frozenset()


class Spread(NamedTuple):
    """No domain that gets a new pod of a set holds more than `max_skew` more of them than any other domain."""

    key: str
    leaf: int
    max_skew: int
    min_domains: int


@dataclass(frozen=True, slots=True)
class GangAffinity:
    """`apart`: per node label the pairs of pod sets that never share a value; `together`: those in one domain."""

    apart: Mapping[str, frozenset[Pair]] = field(default_factory=dict)
    together: tuple[Together, ...] = ()
    near: tuple[Near, ...] = ()
    spread: tuple[Spread, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.apart or self.together or self.near or self.spread)

    def labels(self) -> list[str]:
        """The keys of all labels that matter, sorted."""
        rules = [one.key for one in self.together] + [one.key for one in self.near] + [one.key for one in self.spread]
        return sorted({*self.apart, *rules})

    @property
    def only_apart(self) -> bool:
        return not (self.together or self.near or self.spread)

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
        apart = [
            (key, (leaf, leaf) in pairs, self.others(leaf, key) | {leaf})
            for key, pairs in self.apart.items()
            if self.others(leaf, key)
        ]
        together = [at for at, one in enumerate(self.together) if leaf in one.leaves]
        named = any(leaf == one.leaf or leaf in one.others for one in self.near)
        alone = leaf if named or any(leaf == one.leaf for one in self.spread) else -1
        return tuple(apart), tuple(together), alone


NO_AFFINITY = GangAffinity()


def asks_about_others(pods: PodSet) -> bool:
    """Whether a pod set has terms about pod sets of its gang."""
    return bool(pods.pod_anti_affinity or pods.pod_affinity or pods.spread)


def without_terms(pods: PodSet) -> PodSet:
    """The pod set without its terms about pod sets of its gang."""
    return replace(pods, pod_anti_affinity=(), pod_affinity=(), spread=()) if asks_about_others(pods) else pods


def read_gang_affinity(leaves: Sequence[tuple[int, str, PodSet]]) -> GangAffinity:
    """The affinity of a gang with these pod sets (index, path, pod set). Raises UnknownPodSet."""
    if not any(asks_about_others(pods) for _, _, pods in leaves):
        return NO_AFFINITY
    index = {path: at for at, path, _ in leaves}
    apart: dict[str, set[Pair]] = {}
    together: list[Together] = []
    near: list[Near] = []
    spread: list[Spread] = []
    for at, _, pods in leaves:
        for key in pods.anti_affinity:
            apart.setdefault(key, set()).add((at, at))
        for key, others in _resolved(pods.pod_anti_affinity, "podAntiAffinity", index):
            apart.setdefault(key, set()).update((min(at, other), max(at, other)) for other in others)
        for term, (key, others) in zip(
            pods.pod_affinity, _resolved(pods.pod_affinity, "podAffinity", index), strict=True
        ):
            if at in others:
                together = _joined(together, Together(key, frozenset(others)))
            else:
                near.append(Near(key, at, frozenset(others), frozenset(term.domains)))
        spread += [Spread(one.key, at, one.max_skew, one.min_domains) for one in pods.spread]
    pairs = {key: frozenset(found) for key, found in sorted(apart.items())}
    return GangAffinity(pairs, tuple(together), tuple(dict.fromkeys(near)), tuple(dict.fromkeys(spread)))


def check_preferences(leaves: Sequence[tuple[str, PodSet]]) -> None:
    """Raises UnknownPodSet where a preference names no pod set of the gang."""
    paths = {path for path, _ in leaves}
    for _, pods in leaves:
        for preference in pods.affinity_preferences:
            for path in preference.pods:
                if path not in paths:
                    raise UnknownPodSet("podAffinity" if preference.kind == "near" else "podAntiAffinity", path)


def _joined(known: list[Together], one: Together) -> list[Together]:
    """Sets of pod sets that have one in common are in one domain all of them."""
    rest = []
    for other in known:
        if other.key == one.key and other.leaves & one.leaves:
            one = Together(one.key, one.leaves | other.leaves)
        else:
            rest.append(other)
    return [*rest, one]


def _resolved(terms: Iterable[AffinityTerm], name: str, index: Mapping[str, int]) -> Iterator[tuple[str, list[int]]]:
    for term in terms:
        for path in term.pods:
            if path not in index:
                raise UnknownPodSet(name, path)
        yield term.key, [index[path] for path in term.pods]
