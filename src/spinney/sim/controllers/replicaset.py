"""ReplicaSet: as many pods of a template as it says.

Pure: `decide` looks at what is there and says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spinney.sim.controllers.children import expendable_first, pod_for
from spinney.sim.controllers.effects import Create, Decision, Delete, Effect, report
from spinney.sim.objects import PODS, REPLICASETS, Json, Pod, parse_time

NewName = Callable[[str], str]
"""From a prefix to a fresh name."""


class Availability(NamedTuple):
    """How many pods have been ready long enough, and when the next one will have been."""

    available: int
    again_s: float | None


def decide(replicaset: Json, pods: Sequence[Pod], now_s: float, new_name: NewName) -> Decision:
    if replicaset["metadata"].get("deletionTimestamp"):
        return Decision()
    wanted = replicaset["spec"].get("replicas", 1)
    active = [pod for pod in pods if not pod.leaving and not pod.finished]
    ripe = available(active, replicaset["spec"].get("minReadySeconds") or 0, now_s)
    labels = (replicaset["spec"]["template"].get("metadata") or {}).get("labels") or {}
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        "readyReplicas": sum(pod.ready for pod in active),
        "availableReplicas": ripe.available,
        "observedGeneration": replicaset["metadata"].get("generation", 0),
    }
    effects = (*_scale(replicaset, active, wanted, new_name), *report(REPLICASETS, replicaset, status))
    return Decision(effects, ripe.again_s)


def available(pods: Sequence[Pod], min_ready_s: int, now_s: float) -> Availability:
    count, again_s = 0, None
    for pod in pods:
        if not pod.ready:
            continue
        due_s = ready_since_s(pod, now_s) + min_ready_s
        if not min_ready_s or due_s <= now_s:
            count += 1
        else:
            again_s = due_s if again_s is None else min(again_s, due_s)
    return Availability(count, again_s)


def ready_since_s(pod: Pod, otherwise_s: float) -> float:
    stamp = next((each.get("lastTransitionTime") for each in pod.status.conditions if each["type"] == "Ready"), None)
    return parse_time(stamp) or otherwise_s


def _scale(replicaset: Json, active: Sequence[Pod], wanted: int, new_name: NewName) -> list[Effect]:
    name = replicaset["metadata"]["name"]
    namespace = replicaset["metadata"]["namespace"]
    if len(active) < wanted:
        names = [new_name(f"{name}-") for _ in range(wanted - len(active))]
        return [Create(PODS.ref(each, namespace), pod_for(replicaset, each)) for each in names]
    if len(active) == wanted:
        return []
    surplus = expendable_first(active)[: len(active) - wanted]
    return [Delete(PODS.ref(pod.metadata.name, namespace), pod.metadata.uid) for pod in surplus]
