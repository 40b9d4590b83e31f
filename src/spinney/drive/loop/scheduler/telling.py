"""Reports carried out: the condition of a PodGroup, its explanation, the conditions of its pods, and events.

What has been told already is not told again, also by another process: the objects themselves say what they were told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from spinney.api.builtin.pod import Pod
from spinney.api.changes import Json
from spinney.api.clock import Clock
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import EXPLANATION
from spinney.api.meta import ObjectMeta
from spinney.core.expansion.objects import digest, stamp
from spinney.core.scheduling.reporting.conditions import POD_SCHEDULED, alike, following, pod_condition
from spinney.core.scheduling.reporting.record import decode, encode
from spinney.core.scheduling.reporting.report import DEFAULT_NODE_POOL, Event, PodReport, Report
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import NotNow, Outcome, Refused, Unknown, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.errors import Undecodable
from spinney.drive.client.identity import version_number
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.carrying import Ending
from spinney.drive.loop.scheduler.doubts import Doubts
from spinney.drive.loop.scheduler.views import EVENTS, PODGROUPS, PODS, Views

COMPONENT = "kai-scheduler"
_AT_A_TIME = 32
_MOST_NOTES = 20_000


class Teller:
    """Tells. `pool` is the node pool that conditions speak of."""

    def __init__(self, door: Door, doubts: Doubts, views: Views, clock: Clock, pool: str) -> None:
        self._door = door
        self._doubts = doubts
        self._views = views
        self._clock = clock
        self._pool = pool or DEFAULT_NODE_POOL
        self._turns = asyncio.Semaphore(_AT_A_TIME)
        self._notes: deque[tuple[Pod, Event]] = deque(maxlen=_MOST_NOTES)
        self._noted = asyncio.Event()

    async def tell(self, group: PodGroup, report: Report) -> Ending:
        """Everything in the report that is news."""
        status = following(group.status.scheduling_conditions, report, self._pool, self._clock.now())
        text = encode(report.explanation) if report.explanation is not None else ""
        changed = _is_news(group.metadata.annotations.get(EXPLANATION, ""), report.explanation)
        version = group.metadata.resource_version
        if changed:
            outcome = await self._explain(group.metadata, text)
            if not isinstance(outcome, Written):
                return await self._failed(outcome)
            version = outcome.version
        if status is not None:
            outcome = await self._set_conditions(group.metadata, version, status)
            if not isinstance(outcome, Written):
                return await self._failed(outcome)
        if report.group_event is not None and (changed or status is not None):
            await self._event(PODGROUPS.api_version, "PodGroup", group.metadata, report.group_event)
        return await self.tell_pods(report.pods)

    def note(self, pod: Pod, event: Event) -> None:
        """An event about a pod, told when there is time; if too many wait, the oldest are left out."""
        self._notes.append((pod, event))
        self._noted.set()

    async def run(self) -> None:
        """Tells what was noted, one after the other, until cancelled."""
        while True:
            await self._noted.wait()
            while self._notes:
                pod, event = self._notes.popleft()
                await self._event("v1", "Pod", pod.metadata, event)
            self._noted.clear()

    async def _explain(self, group: ObjectMeta, text: str) -> Outcome:
        patch = {"metadata": {"annotations": {EXPLANATION: text or None}}}
        given = Precondition(group.uid, group.resource_version)
        return await self._door.merge_patch(PODGROUPS.ref(group.name, group.namespace), patch, given)

    async def _set_conditions(self, group: ObjectMeta, version: str, conditions: list[Json]) -> Outcome:
        seen = self._views.podgroups.get((group.namespace, group.name))
        newest = max(version, seen.metadata.resource_version if seen else "", key=version_number)
        given = Precondition(group.uid, newest)
        ref = PODGROUPS.ref(group.name, group.namespace)
        return await self._door.status(ref, {"schedulingConditions": conditions}, given)

    async def tell_pods(self, reports: Sequence[PodReport]) -> Ending:
        """News for pods."""
        async with asyncio.TaskGroup() as tasks:
            told = [tasks.create_task(self._tell_pod(each)) for each in reports]
        endings = {task.result() for task in told} - {Ending.DONE}
        return min(endings, key=lambda ending: ending.value) if endings else Ending.DONE

    async def _tell_pod(self, report: PodReport) -> Ending:
        pod = self._views.pods.get(report.key)
        if pod is None or pod.metadata.uid != report.uid or pod.spec.node_name:
            return Ending.DONE
        async with self._turns:
            if report.condition is None:
                return Ending.DONE
            said = pod_condition(pod.condition(POD_SCHEDULED), report.condition, self._clock.now())
            if said is None:
                return Ending.DONE
            outcome = await self._set_pod_condition(report.key, pod, said)
            if not isinstance(outcome, Written):
                return await self._failed(outcome)
            if report.event is not None:
                await self._event("v1", "Pod", pod.metadata, report.event)
        return Ending.DONE

    async def _set_pod_condition(self, key: Key, pod: Pod, said: Json) -> Outcome:
        """The one condition, whatever others the pod has."""
        types = [one.type for one in pod.status.conditions]
        if POD_SCHEDULED in types:
            change: Json = {"op": "replace", "path": f"/status/conditions/{types.index(POD_SCHEDULED)}", "value": said}
        elif types:
            change = {"op": "add", "path": "/status/conditions/-", "value": said}
        else:
            change = {"op": "add", "path": "/status/conditions", "value": [said]}
        given = Precondition(pod.metadata.uid, pod.metadata.resource_version)
        return await self._door.json_patch(PODS.ref(key[1], key[0]), [change], given, subresource="status")

    async def _event(self, api_version: str, kind: str, about: ObjectMeta, event: Event) -> None:
        """Events are a courtesy: one that cannot be written is left out."""
        time = stamp(self._clock.now())
        word = digest([about.uid, event.reason, event.message])
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
            "message": event.message,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
        }
        with suppress(Undecodable):
            await self._door.create(EVENTS.ref(f"{about.name}.{word}", about.namespace), body)

    async def _failed(self, outcome: Outcome) -> Ending:
        match outcome:
            case Unknown():
                await self._doubts.settle()
                return Ending.LOOK
            case NotNow():
                return Ending.LATER
            case Refused():
                return Ending.REFUSED
            case _:
                return Ending.LOOK


def _is_news(text: str, explanation: Json | None) -> bool:
    """Whether it says something else than the text; figures behind the same lines are no news."""
    before = decode(text)
    if before is None or explanation is None:
        return bool(text) or explanation is not None
    return before.get("state") != explanation["state"] or not alike(_lines(before), _lines(explanation))


def _lines(explanation: Json) -> str:
    return "\n".join(map(str, explanation.get("lines") or ()))
