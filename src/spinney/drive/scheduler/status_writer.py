"""Writes the status of gangs: reports built from decisions, written when nothing more urgent is to do.

The newest report of a gang replaces those not written yet. What was reported before is read from the objects, so that
another process does not report it again. An event that cannot be written is lost; a condition is retried. Each write
names the version that it is based on, so that an outdated report is not written.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import ParamSpec

import structlog

from kube_apimachinery.clock import Clock
from kube_apimachinery.times import format_time
from spinney.api.builtin.pod import Pod
from spinney.api.changes import Json
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import EXPLANATION, PLACEMENT_SCORE, SCHEDULER_KAI
from spinney.api.meta import ObjectMeta
from spinney.core.expansion.objects import short_hash
from spinney.core.scheduling.reporting.report import (
    AT,
    DEFAULT_NODE_POOL,
    POD_SCHEDULED,
    Event,
    PodReport,
    Report,
    alike,
    current,
    decode,
    encode,
    next_conditions,
    pod_condition,
)
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Outcome, Refused, RetryLater, Stale, Unknown, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.paths import Key
from spinney.drive.scheduler.caches import EVENTS, PODGROUPS, PODS
from spinney.drive.scheduler.execution.api_writer import ApiWriter

_MESSAGE_LIMIT = 1024


class StatusClient:
    """Status writes through the door."""

    def __init__(self, door: Door, clock: Clock, component: str = SCHEDULER_KAI) -> None:
        self._door = door
        self._clock = clock
        self._component = component

    async def annotate(self, group: ObjectMeta, annotations: Mapping[str, str | None]) -> Outcome:
        ref = PODGROUPS.ref(group.name, group.namespace)
        body: Json = {"metadata": {"annotations": dict(annotations)}}
        return await self._door.merge_patch(ref, body, Precondition(group.uid, group.resource_version))

    async def conditions(self, group: ObjectMeta, version: str, conditions: list[Json]) -> Outcome:
        """Replace all scheduling conditions: there is no other writer of them."""
        ref = PODGROUPS.ref(group.name, group.namespace)
        return await self._door.status(ref, {"schedulingConditions": conditions}, Precondition(group.uid, version))

    async def pod_condition(self, pod: Pod, written: Json) -> Outcome:
        """Write one condition and leave the pod's other conditions alone."""
        types = [one.type for one in pod.status.conditions]
        if written["type"] in types:
            change: Json = {
                "op": "replace",
                "path": f"/status/conditions/{types.index(written['type'])}",
                "value": written,
            }
        elif types:
            change = {"op": "add", "path": "/status/conditions/-", "value": written}
        else:
            change = {"op": "add", "path": "/status/conditions", "value": [written]}
        metadata = pod.metadata
        given = Precondition(metadata.uid, metadata.resource_version)
        ref = PODS.ref(metadata.name, metadata.namespace)
        return await self._door.json_patch(ref, [change], given, subresource="status")

    async def event(self, api_version: str, kind: str, about: ObjectMeta, event: Event) -> Outcome:
        """Create an event; equal events within a second are one."""
        time = format_time(self._clock.now())
        word = short_hash([about.uid, event.reason, event.message, time])
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"annotations": dict(event.annotations)} if event.annotations else {},
            "involvedObject": {
                "apiVersion": api_version,
                "kind": kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:_MESSAGE_LIMIT],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
        }
        return await self._door.create(EVENTS.ref(f"{about.name}.{word}", about.namespace or "default"), body)


P = ParamSpec("P")

_log = structlog.get_logger(__name__)
_MOST_EVENTS = 20_000
_TICK_S = 0.001
_MOST_DOUBLINGS = 32
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Limits of status writes, in seconds and writes per second.

    - `min_duration_s`: a state that lasts shorter is not reported.
    - `refresh_s`: minimum time between reports that differ in numbers only.
    - `rate_per_s`, `burst`: token bucket for writes.
    - `retry_s`: delay after a write that could not be made, growing up to `longest_s`.
    """

    min_duration_s: float = 0.1
    refresh_s: float = 10.0
    rate_per_s: float = 200.0
    burst: int = 50
    retry_s: float = 0.5
    longest_s: float = 30.0


@dataclass(slots=True)
class _ReportedState:
    """The last report of a PodGroup, and its pods that have it; the caches may not show it yet."""

    uid: str
    report: Report
    at_s: float = _NEVER
    reported_pods: set[str] = field(default_factory=set)


class _TokenBucket:
    """Allows a rate of writes per second and a burst."""

    def __init__(self, clock: Clock, rate_limits: RateLimits) -> None:
        self._clock = clock
        self._rate_limits = rate_limits
        self._tokens, self._filled_s = float(rate_limits.burst), clock.monotonic()

    async def step(self) -> None:
        while True:
            now_s = self._clock.monotonic()
            gained = (now_s - self._filled_s) * self._rate_limits.rate_per_s
            self._tokens, self._filled_s = min(float(self._rate_limits.burst), self._tokens + gained), now_s
            if self._tokens >= 1.0:
                self._tokens -= 1.0
                return
            await asyncio.sleep(max(_TICK_S, (1.0 - self._tokens) / self._rate_limits.rate_per_s))


class StatusWriter:
    """`put` reports, `note` single events, `run` until cancelled. `groups` and `pods` look up the current objects."""

    def __init__(
        self,
        api_writer: ApiWriter,
        groups: Callable[[Key], PodGroup | None],
        pods: Callable[[Key], Pod | None],
        *,
        node_pool: str = DEFAULT_NODE_POOL,
        rate_limits: RateLimits | None = None,
    ) -> None:
        self._api_writer = api_writer
        self._status_client = StatusClient(api_writer.door, api_writer.clock)
        self._clock = clock = api_writer.clock
        self._groups = groups
        self._pods = pods
        self._node_pool = node_pool
        self._rate_limits = rate_limits or RateLimits()
        self._bucket = _TokenBucket(clock, self._rate_limits)
        self._waiting: dict[Key, tuple[int, Report | None]] = {}
        self._decided_s: dict[Key, float] = {}
        self._due: list[tuple[float, int, Key]] = []
        self._numbers = count()
        self._reported: dict[Key, _ReportedState] = {}
        self._failures: dict[Key, int] = {}
        self._ungrouped: dict[Key, PodReport] = {}
        self._events: deque[tuple[str, str, ObjectMeta, Event]] = deque(maxlen=_MOST_EVENTS)
        self._wake = asyncio.Event()

    @property
    def backlog(self) -> int:
        """The number of reports and events that are not written yet."""
        return len(self._waiting) + len(self._events)

    def put(self, key: Key, report: Report) -> None:
        """Submit a report on a PodGroup. That it is scheduled is reported once its plan has been carried out."""
        self._decided_s[key] = self._clock.now()
        last = self._reported.get(key)
        due_s = self._clock.monotonic() + self._rate_limits.min_duration_s
        if last is not None and _is_same(last.report, report) and _pods(report) <= last.reported_pods:
            if last.report == report:
                self._waiting.pop(key, None)
                return
            due_s = max(due_s, last.at_s + self._rate_limits.refresh_s)
        if self._waiting.get(key, (0, None))[1] != report:
            self._schedule(key, report, due_s)

    def put_ungrouped(self, status_writer: Iterable[PodReport]) -> None:
        """Submit reports on pods that are in no PodGroup."""
        for one in status_writer:
            key = (one.key[0], f"pod/{one.key[1]}")
            self._ungrouped[key] = one
            self._schedule(key, None, self._clock.monotonic())

    def forget(self, key: Key) -> None:
        """Drop pending reports on a PodGroup; what was reported is read from the object when there is a new report."""
        for known in (self._waiting, self._reported, self._failures, self._decided_s):
            known.pop(key, None)

    def note(self, api_version: str, kind: str, about: ObjectMeta, event: Event) -> None:
        """Queue an event; when the queue is full, the oldest are dropped."""
        self._events.append((api_version, kind, about, event))
        self._wake.set()

    async def run(self) -> None:
        """Run until cancelled. Reports go before events."""
        while True:
            self._wake.clear()
            key = self._next()
            if key is not None:
                report = self._waiting.pop(key)[1]
                last = await (self._write_ungrouped(key) if report is None else self._report(key, report))
                if not last:
                    self._try_again(key, report)
            elif self._events:
                await self._api_writer.quiet()
                await self._wrote(self._status_client.event, *self._events.popleft())
            else:
                await self._rest()

    def _schedule(self, key: Key, report: Report | None, due_s: float) -> None:
        number = next(self._numbers)
        self._waiting[key] = (number, report)
        heapq.heappush(self._due, (due_s, number, key))
        self._wake.set()

    def _next(self) -> Key | None:
        """The next due report; reports that were replaced are skipped."""
        while self._due:
            due_s, number, key = self._due[0]
            if self._waiting.get(key, (-1,))[0] == number and due_s > self._clock.monotonic():
                return None
            heapq.heappop(self._due)
            if self._waiting.get(key, (-1,))[0] == number:
                return key
        return None

    async def _rest(self) -> None:
        wait_s = self._due[0][0] - self._clock.monotonic() if self._due else None
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    def _try_again(self, key: Key, report: Report | None) -> None:
        """Retry with backoff, unless there is a newer report."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if key not in self._waiting:
            delay_s = min(
                self._rate_limits.retry_s * 2.0 ** min(failures, _MOST_DOUBLINGS), self._rate_limits.longest_s
            )
            self._schedule(key, report, self._clock.monotonic() + delay_s)

    async def _report(self, key: Key, report: Report) -> bool:
        """Write a report on a PodGroup and its pods; whether nothing is left to write."""
        group = self._groups(key)
        if group is None or group.metadata.deletion_timestamp is not None:
            self.forget(key)
            return True
        before = self._reported.pop(key, None)
        if before is not None and before.uid != group.metadata.uid:
            before = None
        is_new = _is_new(group, report) if before is None else not _is_same(before.report, report)
        reported = _ReportedState(
            group.metadata.uid, report, reported_pods=set() if before is None or is_new else before.reported_pods
        )
        self._reported[key] = reported
        if not await self._write_group(group, report, refresh=before is not None or is_new):
            return self._give_up(key, reported)
        if is_new and report.group_event is not None:
            self.note(PODGROUPS.api_version, "PodGroup", group.metadata, report.group_event)
        for one in report.pods:
            if self._reported.get(key) is not reported:
                return True
            if one.uid not in reported.reported_pods and not await self._write_pod(one, is_new):
                return self._give_up(key, reported)
            reported.reported_pods.add(one.uid)
        reported.at_s = self._clock.monotonic()
        self._failures.pop(key, None)
        return True

    def _give_up(self, key: Key, reported: _ReportedState) -> bool:
        """Whether the report was replaced or dropped. If not, it is written anew from what the objects say."""
        if self._reported.get(key) is not reported:
            return True
        del self._reported[key]
        return False

    async def _write_group(self, group: PodGroup, report: Report, refresh: bool) -> bool:
        """Write the condition and annotations that differ; if the annotation is refused, write the condition anyway.

        Without `refresh` nothing is written where they differ in numbers only: another process has reported it.
        """
        metadata, version = group.metadata, group.metadata.resource_version
        key = (metadata.namespace, metadata.name)
        changed = _annotations(group, report, self._decided_s.get(key, self._clock.now()))
        if not refresh:
            changed.pop(EXPLANATION, None)
        if changed:
            outcome = await self._wrote(self._status_client.annotate, metadata, changed)
            if not isinstance(outcome, (Written, Refused)):
                return _is_over(outcome)
            version = outcome.version if isinstance(outcome, Written) else version
        conditions = next_conditions(group.status.scheduling_conditions, report, self._node_pool, self._clock.now())
        if conditions is None or (not refresh and self._is_reported(group, report)):
            return True
        return _is_over(await self._wrote(self._status_client.conditions, metadata, version, conditions))

    def _is_reported(self, group: PodGroup, report: Report) -> bool:
        """Whether its condition differs from the report in numbers only."""
        written = current(group.status.scheduling_conditions, self._node_pool)
        return (
            written is not None and report.condition is not None and alike(written.message, report.condition["message"])
        )

    async def _write_ungrouped(self, key: Key) -> bool:
        one = self._ungrouped.pop(key)
        if await self._write_pod(one, is_new=False):
            self._failures.pop(key, None)
            return True
        self._ungrouped.setdefault(key, one)
        return False

    async def _write_pod(self, one: PodReport, is_new: bool) -> bool:
        """Write the condition, and an event if the condition is new to the pod."""
        pod = self._pods(one.key)
        if pod is None or pod.metadata.uid != one.uid or pod.spec.node_name:
            return True
        if one.condition is not None:
            written = pod_condition(pod.condition(POD_SCHEDULED), one.condition, self._clock.now())
            is_new = written is not None
            if written is not None and not _is_over(await self._wrote(self._status_client.pod_condition, pod, written)):
                return False
        if is_new and one.event is not None:
            self.note("v1", "Pod", pod.metadata, one.event)
        return True

    async def _wrote(self, write: Callable[P, Awaitable[Outcome]], *given: P.args, **last: P.kwargs) -> Outcome:
        """Make a write within the rate limit."""
        await self._bucket.step()
        outcome = await write(*given, **last)
        if isinstance(outcome, Unknown):
            await self._api_writer.confirm_writes()
        elif isinstance(outcome, Refused):
            _log.warning("a report was refused", reason=outcome.status.message)
        return outcome


def _is_over(outcome: Outcome) -> bool:
    """Whether no retry is needed: the write was made, or its object is gone or refuses it."""
    return not isinstance(outcome, (RetryLater, Unknown, Stale))


def _is_same(one: Report, other: Report) -> bool:
    """Whether the reports differ in numbers only."""
    return one.state is other.state and alike(one.message, other.message)


def _pods(report: Report) -> set[str]:
    return {one.uid for one in report.pods}


def _is_new(group: PodGroup, report: Report) -> bool:
    """Whether the PodGroup's explanation differs from the report."""
    written = decode(group.metadata.annotations.get(EXPLANATION, ""))
    if report.explanation is None or written is None:
        return report.explanation is not None or written is not None
    mine, theirs = ("\n".join(map(str, each.get("lines", ()))) for each in (report.explanation, written))
    return written.get("state") != report.state.value or not alike(mine, theirs)


def _annotations(group: PodGroup, report: Report, decided_s: float) -> dict[str, str | None]:
    """The annotations that differ. An explanation is told with the time of its decision, which alone is no change."""
    wanted: dict[str, str | None] = {}
    there, last = group.metadata.annotations, report.explanation
    if not _is_written(there.get(EXPLANATION), last):
        wanted[EXPLANATION] = encode(last | {AT: format_time(decided_s)}) if last else None
    if report.score is not None:
        wanted[PLACEMENT_SCORE] = f"{report.score:.4f}"
    return {name: value for name, value in wanted.items() if there.get(name) != value}


def _is_written(text: str | None, last: Json | None) -> bool:
    """Whether an annotation says the same, at whatever time it was decided."""
    if text is None or last is None:
        return text is None and last is None
    return (decode(text) or {}) | {AT: ""} == last | {AT: ""}
