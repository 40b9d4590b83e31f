"""Warning events on objects that a role cannot decode; best effort, never delaying other work.

At most one event a second and one in ten minutes for the same object; an event that cannot be written is dropped.
"""

from __future__ import annotations

import asyncio

import structlog

from kube_apimachinery.clock import Clock
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.reporting.report import Event
from spinney.drive.apply.door import Door
from spinney.drive.client.errors import ClientError
from spinney.drive.client.informers.unreadable import Complaint, Unreadable
from spinney.drive.client.paths import ResourcePath
from spinney.drive.election.leader_election import LeadershipLost
from spinney.drive.scheduler.status_writer import StatusClient

REASON = "Unreadable"
PAUSE_S = 1.0
AGAIN_S = 600.0
_MOST = 1024
_CLUSTER_EVENTS = "default"  # the namespace of events about what is in no namespace

_log = structlog.get_logger(__name__)

_Subject = tuple[ResourcePath, str]


class UnreadableEvents:
    """Start it with `run`. `role` is the reporting component of the events."""

    def __init__(self, unreadable: Unreadable, door: Door, clock: Clock, role: str) -> None:
        self._status_client = StatusClient(door, clock, role)
        self._clock = clock
        self._role = role
        self._waiting: dict[_Subject, Complaint] = {}
        self._reported_s: dict[_Subject, float] = {}
        self._wake = asyncio.Event()
        unreadable.listen(self._note)

    async def run(self) -> None:
        """Write queued events until cancelled."""
        while True:
            await self._wake.wait()
            while self._waiting:
                subject = next(iter(self._waiting))
                await self._write(self._waiting.pop(subject))
                await asyncio.sleep(PAUSE_S)
            self._wake.clear()

    def _note(self, complaint: Complaint) -> None:
        subject, now_s = (complaint.resource, complaint.thing.uid), self._clock.monotonic()
        if now_s - self._reported_s.get(subject, -AGAIN_S) < AGAIN_S or len(self._waiting) >= _MOST:
            return
        self._reported_s.pop(subject, None)
        self._reported_s[subject] = now_s
        if len(self._reported_s) > _MOST:
            del self._reported_s[next(iter(self._reported_s))]
        self._waiting[subject] = complaint
        self._wake.set()

    async def _write(self, complaint: Complaint) -> None:
        resource, thing = complaint
        namespace, name = thing.key
        about = ObjectMeta(name=name, namespace=namespace or _CLUSTER_EVENTS, uid=thing.uid)
        message = f"{self._role} can not read this object and goes on without it: {thing.problem}"
        event = Event("Warning", REASON, message)
        try:
            await self._status_client.event(resource.api_version, kind_of(resource), about, event)
        except LeadershipLost:
            raise
        except (ClientError, ValueError) as error:
            _log.info("an event was lost", reason=REASON, object=name, error=str(error))


_KINDS = {
    "clustertopologies": "ClusterTopology",
    "dynamographdeployments": "DynamoGraphDeployment",
    "noderesourcetopologies": "NodeResourceTopology",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "podcliques": "PodClique",
    "podcliquescalinggroups": "PodCliqueScalingGroup",
    "podcliquesets": "PodCliqueSet",
    "podgangs": "PodGang",
    "podgroups": "PodGroup",
    "priorityclasses": "PriorityClass",
    "resourceclaims": "ResourceClaim",
    "storageclasses": "StorageClass",
    "topologies": "Topology",
}


def kind_of(resource: ResourcePath) -> str:
    """The kind of a resource that we watch; for other resources it is derived from the plural."""
    plural = resource.plural
    return _KINDS.get(plural) or plural.removesuffix("s").capitalize()
