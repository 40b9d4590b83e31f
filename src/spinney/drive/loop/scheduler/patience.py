"""How long gangs may be incomplete before that is told, and pods may be without their PodGroup.

Most of them are complete a moment later; whoever is waited for is looked at again when the time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spinney.api.builtin.pod import Pod
from spinney.api.clock import Clock
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import PLAN
from spinney.core.grouping.visible import SCHEDULED, WARNING
from spinney.core.scheduling.gathering import is_gathering
from spinney.core.scheduling.reporting import stray_reports
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.binding import age_s
from spinney.drive.loop.scheduler.book import Book, Entry
from spinney.drive.loop.scheduler.reports import Reports

_SOON_S = 0.1  # a timer may be early by less

LookAfter = Callable[[Key, float], None]
"""Asks to be called back for a key after so many seconds."""


class Patience:
    """With gangs."""

    def __init__(self, clock: Clock, patience_s: float, look_after: LookAfter) -> None:
        self._clock = clock
        self._patience_s = patience_s
        self._look_after = look_after

    def is_gathering(self, entry: Entry, group: PodGroup, pods: Sequence[Pod]) -> bool:
        """Whether there is nothing to read yet: most of a new gang's pods are still to come."""
        if PLAN in group.metadata.annotations or not is_gathering(group.spec, pods):
            return False
        return not self.is_over(entry)

    def is_over(self, entry: Entry) -> bool:
        """Whether it has been incomplete for longer than is usual; it is looked at again when it is."""
        now, is_new = self._clock.monotonic(), entry.incomplete_since is None
        if entry.incomplete_since is None:
            entry.incomplete_since = now
        left_s = entry.incomplete_since + self._patience_s - now
        if left_s > 0 and (is_new or left_s < _SOON_S):
            self._look_after(entry.key, left_s)
        return left_s <= 0


class Strays:
    """With pods whose PodGroup is not there."""

    def __init__(self, book: Book, clock: Clock, patience_s: float, look_after: LookAfter, reports: Reports) -> None:
        self._book = book
        self._clock = clock
        self._patience_s = patience_s
        self._look_after = look_after
        self._reports = reports

    def look(self, entry: Entry, pods: Sequence[Pod]) -> None:
        """Tell those that have waited long enough; an entry without pods is nobody's."""
        waiting = [pod for pod in pods if _waits(pod) and not _is_explained(pod)]
        if not pods:
            self._book.forget(entry)
        told = tuple(pod for pod in waiting if age_s(pod, self._clock) >= self._patience_s)
        if len(told) < len(waiting):
            self._look_after(entry.key, self._patience_s)
        who = tuple(pod.metadata.uid for pod in told)
        if told and entry.told != who:
            entry.told = who
            self._reports.put_strays(stray_reports(entry.key, told))


def _is_explained(pod: Pod) -> bool:
    """The pod-grouper has said what its user has to put right."""
    told = pod.condition(SCHEDULED)
    return told is not None and told.reason == WARNING


def _waits(pod: Pod) -> bool:
    return pod.is_here and not (pod.spec.node_name or pod.spec.scheduling_gates)
