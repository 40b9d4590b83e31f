"""Grace periods: how long a gang may be incomplete, ungrouped or below its minimum before something is done about it.

Most incomplete gangs are complete a moment later; each is looked at again when the time is over. A gang that runs below
its minimum is stale (K14): it is marked, given time to be repaired, and then evicted. The start time is written on the
PodGroup, so that the grace period continues across restarts. Gangs of PodGangs are left alone: their operator
terminates them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kube_apimachinery.clock import Clock
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import KAI_STALE_TIMESTAMP, PLAN
from spinney.core.expansion.objects import format_time, seconds
from spinney.core.grouping.user_feedback import SCHEDULED, WARNING
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.actions import EvictionTarget, EvictStale, MarkStale
from spinney.core.scheduling.cycle.preemption import Budgets
from spinney.core.scheduling.cycle.scheduling_queue import GangState, SchedulingQueue
from spinney.core.scheduling.cycle.snapshot import Key, Reports, Snapshot
from spinney.core.scheduling.gang.members import Shortage, age_s, is_owned_by_podgang, shortage
from spinney.core.scheduling.gang.parsed_gang import is_gathering
from spinney.core.scheduling.reporting import ungrouped_reports
from spinney.core.scheduling.reporting.messages import evicted_as_stale, stale
from spinney.core.scheduling.settings import Settings

_EARLY_S = 0.01


class StaleGangs:
    """`requeue_after` schedules another look at a key after that many seconds."""

    def __init__(
        self,
        snapshot: Snapshot,
        cluster: Cluster,
        settings: Settings,
        clock: Clock,
        requeue_after: Callable[[Key, float], None],
    ) -> None:
        self._snapshot = snapshot
        self._cluster = cluster
        self._grace_s = settings.staleness_grace_s
        self._incomplete_grace_s = min(settings.incomplete_grace_s, settings.staleness_grace_s)
        self._clock = clock
        self._requeue_after = requeue_after
        self._short_since: dict[Key, float] = {}
        self._timers: dict[Key, float] = {}

    def check(
        self, group: PodGroup, pods: Sequence[Pod], runs: bool, *, is_mistaken: bool = False
    ) -> MarkStale | EvictStale | None:
        """The action for a gang without a plan. `runs`: some of its members have a node.

        A gang is not evicted while a mistake in its PodGroup prevents its repair: it could not start anew either.
        """
        key = (group.metadata.namespace, group.metadata.name)
        marked = group.metadata.annotations.get(KAI_STALE_TIMESTAMP, "")
        if self._grace_s < 0 or is_owned_by_podgang(group) or not (runs or marked):
            return None
        lack = shortage(group, pods, lambda name: self._cluster.inventory.find(name) is not None)
        if lack is None or is_mistaken:
            self.forget(key)
            return MarkStale(key, group.metadata, "") if marked else None
        if not marked:
            return self._mark(key, group, lack)
        now_s = self._clock.now()
        seen_s = self._short_since.setdefault(key, now_s)  # the clock of the process that marked it may have been ahead
        left_s = min(_time(marked, now_s), seen_s) + self._grace_s - now_s
        if left_s > 0:
            self._wake_in(key, left_s)
            return None
        return self._evict_stale(key, group, pods, lack)

    def forget(self, key: Key) -> None:
        self._short_since.pop(key, None)
        self._timers.pop(key, None)

    def _mark(self, key: Key, group: PodGroup, lack: Shortage) -> MarkStale | None:
        """A shortage that ends within the grace period is not reported."""
        now_s = self._clock.now()
        since_s = self._short_since.setdefault(key, now_s)
        left_s = since_s + self._incomplete_grace_s - now_s
        if left_s > 0:
            self._wake_in(key, left_s)
            return None
        return MarkStale(key, group.metadata, format_time(since_s), stale(lack.active, lack.minimum, lack.short))

    def _evict_stale(self, key: Key, group: PodGroup, pods: Sequence[Pod], lack: Shortage) -> EvictStale:
        budgets = Budgets(self._snapshot.budgets, self._cluster.pending_victims)
        left = [pod for pod in pods if _runs(pod)]
        sub_group, minimum = (lack.short[0][0], lack.short[0][1]) if lack.short else ("", lack.minimum)
        targets = [
            EvictionTarget(
                pod,
                group.metadata,
                evicted_as_stale(f"{key[0]}/{pod.metadata.name}", key, minimum, sub_group, len(left)),
                budgets.guards(pod),
            )
            for pod in left
        ]
        return EvictStale(key, tuple(targets))

    def _wake_in(self, key: Key, left_s: float) -> None:
        """Set one timer per deadline; a timer that fired a little early is set again."""
        now_s = self._clock.monotonic()
        set_s, at_s = self._timers.get(key, 0.0), now_s + max(left_s, _EARLY_S)
        if set_s <= now_s + _EARLY_S / 2 or abs(set_s - at_s) > 1.0:
            self._timers[key] = at_s
            self._requeue_after(key, at_s - now_s)


def _runs(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.is_here


def _time(text: str, otherwise: float) -> float:
    """A time that cannot be parsed counts as `otherwise`."""
    try:
        return seconds(text)
    except ValueError:
        return otherwise


_TIMER_SLACK_S = 0.1  # a timer may be early by less

RequeueAfter = Callable[[Key, float], None]
"""Schedules another look at a key after that many seconds."""


class GracePeriod:
    """The grace period of incomplete gangs."""

    def __init__(self, clock: Clock, incomplete_grace_s: float, requeue_after: RequeueAfter) -> None:
        self._clock = clock
        self._incomplete_grace_s = incomplete_grace_s
        self._requeue_after = requeue_after

    def is_gathering(self, entry: GangState, group: PodGroup, pods: Sequence[Pod]) -> bool:
        """Whether it is too early to parse the gang: most pods of a new gang do not exist yet."""
        if PLAN in group.metadata.annotations or not is_gathering(group.spec, pods):
            return False
        return not self.is_over(entry)

    def is_over(self, entry: GangState) -> bool:
        """Whether it has been incomplete for longer than the grace period; it is looked at again when that ends."""
        now, is_new = self._clock.monotonic(), entry.incomplete_since is None
        if entry.incomplete_since is None:
            entry.incomplete_since = now
        left_s = entry.incomplete_since + self._incomplete_grace_s - now
        if left_s > 0 and (is_new or left_s < _TIMER_SLACK_S):
            self._requeue_after(entry.key, left_s)
        return left_s <= 0


class UngroupedPods:
    """The grace period of pods whose PodGroup does not exist."""

    def __init__(
        self,
        scheduling_queue: SchedulingQueue,
        clock: Clock,
        incomplete_grace_s: float,
        requeue_after: RequeueAfter,
        reports: Reports,
    ) -> None:
        self._scheduling_queue = scheduling_queue
        self._clock = clock
        self._incomplete_grace_s = incomplete_grace_s
        self._requeue_after = requeue_after
        self._reports = reports

    def check(self, entry: GangState, pods: Sequence[Pod]) -> None:
        """Report the pods that have waited long enough; an entry without pods is removed."""
        waiting = [pod for pod in pods if _waits(pod) and not _is_explained(pod)]
        if not pods:
            self._scheduling_queue.forget(entry)
        told = tuple(pod for pod in waiting if age_s(pod, self._clock.now()) >= self._incomplete_grace_s)
        if len(told) < len(waiting):
            self._requeue_after(entry.key, self._incomplete_grace_s)
        who = tuple(pod.metadata.uid for pod in told)
        if told and entry.told != who:
            entry.told = who
            self._reports.put_ungrouped(ungrouped_reports(entry.key, told))


def _is_explained(pod: Pod) -> bool:
    """Whether the pod-grouper has already told the user what to correct."""
    told = pod.condition(SCHEDULED)
    return told is not None and told.reason == WARNING


def _waits(pod: Pod) -> bool:
    return pod.is_here and not (pod.spec.node_name or pod.spec.scheduling_gates)
