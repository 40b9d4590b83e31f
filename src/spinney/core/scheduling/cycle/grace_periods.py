"""Grace periods: how long a gang may be incomplete, and a pod without its PodGroup, before that is reported.

Most of them are complete a moment later; each is looked at again when the time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kube_apimachinery.clock import Clock
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import PLAN
from spinney.core.grouping.user_feedback import SCHEDULED, WARNING
from spinney.core.scheduling.cycle.scheduling_queue import GangState, SchedulingQueue
from spinney.core.scheduling.cycle.snapshot import Key, Reports
from spinney.core.scheduling.gang.members import age_s
from spinney.core.scheduling.gang.parsed_gang import is_gathering
from spinney.core.scheduling.reporting import ungrouped_reports

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
