"""What one pod asks for, as placement counts it: amounts, node filter, ports, and what can not be honoured.

Never drops a requirement in silence (K8): what placement has no word for becomes a sentence in `unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from zlib import crc32

import msgspec

from spinney.api import quantity
from spinney.api.builtin.pod import Affinity, Container, Pod, PodAffinityTerm, PodSpec
from spinney.api.builtin.selection import LabelSelector, NodeSelectorTerm, SelectorRequirement, to_selector
from spinney.api.labels import GPU_FRACTION, GPU_MEMORY, HOSTNAME
from spinney.api.placement.problem import ANY_NODE, Amounts, NodeFilter, NodeTerm, PreferredTerm, Term, Toleration

MOST_SHAPES = 65_536
MAX_AMOUNT = 2**63 - 1
FIRST_TOKEN = 2**16

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SHARING = (GPU_FRACTION, GPU_MEMORY)
_Written = Mapping[str, str | int | float]
_Sums = dict[str, int]


class PodShape(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods of one shape are interchangeable to placement. `unsupported` is a sentence, "" if there is nothing.

    Pods that keep apart on hosts share a number among their `host_ports` that is no port: so they are kept apart
    from each other in any pod set and any gang. `anti_affinity` are other labels by which pods of one set keep apart.
    """

    request: Amounts
    filter: NodeFilter = ANY_NODE
    host_ports: frozenset[int] = frozenset()
    anti_affinity: tuple[str, ...] = ()
    unsupported: str = ""


class Shapes:
    """Shapes of pods on one axis of resources. Pods of one template are read once and share one value."""

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
            found = self._known[key] = self._read(pod)
        return found

    def _read(self, pod: Pod) -> PodShape:
        sums = requests(pod)
        keys, tokens, repelled = _own_anti_affinity(pod)
        complaints = [*_unreadable(pod.spec), *_unoffered(sums, self.resources), *_unsupported(pod), *repelled]
        return PodShape(
            request=tuple([min(sums.get(name, 0), MAX_AMOUNT) for name in self.resources]),
            filter=_filter(pod.spec),
            host_ports=host_ports(pod) | tokens,
            anti_affinity=keys,
            unsupported="; ".join(complaints),
        )


@lru_cache(maxsize=4)
def shapes_on(resources: tuple[str, ...]) -> Shapes:
    """The one memory of shapes for an axis."""
    return Shapes(resources)


def requests(pod: Pod) -> dict[str, int]:
    """What a pod costs in base units, rounded up: containers with sidecars or the widest start, plus overhead; one pod.

    A sidecar is started in its turn and stays: an init container runs beside the sidecars before it. Where the pod
    itself states an amount, that counts instead of its containers'. An amount that can not be read counts as nothing.
    """
    spec = pod.spec
    running: _Sums = {}
    start: _Sums = {}
    for container in spec.init_containers:
        asked = _units(container.resources.requests)
        if _is_sidecar(container):
            _add(running, asked)
            _widen(start, running)
        else:
            _add(asked, running)
            _widen(start, asked)
    for container in spec.containers:
        _add(running, _units(container.resources.requests))
    _widen(running, start)
    if spec.resources is not None:
        running.update(_units(spec.resources.requests))
    _add(running, _units(spec.overhead or {}))
    running["pods"] = 1
    return running


def host_ports(pod: Pod) -> frozenset[int]:
    """Numbers only: another protocol or address on the same number counts as taken."""
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
    """Everything a shape depends on, and nothing that differs between pods of one template."""
    spec, metadata = pod.spec, pod.metadata
    affinity = spec.affinity
    terms = _anti_affinity_terms(affinity)
    return (
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        spec.node_selector,
        affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.host_network,
        terms and (metadata.namespace, [metadata.labels.get(key) for term in terms for key in _selected_keys(term)]),
        [key for key in _SHARING if key in metadata.annotations],
    )


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _units(written: _Written) -> _Sums:
    return {name: _amount(name, value) for name, value in written.items()}


def _amount(resource: str, written: str | int | float) -> int:
    """Nothing where it can not be read or is negative."""
    try:
        read = quantity.milli(written) if resource == "cpu" else quantity.base_units(written, round_up=True)
    except ValueError:
        return 0
    return max(0, min(read, MAX_AMOUNT))


def _unreadable(spec: PodSpec) -> Iterator[str]:
    stated = [each.resources.requests for each in (*spec.containers, *spec.init_containers)]
    stated += [spec.overhead or {}, spec.resources.requests if spec.resources is not None else {}]
    for name, value in sorted({(name, str(value)) for each in stated for name, value in each.items()}):
        if not quantity.is_valid(value):
            yield f"{name}: {value} is not a quantity"


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
    affinity = pod.spec.affinity
    if affinity is not None and affinity.pod_affinity is not None and affinity.pod_affinity.required:
        yield f"affinity.podAffinity.{_REQUIRED} can not be honoured"
    for index, spread in enumerate(pod.spec.topology_spread_constraints):
        if spread.when_unsatisfiable != "ScheduleAnyway":
            yield f"topologySpreadConstraints[{index}] with whenUnsatisfiable DoNotSchedule can not be honoured"
    for key in _SHARING:
        if key in pod.metadata.annotations:
            yield f"annotation {key} can not be honoured: a GPU is given to one pod"


def _own_anti_affinity(pod: Pod) -> tuple[tuple[str, ...], frozenset[int], list[str]]:
    """How pods like this one keep apart: by topology keys and host numbers; and terms that say anything else."""
    keys: set[str] = set()
    tokens: set[int] = set()
    complaints: list[str] = []
    for index, term in enumerate(_anti_affinity_terms(pod.spec.affinity)):
        complaint = _stranger(term, pod)
        if complaint:
            complaints.append(f"affinity.podAntiAffinity.{_REQUIRED}[{index}] {complaint}")
        elif term.topology_key == HOSTNAME:
            tokens.add(_token(term, pod.metadata.namespace))
        else:
            keys.add(term.topology_key)
    return tuple(sorted(keys)), frozenset(tokens), complaints


def _token(term: PodAffinityTerm, namespace: str) -> int:
    """The same number for the same selector in the same namespace, beyond all ports."""
    selector = term.label_selector or LabelSelector()
    labels = sorted(selector.match_labels.items())
    expressions = sorted((one.key, one.operator, sorted(one.values)) for one in selector.match_expressions)
    return FIRST_TOKEN + crc32(msgspec.json.encode((namespace, labels, expressions)))


def _selected_keys(term: PodAffinityTerm) -> list[str]:
    selector = term.label_selector or LabelSelector()
    return [*selector.match_labels, *(one.key for one in selector.match_expressions)]


def _anti_affinity_terms(affinity: Affinity | None) -> tuple[PodAffinityTerm, ...]:
    anti = affinity.pod_anti_affinity if affinity is not None else None
    return anti.required if anti is not None else ()


def _stranger(term: PodAffinityTerm, pod: Pod) -> str:
    """Why a term is not about the pods beside this one; "": it is."""
    if term.namespace_selector is not None or set(term.namespaces) - {pod.metadata.namespace}:
        return "can not be honoured: it selects pods of other namespaces"
    if term.match_label_keys or term.mismatch_label_keys:
        return "can not be honoured: matchLabelKeys and mismatchLabelKeys are not understood"
    try:
        selected = to_selector(term.label_selector).matches(pod.metadata.labels)
    except ValueError as error:
        return f"can not be read: {error}"
    return "" if selected else "can not be honoured: it selects other pods than its own set"
