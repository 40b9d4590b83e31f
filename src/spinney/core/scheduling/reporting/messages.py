"""The texts of the scheduler's events and refusals, in the wording that users of KAI know.

The texts are an interface; each is defined in one place. They say nothing that the explanation does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from spinney.api.kinds.podgroup import PodGroupSpec
from spinney.api.labels import GPU_RESOURCE, PLAN
from spinney.api.placement.problem import Gang, Group, PodSet
from spinney.api.placement.result import Decision, Explanation
from spinney.core.placement.explain.reasons import place
from spinney.core.scheduling.gang.subgroup_tree import DEFAULT_LEAF, unknown_level, unknown_topology, who
from spinney.core.scheduling.reporting.report import DEFAULT_NODE_POOL, NORMAL, WARNING, ClusterSummary, Event, GangView

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
    """Its message is also that of the condition PodScheduled=False with reason BindingError."""
    return Event(WARNING, "FailedBinding", f"Failed to bind pod {_shown(pod)} to node {node}. {error}")


def failed_eviction(pod: Key, node: str, error: str) -> Event:
    return Event(WARNING, "FailedEviction", f"Failed to evict pod {_shown(pod)} from node {node}. {error}")


def failed_release(pod: Key, node: str, error: str) -> Event:
    """An assignment that is given up stays reserved as long as the pod cannot be patched."""
    return Event(WARNING, "FailedRelease", f"Failed to release pod {_shown(pod)} from node {node}. {error}")


def failed_record(group: Key, error: str) -> Event:
    return Event(WARNING, "FailedRecord", f"Failed to record the plan on PodGroup {_shown(group)}. {error}")


def pipelined(pod: Key, node: str) -> Event:
    return Event(NORMAL, "Pipelined", f"Pod {_shown(pod)} was pipelined to node {node}")


def record_rejected(why: str) -> Event:
    """On the PodGroup that had the record."""
    return Event(WARNING, "RecordRejected", f"The recorded plan (annotation {PLAN}) was removed and not used: {why}")


def stale(active: int, minimum: int, short: Sequence[tuple[str, int, int]] = ()) -> Event:
    """`short`: sub-groups with their minimum and the pods they have."""
    parts = [f", subGroup {name} minMember is {least} and {found} pods are active" for name, least, found in short]
    return Event(NORMAL, "StaleJob", f"Job is stale. {active} pods are active, minMember is {minimum}{''.join(parts)}")


def preempted(pod: str, by: Key, pods: int) -> Event:
    """On the PodGroup of the victim; `pods`: how many it loses."""
    message = f"Pod {pod} was preempted by higher priority workload {by[1]}"
    return Event(NORMAL, "Evict", message, _evictor("preempt", by, pods))


def reclaimed(pod: str, by: Key, pods: int, detail: str) -> Event:
    """On the PodGroup of a victim in another queue; `detail`: the figures of the two queues once it is gone."""
    message = f"Pod {pod} was preempted by workload {by[1]}. {detail}"
    return Event(NORMAL, "Evict", message, _evictor("reclaim", by, pods))


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


_WHOLE_CLUSTER = ", but the whole cluster holds "
_INSUFFICIENT = "insufficient "
_RESOURCES = {GPU_RESOURCE: "GPUs", "cpu": "CPU cores"}
_CONDITIONS = {"unschedulable": "node is unschedulable", "not ready": "node has NotReady condition"}
_CLUSTER_SHORT = "not enough resources in the cluster to allocate the job"
_BETWEEN = ". \n"
_UNNAMED = f"{DEFAULT_LEAF} "
_SHAPE = re.compile(r"/shape-\d+\b")
_NO_NODES = "no nodes with enough resources were found"


def fit_lines(reading: GangView, decision: Decision, spec: PodGroupSpec, summary: ClusterSummary) -> list[str]:
    """The lines for a decision that did not place its gang."""
    found = decision.explanation or Explanation(UNABLE_GROUP)
    if decision.outcome == "invalid":
        return [_invalid(reading.gang, found, spec, summary)]
    if decision.outcome == "exhausted" or (not found.best and found.considered is None):
        return [unable(found.reason)]
    if found.level is not None:
        return _topology(reading.gang, found, spec)
    above = _required_above(reading.gang, found.group or "")
    if above is not None:
        topology, level = above
        return [f"{_head(topology, level, reading.gang, _sub_group(spec, found.group))}: {_CLUSTER_SHORT}"]
    return [_gang(reading, found, spec, summary)]


def unable(why: str) -> str:
    return f"{UNABLE_GROUP}: {known(why)}."


def known(text: str) -> str:
    """Without internal names: unequal pods of a leaf are split into shapes; without sub-groups there is one leaf."""
    stripped = _SHAPE.sub("", text).removeprefix(f"{DEFAULT_LEAF}: ")
    return f"the gang {stripped.removeprefix(_UNNAMED)}" if stripped.startswith(_UNNAMED) else stripped


def beyond_minimum(pod: tuple[str, str], fit: str = f"{_NO_NODES}.") -> str:
    """For a pod beyond the minimum of its gang."""
    return f"Resources were not found for pod {pod[0]}/{pod[1]} due to: {fit}"


def _invalid(gang: Gang, found: Explanation, spec: PodGroupSpec, summary: ClusterSummary) -> str:
    part, topology = _part(gang, found.group or "")
    if topology is not None and topology not in summary.topologies:
        return unknown_topology(topology, summary.topologies)
    if found.level is None or topology is None or found.level in summary.topologies[topology].levels:
        return unable(found.reason)
    kind = "required" if part.required == found.level else "preferred"
    return unknown_level(
        who(_sub_group(spec, found.group)), found.level, kind, topology, summary.topologies[topology].levels
    )


def _topology(gang: Gang, found: Explanation, spec: PodGroupSpec) -> list[str]:
    _, topology = _part(gang, found.group or "")
    head = _head(topology, found.level, gang, _sub_group(spec, found.group))
    if _WHOLE_CLUSTER in found.reason:
        return [f"{head}: {_CLUSTER_SHORT}"]
    if len(found.best) == 1 and (gang.tied_to or gang.running):
        return [f"{head}: not enough resources in {place(found.best[0].path)} to allocate the job"]
    domains = [
        f"node-group {place(one.path)} can allocate only {one.holds} of {one.of} required pods" for one in found.best
    ]
    if len(domains) == 1:
        return [f"{head}: {domains[0]}."]
    return [f"{head}.", *(f"{line}." for line in domains)] if domains else [head]


def _head(topology: str | None, level: str | None, gang: Gang, sub_group: str) -> str:
    where = f"{gang.name}, subgroup {sub_group}" if sub_group else gang.name
    return f"topology {topology}, requirement {level} couldn't be satisfied for job {where}"


def _required_above(gang: Gang, path: str) -> tuple[str, str] | None:
    """The requirement of the nearest ancestor that has one: what all nodes together cannot hold, no domain can."""
    while path:
        path = path.rpartition("/")[0]
        part, topology = _part(gang, path)
        if part.required is not None and topology is not None:
            return topology, part.required
    return None


def _gang(reading: GangView, found: Explanation, spec: PodGroupSpec, summary: ClusterSummary) -> str:
    first, fit = found.best[0], _nodes(found, summary)
    waiting = [pod for pods in reading.waiting.values() for pod in pods]
    if first.of == 1 and len(waiting) == 1:
        return beyond_minimum(waiting[0].key, fit)
    sub_group = _sub_group(spec, found.group)
    if sub_group:
        return (
            f"Resources were found for {first.holds} pods from all sub-groups while sub-group {sub_group} requires "
            f"{first.of} pods for gang scheduling. Additional pods cannot be scheduled in this sub-group due to: {fit}"
        )
    return (
        f"Resources were found for {first.holds} pods while {first.of} are required for gang scheduling. "
        f"Additional pods cannot be scheduled due to: {fit}"
    )


def _nodes(found: Explanation, summary: ClusterSummary) -> str:
    """A line per reason with its number of nodes; nodes that hold some of the pods have too little for the others."""
    reasons = dict(found.blocked.reasons) if found.blocked else {}
    short = next(iter(found.best[0].short), None)
    rest = summary.nodes - sum(reasons.values())
    if short is not None and rest > 0:
        key = f"{_INSUFFICIENT}{short}"
        reasons[key] = reasons.get(key, 0) + rest
    lines = sorted(f"{count} {_node(reason)}" for reason, count in reasons.items())
    return f"{_NO_NODES}: {_BETWEEN.join(lines)}." if lines else f"{_NO_NODES}."


def _node(reason: str) -> str:
    if reason.startswith(_INSUFFICIENT):
        resource = reason.removeprefix(_INSUFFICIENT)
        return f"node(s) didn't have enough resources: {_RESOURCES.get(resource, resource)}"
    return _CONDITIONS.get(reason) or f"node(s) kept out by {reason}"


def _sub_group(spec: PodGroupSpec, path: str | None) -> str:
    """The deepest sub-group of the PodGroup on a path; internal parts have no name that users know."""
    known = {one.name for one in spec.sub_groups}
    return next((name for name in reversed((path or "").split("/")) if name in known), "")


def _part(gang: Gang, path: str) -> tuple[Group | PodSet, str | None]:
    """The part at that path, or its deepest existing ancestor, and its effective topology."""
    part: Group | PodSet = gang.root
    topology = part.topology
    for name in path.split("/") if path else ():
        below: list[Group | PodSet] = [*part.groups, *part.pods] if isinstance(part, Group) else []
        found = next((each for each in below if each.name == name), None)
        if found is None:
            break
        part, topology = found, found.topology if found.topology is not None else topology
    return part, topology
