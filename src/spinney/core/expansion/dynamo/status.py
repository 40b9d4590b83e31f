"""Status of a deployment: how far each component is (1.3), Ready with its reason, topology by reason, score (D9, D10,
D13).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from spinney.api.changes import Change, EmitEvent, Json, Resource
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import SCALING_GROUP
from spinney.api.meta import Condition, condition
from spinney.core.expansion.dynamo import generated_labels
from spinney.core.expansion.dynamo.roles import is_group, replicas_of
from spinney.core.expansion.objects import FALSE, TRUE, UNKNOWN, ConditionChange, conditions, status_update

NOT_THERE, CAPACITY, UPDATING, NOT_READY = (
    "some_resources_are_not_ready",
    "insufficient_capacity",
    "updating",
    "pods_not_ready",
)


@dataclass(frozen=True, slots=True)
class Progress:
    """`why` is empty for a component that is ready."""

    name: str
    status: Json | None
    reason: str = ""
    why: str = ""


def progress_of(
    deployment: Json,
    component: Json,
    podcliqueset: str,
    cliques: Mapping[str, PodClique],
    groups: Mapping[str, PodCliqueScalingGroup],
) -> Progress:
    """What the object behind a component says of it."""
    name, behind = component["name"], generated_labels.child(podcliqueset, component["name"])
    wanted = replicas_of(component)
    if is_group(component):
        group = groups.get(behind)
        if group is None:
            return Progress(name, None, NOT_THERE, "resource not found")
        numbers = group.status
        ready = numbers.available_replicas
        reported = {"availableReplicas": ready}
        status = _status(deployment, component, group, "PodCliqueScalingGroup", reported)
        members = [one for _, one in sorted(cliques.items()) if one.metadata.labels.get(SCALING_GROUP) == behind]
        return _failed(_judged(name, group, wanted, ready, status), wanted, group, *members)
    clique = cliques.get(behind)
    if clique is None:
        return Progress(name, None, NOT_THERE, "resource not found")
    reported = {"readyReplicas": clique.status.ready_replicas}
    status = _status(deployment, component, clique, "PodClique", reported)
    gated = clique.status.schedule_gated_replicas
    judged = _failed(_judged(name, clique, wanted, clique.status.ready_replicas, status), wanted, clique)
    if judged.why and judged.reason != NOT_THERE and gated:
        return Progress(name, status, CAPACITY, f"schedule-gated replicas: {gated}")
    return judged


def _failed(judged: Progress, wanted: int, *behind: PodClique | PodCliqueScalingGroup) -> Progress:
    """Replace a capacity reason by the first `lastErrors` entry of the underlying objects, if creating them failed."""
    failures = [error.description for one in behind for error in one.status.last_errors]
    if judged.reason != CAPACITY or behind[0].status.scheduled_replicas >= wanted or not failures:
        return judged
    return Progress(judged.name, judged.status, NOT_THERE, failures[0])


def _judged(name: str, behind: PodClique | PodCliqueScalingGroup, wanted: int, ready: int, status: Json) -> Progress:
    numbers = behind.status
    if numbers.observed_generation is None or numbers.observed_generation < behind.metadata.generation:
        return Progress(name, status, NOT_THERE, "not yet observed")
    if wanted == 0 or numbers.replicas == numbers.updated_replicas == ready == wanted:
        return Progress(name, status)
    unscheduled = condition(numbers.conditions, "PodCliqueScheduled")
    scheduled = numbers.scheduled_replicas
    if unscheduled is not None and unscheduled.status == "False" and unscheduled.reason == "InsufficientScheduledPods":
        return Progress(name, status, CAPACITY, unscheduled.message)
    if scheduled < wanted:
        return Progress(name, status, CAPACITY, f"insufficient scheduled replicas: scheduled={scheduled}/{wanted}")
    if numbers.updated_replicas != wanted or numbers.replicas != wanted:
        return Progress(name, status, UPDATING, f"desired={wanted}, updated={numbers.updated_replicas}")
    return Progress(name, status, NOT_READY, f"scheduled but ready={ready}/{wanted}")


def _status(
    deployment: Json, component: Json, behind: PodClique | PodCliqueScalingGroup, kind: str, reported: Json
) -> Json:
    numbers = behind.status
    return {
        "componentKind": kind,
        "componentNames": [behind.metadata.name],
        "runtimeNamespace": generated_labels.dynamo_namespace(deployment, component),
        "replicas": numbers.replicas,
        "updatedReplicas": numbers.updated_replicas,
        "scheduledReplicas": numbers.scheduled_replicas,
        **reported,
    }


READY, ENFORCED, AVAILABLE = "Ready", "TopologyConstraintsEnforced", "TopologyLevelsAvailable"
FAILED = "failed_to_reconcile_the_resources"
_ALL_READY = "all_resources_are_ready"
_MIXED = "mixed_not_ready_reasons"
_PENDING = ("TopologyConditionPending", "Waiting for topology condition from the scheduling framework")
_ALL_THERE = ("AllTopologyLevelsAvailable", "All required topology levels are available in the cluster topology")
_DOMAINS = re.compile(r"\[([^\[\]]*)\]")
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


def ready_finding(workload: str, progress: Sequence[Progress], failure: Failure | None) -> ConditionChange:
    if failure is not None:
        return ConditionChange(READY, FALSE, failure.reason, failure.message)
    waiting = [one for one in progress if one.why]
    if not waiting:
        return ConditionChange(READY, TRUE, _ALL_READY, "All resources are ready")
    reasons = {one.reason for one in waiting}
    reason = reasons.pop() if len(reasons) == 1 else _MIXED
    shown = "; ".join(f"{workload}: {one.name}: {one.why}" for one in waiting)
    return ConditionChange(READY, FALSE, reason, f"Resources not ready: {shown}")


def placement_of(gangs: Sequence[PodGang]) -> Json | None:
    """The mean of what the gangs report; partial where some do not."""
    if not gangs:
        return None
    scores = [gang.status.placement_score for gang in gangs if gang.status.placement_score is not None]
    if not scores:
        return {"state": "Unknown"}
    return {"score": sum(scores) / len(scores), "state": "Reported" if len(scores) == len(gangs) else "Partial"}


@dataclass(frozen=True, slots=True)
class ObservedStatus:
    """The inputs of the status. `topology`: status, reason and message, None without constraints."""

    workload: str
    progress: Sequence[Progress]
    topology: tuple[str, str, str] | None
    gangs: Sequence[PodGang] = ()
    failure: Failure | None = None
    restart: Json | None = None


def status_changes(
    resource: Resource, typed: DynamoGraphDeployment, seen: ObservedStatus, now_s: float
) -> tuple[Change, ...]:
    """The status, if it changes, and events about what got better or worse."""
    before, generation = typed.status, typed.metadata.generation
    ready = ready_finding(seen.workload, seen.progress, seen.failure)
    findings = [ready]
    if seen.topology is not None:
        findings += [ConditionChange(kind, *seen.topology) for kind in (ENFORCED, AVAILABLE)]
    gone = () if seen.topology is not None else (ENFORCED, AVAILABLE)
    wanted: Json = {
        "observedGeneration": generation,
        "state": _state(ready, seen.failure),
        "conditions": conditions(before.conditions, findings, now_s, generation, gone),
    }
    reported = {one.name: one.status for one in seen.progress if one.status is not None}
    if reported:
        wanted["components"] = reported
    placement = placement_of(seen.gangs)
    if placement is not None:
        wanted["placement"] = placement
    if seen.restart is not None:
        wanted["restart"] = seen.restart
    written = status_update(resource, typed.metadata, before, wanted)
    return (*written, *_notices(resource, typed, seen)) if written else ()


def _state(ready: ConditionChange, failure: Failure | None) -> str:
    if failure is not None:
        return "failed"
    return "successful" if ready.status == TRUE else "pending"


def _notices(resource: Resource, typed: DynamoGraphDeployment, seen: ObservedStatus) -> list[EmitEvent]:
    target, metadata = resource.of(typed.metadata), typed.metadata
    found: list[EmitEvent] = []

    def record(reason: str, message: str, *, warning: bool) -> None:
        found.append(EmitEvent(target, metadata.uid, reason, message, metadata.resource_version, warning=warning))

    if seen.topology is not None:
        old = condition(typed.status.conditions, ENFORCED)
        status, reason, message = seen.topology
        changed = old is None or (old.status, old.reason, old.message) != seen.topology
        if changed and status == FALSE:
            record(reason, _LOST + message, warning=True)
        elif status == TRUE and (old is None or old.status != TRUE):
            record("TopologyConstraintsApplied", "Topology constraints applied: " + message, warning=False)
    if seen.failure is not None:
        was = condition(typed.status.conditions, READY)
        if was is None or was.message != seen.failure.message:
            record(seen.failure.reason, seen.failure.message, warning=True)
    return found


def typed_of(deployment: Json) -> DynamoGraphDeployment:
    return msgspec.convert(deployment, DynamoGraphDeployment)
