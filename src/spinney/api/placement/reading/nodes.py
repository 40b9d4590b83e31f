"""The nodes of a problem. Equal texts, amounts and taints become one value: large clusters repeat themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from spinney.api.placement.problem import (
    ANY_NODE,
    ZONE_POLICIES,
    Amounts,
    Node,
    NodeFilter,
    NodeTerm,
    PreferredTerm,
    Taint,
    Term,
    Toleration,
    Zone,
)
from spinney.api.placement.reading.fields import Path, Scale, distinct, one_of, ports, refused
from spinney.api.placement.reading.wire import (
    WireAffinity,
    WireNode,
    WireNodeTerm,
    WirePodSet,
    WirePreferredTerm,
    WireTaint,
    WireTerm,
    WireToleration,
    WireZone,
)

# Node filters as a pod spec writes them: selector, node affinity and tolerations; and the taints they meet.
#
# Judged as Kubernetes judges them. A filter that can not be understood is refused, never taken as "any node".

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_MAX_WEIGHT = 100
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def read_filter(wire: WirePodSet, path: Path) -> NodeFilter:
    if not (wire.node_selector or wire.affinity or wire.tolerations):
        return ANY_NODE
    required, preferred = _node_affinity(wire.affinity, (*path, "affinity", "nodeAffinity"))
    tolerations = enumerate(wire.tolerations or ())
    return NodeFilter(
        selector=tuple(sorted((wire.node_selector or {}).items())),
        required=required,
        preferred=preferred,
        tolerations=tuple(_toleration(one, (*path, "tolerations", index)) for index, one in tolerations),
    )


def unsupported(affinity: WireAffinity | None) -> str:
    """What of an affinity is understood and can not be honoured, as a sentence that names the fields."""
    if affinity is None:
        return ""
    asked = {"podAffinity": affinity.pod_affinity, "podAntiAffinity": affinity.pod_anti_affinity}
    found = [f"affinity.{name}" for name, content in asked.items() if content]
    return f"{' and '.join(found)} can not be honoured" if found else ""


def read_taints(wire: tuple[WireTaint, ...], path: Path) -> tuple[Taint, ...]:
    return tuple(
        Taint(one.key, one.value or "", one_of(one.effect, "", _EFFECTS, (*path, index, "effect")))
        for index, one in enumerate(wire)
    )


def _toleration(wire: WireToleration, path: Path) -> Toleration:
    key, value = wire.key or "", wire.value or ""
    operator = one_of(wire.operator or None, "Equal", ("Equal", "Exists"), (*path, "operator"))
    effect = one_of(wire.effect or None, "", _EFFECTS, (*path, "effect"))
    if not key and operator != "Exists":
        raise refused((*path, "operator"), operator, "Exists where there is no key")
    if value and operator == "Exists":
        raise refused((*path, "value"), value, "no value where the operator is Exists")
    return Toleration(key, operator, value, effect)


def _node_affinity(
    affinity: WireAffinity | None, path: Path
) -> tuple[tuple[NodeTerm, ...] | None, tuple[PreferredTerm, ...]]:
    found = affinity.node_affinity if affinity else None
    if found is None:
        return None, ()
    required = None
    if found.required is not None:
        here = (*path, _REQUIRED, "nodeSelectorTerms")
        terms = enumerate(found.required.node_selector_terms or ())
        required = tuple(_node_term(one, (*here, index)) for index, one in terms)
    weighted = enumerate(found.preferred or ())
    return required, tuple(_preferred(one, (*path, _PREFERRED, index)) for index, one in weighted)


def _preferred(wire: WirePreferredTerm, path: Path) -> PreferredTerm:
    if not 1 <= wire.weight <= _MAX_WEIGHT:
        raise refused((*path, "weight"), wire.weight, f"a weight from 1 to {_MAX_WEIGHT}")
    return PreferredTerm(wire.weight, _node_term(wire.preference, (*path, "preference")))


def _node_term(wire: WireNodeTerm, path: Path) -> NodeTerm:
    labels, fields = enumerate(wire.match_expressions or ()), enumerate(wire.match_fields or ())
    return NodeTerm(
        expressions=tuple(_label_term(one, (*path, "matchExpressions", index)) for index, one in labels),
        fields=tuple(_field_term(one, (*path, "matchFields", index)) for index, one in fields),
    )


def _label_term(wire: WireTerm, path: Path) -> Term:
    operator = one_of(wire.operator, "", _OPERATORS, (*path, "operator"))
    values = wire.values or ()
    here = (*path, "values")
    match operator:
        case "In" | "NotIn":
            if not values:
                raise refused(here, None, f"one value or more for {operator}")
        case "Exists" | "DoesNotExist":
            if values:
                raise refused(here, values, f"no values for {operator}")
        case _:
            if len(values) != 1 or not _INTEGER.fullmatch(values[0]):
                raise refused(here, values[0] if len(values) == 1 else values, f"one whole number for {operator}")
    return Term(wire.key, operator, values)


def _field_term(wire: WireTerm, path: Path) -> Term:
    """Of a node's fields only its name can be asked for."""
    one_of(wire.key, "", ("metadata.name",), (*path, "key"))
    operator = one_of(wire.operator, "", ("In", "NotIn"), (*path, "operator"))
    values = wire.values or ()
    if len(values) != 1:
        raise refused((*path, "values"), values or None, "one node name")
    return Term(wire.key, operator, values)


def read_nodes(wire: tuple[WireNode, ...], resources: tuple[str, ...], scale: Scale) -> tuple[Node, ...]:
    distinct([one.name for one in wire], ("nodes",), "name")
    return tuple(_Nodes(resources, scale).read(wire))


class _Nodes:
    """Remembers what other nodes had."""

    def __init__(self, resources: tuple[str, ...], scale: Scale) -> None:
        self._resources = resources
        self._scale = scale
        self._texts: dict[str, str] = {}
        self._taints: dict[tuple[WireTaint, ...], tuple[Taint, ...]] = {(): ()}

    def read(self, wire: Iterable[WireNode]) -> Iterable[Node]:
        scale = self._scale
        for index, one in enumerate(wire):
            path: Path = ("nodes", index)
            used = scale.demand(one.used, (*path, "used"))
            yield Node(
                name=one.name,
                labels=self._labels(one.labels),
                allocatable=scale.supply(one.allocatable, (*path, "allocatable")),
                used=used,
                releasing=self._releasing(one, used, (*path, "releasing")),
                taints=self._met(one.taints or (), (*path, "taints")),
                unschedulable=bool(one.unschedulable),
                ready=one.ready is not False,
                host_ports=ports(one.host_ports, (*path, "hostPorts")),
                zones=self._zones(one.zones, (*path, "zones")) if one.zones else (),
                zone_policy=one_of(one.zone_policy, "", ZONE_POLICIES, (*path, "zonePolicy")),
            )

    def _zones(self, wire: tuple[WireZone, ...], path: Path) -> tuple[Zone, ...]:
        distinct([one.name for one in wire], path, "name")
        return tuple(self._zone(one, (*path, index)) for index, one in enumerate(wire))

    def _zone(self, one: WireZone, path: Path) -> Zone:
        used = self._scale.demand(one.used, (*path, "used"))
        return Zone(
            name=one.name,
            allocatable=self._scale.supply(one.allocatable, (*path, "allocatable")),
            used=used,
            releasing=self._releasing(one, used, (*path, "releasing")),
        )

    def _labels(self, labels: Mapping[str, str] | None) -> Mapping[str, str]:
        shared = self._texts.setdefault
        return {shared(key, key): shared(value, value) for key, value in labels.items()} if labels else {}

    def _releasing(self, wire: WireNode | WireZone, used: Amounts, path: Path) -> Amounts:
        """What is terminating is a part of what is used."""
        releasing = self._scale.supply(wire.releasing, path)
        if wire.releasing:
            for name, amount, most in zip(self._resources, releasing, used, strict=True):
                if amount > most:
                    raise refused((*path, name), wire.releasing[name], "no more than is used")
        return releasing

    def _met(self, wire: tuple[WireTaint, ...], path: Path) -> tuple[Taint, ...]:
        found = self._taints.get(wire)
        if found is None:
            found = self._taints[wire] = read_taints(wire, path)
        return found
