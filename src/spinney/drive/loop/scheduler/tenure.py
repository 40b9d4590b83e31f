"""Gangs that began too short a time ago to be preempted, as their queues say (`preemptMinRuntime`).

When a gang began is read off its PodGroup, so that the time goes on across restarts. Nobody who was refused because of
it is forgotten: when the time is over, everybody who waits is asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from spinney.api.clock import Clock
from spinney.api.kinds.queue import Queue
from spinney.api.labels import KAI_LAST_START_TIMESTAMP
from spinney.core.expansion.objects import seconds
from spinney.core.scheduling.cluster import Cluster
from spinney.drive.client.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.book import Book, Entry
from spinney.drive.loop.scheduler.ordering import Ordering
from spinney.drive.loop.scheduler.views import Views


class Tenure:
    """`look_after` asks to be called back for a key after so many seconds."""

    def __init__(
        self,
        views: Views,
        cluster: Cluster,
        book: Book,
        ordering: Ordering,
        clock: Clock,
        look_after: Callable[[Key, float], None],
    ) -> None:
        self._views = views
        self._cluster = cluster
        self._book = book
        self._ordering = ordering
        self._clock = clock
        self._look_after = look_after
        self._early: dict[Key, tuple[str, float]] = {}  # beginnings that are still to come, and when they were read
        self._spared: set[Key] = set()  # those that somebody would have preempted
        views.queues.subscribe(self._fold)

    def spares(self, entry: Entry) -> bool:
        """Whether a gang may not be preempted yet; it is looked at again when it may."""
        left_s = self._left_s(entry)
        if left_s > 0 and entry.key not in self._spared:
            self._spared.add(entry.key)
            self._look_after(entry.key, left_s)
        return left_s > 0

    def look(self, entry: Entry) -> None:
        """A gang was read: perhaps its time is over."""
        if entry.key not in self._spared:
            return
        self._spared.discard(entry.key)
        if entry.reading is not None and not self.spares(entry):
            self._ask_again(entry.reading.gang.priority)

    def forget(self, key: Key) -> None:
        """There is no such gang any more."""
        self._spared.discard(key)
        self._early.pop(key, None)

    def _left_s(self, entry: Entry) -> float:
        least_s = self._ordering.queues.min_runtime_s(entry.reading.queue) if entry.reading is not None else 0.0
        if not least_s or entry.group is None:
            return 0.0
        told = entry.group.metadata.annotations.get(KAI_LAST_START_TIMESTAMP, "")
        return min(self._began_s(entry, told), self._pods_began_s(entry)) + least_s - self._clock.now()

    def _pods_began_s(self, entry: Entry) -> float:
        """When the first of the pods that run did: the gang is not younger, whatever its PodGroup says."""
        running = [pod for pod in self._views.pods_of(entry.key) if pod.spec.node_name and pod.is_here]
        times = [_time(pod.status.start_time) for pod in running if pod.status.start_time]
        return min(times, default=inf)

    def _began_s(self, entry: Entry, text: str) -> float:
        """A beginning that is still to come was at the latest when it was first read, whoever wrote it."""
        began_s, now_s = _time(text), self._clock.now()
        if began_s <= now_s:
            self._early.pop(entry.key, None)
            return began_s
        if self._early.get(entry.key, ("", 0.0))[0] != text:
            self._early[entry.key] = (text, now_s)
        return self._early[entry.key][1]

    def _ask_again(self, priority: int) -> None:
        if self._book.is_wanted(0, priority):
            self._cluster.touch()

    def _fold(self, change: Change[Queue]) -> None:
        old, new = (each.spec.preempt_min_runtime if each is not None else "" for each in (change.old, change.new))
        if old != new:
            self._cluster.touch()


def _time(text: str) -> float:
    """What cannot be read was long ago."""
    try:
        return seconds(text)
    except ValueError:
        return 0.0
