"""Status of a deployment: components, Ready with its reason, topology translated by reason, score (D9, D10, D13)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from spinney.api.changes import Change, Json, Notify, Resource
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.kinds.podgang import PodGang
from spinney.api.meta import Condition, condition
from spinney.core.expansion.conditions import FALSE, TRUE, UNKNOWN, Finding, conditions
from spinney.core.expansion.dynamo.readiness import Progress
from spinney.core.expansion.objects import report

READY, ENFORCED, AVAILABLE = "Ready", "TopologyConstraintsEnforced", "TopologyLevelsAvailable"
FAILED = "failed_to_reconcile_the_resources"
_ALL_READY = "all_resources_are_ready"
_MIXED = "mixed_not_ready_reasons"
_PENDING = ("TopologyConditionPending", "Waiting for topology condition from the scheduling framework")
_ALL_THERE = ("AllTopologyLevelsAvailable", "All required topology levels are available in the cluster topology")
_DOMAINS = re.compile(r"\[([^\]]*)\]")
_LOST = "Topology constraints no longer enforced: "


@dataclass(frozen=True, slots=True)
class Failure:
    """Why nothing could be generated, or why what was generated was refused."""

    reason: str
    message: str


def topology_finding(found: Condition | None, generation: int) -> tuple[str, str, str]:
    """Status, reason and message by the condition `TopologyLevelsUnavailable` of a set of this generation: the reason
    decides.
    """
    if found is None or 0 < found.observed_generation < generation:
        return UNKNOWN, *_PENDING
    if found.status == FALSE:
        return TRUE, *_ALL_THERE
    if found.reason in ("ClusterTopologyNotFound", "TopologyNameMissing"):
        return FALSE, "TopologyDefinitionNotFound", found.message
    if found.status == TRUE:
        return FALSE, "TopologyLevelsUnavailable", _levels_gone(found.message)
    if found.reason == "TopologyAwareSchedulingDisabled":
        return FALSE, "TopologyAwareSchedulingDisabled", found.message
    return UNKNOWN, *_PENDING


def _levels_gone(message: str) -> str:
    """The framework's words in ours; as they are where they are not understood."""
    found = _DOMAINS.search(message)
    domains = found.group(1).replace(",", " ").split() if found else []
    if not domains:
        return message
    shown = ", ".join(f"'{domain}'" for domain in domains)
    words = f"level {shown} is" if len(domains) == 1 else f"levels {shown} are"
    return f"Topology {words} no longer available in the cluster topology"


def ready_finding(workload: str, progress: Sequence[Progress], failure: Failure | None) -> Finding:
    if failure is not None:
        return Finding(READY, FALSE, failure.reason, failure.message)
    waiting = [one for one in progress if one.why]
    if not waiting:
        return Finding(READY, TRUE, _ALL_READY, "All resources are ready")
    reasons = {one.reason for one in waiting}
    reason = reasons.pop() if len(reasons) == 1 else _MIXED
    shown = "; ".join(f"{workload}: {one.name}: {one.why}" for one in waiting)
    return Finding(READY, FALSE, reason, f"Resources not ready: {shown}")


def placement_of(gangs: Sequence[PodGang]) -> Json | None:
    """The mean of what the gangs report; partial where some do not."""
    if not gangs:
        return None
    scores = [gang.status.placement_score for gang in gangs if gang.status.placement_score is not None]
    if not scores:
        return {"state": "Unknown"}
    return {"score": sum(scores) / len(scores), "state": "Reported" if len(scores) == len(gangs) else "Partial"}


@dataclass(frozen=True, slots=True)
class Seen:
    """What the status is made of. `topology`: status, reason and message, None without constraints."""

    workload: str
    progress: Sequence[Progress]
    topology: tuple[str, str, str] | None
    gangs: Sequence[PodGang] = ()
    failure: Failure | None = None
    restart: Json | None = None


def status_changes(resource: Resource, typed: DynamoGraphDeployment, seen: Seen, now_s: float) -> tuple[Change, ...]:
    """The status, if it changes, and events about what got better or worse."""
    before, generation = typed.status, typed.metadata.generation
    ready = ready_finding(seen.workload, seen.progress, seen.failure)
    findings = [ready]
    if seen.topology is not None:
        findings += [Finding(kind, *seen.topology) for kind in (ENFORCED, AVAILABLE)]
    gone = () if seen.topology is not None else (ENFORCED, AVAILABLE)
    wanted: Json = {
        "observedGeneration": generation,
        "state": _state(ready, seen.failure),
        "conditions": conditions(before.conditions, findings, now_s, generation, gone),
    }
    told = {one.name: one.status for one in seen.progress if one.status is not None}
    if told:
        wanted["components"] = told
    placement = placement_of(seen.gangs)
    if placement is not None:
        wanted["placement"] = placement
    if seen.restart is not None:
        wanted["restart"] = seen.restart
    written = report(resource, typed.metadata, before, wanted)
    return (*written, *_notices(resource, typed, seen)) if written else ()


def _state(ready: Finding, failure: Failure | None) -> str:
    if failure is not None:
        return "failed"
    return "successful" if ready.status == TRUE else "pending"


def _notices(resource: Resource, typed: DynamoGraphDeployment, seen: Seen) -> list[Notify]:
    target, metadata = resource.of(typed.metadata), typed.metadata
    found: list[Notify] = []

    def tell(reason: str, message: str, *, warning: bool) -> None:
        found.append(Notify(target, metadata.uid, reason, message, metadata.resource_version, warning=warning))

    if seen.topology is not None:
        old = condition(typed.status.conditions, ENFORCED)
        status, reason, message = seen.topology
        changed = old is None or (old.status, old.reason, old.message) != seen.topology
        if changed and status == FALSE:
            tell(reason, _LOST + message, warning=True)
        elif status == TRUE and (old is None or old.status != TRUE):
            tell("TopologyConstraintsApplied", "Topology constraints applied: " + message, warning=False)
    if seen.failure is not None:
        was = condition(typed.status.conditions, READY)
        if was is None or was.message != seen.failure.message:
            tell(seen.failure.reason, seen.failure.message, warning=True)
    return found


def typed_of(deployment: Json) -> DynamoGraphDeployment:
    return msgspec.convert(deployment, DynamoGraphDeployment)
