"""The exchange format written: a result, or a problem as short as it can be said, without what is at its default.

Reading what is written here gives the same problem.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

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
from spinney.api.placement.result import (
    Blocked,
    Decision,
    Explanation,
    FitsAtLevel,
    FitsWithCount,
    FitsWithVictims,
    FitsWithWholeSet,
    Move,
    Placement,
    Relaxation,
    Result,
    Shortfall,
    Victim,
)

# A result in the exchange format: plain JSON values, every map and list in a fixed order.
#
# Equal results give equal documents, down to the bytes.


def write_result(result: Result) -> Document:
    return {"version": VERSION, "gangs": [_decision(one) for one in result.gangs]}


def _decision(one: Decision) -> Document:
    return {
        "name": one.name,
        "outcome": one.outcome,
        "waits": one.waits,
        "proved": one.proved,
        "score": None if one.score is None else float(one.score),
        "placements": [_placement(each) for each in one.placements],
        "domains": [{"group": each.group, "level": each.level, "path": list(each.path)} for each in one.domains],
        "victims": _victims(one.victims),
        "moves": [_move(each) for each in one.moves],
        "explanation": _explanation(one.explanation) if one.explanation else {},
    }


def _placement(one: Placement) -> Document:
    return {"pods": one.pods, "index": one.index, "node": one.node} | _zone_name(zone=one.zone)


def _victims(victims: Iterable[Victim]) -> list[Document]:
    return [{"gang": one.gang, "pods": one.pods, "node": one.node} | _zone_name(zone=one.zone) for one in victims]


def _move(one: Move) -> Document:
    where = {"gang": one.gang, "pods": one.pods, "from": one.source, "to": one.target}
    return where | _zone_name(fromZone=one.source_zone, toZone=one.target_zone)


def _zone_name(**zones: str) -> Document:
    """Only divided nodes have zones to name."""
    return {name: zone for name, zone in zones.items() if zone}


def _explanation(one: Explanation) -> Document:
    return {
        "reason": one.reason,
        "group": one.group,
        "level": one.level,
        "considered": one.considered,
        "best": [_shortfall(each) for each in one.best],
        "blocked": _blocked(one.blocked) if one.blocked else {},
        "fitsIf": [_relaxation(each) for each in one.fits_if],
    }


def _shortfall(one: Shortfall) -> Document:
    short = {name: _missing(name, amount) for name, amount in sorted(one.short.items())}
    return {"path": list(one.path), "holds": one.holds, "of": one.of, "short": short}


def _missing(resource: str, amount: int) -> int | str:
    """A plain number, and a quantity only where that would be a fraction: `1500m` of cpu."""
    if resource != "cpu":
        return amount
    return quantity.format_milli(amount) if amount % 1000 else amount // 1000


def _blocked(one: Blocked) -> Document:
    blocked: Document = dict(sorted(one.reasons.items()))
    if one.occupied:
        blocked["occupied"] = dict(sorted(one.occupied.items()))
    return blocked


def _relaxation(one: Relaxation) -> Document:
    match one:
        case FitsAtLevel(level=level):
            return {"level": level}
        case FitsWithCount(count=count):
            return {"count": count}
        case FitsWithVictims(victims=victims):
            return {"victims": _victims(victims)}
        case FitsWithWholeSet(gang=gang, path=path):
            return {"wholeSet": {"gang": gang, "path": list(path)}}
        case _:
            assert_never(one)


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
        podAntiAffinity=[_affinity_term(each) for each in one.pod_anti_affinity],
        podAffinity=[_affinity_term(each) for each in one.pod_affinity],
        topologySpreadConstraints=[_spread_constraint(each) for each in one.spread],
    )  # fmt: skip


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
