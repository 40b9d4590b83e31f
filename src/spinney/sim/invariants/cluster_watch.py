"""The invariants of a real cluster: lists and watches, put into the order of the writes and checked by a watchdog.

Resource versions of one API server order the writes of all its resources; watches of several resources arrive
independently. Events are therefore held for a moment and then checked in the order of their versions. Where history is
missing (an expired watch, an event older than one that was checked already) everything is read anew, and what was
stored by then is accepted as it is.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import structlog

from kube_apimachinery.clock import Clock
from spinney.api.labels import PLAN
from spinney.core.scheduling.plan import PlanError, decode
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.codec import read_status
from spinney.drive.client.errors import ClientError, Gone, status_error
from spinney.drive.client.informers.shared_caches import is_served
from spinney.drive.client.informers.watch import LineBuffer
from spinney.drive.client.paths import ResourcePath
from spinney.sim.invariants.facts import Key
from spinney.sim.invariants.watchdog import CLASSES, NODES, PODGROUPS, PODS, QUEUES, TOPOLOGIES, Watchdog
from spinney.sim.objects import Json

RESOURCES: Mapping[str, ResourcePath] = {
    CLASSES: ResourcePath("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False),
    QUEUES: ResourcePath("scheduling.run.ai", "v2", "queues", namespaced=False),
    TOPOLOGIES: ResourcePath("kai.scheduler", "v1alpha1", "topologies", namespaced=False),
    NODES: ResourcePath("", "v1", "nodes", namespaced=False),
    PODGROUPS: ResourcePath("scheduling.run.ai", "v2alpha2", "podgroups"),
    PODS: ResourcePath("", "v1", "pods"),
}
"""In the order in which stored objects are read: those that others refer to come first."""

HOLD_S = 2.0
"""So long an event waits for older ones of other watches."""

_POLL_S, _AGAIN_S, _WATCH_S, _SLACK_S = 0.2, 2.0, 240, 30
_FORGET_EVERY_S = 60.0
_EVICTED_BY = "spinney-scheduler"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant: `resource`, `key` and `uid` are of the object whose write showed it."""

    text: str
    resource: ResourcePath
    kind: str
    key: Key
    uid: str

    @property
    def invariant(self) -> str:
        return self.text.partition(" ")[0]


Report = Callable[[Violation], Awaitable[None]]


@dataclass(frozen=True, slots=True, order=True)
class _Write:
    version: int
    collection: str
    is_deleted: bool
    obj: Json
    arrived_s: float


class HistoryLost(Exception):
    """What happened is not known completely: the judge begins anew."""


class ClusterWatch:
    """Run it with `run`; `report` is called once for each violation. Reads only.

    `totals`: violations by invariant since the start; `gaps`: how often history was lost.
    """

    def __init__(self, client: ApiClient, clock: Clock, report: Report, schedulers: frozenset[str]) -> None:
        self._client = client
        self._clock = clock
        self._report = report
        self._schedulers = schedulers
        self._waiting: list[_Write] = []
        self._now_s = 0.0
        self._watchdog = self._new_watchdog()
        self._counted = Counter[str]()
        self.totals = Counter[str]()
        self.gaps = 0
        self.unreadable = 0
        self.trouble = "not everything has been read yet"

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except* HistoryLost as lost:
                self.gaps += 1
                self.trouble = str(lost.exceptions[0])
                _log.warning("history was lost, the cluster is read anew", reason=self.trouble)
            except* ClientError as failed:
                self.trouble = str(failed.exceptions[0])
                _log.warning("the cluster cannot be read, it is tried again", error=self.trouble)
            await asyncio.sleep(_AGAIN_S)

    def figures(self) -> dict[str, float]:
        seen = self._counted + Counter(
            writes=self._watchdog.writes, binds=self._watchdog.binds, plans=self._watchdog.plans
        )
        return {
            **{f"watchdog_{name}_total": float(seen[name]) for name in ("writes", "binds", "plans")},
            **{
                f'watchdog_violations_total{{invariant="{name}"}}': float(self.totals[name])
                for name in sorted(self.totals)
            },
            "watchdog_gaps_total": float(self.gaps),
            "watchdog_unreadable_total": float(self.unreadable),
            "watchdog_waiting_events": float(len(self._waiting)),
        }

    def _new_watchdog(self) -> Watchdog:
        return Watchdog(lambda: self._now_s, self._schedulers)

    async def _follow(self) -> None:
        await self._wait_served()
        self._counted.update(writes=self._watchdog.writes, binds=self._watchdog.binds, plans=self._watchdog.plans)
        self._waiting.clear()
        self._now_s = self._clock.monotonic()
        self._watchdog = self._new_watchdog()
        versions = {collection: await self._list(collection) for collection in RESOURCES}
        accepted = max(versions.values())
        self._watchdog.violations.clear()
        self.trouble = ""
        async with asyncio.TaskGroup() as group:
            for collection, version in versions.items():
                group.create_task(self._watch(collection, version), name=f"watchdog-{collection}")
            group.create_task(self._check(accepted), name="watchdog-check")

    async def _wait_served(self) -> None:
        for resource in RESOURCES.values():
            while not await is_served(self._client, resource):
                self.trouble = f"{resource} is not served yet"
                await asyncio.sleep(_AGAIN_S)

    async def _list(self, collection: str) -> int:
        listing = await self._client.list(Selection(RESOURCES[collection]))
        for obj in listing.items:
            self._see(collection, _key(obj), obj)
        return int(listing.version)

    async def _watch(self, collection: str, version: int) -> None:
        """Queue the writes after a version; a broken connection goes on where it ended."""
        selection = Selection(RESOURCES[collection])
        while True:
            lines = LineBuffer()
            try:
                async with (
                    asyncio.timeout(_WATCH_S + _SLACK_S),
                    self._client.watch(selection, str(version), _WATCH_S) as stream,
                ):
                    async for chunk in stream:
                        for piece in lines.feed(chunk):
                            for line in bytes(piece).splitlines():
                                version = self._queue(collection, line)
            except Gone as gone:
                raise HistoryLost(f"{selection}: {gone}") from None
            except (ClientError, TimeoutError) as error:
                _log.info("a watch was interrupted", resource=str(selection), error=str(error))
                await asyncio.sleep(_AGAIN_S)

    def _queue(self, collection: str, line: bytes) -> int:
        event = msgspec.json.decode(line)
        obj = event["object"]
        if event["type"] == "ERROR":
            raise status_error(read_status(obj.get("code", 500), msgspec.json.encode(obj)), about=f"WATCH {collection}")
        version = int(obj["metadata"]["resourceVersion"])
        if event["type"] != "BOOKMARK":
            if collection == PODGROUPS:
                self._announce(obj)
            arrived_s = self._clock.monotonic()
            heapq.heappush(self._waiting, _Write(version, collection, event["type"] == "DELETED", obj, arrived_s))
        return version

    def _announce(self, podgroup: Json) -> None:
        """Plans of one cycle are decided in one order and recorded in another: earlier ones may count on this one."""
        text = (podgroup["metadata"].get("annotations") or {}).get(PLAN)
        with suppress(PlanError):
            for assignment in decode(text).assignments if text else ():
                self._watchdog.reserves(assignment.uid)

    async def _check(self, accepted: int) -> None:
        """Check what has been held long enough. Writes up to `accepted` complete what the lists have shown."""
        begun_s = forgotten_s = self._clock.monotonic()
        last = 0
        while True:
            await asyncio.sleep(_POLL_S)
            now_s = self._clock.monotonic()
            while self._waiting and self._waiting[0].arrived_s <= now_s - HOLD_S:
                write = heapq.heappop(self._waiting)
                if write.version < last:
                    raise HistoryLost(f"{write.collection}: an event came more than {HOLD_S:g} s after later ones")
                last = write.version
                self._now_s = max(self._now_s, write.arrived_s)
                await self._check_one(write, is_accepted=write.version <= accepted, since_s=begun_s)
            if now_s - forgotten_s >= _FORGET_EVERY_S:
                forgotten_s = now_s
                self._watchdog.forget()

    async def _check_one(self, write: _Write, *, is_accepted: bool, since_s: float) -> None:
        watchdog = self._watchdog
        if write.collection == PODS and not is_accepted and self._is_evicted(write, since_s):
            watchdog.evicts(_key(write.obj), write.obj["metadata"]["uid"])
        self._see(write.collection, _key(write.obj), None if write.is_deleted else write.obj)
        found = [text.partition(": ")[2] for text in watchdog.violations]
        watchdog.violations.clear()
        for text in found if not is_accepted else ():
            violation = Violation(
                text,
                RESOURCES[write.collection],
                write.obj.get("kind", ""),
                _key(write.obj),
                write.obj["metadata"].get("uid", ""),
            )
            self.totals[violation.invariant] += 1
            _log.error("an invariant is broken", violation=text, version=write.version)
            await self._report(violation)

    def _see(self, collection: str, key: Key, obj: Json | None) -> None:
        """An object of a shape that cannot be judged counts as one that is not there."""
        try:
            self._watchdog.see(collection, key, obj)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.unreadable += 1
            _log.warning("an object cannot be judged", resource=str(RESOURCES[collection]), key=key, error=repr(error))
            if obj is not None:
                self._watchdog.see(collection, key, None)

    def _is_evicted(self, write: _Write, since_s: float) -> bool:
        """Whether the scheduler marked this pod as its victim, and the pod begins to terminate.

        Not judged at first: what justified an eviction may lie before the first list.
        """
        known = self._watchdog.ground.pods.get(_key(write.obj))
        is_new = known is not None and known.is_live and "deletionTimestamp" in write.obj["metadata"]
        return is_new and write.arrived_s - since_s > self._watchdog.late_s and _is_marked(write.obj)


def _key(obj: Json) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _is_marked(pod: Json) -> bool:
    """Whether the pod's DisruptionTarget condition is the scheduler's: that of the API server has another manager."""
    for entry in pod["metadata"].get("managedFields") or ():
        conditions = ((entry.get("fieldsV1") or {}).get("f:status") or {}).get("f:conditions") or {}
        if entry.get("manager") == _EVICTED_BY and 'k:{"type":"DisruptionTarget"}' in conditions:
            return True
    return False
