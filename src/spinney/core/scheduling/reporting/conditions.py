"""Transitions of conditions: which stay, which are replaced, and what counts as a change.

Numbers in a message do not count: a domain that holds three pods instead of two is no change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kube_apimachinery.integers import read_number
from spinney.api.builtin.pod import PodCondition
from spinney.api.changes import Json
from spinney.api.kinds.podgroup import SchedulingCondition
from spinney.core.expansion.objects import format_time, to_builtins
from spinney.core.scheduling.reporting.report import Report

UNSCHEDULABLE_ON_NODE_POOL = "UnschedulableOnNodePool"
POD_SCHEDULED = "PodScheduled"

_NUMBER = re.compile(r"\d+")


def alike(one: str, other: str) -> bool:
    """Whether two messages are equal but for numbers."""
    return one == other or _NUMBER.sub("#", one) == _NUMBER.sub("#", other)


def current(before: Sequence[SchedulingCondition], node_pool: str) -> SchedulingCondition | None:
    """The last condition of a node pool."""
    kind = UNSCHEDULABLE_ON_NODE_POOL
    return next((one for one in reversed(before) if one.node_pool == node_pool and one.type == kind), None)


def next_conditions(
    before: Sequence[SchedulingCondition], report: Report, node_pool: str, now_s: float
) -> list[Json] | None:
    """The whole list after a report, the newest last; None: no change."""
    old = current(before, node_pool)
    others = [to_builtins(one) for one in before if one is not old]
    if report.clears:
        return None if old is None else others
    said = report.condition
    if said is None or (old is not None and (old.message, old.reason) == (said["message"], said["reason"])):
        return None
    if old is not None and alike(old.message, said["message"]):
        unmoved = {"transitionID": old.transition_id, "lastTransitionTime": old.last_transition_time}
        return [*others, {**said, **unmoved}]
    number = 1 + max([read_number(one.transition_id) or 0 for one in before], default=0)
    return [*others, {**said, "transitionID": str(number), "lastTransitionTime": format_time(now_s)}]


def pod_condition(before: PodCondition | None, said: tuple[str, str], now_s: float) -> Json | None:
    """PodScheduled=False with reason and message; None: no change."""
    reason, message = said
    if before is not None and (before.status, before.reason) == ("False", reason) and alike(before.message, message):
        return None
    return {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now_s),
    }
