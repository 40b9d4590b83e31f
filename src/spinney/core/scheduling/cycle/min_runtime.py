"""The minimum runtime (`preemptMinRuntime` of the queue) during which a gang may not be preempted.

The start of a gang is read from its PodGroup, so that the time continues across restarts. When it is over, gangs that
were refused because of it are retried.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from kube_apimachinery.clock import Clock
from spinney.api.labels import KAI_LAST_START_TIMESTAMP
from spinney.core.expansion.objects import seconds
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.cycle.queue_accounting import QueueAccounting
from spinney.core.scheduling.cycle.scheduling_queue import GangState, SchedulingQueue
from spinney.core.scheduling.cycle.snapshot import Key, Snapshot


class MinRuntime:
    """`requeue_after` schedules another look at a key after that many seconds."""

    def __init__(
        self,
        snapshot: Snapshot,
        cluster: Cluster,
        scheduling_queue: SchedulingQueue,
        queue_accounting: QueueAccounting,
        clock: Clock,
        requeue_after: Callable[[Key, float], None],
    ) -> None:
        self._snapshot = snapshot
        self._cluster = cluster
        self._scheduling_queue = scheduling_queue
        self._queue_accounting = queue_accounting
        self._clock = clock
        self._requeue_after = requeue_after
        self._future_starts: dict[Key, tuple[str, float]] = {}  # start times in the future, and when they were read
        self._protected: set[Key] = set()  # gangs that would have been victims but for this

    def is_protected(self, entry: GangState) -> bool:
        """Whether a gang may not be preempted yet; it is looked at again when it may."""
        left_s = self._left_s(entry)
        if left_s > 0 and entry.key not in self._protected:
            self._protected.add(entry.key)
            self._requeue_after(entry.key, left_s)
        return left_s > 0

    def check(self, entry: GangState) -> None:
        """A gang was read: its minimum runtime may be over."""
        if entry.key not in self._protected:
            return
        self._protected.discard(entry.key)
        if entry.reading is not None and not self.is_protected(entry):
            self._retry_refused(entry.reading.gang.priority)

    def forget(self, key: Key) -> None:
        """The gang does not exist any more."""
        self._protected.discard(key)
        self._future_starts.pop(key, None)

    def _left_s(self, entry: GangState) -> float:
        least_s = self._queue_accounting.queues.min_runtime_s(entry.reading.queue) if entry.reading is not None else 0.0
        if not least_s or entry.group is None:
            return 0.0
        told = entry.group.metadata.annotations.get(KAI_LAST_START_TIMESTAMP, "")
        return min(self._began_s(entry, told), self._pods_began_s(entry)) + least_s - self._clock.now()

    def _pods_began_s(self, entry: GangState) -> float:
        """The start of the first running pod: the gang is at least as old, whatever its PodGroup says."""
        running = [pod for pod in self._snapshot.pods_of(entry.key) if pod.spec.node_name and pod.is_here]
        times = [_time(pod.status.start_time) for pod in running if pod.status.start_time]
        return min(times, default=inf)

    def _began_s(self, entry: GangState, text: str) -> float:
        """A start time in the future counts as the time when it was first read, whoever wrote it."""
        began_s, now_s = _time(text), self._clock.now()
        if began_s <= now_s:
            self._future_starts.pop(entry.key, None)
            return began_s
        if self._future_starts.get(entry.key, ("", 0.0))[0] != text:
            self._future_starts[entry.key] = (text, now_s)
        return self._future_starts[entry.key][1]

    def _retry_refused(self, priority: int) -> None:
        if self._scheduling_queue.outranks(0, priority):
            self._cluster.touch()


def _time(text: str) -> float:
    """A time that cannot be parsed counts as long ago."""
    try:
        return seconds(text)
    except ValueError:
        return 0.0
