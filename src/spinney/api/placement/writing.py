"""A result in the exchange format: plain JSON values, every map and list in a fixed order.

Equal results give equal documents, down to the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from kube_apimachinery import quantity
from spinney.api.placement.problem import VERSION, Document
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
