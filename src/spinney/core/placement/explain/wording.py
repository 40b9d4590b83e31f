"""Explanations as text: one sentence for events, a few lines for terminals and pages.

Renders only what the explanation contains; never reads the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from kube_apimachinery.quantity import format_bytes, format_milli
from spinney.api.placement.result import (
    Blocked,
    Explanation,
    FitsAtLevel,
    FitsWithCount,
    FitsWithVictims,
    Relaxation,
    Shortfall,
)


def sentence(explanation: Explanation) -> str:
    """The reason, and the relaxations that would help."""
    ways = _ways(explanation.fits_if)
    return f"{explanation.reason}; it would fit {ways}" if ways else explanation.reason


def lines(explanation: Explanation) -> list[str]:
    """The reason, then one line each: best domains, what blocks nodes, gangs that occupy them, what would help."""
    found = [explanation.reason]
    if explanation.best:
        found.append("best: " + "; ".join(_shortfall(one) for one in explanation.best))
    if explanation.blocked is not None:
        found += _blocked(explanation.blocked)
    ways = _ways(explanation.fits_if)
    if ways:
        found.append(f"would fit: {ways}")
    return found


def amounts(short: Mapping[str, int]) -> str:
    """`24 nvidia.com/gpu and 16Gi memory`."""
    return enumerated([_amount(name, amount) for name, amount in short.items()])


def many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def place(path: Sequence[str]) -> str:
    return "/".join(path) or "the cluster"


def enumerated(words: Sequence[str], last: str = "and") -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def _amount(resource: str, amount: int) -> str:
    match resource:
        case "cpu":
            return f"{format_milli(amount)} cpu"
        case "memory" | "ephemeral-storage":
            return f"{format_bytes(amount)} {resource}"
        case "pods":
            return many(amount, "pod slot")
        case _:
            return f"{amount} {resource}"


def _shortfall(one: Shortfall) -> str:
    short = f", short of {amounts(one.short)}" if one.short else ""
    return f"{place(one.path)} holds {one.holds} of {one.of}{short}"


def _blocked(one: Blocked) -> list[str]:
    found = []
    if one.reasons:
        reasons = [f"{many(count, 'node')} {reason}" for reason, count in sorted(one.reasons.items())]
        found.append("blocked: " + ", ".join(reasons))
    if one.occupied:
        gangs = sorted(one.occupied, key=lambda name: (-one.occupied[name], name))
        found.append("occupied: " + ", ".join(f"{many(one.occupied[name], 'node')} by {name}" for name in gangs))
    return found


def _ways(ways: Sequence[Relaxation]) -> str:
    return enumerated([_way(one) for one in ways], last="or")


def _way(one: Relaxation) -> str:
    match one:
        case FitsAtLevel(level=None):
            return "without the requirement"
        case FitsAtLevel(level=level):
            return f"in one {level}"
        case FitsWithCount(count=count):
            return f"with {many(count, 'pod')}"
        case FitsWithVictims(victims=victims):
            gangs = sorted({victim.gang for victim in victims})
            return f"without {many(len(victims), 'pod')} of {enumerated(gangs)}"
        case _:
            assert_never(one)
