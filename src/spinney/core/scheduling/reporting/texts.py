"""The scheduler's events in the words that upstream's users know.

Texts only: an interface, each said in one place.
"""

from __future__ import annotations

from collections.abc import Sequence

from spinney.api.labels import PLAN
from spinney.core.scheduling.reporting.report import DEFAULT_NODE_POOL, NORMAL, WARNING, Event

UNSCHEDULABLE = "Unschedulable"
NOT_READY = "NotReady"
BINDING_ERROR = "BindingError"
UNABLE_GROUP = "Unable to schedule podgroup"
EVICTOR_ACTION = "evictor-action-type"

Key = tuple[str, str]


def scheduled(pod: Key, node: str, node_pool: str = DEFAULT_NODE_POOL) -> Event:
    message = f"Successfully assigned pod {_shown(pod)} to node {node} at node-pool {node_pool}"
    return Event(NORMAL, "Scheduled", message)


def failed_binding(pod: Key, node: str, error: str) -> Event:
    """Its message is that of the condition PodScheduled=False with reason BindingError as well."""
    return Event(WARNING, "FailedBinding", f"Failed to bind pod {_shown(pod)} to node {node}. {error}")


def failed_eviction(pod: Key, node: str, error: str) -> Event:
    return Event(WARNING, "FailedEviction", f"Failed to evict pod {_shown(pod)} from node {node}. {error}")


def failed_release(pod: Key, node: str, error: str) -> Event:
    """A recorded place that is given up stays reserved as long as the pod cannot be touched."""
    return Event(WARNING, "FailedRelease", f"Failed to release pod {_shown(pod)} from node {node}. {error}")


def failed_record(group: Key, error: str) -> Event:
    return Event(WARNING, "FailedRecord", f"Failed to record the plan on PodGroup {_shown(group)}. {error}")


def pipelined(pod: Key, node: str) -> Event:
    return Event(NORMAL, "Pipelined", f"Pod {_shown(pod)} was pipelined to node {node}")


def record_rejected(why: str) -> Event:
    """On the group whose record it was."""
    return Event(WARNING, "RecordRejected", f"The recorded plan (annotation {PLAN}) was removed and not used: {why}")


def stale(active: int, minimum: int, short: Sequence[tuple[str, int, int]] = ()) -> Event:
    """`short`: sub-groups with their minimum and the pods they have."""
    parts = [f", subGroup {name} minMember is {least} and {found} pods are active" for name, least, found in short]
    return Event(NORMAL, "StaleJob", f"Job is stale. {active} pods are active, minMember is {minimum}{''.join(parts)}")


def preempted(pod: str, by: Key, pods: int) -> Event:
    """On the group of the victim; `pods`: how many it loses."""
    message = f"Pod {pod} was preempted by higher priority workload {by[1]}"
    return Event(NORMAL, "Evict", message, _evictor("preempt", by, pods))


def consolidated(pod: str, by: Key, pods: int) -> Event:
    message = f"Pod {pod} was preempted and rescheduled due to bin packing (resource consolidation) procedure"
    return Event(NORMAL, "Evict", message, _evictor("consolidation", by, pods))


def evicted_as_stale(pod: str, group: Key, minimum: int, sub_group: str, pods: int) -> Event:
    where = f" in sub-group {sub_group}" if sub_group else ""
    message = (
        f"Workload doesn't meet the minimum required number of pods ({minimum}){where}, evicting remaining pod: {pod}"
    )
    return Event(NORMAL, "Evict", message, _evictor("stalegangeviction", group, pods))


def _evictor(action: str, by: Key, pods: int) -> tuple[tuple[str, str], ...]:
    return (
        ("num-evicted-pods", str(pods)),
        (EVICTOR_ACTION, action),
        ("evictor-pod-group-name", by[1]),
        ("evictor-pod-group-namespace", by[0]),
    )


def _shown(pod: Key) -> str:
    return f"{pod[0]}/{pod[1]}"
