"""The writes that tell: conditions, annotations, events.

Each names its object by uid. Never looks at whether it was told before: that is for whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from spinney.api.changes import Json
from spinney.api.clock import Clock
from spinney.api.labels import SCHEDULER_KAI
from spinney.api.meta import ObjectMeta
from spinney.core.expansion.objects import digest, stamp
from spinney.core.scheduling.reporting.report import Event
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Outcome
from spinney.drive.apply.write import Precondition
from spinney.drive.client.paths import Key, ResourcePath
from spinney.drive.loop.scheduler.views import EVENTS, PODGROUPS, PODS

_MESSAGE_LIMIT = 1024
_KINDS = {PODGROUPS: "PodGroup", PODS: "Pod"}


class Notices:
    """The door, as far as stories go through it."""

    def __init__(self, door: Door, clock: Clock, component: str = SCHEDULER_KAI) -> None:
        self._door = door
        self._clock = clock
        self._component = component

    async def annotate(self, group: ObjectMeta, annotations: Mapping[str, str | None]) -> Outcome:
        ref = PODGROUPS.ref(group.name, group.namespace)
        body: Json = {"metadata": {"annotations": dict(annotations)}}
        return await self._door.merge_patch(ref, body, Precondition(group.uid))

    async def conditions(self, group: ObjectMeta, conditions: list[Json]) -> Outcome:
        """All scheduling conditions: nobody else writes them."""
        ref = PODGROUPS.ref(group.name, group.namespace)
        return await self._door.status(ref, {"schedulingConditions": conditions}, Precondition(group.uid))

    async def pod_condition(self, pod: ObjectMeta, condition: Json) -> Outcome:
        """One condition; those of others stay, for it is applied."""
        body: Json = {"apiVersion": "v1", "kind": "Pod", "status": {"conditions": [condition]}}
        ref = PODS.ref(pod.name, pod.namespace)
        return await self._door.apply(ref, body, Precondition(pod.uid), subresource="status")

    async def event(self, resource: ResourcePath, key: Key, uid: str, event: Event) -> Outcome:
        """The same event within a second is one."""
        namespace, name = key
        time = stamp(self._clock.now())
        word = digest([uid, event.reason, event.message, time])
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"annotations": dict(event.annotations)} if event.annotations else {},
            "involvedObject": {
                "apiVersion": resource.api_version,
                "kind": _KINDS[resource],
                "name": name,
                "namespace": namespace,
                "uid": uid,
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
        return await self._door.create(EVENTS.ref(f"{name}.{word}", namespace), body)
