"""Conditions: set, kept or removed, with the last transition time of their status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spinney.api.changes import Json
from spinney.api.meta import Condition, condition
from spinney.core.expansion.objects import format_time, to_builtins

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """The desired state of a condition."""

    type: str
    status: str
    reason: str
    message: str


def conditions(
    before: tuple[Condition, ...],
    findings: Iterable[ConditionChange],
    now_s: float,
    generation: int,
    gone: Sequence[str] = (),
) -> list[Json]:
    """The whole list: findings replace conditions of their type, `gone` types are removed, others are kept."""
    by_type = {finding.type: finding for finding in findings}
    result: list[Json] = []
    for old in before:
        finding = by_type.pop(old.type, None)
        if finding is not None:
            result.append(_said(finding, old, now_s, generation))
        elif old.type not in gone:
            result.append(to_builtins(old))
    result += [_said(finding, None, now_s, generation) for finding in by_type.values()]
    return result


def holds(before: tuple[Condition, ...], kind: str) -> bool:
    found = condition(before, kind)
    return found is not None and found.status == TRUE


def _said(finding: ConditionChange, old: Condition | None, now_s: float, generation: int) -> Json:
    same = old is not None and old.status == finding.status
    said: Json = {
        "type": finding.type,
        "status": finding.status,
        "lastTransitionTime": old.last_transition_time if same and old is not None else format_time(now_s),
        "reason": finding.reason,
        "message": finding.message,
    }
    if generation:
        said["observedGeneration"] = generation
    return said
