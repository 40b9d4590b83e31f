"""Event handlers of the caches: they update the cluster's inventory and put keys of gangs into the scheduling queue.

They never parse a gang and never decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spinney.api.builtin.node import Node, NodeResourceTopology
from spinney.api.builtin.pod import Pod
from spinney.api.builtin.surroundings import ConfigMap, PodDisruptionBudget, PriorityClass, ResourceQuota
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology, find_levels, known_as
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.kinds.queue import Queue
from spinney.core.scheduling.cycle.preemption import read_budget
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import group_of
from spinney.core.scheduling.volumes import claims_of, is_for_one_pod
from spinney.drive.client.codec import Broken
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.caches import SchedulerCaches


class EventHandlers:
    """Subscribes to all caches, and folds their changes into a session.

    `wake`: called when there may be something to do. `requeue_later`: called for pods without a PodGroup.
    """

    def __init__(
        self,
        session: Session,
        views: SchedulerCaches,
        wake: Callable[[], None],
        requeue_later: Callable[[Key], None],
    ) -> None:
        self._session = session
        self._views = views
        self._cluster = session.cluster
        self._scheduling_queue = session.scheduling_queue
        self._wake = wake
        self._requeue_later = requeue_later
        self._members: dict[str, Key] = {}  # the PodGroups of this scheduler's pods with a node, by pod uid
        views.nodes.subscribe(self._node)
        views.topologies.subscribe(self._topology)
        views.cluster_topologies.subscribe(self._cluster_topology)
        views.topology_bindings.subscribe(self._topology_binding)
        views.node_zones.subscribe(self._zones)
        views.priority_classes.subscribe(self._priority_class)
        views.budgets.subscribe(self._budget)
        views.quotas.subscribe(self._quota)
        views.podgroups.subscribe(self._podgroup)
        views.pods.subscribe(self._pod)
        views.queues.subscribe(self._queue)
        views.config_maps.subscribe(self._config_map)
        views.pods.subscribe_broken(self._unreadable_pod)
        views.podgroups.subscribe_broken(self._unreadable_group)
        for cache in (views.claims, views.volumes, views.storage_classes, views.resource_claims):
            cache.subscribe(self._lookup)

    def _node(self, change: Change[Node]) -> None:
        name, improved = change.key[1], self._cluster.improved
        there = self._cluster.inventory.find(name) is not None
        self._cluster.put_node(name, change.new)
        if there != (self._cluster.inventory.find(name) is not None):
            self._touch_members(name)
        if improved != self._cluster.improved:
            self._wake()

    def _touch_members(self, node: str) -> None:
        """A node appeared or disappeared: read the gangs that have members on it again."""
        for uid in self._cluster.inventory.pods_on(node):
            if uid in self._members:
                self._touch(self._members[uid])
        for key in self._scheduling_queue.waits:
            self._touch(key)

    def _pod(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        improved = self._cluster.improved
        is_victim = old is not None and self._cluster.is_victim(old.metadata.uid)
        self._cluster.put_pod(old, new)
        if improved != self._cluster.improved:
            self._wake()
        some = new or old
        if some is not None and (new is None or new.is_over) and self._had_exclusive_claim(some):
            self._lookup(change)
        if some is None or some.spec.scheduler_name not in self._session.settings.names:
            return
        self._note_member(some, new)
        entry = self._scheduling_queue.entries.get(group_of(some))
        if entry is not None and old is not None and not is_victim and _departs(old, new):
            entry.departed.append(old)
        if (entry is not None and entry.unsettled) or not _is_alike(old, new):
            for pod in (old, new):
                if pod is not None:
                    self._requeue(group_of(pod))

    def _unreadable_pod(self, before: Broken | None, after: Broken | None) -> None:
        """While a pod cannot be decoded, its node takes no new pods and its gang is held."""
        if before is not None and (after is None or after.uid != before.uid):
            self._cluster.put_unreadable(before.uid, "")
        if after is not None:
            pod = self._views.pods.get(after.key)
            self._cluster.put_unreadable(after.uid, after.node or (pod.spec.node_name if pod is not None else ""))
        for thing in (before, after):
            if thing is not None and self._views.group_of_unreadable(thing)[1]:
                self._touch(self._views.group_of_unreadable(thing))
        self._wake()

    def _unreadable_group(self, before: Broken | None, after: Broken | None) -> None:
        for thing in (before, after):
            if thing is not None:
                self._touch(thing.key)

    def _had_exclusive_claim(self, pod: Pod) -> bool:
        """Whether other pods may have waited for one of its claims."""
        return bool(pod.spec.volumes) and any(
            is_for_one_pod(self._views.claims.get((pod.metadata.namespace, name))) for name in claims_of(pod)
        )

    def _note_member(self, some: Pod, new: Pod | None) -> None:
        if new is not None and new.spec.node_name:
            self._members[some.metadata.uid] = group_of(some)
        else:
            self._members.pop(some.metadata.uid, None)

    def _requeue(self, group: Key) -> None:
        if group[1]:
            self._touch(group)
        else:
            self._requeue_later(group)

    def _podgroup(self, change: Change[PodGroup]) -> None:
        old, new = change.old, change.new
        entry = self._scheduling_queue.entries.get(change.key)
        waits = entry is not None and entry.unsettled
        if waits or old is None or new is None or old.spec != new.spec or _metadata_of(old) != _metadata_of(new):
            self._touch(change.key)
        elif _conditions_of(old) != _conditions_of(new) and change.key not in self._scheduling_queue.pending:
            self._touch(change.key)  # its condition may no longer be true

    def _topology(self, change: Change[Topology]) -> None:
        self._cluster.put_kai_topology(change.key[1], change.new)
        self._wake()

    def _cluster_topology(self, change: Change[ClusterTopology]) -> None:
        self._put_levels(change.key[1])

    def _topology_binding(self, change: Change[ClusterTopologyBinding]) -> None:
        seen = [each for each in (change.old, change.new) if each is not None]
        for name in sorted({name for each in seen for name in known_as(each)}):
            self._put_levels(name)

    def _put_levels(self, name: str) -> None:
        """The levels of a name, from whichever kind counts for it (T8)."""
        new = find_levels(name, self._views.topology_bindings, self._views.cluster_topologies.get(("", name)))
        self._cluster.put_cluster_topology(name, new)
        short = {level.domain: level.key for level in new.spec.levels} if new is not None else {}
        if self._session.short_levels.get(name, {}) != short:
            self._session.short_levels[name] = short
            self._scheduling_queue.touch_all()
        self._wake()

    def _zones(self, change: Change[NodeResourceTopology]) -> None:
        improved = self._cluster.improved
        self._cluster.put_zones(change.key[1], change.new)
        if improved != self._cluster.improved:
            self._wake()

    def _priority_class(self, change: Change[PriorityClass]) -> None:
        if change.new is not None:
            self._session.priorities.put(change.new)
        else:
            self._session.priorities.remove(change.key[1])
        self._scheduling_queue.touch_all()
        self._wake()

    def _budget(self, change: Change[PodDisruptionBudget]) -> None:
        """A pod that was protected may be a victim now."""
        if self._scheduling_queue.pending and _is_laxer(change):
            self._cluster.touch()
            self._wake()

    def _quota(self, change: Change[ResourceQuota]) -> None:
        """A quota says which priority classes count in a namespace; changes of its usage are ignored."""
        if change.old is not None and change.new is not None and change.old.spec == change.new.spec:
            return
        for key in [key for key in self._scheduling_queue.entries if key[0] == change.key[0]]:
            self._touch(key)

    def _queue(self, change: Change[Queue]) -> None:
        """For gangs that wait only the spec counts: the status of a queue is written by this scheduler."""
        self._session.queue_accounting.put_queue(change.key[1], change.new)
        old, new = (each.spec.preempt_min_runtime if each is not None else "" for each in (change.old, change.new))
        if old != new:
            self._cluster.touch()
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self._lookup(change)

    def _lookup(self, change: Change[Any]) -> None:
        """An object changed that pending gangs may be waiting for."""
        if self._scheduling_queue.pending or self._scheduling_queue.waits_for_volumes:
            self._scheduling_queue.retry_pending()
            self._wake()

    def _config_map(self, change: Change[ConfigMap]) -> None:
        """One that appeared or disappeared; those that only change do so by the thousand."""
        if change.old is None or change.new is None:
            for pod in self._views.pods.by("config map", "/".join(change.key)):
                if pod.spec.scheduler_name in self._session.settings.names:
                    self._requeue(group_of(pod))

    def _touch(self, key: Key) -> None:
        self._scheduling_queue.touch(key)
        self._wake()


def _is_alike(old: Pod | None, new: Pod | None) -> bool:
    """Whether nothing differs that parsing a gang depends on."""
    if old is None or new is None:
        return False
    before, after = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and before.labels == after.labels
        and before.annotations == after.annotations
        and before.deletion_timestamp == after.deletion_timestamp
        and _is_over(old) == _is_over(new)
    )


def _departs(old: Pod, new: Pod | None) -> bool:
    """Whether a pod has left its node and may be replaced there."""
    is_gone = new is None or new.status.phase == "Failed"
    return bool(old.spec.node_name) and is_gone and not old.is_over


def _is_over(pod: Pod) -> str:
    return pod.status.phase if pod.is_over else ""


def _is_laxer(change: Change[PodDisruptionBudget]) -> bool:
    old, new = change.old, change.new
    if old is None or new is None:
        return new is None
    allows = read_budget(new).allowed > read_budget(old).allowed
    return allows or new.spec != old.spec or read_budget(new).spares_unhealthy != read_budget(old).spares_unhealthy


def _metadata_of(group: PodGroup) -> tuple[object, ...]:
    metadata = group.metadata
    return metadata.annotations, metadata.labels, metadata.deletion_timestamp


def _conditions_of(group: PodGroup) -> tuple[object, ...]:
    return group.status.scheduling_conditions
