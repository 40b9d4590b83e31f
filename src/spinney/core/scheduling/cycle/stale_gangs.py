"""Stale gangs: marked when they run below their minimum, given time to be repaired, and then evicted (K14).

The start time is written on the PodGroup, so that the grace period continues across restarts. Gangs of PodGangs are
left alone: their operator terminates them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kube_apimachinery.clock import Clock
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import KAI_STALE_TIMESTAMP
from spinney.core.expansion.objects import format_time, seconds
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.actions import EvictionTarget, EvictStale, MarkStale
from spinney.core.scheduling.cycle.disruption_budgets import Budgets
from spinney.core.scheduling.cycle.snapshot import Key, Snapshot
from spinney.core.scheduling.gang.staleness import Shortage, is_owned_by_podgang, shortage
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
