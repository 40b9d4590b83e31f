"""Grace periods: how long a gang may be incomplete, ungrouped, stale or too young before something is done about it.

Most incomplete gangs are complete a moment later; each is looked at again when the time is over. A gang that runs below
its minimum is stale (K14): it is marked, given time to be repaired, and then evicted. The start time is written on the
PodGroup, so that the grace period continues across restarts. Gangs of PodGangs are left alone: their operator
terminates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from kube_apimachinery.times import format_time, seconds
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import KAI_LAST_START_TIMESTAMP, KAI_STALE_TIMESTAMP, PLAN
from spinney.core.grouping.user_feedback import SCHEDULED, WARNING
from spinney.core.scheduling.cycle.actions import EvictionTarget, EvictStale, MarkStale
from spinney.core.scheduling.cycle.preemption import Budgets
from spinney.core.scheduling.cycle.scheduling_queue import QueuedGang
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import Key, Reports, Snapshot
from spinney.core.scheduling.gang.members import Shortage, age_s, is_owned_by_podgang, shortage
from spinney.core.scheduling.gang.parsed_gang import ParsedGang, is_gathering
from spinney.core.scheduling.queues.reclaim import Reclaim
from spinney.core.scheduling.reporting import ungrouped_reports
from spinney.core.scheduling.reporting.messages import evicted_as_stale, stale

_EARLY_S = 0.01


class StaleGangs:
    """Marks gangs that run below their minimum, and evicts what is left of them."""

    def __init__(self, session: Session, snapshot: Snapshot) -> None:
        self._session = session
        self._snapshot = snapshot
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
        grace_s = self._session.settings.staleness_grace_s
        if grace_s < 0 or is_owned_by_podgang(group) or not (runs or marked):
            return None
        lack = shortage(group, pods, lambda name: self._session.cluster.inventory.find(name) is not None)
        if lack is None or is_mistaken:
            self.forget(key)
            return MarkStale(key, group.metadata, "") if marked else None
        if not marked:
            return self._mark(key, group, lack)
        now_s = self._session.clock.now()
        seen_s = self._short_since.setdefault(key, now_s)  # the clock of the process that marked it may have been ahead
        left_s = min(_time(marked, now_s), seen_s) + grace_s - now_s
        if left_s > 0:
            self._wake_in(key, left_s)
            return None
        return self._evict_stale(key, group, pods, lack)

    def forget(self, key: Key) -> None:
        self._short_since.pop(key, None)
        self._timers.pop(key, None)

    def _mark(self, key: Key, group: PodGroup, lack: Shortage) -> MarkStale | None:
        """A shortage that ends within the grace period is not reported."""
        now_s = self._session.clock.now()
        since_s = self._short_since.setdefault(key, now_s)
        settings = self._session.settings
        left_s = since_s + min(settings.incomplete_grace_s, settings.staleness_grace_s) - now_s
        if left_s > 0:
            self._wake_in(key, left_s)
            return None
        return MarkStale(key, group.metadata, format_time(since_s), stale(lack.active, lack.minimum, lack.short))

    def _evict_stale(self, key: Key, group: PodGroup, pods: Sequence[Pod], lack: Shortage) -> EvictStale:
        budgets = Budgets(self._snapshot.budgets, self._session.cluster.pending_victims)
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
        now_s = self._session.clock.monotonic()
        set_s, at_s = self._timers.get(key, 0.0), now_s + max(left_s, _EARLY_S)
        if set_s <= now_s + _EARLY_S / 2 or abs(set_s - at_s) > 1.0:
            self._timers[key] = at_s
            self._session.requeue_after(key, at_s - now_s)


class MinRuntime:
    """During the minimum runtime of its queue a gang may not be preempted, or nothing be reclaimed from it.

    For preemption that is the `preemptMinRuntime` of its own queue, for reclaim the `reclaimMinRuntime` of the queue
    above it where the paths of the two part; a queue without one has that of the nearest queue above it.
    The start of a gang is read from its PodGroup, so that the time continues across restarts. When it is over, gangs
    that were refused because of it are retried.
    """

    def __init__(self, session: Session, snapshot: Snapshot) -> None:
        self._session = session
        self._snapshot = snapshot
        self._future_starts: dict[Key, tuple[str, float]] = {}  # start times in the future, and when they were read
        self._protected: dict[Key, set[str]] = {}  # gangs that would have been victims but for this, and for whom

    def is_protected(self, entry: QueuedGang, parting: str = "") -> bool:
        """Whether a gang may not be a victim yet; it is looked at again when it may.

        `parting`: the queue above it, or its own, that a gang of another queue takes from; empty: it is preempted.
        """
        left_s = self._left_s(entry, parting)
        if left_s > 0 and parting not in self._protected.get(entry.key, ()):
            self._protected.setdefault(entry.key, set()).add(parting)
            self._session.requeue_after(entry.key, left_s)
        return left_s > 0

    def obstacle(self, reading: ParsedGang, reclaim: Reclaim) -> str:
        """Which gangs a gang could take from, but for their minimum runtime, and until when; empty: none."""
        now_s, until = self._session.clock.now(), {}
        for key, partings in self._protected.items():
            other = self._session.scheduling_queue.entries.get(key)
            if other is None or other.reading is None or not other.reading.gang.running:
                continue
            is_own = other.reading.queue == reading.queue
            parting = "" if is_own else reclaim.parting(other.reading.queue)
            is_weaker = other.reading.gang.priority < reading.gang.priority
            if parting in partings and (is_weaker if is_own else reclaim.may_take_from(other.reading.queue)):
                until[other.name] = now_s + self._left_s(other, parting), parting or reading.queue, bool(parting)
        if not until:
            return ""
        name = min(until, key=lambda name: (until[name], name))
        at_s, queue, is_reclaim = until[name]
        field = "reclaimMinRuntime" if is_reclaim else "preemptMinRuntime"
        more = f" (and {len(until) - 1} more)" if len(until) > 1 else ""
        return f"Gang {name}{more} keeps its place until {format_time(at_s)} by the {field} that queue {queue} has"

    def check(self, entry: QueuedGang) -> None:
        """A gang was read: its minimum runtime may be over."""
        before = self._protected.pop(entry.key, set())
        for parting in sorted(before) if entry.reading is not None else ():
            if not self.is_protected(entry, parting):
                self._retry_refused(entry, parting)

    def forget(self, key: Key) -> None:
        """The gang does not exist any more."""
        self._protected.pop(key, None)
        self._future_starts.pop(key, None)

    def _left_s(self, entry: QueuedGang, parting: str) -> float:
        queues, reading = self._session.queue_accounting.queues, entry.reading
        if reading is None or entry.group is None:
            return 0.0
        least_s = queues.reclaim_min_runtime_s(parting) if parting else queues.min_runtime_s(reading.queue)
        if not least_s:
            return 0.0
        return least_s - self.age_s(entry)

    def age_s(self, entry: QueuedGang) -> float:
        """How long ago the gang started; a gang that did not say so started long ago."""
        reported = entry.group.metadata.annotations.get(KAI_LAST_START_TIMESTAMP, "") if entry.group is not None else ""
        return self._session.clock.now() - min(self._began_s(entry, reported), self._pods_began_s(entry))

    def _pods_began_s(self, entry: QueuedGang) -> float:
        """The start of the first running pod: the gang is at least as old, whatever its PodGroup says."""
        running = [pod for pod in self._snapshot.pods_of(entry.key) if pod.spec.node_name and pod.is_here]
        times = [_time(pod.status.start_time, 0.0) for pod in running if pod.status.start_time]
        return min(times, default=inf)

    def _began_s(self, entry: QueuedGang, text: str) -> float:
        """A start time in the future counts as the time when it was first read, whoever wrote it."""
        began_s, now_s = _time(text, 0.0), self._session.clock.now()
        if began_s <= now_s:
            self._future_starts.pop(entry.key, None)
            return began_s
        if self._future_starts.get(entry.key, ("", 0.0))[0] != text:
            self._future_starts[entry.key] = (text, now_s)
        return self._future_starts[entry.key][1]

    def _retry_refused(self, entry: QueuedGang, parting: str) -> None:
        assert entry.reading is not None
        if parting or self._session.scheduling_queue.outranks(0, entry.reading.gang.priority):
            self._session.cluster.touch()


def _runs(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.is_here


def _time(text: str, otherwise: float) -> float:
    """A time that cannot be parsed counts as `otherwise`."""
    try:
        return seconds(text)
    except ValueError:
        return otherwise


_TIMER_SLACK_S = 0.1  # a timer may be early by less


class GracePeriod:
    """The grace period of incomplete gangs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def is_gathering(self, entry: QueuedGang, group: PodGroup, pods: Sequence[Pod]) -> bool:
        """Whether it is too early to parse the gang: most pods of a new gang do not exist yet."""
        if PLAN in group.metadata.annotations or not is_gathering(group.spec, pods):
            return False
        return not self.is_over(entry)

    def is_over(self, entry: QueuedGang) -> bool:
        """Whether it has been incomplete for longer than the grace period; it is looked at again when that ends."""
        now, is_new = self._session.clock.monotonic(), entry.incomplete_since is None
        if entry.incomplete_since is None:
            entry.incomplete_since = now
        left_s = entry.incomplete_since + self._session.settings.incomplete_grace_s - now
        if left_s > 0 and (is_new or left_s < _TIMER_SLACK_S):
            self._session.requeue_after(entry.key, left_s)
        return left_s <= 0


class UngroupedPods:
    """The grace period of pods whose PodGroup does not exist."""

    def __init__(self, session: Session, reports: Reports) -> None:
        self._session = session
        self._reports = reports

    def check(self, entry: QueuedGang, pods: Sequence[Pod]) -> None:
        """Report the pods that have waited long enough; an entry without pods is removed."""
        waiting = [pod for pod in pods if _waits(pod) and not _is_explained(pod)]
        if not pods:
            self._session.scheduling_queue.forget(entry)
        reported = tuple(
            pod for pod in waiting if age_s(pod, self._session.clock.now()) >= self._session.settings.incomplete_grace_s
        )
        if len(reported) < len(waiting):
            self._session.requeue_after(entry.key, self._session.settings.incomplete_grace_s)
        who = tuple(pod.metadata.uid for pod in reported)
        if reported and entry.reported_ungrouped != who:
            entry.reported_ungrouped = who
            self._reports.put_ungrouped(ungrouped_reports(entry.key, reported))


def _is_explained(pod: Pod) -> bool:
    """Whether the pod-grouper has already told the user what to correct."""
    reported = pod.condition(SCHEDULED)
    return reported is not None and reported.reason == WARNING


def _waits(pod: Pod) -> bool:
    return pod.is_here and not (pod.spec.node_name or pod.spec.scheduling_gates)
