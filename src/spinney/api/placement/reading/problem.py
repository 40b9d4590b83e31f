"""The reader: a document in the exchange format, text or plain values, to a `Problem`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from spinney.api import documents
from spinney.api.documents import DocumentError, Limits
from spinney.api.placement.problem import (
    DEFAULT_BUDGET,
    AffinityPreference,
    AffinityTerm,
    Consolidate,
    Gang,
    Group,
    NodeFilter,
    Options,
    PodSet,
    Problem,
    Running,
    SpreadConstraint,
    Tie,
    Topology,
)
from spinney.api.placement.reading.fields import (
    MAX_AMOUNT,
    MAX_DEPTH,
    Path,
    Scale,
    Unreadable,
    distinct,
    one_of,
    ports,
    refused,
    too_deep,
    whole,
)
from spinney.api.placement.reading.nodes import read_filter, read_nodes, unsupported
from spinney.api.placement.reading.wire import (
    WireAffinityTerm,
    WireConsolidate,
    WireGang,
    WireGroup,
    WireNearTerm,
    WireOptions,
    WirePodSet,
    WireRunning,
    WireTopology,
    structured,
)

# The gangs of a problem: trees of groups and pod sets, and their members that already run.
#
# Mistakes that have an answer (`invalid`) are not judged here: unknown levels, a minimum above the count, equal names.

MAX_WEIGHT = 100
"""As in a pod spec."""

Nodes = Mapping[str, frozenset[str]]
"""Names of the nodes that exist, and of their zones."""


def read_gangs(wire: tuple[WireGang, ...], scale: Scale, nodes: Nodes) -> tuple[Gang, ...]:
    distinct([one.name for one in wire], ("gangs",), "name")
    reader = _Gangs(scale, nodes)
    return tuple(reader.gang(one, ("gangs", index)) for index, one in enumerate(wire))


class _Gangs:
    """Knows the nodes that exist and the filters seen so far: equal ones become one value."""

    def __init__(self, scale: Scale, nodes: Nodes) -> None:
        self._scale = scale
        self._nodes = nodes
        self._filters: dict[NodeFilter, NodeFilter] = {}

    def gang(self, wire: WireGang, path: Path) -> Gang:
        root = self._group(wire, "", path, path, 0)
        return Gang(
            name=wire.name,
            root=root,
            priority=_priority(wire.priority, (*path, "priority")),
            preemptible=wire.preemptible is not False,
            tied_to=Tie(wire.tied_to.gang, wire.tied_to.level) if wire.tied_to else None,
            running=self._running(wire.running, root, path) if wire.running else (),
        )

    def _group(self, wire: WireGang | WireGroup, name: str, path: Path, gang: Path, depth: int) -> Group:
        if depth > MAX_DEPTH:
            raise too_deep(gang)
        groups, pods = enumerate(wire.groups or ()), enumerate(wire.pods or ())
        return Group(
            name=name,
            groups=tuple(self._child(one, (*path, "groups", index), gang, depth + 1) for index, one in groups),
            pods=tuple(self._pod_set(one, (*path, "pods", index)) for index, one in pods),
            min_groups=wire.min_groups,
            topology=wire.topology,
            required=wire.required,
            preferred=wire.preferred,
        )

    def _child(self, wire: WireGroup, path: Path, gang: Path, depth: int) -> Group:
        return self._group(wire, _step(wire.name, path), path, gang, depth)

    def _pod_set(self, wire: WirePodSet, path: Path) -> PodSet:
        count = whole(wire.count, 1, (*path, "count"))
        found = read_filter(wire, path)
        spread, spread_preferences = _spread(wire, path)
        return PodSet(
            name=_step(wire.name, path),
            request=self._scale.request(wire.request, (*path, "request")),
            count=count,
            min=whole(wire.min, count, (*path, "min")),
            filter=self._filters.setdefault(found, found),
            host_ports=ports(wire.host_ports, (*path, "hostPorts")),
            anti_affinity=tuple(dict.fromkeys(wire.anti_affinity or ())),
            pod_anti_affinity=tuple([_apart(one) for one in wire.pod_anti_affinity or () if one.weight is None]),
            pod_affinity=tuple([_near(one) for one in wire.pod_affinity or () if one.weight is None]),
            spread=tuple(spread),
            affinity_preferences=(*_preferences(wire, path), *spread_preferences),
            topology=wire.topology,
            required=wire.required,
            preferred=wire.preferred,
            unsupported=unsupported(wire.affinity),
        )

    def _running(self, wire: tuple[WireRunning, ...], root: Group, path: Path) -> tuple[Running, ...]:
        known = frozenset(_paths(root, ""))
        for index, one in enumerate(wire):
            if one.pods not in known:
                raise refused((*path, "running", index, "pods"), one.pods, "the path of a pod set of this gang")
            if one.node not in self._nodes:
                raise refused((*path, "running", index, "node"), one.node, "the name of a node of this problem")
            if one.zone and one.zone not in self._nodes[one.node]:
                raise refused((*path, "running", index, "zone"), one.zone, f"the name of a zone of node {one.node}")
        return tuple(Running(one.pods, one.node, one.zone or "") for one in wire)


def _apart(wire: WireAffinityTerm) -> AffinityTerm:
    return AffinityTerm(wire.topology_key, tuple(dict.fromkeys(wire.pods)))


def _near(wire: WireNearTerm) -> AffinityTerm:
    domains = tuple(sorted({*(wire.domains or ())}))
    return AffinityTerm(wire.topology_key, tuple(dict.fromkeys(wire.pods)), domains)


def _spread(wire: WirePodSet, path: Path) -> tuple[list[SpreadConstraint], list[AffinityPreference]]:
    """The constraints, and the preferences: those with a weight."""
    constraints, preferences = [], []
    for at, one in enumerate(wire.topology_spread_constraints or ()):
        here = (*path, "topologySpreadConstraints", at)
        skew = _at_least_one(one.max_skew, (*here, "maxSkew"))
        least = _at_least_one(one.min_domains, (*here, "minDomains"))
        if one.weight is None:
            constraints.append(SpreadConstraint(one.topology_key, skew, least))
        else:
            weight = _weight(one.weight, (*here, "weight"))
            preferences.append(AffinityPreference(weight, "spread", one.topology_key, max_skew=skew, min_domains=least))
    return constraints, preferences


def _preferences(wire: WirePodSet, path: Path) -> Iterator[AffinityPreference]:
    """Affinity terms with a weight."""
    for at, apart in enumerate(wire.pod_anti_affinity or ()):
        if apart.weight is not None:
            weight, term = _weight(apart.weight, (*path, "podAntiAffinity", at, "weight")), _apart(apart)
            yield AffinityPreference(weight, "apart", term.key, term.pods)
    for at, near in enumerate(wire.pod_affinity or ()):
        if near.weight is not None:
            weight, term = _weight(near.weight, (*path, "podAffinity", at, "weight")), _near(near)
            yield AffinityPreference(weight, "near", term.key, term.pods, term.domains)


def _weight(number: int, path: Path) -> int:
    if not 1 <= number <= MAX_WEIGHT:
        raise refused(path, number, f"a whole number from 1 to {MAX_WEIGHT}")
    return number


def _at_least_one(number: int | None, path: Path) -> int:
    if number is not None and not 1 <= number <= MAX_AMOUNT:
        raise refused(path, number, f"a whole number from 1 to {MAX_AMOUNT}")
    return 1 if number is None else number


def _priority(number: int | None, path: Path) -> int:
    if number is None:
        return 0
    if abs(number) > MAX_AMOUNT:
        raise refused(path, number, f"a whole number from -{MAX_AMOUNT} to {MAX_AMOUNT}")
    return number


def _step(name: str, path: Path) -> str:
    """Names are joined by `/` into paths, so they are there and hold none."""
    if not name or "/" in name:
        raise refused((*path, "name"), name, "a name without /")
    return name


def _paths(group: Group, prefix: str) -> Iterator[str]:
    for pods in group.pods:
        yield prefix + pods.name
    for child in group.groups:
        yield from _paths(child, f"{prefix}{child.name}/")


PROBLEM = Limits(bytes=1024 * 1024 * 1024, depth=500, values=100_000_000, aliased=1_000_000, text_keys=True)
"""A cluster of a hundred thousand nodes with all that runs on it, and groups in groups."""


def decode_json(body: bytes) -> Any:
    """The value of a JSON text; raises Unreadable."""
    try:
        return documents.read_json(body, limits=PROBLEM)
    except DocumentError as error:
        raise Unreadable((), error.problem, error.line) from None


def decode_text(body: bytes) -> Any:
    """The value of a JSON or YAML text in UTF-8; raises Unreadable, with the line where one is known."""
    try:
        return documents.read_document(body, limits=PROBLEM)
    except DocumentError as error:
        raise Unreadable((), error.problem, error.line) from None


def line_of(body: bytes, path: Path) -> int | None:
    """The line where a field is written, if it can be found."""
    return documents.line_of(body, path)


_DEFAULTS = Consolidate()


def read_problem(document: Any) -> Problem:
    """The problem in a document of plain JSON values."""
    wire = structured(document)
    distinct(wire.resources, ("resources",))
    scale = Scale(wire.resources)
    topologies = _topologies(wire.topologies or ())
    nodes = read_nodes(wire.nodes, wire.resources, scale)
    return Problem(
        resources=wire.resources,
        topologies=topologies,
        nodes=nodes,
        gangs=read_gangs(wire.gangs, scale, {one.name: frozenset(zone.name for zone in one.zones) for one in nodes}),
        options=_options(wire.options),
    )


def _topologies(wire: tuple[WireTopology, ...]) -> tuple[Topology, ...]:
    distinct([one.name for one in wire], ("topologies",), "name")
    for index, one in enumerate(wire):
        distinct(one.levels or (), ("topologies", index, "levels"))
    return tuple(Topology(one.name, one.levels or (), bool(one.zones and one.levels)) for one in wire)


def _options(wire: WireOptions | None) -> Options:
    if wire is None:
        return Options()
    return Options(
        strategy=one_of(wire.strategy, "binpack", ("binpack", "spread"), ("options", "strategy")),
        budget=whole(wire.budget, DEFAULT_BUDGET, ("options", "budget")),
        preempt=bool(wire.preempt),
        extras=one_of(wire.extras, "place", ("place", "skip"), ("options", "extras")),
        consolidate=_consolidate(wire.consolidate, ("options", "consolidate")) if wire.consolidate else None,
    )


def _consolidate(wire: WireConsolidate, path: Path) -> Consolidate:
    loss = _DEFAULTS.max_loss if wire.max_loss is None else wire.max_loss
    if not (math.isfinite(loss) and loss >= 0):
        raise refused((*path, "maxLoss"), loss, "a number of 0 or more")
    return Consolidate(max_moves=whole(wire.max_moves, _DEFAULTS.max_moves, (*path, "maxMoves")), max_loss=loss)
