"""The actions that a cycle returns, and how they ended, as values.

Whoever carries them out (the scheduler's shell, or a what-if in memory) tells the cycle the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from spinney.api.builtin.pod import Pod
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.cycle.snapshot import Key
from spinney.core.scheduling.gang.predecessors import Place
from spinney.core.scheduling.plan import Plan
from spinney.core.scheduling.plan_records import RejectedRecord
from spinney.core.scheduling.reporting import WriteFailure
from spinney.core.scheduling.reporting.report import Event


@dataclass(frozen=True, slots=True)
class PlanTask:
    """A plan to carry out: `keys` are its existing pods, by uid; `given_up` are uids whose assignments are given up.

    `notes`: annotations that are written with the record and stay. `probes`: binds of this gang were refused before, so
    they are tried as a dry run before anything is recorded or any victim is evicted for it. `awaited`: places that
    replacements are expected back at; they stay noted.
    """

    group: ObjectMeta
    plan: Plan
    keys: Mapping[str, Key]
    given_up: frozenset[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=dict)
    probes: bool = False
    awaited: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class EvictionTarget:
    """A pod to evict. `group`: its PodGroup; `guarded`: a disruption budget covers it."""

    pod: Pod
    group: ObjectMeta | None
    event: Event
    guarded: bool = False


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


@dataclass(frozen=True, slots=True)
class Nominate:
    """Record a plan that waits, then evict its victims."""

    key: Key
    plan_task: PlanTask
    targets: tuple[EvictionTarget, ...]


@dataclass(frozen=True, slots=True)
class EvictRemaining:
    """Evict the victims of a recorded plan that are still running."""

    key: Key
    plan_task: PlanTask
    targets: tuple[EvictionTarget, ...]


@dataclass(frozen=True, slots=True)
class BindNow:
    """All victims are gone: record that the plan is to be bound, and carry it out."""

    key: Key
    plan_task: PlanTask


@dataclass(frozen=True, slots=True)
class DropPlan:
    """A recorded plan cannot succeed: its pods are decided again. `why`: the plan was never valid; it is reported."""

    key: Key
    plan_task: PlanTask
    why: str = ""


@dataclass(frozen=True, slots=True)
class MarkStale:
    """Write since when a gang is stale; empty: it no longer is. The event is recorded with it."""

    key: Key
    group: ObjectMeta
    since: str
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class EvictStale:
    """Evict what is left of a gang."""

    key: Key
    targets: tuple[EvictionTarget, ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    """No action: deciding a gang failed by our own fault. It is tried again later, and the others go on."""

    key: Key
    error: Exception


@dataclass(frozen=True, slots=True)
class DecidedAgain:
    """No action: a gang that was undecided is decided."""

    key: Key


Action = (
    StartPlan | ResumePlan | DiscardRecord | Nominate | EvictRemaining | BindNow | DropPlan | MarkStale | EvictStale
)
Step = Action | Undecided | DecidedAgain | None
"""None: a gang was read or decided, and there is nothing to do."""


class TaskStatus(Enum):
    """How the execution of an action ended."""

    DONE = "done"  # everything in the record is carried out, and the record is removed
    CONFLICT = "look"  # another writer was first, or the result of the write is unknown: read again
    LATER = "later"  # it cannot be done now
    AWAITS_VOLUMES = "awaits"  # its volumes are being provisioned
    FAILED = "failed"  # the API server refused a bind or an eviction: retried with a longer backoff
    REFUSED = "refused"  # the API server refused the record itself


@dataclass(frozen=True, slots=True)
class TaskResult:
    """`bound`: uids of pods that have a node. `failures`: writes that the API server refused."""

    task_status: TaskStatus
    bound: frozenset[str] = frozenset()
    failures: tuple[WriteFailure, ...] = ()
