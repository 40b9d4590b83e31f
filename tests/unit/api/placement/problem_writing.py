"""A problem in the exchange format as short as it can be said: what reading it must give back."""

from __future__ import annotations

from typing import Any

from kube_apimachinery import quantity
from spinney.api.placement.problem import (
    VERSION,
    AffinityTerm,
    Amounts,
    Consolidate,
    Document,
    Gang,
    Group,
    Node,
    NodeFilter,
    NodeTerm,
    Options,
    PodSet,
    Problem,
    SpreadConstraint,
    Taint,
    Term,
    Toleration,
    Topology,
    Zone,
)


def write_problem(problem: Problem) -> Document:
    document = {
        "version": VERSION,
        "resources": list(problem.resources),
        "topologies": [_topology(one) for one in problem.topologies],
        "nodes": [_node(one, problem.resources) for one in problem.nodes],
        "gangs": [_gang(one, problem.resources) for one in problem.gangs],
    }
    if options := _options(problem.options):
        document["options"] = options
    return document


def _topology(one: Topology) -> Document:
    return {"name": one.name, "levels": list(one.levels)} | _present(zones=one.zones)


def _node(one: Node, resources: tuple[str, ...]) -> Document:
    written: Document = {"name": one.name, "labels": dict(sorted(one.labels.items()))}
    return written | _present(
        allocatable=_amounts(one.allocatable, resources),
        used=_amounts(one.used, resources),
        releasing=_amounts(one.releasing, resources),
        taints=[_taint(each) for each in one.taints],
        unschedulable=one.unschedulable,
        hostPorts=sorted(one.host_ports),
        zones=[_zone(each, resources) for each in one.zones],
        zonePolicy=one.zone_policy,
    ) | ({} if one.ready else {"ready": False})  # fmt: skip


def _zone(one: Zone, resources: tuple[str, ...]) -> Document:
    written: Document = {"name": one.name}
    return written | _present(
        allocatable=_amounts(one.allocatable, resources),
        used=_amounts(one.used, resources),
        releasing=_amounts(one.releasing, resources),
    )  # fmt: skip


def _amounts(amounts: Amounts, resources: tuple[str, ...]) -> dict[str, str]:
    return {name: _quantity(name, amount) for name, amount in zip(resources, amounts, strict=True) if amount}


def _quantity(resource: str, amount: int) -> str:
    match resource:
        case "cpu":
            return quantity.format_milli(amount)
        case "memory":
            return quantity.format_bytes(amount)
        case _:
            return str(amount)


def _taint(one: Taint) -> Document:
    return {"key": one.key} | _present(value=one.value) | {"effect": one.effect}


def _gang(one: Gang, resources: tuple[str, ...]) -> Document:
    written: Document = {"name": one.name} | _present(priority=one.priority)
    if not one.preemptible:
        written["preemptible"] = False
    if one.tied_to:
        written["tiedTo"] = {"gang": one.tied_to.gang, "level": one.tied_to.level}
    written |= _tree(one.root, resources)
    return written | _present(
        running=[{"pods": each.pods, "node": each.node} | _present(zone=each.zone) for each in one.running]
    )


def _group(one: Group, resources: tuple[str, ...]) -> Document:
    return {"name": one.name} | _tree(one, resources)


def _tree(one: Group, resources: tuple[str, ...]) -> Document:
    return _constraints(one) | _present(
        groups=[_group(each, resources) for each in one.groups],
        pods=[_pod_set(each, resources) for each in one.pods],
    )


def _constraints(one: Group | PodSet) -> Document:
    least = one.min_groups if isinstance(one, Group) else None
    asked = {"topology": one.topology, "required": one.required, "preferred": one.preferred, "minGroups": least}
    return {name: value for name, value in asked.items() if value is not None}


def _pod_set(one: PodSet, resources: tuple[str, ...]) -> Document:
    request = _amounts(one.request, resources)
    request.pop("pods", None)
    written: Document = {"name": one.name, "count": one.count, "min": one.min} | _present(request=request)
    return written | _constraints(one) | _present(
        nodeSelector=dict(one.filter.selector),
        affinity=_affinity(one),
        tolerations=[_toleration(each) for each in one.filter.tolerations],
        hostPorts=sorted(one.host_ports),
        antiAffinity=list(one.anti_affinity),
        podAntiAffinity=[*map(_affinity_term, one.pod_anti_affinity), *_preferred(one, "apart")],
        podAffinity=[*map(_affinity_term, one.pod_affinity), *_preferred(one, "near")],
        topologySpreadConstraints=[*map(_spread_constraint, one.spread), *_preferred(one, "spread")],
    )  # fmt: skip


def _preferred(one: PodSet, kind: str) -> list[Document]:
    found = [each for each in one.affinity_preferences if each.kind == kind]
    if kind == "spread":
        written = [_spread_constraint(SpreadConstraint(each.key, each.max_skew, each.min_domains)) for each in found]
    else:
        written = [_affinity_term(AffinityTerm(each.key, each.pods, each.domains)) for each in found]
    return [each | {"weight": preference.weight} for each, preference in zip(written, found, strict=True)]


def _affinity_term(one: AffinityTerm) -> Document:
    return {"topologyKey": one.key, "pods": list(one.pods)} | _present(domains=list(one.domains))


def _spread_constraint(one: SpreadConstraint) -> Document:
    least = {"minDomains": one.min_domains} if one.min_domains > 1 else {}
    return {"topologyKey": one.key, "maxSkew": one.max_skew} | least


def _affinity(one: PodSet) -> Document:
    """Affinity between pods is written as a mark: the problem knows that it was there, not what it said."""
    mark: Document = {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}
    between = {name: mark for name in ("podAffinity", "podAntiAffinity") if f".{name}" in one.unsupported}
    return _present(nodeAffinity=_node_affinity(one.filter)) | between


def _node_affinity(one: NodeFilter) -> Document:
    written: Document = {}
    if one.required is not None:
        terms = [_node_term(each) for each in one.required]
        written["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    weighted = [{"weight": each.weight, "preference": _node_term(each.term)} for each in one.preferred]
    return written | _present(preferredDuringSchedulingIgnoredDuringExecution=weighted)


def _node_term(one: NodeTerm) -> Document:
    return _present(
        matchExpressions=[_term(each) for each in one.expressions], matchFields=[_term(each) for each in one.fields]
    )


def _term(one: Term) -> Document:
    return {"key": one.key, "operator": one.operator} | _present(values=list(one.values))


def _toleration(one: Toleration) -> Document:
    return _present(key=one.key, operator=one.operator, value=one.value, effect=one.effect)


def _options(one: Options) -> Document:
    standard = Options()
    written: Document = {
        name: getattr(one, name)
        for name in ("strategy", "budget", "preempt", "extras")
        if getattr(one, name) != getattr(standard, name)
    }
    return written | _present(consolidate=_consolidate(one.consolidate) if one.consolidate else None)


def _consolidate(one: Consolidate) -> Document:
    return {"maxMoves": one.max_moves, "maxLoss": one.max_loss}


def _present(**fields: Any) -> Document:
    return {name: value for name, value in fields.items() if value}
