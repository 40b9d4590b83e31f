"""What one pod requires, as placement counts it: amounts, node filter, ports, and what is not supported.

Never drops a requirement silently (K8): what placement cannot express becomes a sentence in `unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from kube_apimachinery import quantity
from spinney.api.builtin.pod import Container, Pod, PodSpec
from spinney.api.builtin.selectors import NodeSelectorTerm, SelectorRequirement
from spinney.api.labels import GPU_FRACTION, GPU_MEMORY
from spinney.api.placement.problem import ANY_NODE, Amounts, NodeFilter, NodeTerm, PreferredTerm, Term, Toleration
from spinney.core.scheduling.affinity.terms import (
    NO_TERMS,
    AffinityTerms,
    affinity_labels,
    mentions_pods,
    read_affinity,
)
from spinney.core.scheduling.amounts import MOST_ASKED, asked

MOST_SHAPES = 65_536

_SHOWN = 64
_SHARING = (GPU_FRACTION, GPU_MEMORY)
_Written = Mapping[str, str | int | float]
_Sums = dict[str, int]


class PodShape(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods of one shape are interchangeable for placement. `unsupported` is a sentence, "" if there is nothing.

    Pods with anti-affinity to each other by host share a number among their `host_ports` that is no valid port: so they
    are kept apart in any pod set and any gang. `anti_affinity` are other node labels by which pods of one set are kept
    apart. Their terms about all other pods are in `affinity_terms`.
    """

    request: Amounts
    filter: NodeFilter = ANY_NODE
    host_ports: frozenset[int] = frozenset()
    anti_affinity: tuple[str, ...] = ()
    unsupported: str = ""
    affinity_terms: AffinityTerms = NO_TERMS


class Shapes:
    """Shapes of pods for one list of resources. Pods of one template are parsed once and share one value."""

    def __init__(self, resources: Sequence[str]) -> None:
        self.resources = tuple(resources)
        self._known: dict[bytes, PodShape] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def of(self, pod: Pod) -> PodShape:
        key = self._encode(_essence(pod))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_SHAPES:
                self._known.clear()
            found = self._known[key] = self._guarded(pod)
        return found

    def _guarded(self, pod: Pod) -> PodShape:
        """A pod that cannot be parsed requests more than any node offers: it is not placed, and its node is full."""
        try:
            return self._read(pod)
        except Exception as error:
            complaint = f"the pod can not be read: {type(error).__name__}: {str(error)[:_SHOWN]}"
            return PodShape((MOST_ASKED,) * len(self.resources), unsupported=complaint)

    def _read(self, pod: Pod) -> PodShape:
        sums = requests(pod)
        affinity_terms = read_affinity(pod)
        problems = [
            *_unreadable(pod.spec),
            *_unoffered(sums, self.resources),
            *affinity_terms.problems,
            *_unsupported(pod),
        ]
        return PodShape(
            request=tuple([min(sums.get(name, 0), MOST_ASKED) for name in self.resources]),
            filter=_filter(pod.spec),
            host_ports=host_ports(pod) | {term.token for term in affinity_terms.apart if term.token},
            anti_affinity=tuple(sorted({term.key for term in affinity_terms.apart if term.own and not term.token})),
            unsupported="; ".join(problems),
            affinity_terms=affinity_terms,
        )


@lru_cache(maxsize=4)
def shapes_on(resources: tuple[str, ...]) -> Shapes:
    """The shared cache of shapes for a list of resources."""
    return Shapes(resources)


def requests(pod: Pod) -> dict[str, int]:
    """The request of a pod in base units, rounded up: containers and sidecars or the largest init step, plus overhead.

    It takes one pod slot. A sidecar starts in its turn and stays: an init container runs beside the sidecars before it.
    A request of the pod itself replaces that of its containers. A quantity that cannot be parsed is more than any node
    offers. Linear in the size of the spec.
    """
    spec = pod.spec
    running: _Sums = {}
    start: _Sums = {}
    for container in spec.init_containers:
        needs = _units(container.resources.requests)
        if _is_sidecar(container):
            _add(running, needs)
            needs = dict.fromkeys(needs, 0)
        _widen(start, {name: running.get(name, 0) + amount for name, amount in needs.items()})
    for container in spec.containers:
        _add(running, _units(container.resources.requests))
    _widen(running, start)
    if spec.resources is not None:
        running.update(_units(spec.resources.requests))
    _add(running, _units(spec.overhead or {}))
    running["pods"] = 1
    return running


def host_ports(pod: Pod) -> frozenset[int]:
    """Numbers only: another protocol or address with the same number counts as taken."""
    spec = pod.spec
    return frozenset(
        port.host_port or port.container_port
        for container in (*spec.containers, *filter(_is_sidecar, spec.init_containers))
        for port in container.ports
        if port.host_port or (spec.host_network and port.container_port)
    )


def node_term(term: NodeSelectorTerm) -> NodeTerm:
    return NodeTerm(tuple(map(_term, term.match_expressions)), tuple(map(_term, term.match_fields)))


def _essence(pod: Pod) -> tuple[object, ...]:
    """Everything that a shape depends on, and nothing that differs between pods of one template."""
    spec, metadata = pod.spec, pod.metadata
    return (
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.host_network,
        mentions_pods(pod) and (metadata.namespace, affinity_labels(pod)),
        [key for key in _SHARING if key in metadata.annotations],
    )


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _units(written: _Written) -> _Sums:
    return {name: asked(name, value) for name, value in written.items()}


def _unreadable(spec: PodSpec) -> Iterator[str]:
    stated = [each.resources.requests for each in (*spec.containers, *spec.init_containers)]
    stated += [spec.overhead or {}, spec.resources.requests if spec.resources is not None else {}]
    for name, value in sorted({(name, str(value)) for each in stated for name, value in each.items()}):
        if not quantity.is_valid(value):
            yield f"{name}: {value[:_SHOWN]} is not a quantity"


def _add(sums: _Sums, more: _Sums) -> None:
    for name, amount in more.items():
        sums[name] = sums.get(name, 0) + amount


def _widen(sums: _Sums, other: _Sums) -> None:
    for name, amount in other.items():
        sums[name] = max(sums.get(name, 0), amount)


def _unoffered(sums: _Sums, resources: tuple[str, ...]) -> Iterator[str]:
    for name in sorted(sums.keys() - set(resources)):
        if sums[name] > 0:
            yield f"no node offers {name}"


def _filter(spec: PodSpec) -> NodeFilter:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None and not spec.node_selector and not spec.tolerations:
        return ANY_NODE
    required = affinity.required if affinity is not None else None
    preferred = affinity.preferred if affinity is not None else ()
    return NodeFilter(
        selector=tuple(sorted((spec.node_selector or {}).items())),
        required=tuple(map(node_term, required.node_selector_terms)) if required is not None else None,
        preferred=tuple([PreferredTerm(one.weight, node_term(one.preference)) for one in preferred]),
        tolerations=tuple([Toleration(one.key, one.operator, one.value, one.effect) for one in spec.tolerations]),
    )


def _term(requirement: SelectorRequirement) -> Term:
    return Term(requirement.key, requirement.operator, requirement.values)


def _unsupported(pod: Pod) -> Iterator[str]:
    for key in _SHARING:
        if key in pod.metadata.annotations:
            yield f"annotation {key} can not be honoured: a GPU is given to one pod"
