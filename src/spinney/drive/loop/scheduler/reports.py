"""Reports carried out: few writes, none twice, never faster than allowed, and never in the way of placement.

The newest report of a gang replaces those not told yet. What has been told is read off the objects, so that another
process does not tell it again. An event that cannot be written is lost; a condition is tried again.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count

import structlog

from spinney.api.builtin.pod import Pod
from spinney.api.clock import Clock
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import EXPLANATION, PLACEMENT_SCORE
from spinney.core.scheduling.reporting.conditions import POD_SCHEDULED, alike, following, pod_condition
from spinney.core.scheduling.reporting.record import decode, encode
from spinney.core.scheduling.reporting.report import DEFAULT_NODE_POOL, Event, PodReport, Report
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import NotNow, Outcome, Refused, Unknown
from spinney.drive.client.paths import Key, ResourcePath
from spinney.drive.loop.scheduler.notices import Notices
from spinney.drive.loop.scheduler.views import PODGROUPS, PODS

_log = structlog.get_logger(__name__)
_MOST_EVENTS = 20_000
_TRIES = 5
_TICK_S = 0.001


@dataclass(frozen=True, slots=True)
class Manners:
    """`settle_s`: a story that lasts shorter is not told. `refresh_s`: new figures of the same story, at most so often.

    `rate_per_s`, `burst`: writes. `again_s`: after a write that could not be made now.
    """

    settle_s: float = 0.1
    refresh_s: float = 30.0
    rate_per_s: float = 200.0
    burst: int = 50
    again_s: float = 2.0


@dataclass(slots=True)
class _Told:
    """What was last told of a group, and to which of its pods: views may not show it yet."""

    uid: str
    report: Report
    at_s: float
    pods: set[str] = field(default_factory=set)


class Reports:
    """`put` reports, `tell` single events, `run` until cancelled. `groups` and `pods` show what is there now."""

    def __init__(
        self,
        door: Door,
        clock: Clock,
        groups: Callable[[Key], PodGroup | None],
        pods: Callable[[Key], Pod | None],
        *,
        node_pool: str = DEFAULT_NODE_POOL,
        manners: Manners | None = None,
    ) -> None:
        self._notices = Notices(door, clock)
        self._clock = clock
        self._groups = groups
        self._pods = pods
        self._node_pool = node_pool
        self._manners = manners or Manners()
        self._waiting: dict[Key, tuple[int, Report]] = {}
        self._due: list[tuple[float, int, Key]] = []
        self._numbers = count()
        self._told: dict[Key, _Told] = {}
        self._failures: dict[Key, int] = {}
        self._events: deque[tuple[ResourcePath, Key, str, Event]] = deque(maxlen=_MOST_EVENTS)
        self._wake = asyncio.Event()
        self._tokens, self._filled_s = float(self._manners.burst), clock.monotonic()

    @property
    def backlog(self) -> int:
        """Reports and events that wait to be written."""
        return len(self._waiting) + len(self._events)

    def put(self, key: Key, report: Report) -> None:
        """Tell this about a PodGroup. A report that it is scheduled is due when its plan has been carried out."""
        told = self._told.get(key)
        due = self._clock.monotonic() + self._manners.settle_s
        if told is not None and _is_same(told.report, report) and _pods(report) <= told.pods:
            if told.report == report:
                self._waiting.pop(key, None)
                return
            due = max(due, told.at_s + self._manners.refresh_s)
        self._schedule(key, report, due)

    def forget(self, key: Key) -> None:
        """The PodGroup is gone."""
        for known in (self._waiting, self._told, self._failures):
            known.pop(key, None)

    def tell_pod(self, key: Key, uid: str, event: Event) -> None:
        self._add(PODS, key, uid, event)

    def tell_group(self, key: Key, uid: str, event: Event) -> None:
        self._add(PODGROUPS, key, uid, event)

    async def run(self) -> None:
        """Until cancelled. Reports first, then events."""
        while True:
            self._wake.clear()
            key = self._next()
            if key is not None:
                await self._carry_out(key, self._waiting.pop(key)[1])
            elif self._events:
                await self._write_event(self._events.popleft())
            else:
                await self._rest()

    def _schedule(self, key: Key, report: Report, due_s: float) -> None:
        number = next(self._numbers)
        self._waiting[key] = (number, report)
        heapq.heappush(self._due, (due_s, number, key))
        self._wake.set()

    def _add(self, resource: ResourcePath, key: Key, uid: str, event: Event) -> None:
        self._events.append((resource, key, uid, event))
        self._wake.set()

    def _next(self) -> Key | None:
        """The report that is due; such as have been replaced are passed over."""
        while self._due:
            due_s, number, key = self._due[0]
            if self._waiting.get(key, (-1,))[0] != number:
                heapq.heappop(self._due)
                continue
            if due_s > self._clock.monotonic():
                return None
            heapq.heappop(self._due)
            return key
        return None

    async def _rest(self) -> None:
        wait_s = self._due[0][0] - self._clock.monotonic() if self._due else None
        try:
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _carry_out(self, key: Key, report: Report) -> None:
        group = self._groups(key)
        if group is None or group.metadata.deletion_timestamp is not None:
            self.forget(key)
            return
        told = self._told.get(key)
        if told is None or told.uid != group.metadata.uid:
            told = None
        news = _is_news(group, report) if told is None else not _is_same(told.report, report)
        seen = set() if told is None or news else told.pods
        self._told[key] = told = _Told(group.metadata.uid, report, self._clock.monotonic(), seen)
        if not await self._tell_group(group, report):
            self._try_again(key, report)
            return
        if news and report.group_event is not None:
            self.tell_group(key, group.metadata.uid, report.group_event)
        for one in report.pods:
            if one.uid not in told.pods and not await self._tell_pod(one, news):
                self._try_again(key, report)
                return
            told.pods.add(one.uid)
        self._failures.pop(key, None)
        if report.clears and report.explanation is None:
            self._told.pop(key)

    async def _tell_group(self, group: PodGroup, report: Report) -> bool:
        """The condition and the annotations, where they differ from what is there."""
        changed = _annotations(group, report)
        if changed and not await self._wrote(lambda: self._notices.annotate(group.metadata, changed)):
            return False
        conditions = following(group.status.scheduling_conditions, report, self._node_pool, self._clock.now())
        if conditions is None:
            return True
        return await self._wrote(lambda: self._notices.conditions(group.metadata, conditions))

    async def _tell_pod(self, one: PodReport, news: bool) -> bool:
        """The condition, and an event if that is news to the pod."""
        pod = self._pods(one.key)
        if pod is None or pod.metadata.uid != one.uid or pod.spec.node_name:
            return True
        if one.condition is not None:
            said = pod_condition(pod.condition(POD_SCHEDULED), one.condition, self._clock.now())
            news = said is not None
            if said is not None and not await self._wrote(lambda: self._notices.pod_condition(pod.metadata, said)):
                return False
        if news and one.event is not None:
            self.tell_pod(one.key, one.uid, one.event)
        return True

    async def _write_event(self, told: tuple[ResourcePath, Key, str, Event]) -> None:
        await self._wrote(lambda: self._notices.event(*told))

    async def _wrote(self, write: Callable[[], Awaitable[Outcome]]) -> bool:
        """Whether nothing is left to do: it was written, or there is nothing to write it on."""
        await self._take_turn()
        outcome = await write()
        if isinstance(outcome, Refused):
            _log.warning("a report was refused", reason=outcome.status.message)
        return not isinstance(outcome, (NotNow, Unknown))

    def _try_again(self, key: Key, report: Report) -> None:
        """Unless a newer report has come; in the end it is left until there is news."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        self._told.pop(key, None)
        if key not in self._waiting and failures < _TRIES:
            self._schedule(key, report, self._clock.monotonic() + self._manners.again_s * failures)

    async def _take_turn(self) -> None:
        """So many writes in a second, and a few at once."""
        while True:
            now_s = self._clock.monotonic()
            gained = (now_s - self._filled_s) * self._manners.rate_per_s
            self._tokens, self._filled_s = min(float(self._manners.burst), self._tokens + gained), now_s
            if self._tokens >= 1.0:
                self._tokens -= 1.0
                return
            await asyncio.sleep(max(_TICK_S, (1.0 - self._tokens) / self._manners.rate_per_s))


def _is_same(one: Report, other: Report) -> bool:
    """The same story but for figures."""
    return one.state is other.state and alike(one.message, other.message)


def _pods(report: Report) -> set[str]:
    return {one.uid for one in report.pods}


def _is_news(group: PodGroup, report: Report) -> bool:
    """Whether the group does not say so itself."""
    said = decode(group.metadata.annotations.get(EXPLANATION, ""))
    if report.explanation is None or said is None:
        return report.explanation is not None
    mine, theirs = ("\n".join(map(str, each.get("lines", ()))) for each in (report.explanation, said))
    return said.get("state") != report.state.value or not alike(mine, theirs)


def _annotations(group: PodGroup, report: Report) -> dict[str, str | None]:
    wanted: dict[str, str | None] = {EXPLANATION: encode(report.explanation) if report.explanation else None}
    if report.score is not None:
        wanted[PLACEMENT_SCORE] = f"{report.score:.4f}"
    there = group.metadata.annotations
    return {name: value for name, value in wanted.items() if there.get(name) != value}
