"""Reviews plans that an earlier leader recorded by the rules for a decision made now, before they are continued.

The cluster has changed since, and the record may be an old one that was written again. Changes nothing: an objection is
a sentence, and the caller gives the plan up.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from spinney.api.builtin.pod import Pod
from spinney.api.placement.problem import NodeFilter, PodSet
from spinney.core.placement.gang.running_gangs import pod_sets
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.assignment_review import crowded, misplaced
from spinney.core.scheduling.cycle.disruption_budgets import Budgets
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.gang.pod_shape import shapes_on
from spinney.core.scheduling.gang.staleness import shortage
from spinney.core.scheduling.plan import Assignment, Plan
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.caches import SchedulerCaches, group_of
from spinney.drive.scheduler.cycle.gang_reader import GangReader
from spinney.drive.scheduler.cycle.min_runtime import MinRuntime
from spinney.drive.scheduler.cycle.scheduling_queue import GangState, SchedulingQueue


class PlanReview:
    """Works on everything that a cycle has read."""

    def __init__(
        self,
        views: SchedulerCaches,
        cluster: Cluster,
        scheduling_queue: SchedulingQueue,
        min_runtime: MinRuntime,
        gang_reader: GangReader,
    ) -> None:
        self._views = views
        self._gang_reader = gang_reader
        self._cluster = cluster
        self._scheduling_queue = scheduling_queue
        self._min_runtime = min_runtime

    def assignments(
        self, entry: GangState, assignments: Sequence[Assignment], leaving: Container[str] = ()
    ) -> dict[str, str]:
        """Why assignments of pending pods are not valid, by uid. Free capacity is checked when they are reserved.

        Must be called before they are reserved: other pods are counted as they are. `leaving`: uids of the plan's
        victims.
        """
        assert entry.reading is not None
        reading = self._gang_reader.with_affinity(entry)
        gang, members, sets = reading.gang, reading.members, pod_sets(reading.gang)
        base = self._scheduling_queue.entries.get(_key(gang.tied_to.gang)) if gang.tied_to is not None else None
        other = base.reading.gang if base is not None and base.reading is not None else None
        found = misplaced(
            gang, members, self._filters(entry.key, members, sets), assignments, self._cluster.inventory, other
        )
        rest = [assignment for assignment in assignments if assignment.uid not in found]
        found |= crowded(members, sets, rest, self._cluster.inventory, leaving)
        return self._affinity_lost(entry.reading, sets, assignments) | found

    def _filters(self, key: Key, members: Mapping[str, str], sets: Mapping[str, PodSet]) -> dict[str, NodeFilter]:
        """Node filters by uid: that of its pod set, volumes included, for a member of the gang; else the pod's own."""
        shapes = shapes_on(self._cluster.inventory.resources)
        pods = self._views.pods_of(key)
        own = {pod.metadata.uid: shapes.of(pod).filter for pod in pods if not pod.spec.node_name}
        return own | {uid: sets[path].filter for uid, path in members.items() if path in sets}

    def _affinity_lost(
        self, reading: ParsedGang, now: Mapping[str, PodSet], assignments: Sequence[Assignment]
    ) -> dict[str, str]:
        """Assignments of pods whose pod affinity cannot be met anywhere now."""
        before, paths = pod_sets(reading.gang), reading.members
        told = {path: pods.unsupported for path, pods in now.items() if pods.unsupported != before[path].unsupported}
        return {
            assignment.uid: told[paths[assignment.uid]]
            for assignment in assignments
            if paths.get(assignment.uid) in told
        }

    def leaving(self, entry: GangState, plan: Plan) -> str:
        """Why the plan's victims may not be evicted; empty: a decision could select them now (INV7)."""
        held = [pod for uid in plan.leaving if (pod := self._cluster.running_pod(uid)) is not None]
        still = [pod for pod in held if pod.metadata.deletion_timestamp is None]
        victims = frozenset(plan.victims)
        reasons = (self._objection_to_victim(entry, pod, is_victim=pod.metadata.uid in victims) for pod in still)
        found = next((reason for reason in reasons if reason), "") or self._too_many(entry, plan)
        return found or self._below_minimum(still, victims) or self._budget_protected(still)

    def _objection_to_victim(self, entry: GangState, pod: Pod, *, is_victim: bool) -> str:
        """Why one pod may not be disturbed."""
        name = f"pod {pod.metadata.namespace}/{pod.metadata.name}"
        other, reading = self._scheduling_queue.entries.get(group_of(pod)), entry.reading
        if other is None or other.reading is None or reading is None or other is entry:
            return f"{name} is in no other gang"
        theirs, mine = other.reading.gang, reading.gang.priority
        if not theirs.preemptible or theirs.priority > mine or (is_victim and theirs.priority == mine):
            return f"{name} is not less important, or can not be preempted"
        if is_victim and not reading.preempts:
            return f"{entry.name} does not preempt"
        if other.in_flight:
            return f"{name} is of a gang whose own plan is carried out"
        if is_victim and self._min_runtime.is_protected(other):
            return f"{name} has run too short a time for its queue"
        return "" if is_victim or pod.metadata.controller is not None else f"{name} would be made anew by nobody"

    def _too_many(self, entry: GangState, plan: Plan) -> str:
        """Pods are moved only for a gang that is allowed to move them."""
        if not plan.moves:
            return ""
        if entry.limits is None:
            return f"nothing may be moved for {entry.name}"
        most, found = entry.limits.max_moves, len(plan.moves)
        return f"{found} pods would be moved, allowed are {most}" if found > most else ""

    def _below_minimum(self, still: Iterable[Pod], victims: frozenset[str]) -> str:
        """A gang that has its minimum is evicted whole or keeps its minimum."""
        going = [pod for pod in still if pod.metadata.uid in victims]
        for key in sorted({group_of(pod) for pod in going}):
            group, pods = self._views.podgroups.get(key), self._views.pods_of(key)
            left = [pod for pod in pods if pod.metadata.uid not in victims]
            if group is not None and not self._is_short(key, pods) and self._is_short(key, left):
                return f"gang {'/'.join(key)} would be left below its minimum"
        return ""

    def _is_short(self, key: Key, pods: Sequence[Pod]) -> bool:
        group, has_node = self._views.podgroups.get(key), self._cluster.inventory.find
        return group is not None and shortage(group, pods, lambda name: has_node(name) is not None) is not None

    def _budget_protected(self, still: Sequence[Pod]) -> str:
        kept = sorted(Budgets(self._views.budgets).protected(still)) if still else []
        return f"{len(kept)} pods are protected by a disruption budget" if kept else ""


def _key(name: str) -> Key:
    namespace, _, short = name.partition("/")
    return namespace, short
