"""How a user error is shown: events on the top owner, conditions on the pod and the PodGroup.

The message is the same everywhere; writing it again changes nothing.
"""

from __future__ import annotations

from typing import Any

from kube_apimachinery.times import format_time
from spinney.api.changes import EmitEvent, Json, Resource, SetStatus
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.expansion.objects import PODGROUPS, PODS, to_builtins
from spinney.core.grouping.owner_chain import Owner, Pod

WARNING = "PodGrouperWarning"
SCHEDULED = "PodScheduled"
GROUPED = "Grouped"
_GATED = "SchedulingGated"
_LIMIT = 1024


def pod_event(pod: Pod, sentence: str) -> EmitEvent:
    return EmitEvent(PODS.of(pod.metadata), pod.metadata.uid, WARNING, sentence, "", warning=True)


def owner_event(owner: Owner, sentence: str) -> EmitEvent:
    resource = Resource(owner.group, owner.version, "", owner.kind, bool(owner.namespace))
    return EmitEvent(resource.at(owner.name, owner.namespace), owner.uid, WARNING, sentence, "", warning=True)


def podgroup_event(podgroup: PodGroup, sentence: str) -> EmitEvent:
    return EmitEvent(PODGROUPS.of(podgroup.metadata), podgroup.metadata.uid, WARNING, sentence, "", warning=True)


def pod_condition(pod: Pod, sentence: str, now: float) -> Json | None:
    """The condition that says why the pod waits; None if it is set already or the pod is bound or gated."""
    if pod.spec.node_name:
        return None
    found = pod.condition(SCHEDULED)
    if found is not None and found.reason == _GATED:
        return None
    if found is not None and (found.reason, found.message) == (WARNING, sentence[:_LIMIT]):
        return None
    return {
        "type": SCHEDULED,
        "status": "False",
        "reason": WARNING,
        "message": sentence[:_LIMIT],
        "lastTransitionTime": format_time(now),
    }


def has_user_error(pod: Pod) -> bool:
    found = pod.condition(SCHEDULED)
    return found is not None and found.reason == WARNING


def podgroup_condition(podgroup: PodGroup, sentence: str, now: float) -> tuple[SetStatus, ...]:
    """The condition that says whether the PodGroup matches its owner; written from the first user error on. An empty
    sentence means no error.
    """
    known: list[Any] = [to_builtins(one) for one in podgroup.status.conditions]
    found = next((one for one in known if one.get("type") == GROUPED), None)
    status = "False" if sentence else "True"
    if found is None and not sentence:
        return ()
    if found is not None and (found.get("status"), found.get("message", "")) == (status, sentence[:_LIMIT]):
        return ()
    fresh = {
        "type": GROUPED,
        "status": status,
        "reason": WARNING if sentence else GROUPED,
        "message": sentence[:_LIMIT],
        "lastTransitionTime": format_time(now),
    }
    conditions = [one for one in known if one.get("type") != GROUPED]
    metadata = podgroup.metadata
    changed = {"conditions": [*conditions, fresh]}
    return (SetStatus(PODGROUPS.of(metadata), changed, metadata.uid, metadata.resource_version),)
