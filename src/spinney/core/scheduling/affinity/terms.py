"""The pod affinity and anti-affinity terms of a pod.

Never looks at a cluster, and never drops a required term silently (K8): one that cannot be read becomes a problem. A
preferred one that cannot be read, or whose namespaces are not known here, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from zlib import crc32

import msgspec

from kube_apimachinery.selectors import Operator, Requirement
from spinney.api.builtin.pod import Pod, PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm
from spinney.api.builtin.selectors import LabelSelector, to_selector
from spinney.api.labels import HOSTNAME

FIRST_TOKEN = 2**16
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that every namespace has; other labels of namespaces are not known here."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class PodSelector(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods with these labels in these namespaces: listed by name, or meeting all of `within` (None: no others)."""

    namespaces: frozenset[str]
    labels: tuple[Requirement, ...]
    within: tuple[Requirement, ...] | None = None

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self._spans(namespace) and all(one.matches(labels) for one in self.labels)

    def _spans(self, namespace: str) -> bool:
        if namespace in self.namespaces:
            return True
        return self.within is not None and all(one.matches({NAMESPACE_NAME: namespace}) for one in self.within)

    @property
    def handle(self) -> tuple[str, str] | None:
        """A label that every selected pod has; None: there is no single one."""
        for one in self.labels:
            if one.operator is Operator.IN and len(one.values) == 1:
                return one.key, next(iter(one.values))
        return None


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A pod selector and the topology key that defines nearness. `own`: it selects the pod itself."""

    key: str
    pod_selector: PodSelector
    own: bool = False

    @property
    def token(self) -> int:
        """A number above all ports, the same for all pods that repel each other by host; 0: no such term."""
        if not self.own or self.key != HOSTNAME:
            return 0
        pod_selector = self.pod_selector
        parts = [sorted(pod_selector.namespaces), _written(pod_selector.labels), _written(pod_selector.within or ())]
        return FIRST_TOKEN + crc32(msgspec.json.encode(parts))


class WeightedTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A preference for domains of the selected pods, or against them where the weight is negative."""

    weight: int
    term: AffinityTerm


class SpreadTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A topology spread constraint. `index`: its place in the pod spec."""

    index: int
    key: str
    max_skew: int
    min_domains: int
    pod_selector: PodSelector


class AffinityTerms(msgspec.Struct, frozen=True, cache_hash=True):
    """The terms of a pod: affinity to the pods of `near`, anti-affinity to those of `apart`, and how it is spread.

    `preferred` and `preferred_spread` are kept where nothing more important is lost by it.
    """

    near: tuple[AffinityTerm, ...] = ()
    apart: tuple[AffinityTerm, ...] = ()
    problems: tuple[str, ...] = ()
    spread: tuple[SpreadTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()
    preferred_spread: tuple[SpreadTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.near or self.apart or self.spread or self.preferred or self.preferred_spread)


NO_TERMS = AffinityTerms()


def read_affinity(pod: Pod) -> AffinityTerms:
    affinity, problems = pod.spec.affinity, list[str]()
    spread = tuple(_spread_terms(pod, problems))
    preferred_spread = tuple(_preferred_spread_terms(pod))
    near = affinity.pod_affinity if affinity is not None else None
    apart = affinity.pod_anti_affinity if affinity is not None else None
    if not (near or apart):
        found = AffinityTerms(problems=tuple(problems), spread=spread, preferred_spread=preferred_spread)
        return found if found or problems else NO_TERMS
    return AffinityTerms(
        _read(pod, near.required if near else (), f"affinity.podAffinity.{_REQUIRED}", problems),
        _read(pod, apart.required if apart else (), f"affinity.podAntiAffinity.{_REQUIRED}", problems),
        tuple(problems),
        spread,
        (*_weighted(pod, near.preferred if near else (), 1), *_weighted(pod, apart.preferred if apart else (), -1)),
        preferred_spread,
    )


def _spread_terms(pod: Pod, problems: list[str]) -> Iterator[SpreadTerm]:
    for index, one in enumerate(pod.spec.topology_spread_constraints):
        if one.when_unsatisfiable == "ScheduleAnyway":
            continue
        found = _spread_term(pod, index, one)
        if found is None:
            problems.append(
                f"topologySpreadConstraints[{index}] with whenUnsatisfiable DoNotSchedule can not be honoured"
            )
        else:
            yield found


def _preferred_spread_terms(pod: Pod) -> Iterator[SpreadTerm]:
    for index, one in enumerate(pod.spec.topology_spread_constraints):
        found = _spread_term(pod, index, one) if one.when_unsatisfiable == "ScheduleAnyway" else None
        if found is not None:
            yield found


def _spread_term(pod: Pod, index: int, one: TopologySpreadConstraint) -> SpreadTerm | None:
    policies = one.node_affinity_policy in ("", "Honor") and one.node_taints_policy in ("", "Ignore")
    try:
        selector = to_selector(one.label_selector)
    except ValueError:
        return None
    if selector.nothing or one.match_label_keys or not policies or not one.topology_key or one.max_skew < 1:
        return None
    labels = tuple(sorted({*selector.requirements}, key=str))
    selected = PodSelector(frozenset({pod.metadata.namespace}), labels)
    return SpreadTerm(index, one.topology_key, one.max_skew, one.min_domains or 1, selected)


def affinity_labels(pod: Pod) -> list[str | None]:
    """The labels of a pod that its own terms depend on."""
    terms = (*_required(pod), *_preferred(pod))
    return [pod.metadata.labels.get(key) for term in terms for key in _keys(term)]


def has_terms(pod: Pod) -> bool:
    """Whether it has required terms about other pods."""
    return any(True for _ in _required(pod))


def mentions_pods(pod: Pod) -> bool:
    """Whether anything in its spec is about other pods."""
    affinity = pod.spec.affinity
    is_about_pods = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return bool(is_about_pods or pod.spec.topology_spread_constraints)


def _required(pod: Pod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    if affinity is not None and affinity.pod_affinity is not None:
        yield from affinity.pod_affinity.required
    if affinity is not None and affinity.pod_anti_affinity is not None:
        yield from affinity.pod_anti_affinity.required


def _preferred(pod: Pod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    if affinity is not None and affinity.pod_affinity is not None:
        yield from (each.pod_affinity_term for each in affinity.pod_affinity.preferred)
    if affinity is not None and affinity.pod_anti_affinity is not None:
        yield from (each.pod_affinity_term for each in affinity.pod_anti_affinity.preferred)


def _keys(term: PodAffinityTerm) -> list[str]:
    selector = term.label_selector or LabelSelector()
    expressions = [one.key for one in selector.match_expressions]
    return [*selector.match_labels, *expressions, *term.match_label_keys, *term.mismatch_label_keys]


def _read(pod: Pod, terms: Iterable[PodAffinityTerm], where: str, problems: list[str]) -> tuple[AffinityTerm, ...]:
    found = []
    for index, term in enumerate(terms):
        try:
            affinity_term = _affinity_term(pod, term)
        except ValueError as error:
            problems.append(f"{where}[{index}] can not be read: {error}")
            continue
        found.append(affinity_term)
        if _is_vague(term):
            problems.append(
                f"{where}[{index}] can not be honoured: of namespaces only the label {NAMESPACE_NAME} is looked at"
            )
    return tuple(dict.fromkeys(found))


def _weighted(pod: Pod, terms: Iterable[WeightedPodAffinityTerm], sign: int) -> Iterator[WeightedTerm]:
    for each in terms:
        with suppress(ValueError):
            if not _is_vague(each.pod_affinity_term):
                yield WeightedTerm(sign * each.weight, _affinity_term(pod, each.pod_affinity_term))


def _affinity_term(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    selector = to_selector(term.label_selector)
    own = pod.metadata.labels
    more = [Requirement(key, Operator.IN, frozenset({own[key]})) for key in term.match_label_keys if key in own]
    more += [Requirement(key, Operator.NOT_IN, frozenset({own[key]})) for key in term.mismatch_label_keys if key in own]
    labels = tuple(sorted({*selector.requirements, *more}, key=str))
    named = frozenset(term.namespaces)
    if not named and term.namespace_selector is None:
        named = frozenset({pod.metadata.namespace})
    pod_selector = PodSelector(named, labels, _within(term))
    if selector.nothing:
        pod_selector = msgspec.structs.replace(pod_selector, namespaces=frozenset(), within=None)
    return AffinityTerm(term.topology_key, pod_selector, pod_selector.selects(pod.metadata.namespace, own))


def _within(term: PodAffinityTerm) -> tuple[Requirement, ...] | None:
    """A selector of namespaces by labels that are not known here may mean any namespace."""
    if term.namespace_selector is None:
        return None
    found = to_selector(term.namespace_selector).requirements
    return () if _is_vague(term) else tuple(sorted(found, key=str))


def _is_vague(term: PodAffinityTerm) -> bool:
    selector = term.namespace_selector or LabelSelector()
    keys = {*selector.match_labels, *(one.key for one in selector.match_expressions)}
    return bool(keys - {NAMESPACE_NAME})


def _written(requirements: Iterable[Requirement]) -> list[str]:
    return [str(one) for one in requirements]
