"""How a mistake is shown where its user looks: on the object that was written, on the pod, on the PodGroup.

The words are the same everywhere; saying them again says nothing new.
"""

from __future__ import annotations

from typing import Any

from spinney.api.changes import Json, Notify, Resource, SetStatus
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.expansion.objects import builtins, stamp
from spinney.core.expansion.resources import PODGROUPS, PODS
from spinney.core.grouping.chain import Owner
from spinney.core.grouping.pods import Pod

WARNING = "PodGrouperWarning"
SCHEDULED = "PodScheduled"
GROUPED = "Grouped"
_GATED = "SchedulingGated"
_LIMIT = 1024


def told_to_pod(pod: Pod, sentence: str) -> Notify:
    return Notify(PODS.of(pod.metadata), pod.metadata.uid, WARNING, sentence, "", warning=True)


def told_to_owner(owner: Owner, sentence: str) -> Notify:
    resource = Resource(owner.group, owner.version, "", owner.kind, bool(owner.namespace))
    return Notify(resource.at(owner.name, owner.namespace), owner.uid, WARNING, sentence, "", warning=True)


def told_to_podgroup(podgroup: PodGroup, sentence: str) -> Notify:
    return Notify(PODGROUPS.of(podgroup.metadata), podgroup.metadata.uid, WARNING, sentence, "", warning=True)


def pod_condition(pod: Pod, sentence: str, now: float) -> Json | None:
    """The condition that says why the pod waits; None where it is there, or the pod has a node or waits for gates."""
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
        "lastTransitionTime": stamp(now),
    }


def is_complained_of(pod: Pod) -> bool:
    found = pod.condition(SCHEDULED)
    return found is not None and found.reason == WARNING


def podgroup_condition(podgroup: PodGroup, sentence: str, now: float) -> tuple[SetStatus, ...]:
    """Whether the PodGroup is what its owner asks for; said from the first mistake on. Empty: all is well."""
    known: list[Any] = [builtins(one) for one in podgroup.status.conditions]
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
        "lastTransitionTime": stamp(now),
    }
    conditions = [one for one in known if one.get("type") != GROUPED]
    metadata = podgroup.metadata
    changed = {"conditions": [*conditions, fresh]}
    return (SetStatus(PODGROUPS.of(metadata), changed, metadata.uid, metadata.resource_version),)
