"""Status writes: conditions, annotations, events.

Each write names the version that it is based on, so that an outdated report is not written. Duplicates are not checked
here: that is up to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping

from kube_apimachinery.clock import Clock
from spinney.api.builtin.pod import Pod
from spinney.api.changes import Json
from spinney.api.labels import SCHEDULER_KAI
from spinney.api.meta import ObjectMeta
from spinney.core.expansion.objects import format_time, short_hash
from spinney.core.scheduling.reporting.report import Event
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Outcome
from spinney.drive.apply.write import Precondition
from spinney.drive.scheduler.caches import EVENTS, PODGROUPS, PODS

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

    async def pod_condition(self, pod: Pod, said: Json) -> Outcome:
        """Write one condition and leave the pod's other conditions alone."""
        types = [one.type for one in pod.status.conditions]
        if said["type"] in types:
            change: Json = {"op": "replace", "path": f"/status/conditions/{types.index(said['type'])}", "value": said}
        elif types:
            change = {"op": "add", "path": "/status/conditions/-", "value": said}
        else:
            change = {"op": "add", "path": "/status/conditions", "value": [said]}
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
        return await self._door.create(EVENTS.ref(f"{about.name}.{word}", about.namespace), body)
