"""How far each component is, by the numbers of the object behind it (1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spinney.api.changes import Json
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.labels import SCALING_GROUP
from spinney.api.meta import condition
from spinney.core.expansion.dynamo import marks, names
from spinney.core.expansion.dynamo.roles import is_group, replicas_of

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
    name, behind = component["name"], names.child(podcliqueset, component["name"])
    wanted = replicas_of(component)
    if is_group(component):
        group = groups.get(behind)
        if group is None:
            return Progress(name, None, NOT_THERE, "resource not found")
        numbers = group.status
        ready = numbers.available_replicas
        told = {"availableReplicas": ready}
        status = _status(deployment, component, group, "PodCliqueScalingGroup", told)
        members = [one for _, one in sorted(cliques.items()) if one.metadata.labels.get(SCALING_GROUP) == behind]
        return _failed(_judged(name, group, wanted, ready, status), wanted, group, *members)
    clique = cliques.get(behind)
    if clique is None:
        return Progress(name, None, NOT_THERE, "resource not found")
    told = {"readyReplicas": clique.status.ready_replicas}
    status = _status(deployment, component, clique, "PodClique", told)
    gated = clique.status.schedule_gated_replicas
    judged = _failed(_judged(name, clique, wanted, clique.status.ready_replicas, status), wanted, clique)
    if judged.why and judged.reason != NOT_THERE and gated:
        return Progress(name, status, CAPACITY, f"schedule-gated replicas: {gated}")
    return judged


def _failed(judged: Progress, wanted: int, *behind: PodClique | PodCliqueScalingGroup) -> Progress:
    """What could not be made is no matter of capacity: the first failure that is told of the objects behind."""
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
    deployment: Json, component: Json, behind: PodClique | PodCliqueScalingGroup, kind: str, told: Json
) -> Json:
    numbers = behind.status
    return {
        "componentKind": kind,
        "componentNames": [behind.metadata.name],
        "runtimeNamespace": marks.dynamo_namespace(deployment, component),
        "replicas": numbers.replicas,
        "updatedReplicas": numbers.updated_replicas,
        "scheduledReplicas": numbers.scheduled_replicas,
        **told,
    }
