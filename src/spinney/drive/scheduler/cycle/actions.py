"""The actions that a cycle returns, as values."""

from __future__ import annotations

from dataclasses import dataclass

from spinney.api.builtin.pod import Pod
from spinney.api.meta import ObjectMeta
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.cycle.nominated_plans import NominatedAction
from spinney.drive.scheduler.cycle.stale_gangs import EvictStale, MarkStale
from spinney.drive.scheduler.execution.plan_executor import PlanTask
from spinney.drive.scheduler.execution.plan_store import RejectedRecord


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Record a plan and carry it out."""

    key: Key
    plan_task: PlanTask


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """Carry out a recorded plan. `why`: some of its assignments are not valid; the reason is reported."""

    key: Key
    plan_task: PlanTask
    why: str = ""


@dataclass(frozen=True, slots=True)
class DiscardRecord:
    """Remove a record that is not a valid plan. `pods`: those that its writer may be about to bind."""

    key: Key
    group: ObjectMeta
    rejected: RejectedRecord
    pods: tuple[Pod, ...]


Action = StartPlan | ResumePlan | DiscardRecord | NominatedAction | MarkStale | EvictStale
Step = Action | None
"""None: a gang was read or decided, and there is nothing to do."""
