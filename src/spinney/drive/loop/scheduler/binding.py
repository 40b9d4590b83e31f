"""Seats of a recorded plan become binds: each names the pod's uid and version, many run at a time.

A bind is a replay: carried out twice, by whomever, it ends in the same place. Never binds to a node that is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import assert_never

from spinney.api.builtin.pod import Pod
from spinney.api.clock import Clock, Dice
from spinney.api.labels import DOMAIN, NUMA_ZONE, RANK, SEGMENT
from spinney.core.scheduling.plan import Plan, Seat
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Contested, Deleted, Exists, Gone, NotNow, Refused, Stale, Unknown, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.backoff import Backoff
from spinney.drive.client.cache import Cache
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.doubts import Doubts
from spinney.drive.loop.scheduler.metrics import Metrics
from spinney.drive.loop.scheduler.settings import Settings
from spinney.drive.loop.scheduler.views import PODS

_TRIES = 8
_BACKOFF = Backoff(base_s=0.005, cap_s=1.0, factor=3.0)


class Fate(Enum):
    """What became of a seat."""

    TAKEN = "taken"  # the pod has a node
    VACANT = "vacant"  # the pod is gone or leaving: nobody needs the seat
    REFUSED = "refused"  # the pod can not have it: the seat has to be given up
    OPEN = "open"  # not yet: try again


class Binder:
    """`stands` says whether a node is still there to bind to."""

    def __init__(
        self,
        door: Door,
        doubts: Doubts,
        pods: Cache[Pod],
        stands: Callable[[str], bool],
        clock: Clock,
        dice: Dice,
        metrics: Metrics,
        settings: Settings,
    ) -> None:
        self._door = door
        self._doubts = doubts
        self._pods = pods
        self._stands = stands
        self._clock = clock
        self._dice = dice
        self._metrics = metrics
        self._labels_first = settings.labels_before_bind
        self._turns = asyncio.Semaphore(settings.binds_at_a_time)

    async def bind_all(self, plan: Plan, keys: Mapping[str, Key]) -> dict[str, Fate]:
        """The fate of every seat, by uid. `keys` are the pods that are there, by uid."""
        fates = {seat.uid: Fate.VACANT for seat in plan.seats}
        async with asyncio.TaskGroup() as group:
            tasks = {
                seat.uid: group.create_task(self._bind(keys[seat.uid], seat, plan))
                for seat in plan.seats
                if seat.uid in keys
            }
        return fates | {uid: task.result() for uid, task in tasks.items()}

    async def _bind(self, key: Key, seat: Seat, plan: Plan) -> Fate:
        for attempt in range(_TRIES):
            pod = self._pods.get(key)
            settled = _settled(pod, seat)
            if settled is not None:
                return settled
            assert pod is not None
            if not self._stands(seat.node):
                return Fate.REFUSED
            async with self._turns:
                fate = await self._try(key, pod, seat, plan)
            if fate is not Fate.OPEN:
                return fate
            await asyncio.sleep(_BACKOFF.delay_s(attempt, self._dice))
        return Fate.OPEN

    async def _try(self, key: Key, pod: Pod, seat: Seat, plan: Plan) -> Fate:
        given = Precondition(seat.uid, pod.metadata.resource_version)
        ref, labels = PODS.ref(key[1], key[0]), hint_labels(seat)
        began_s = self._clock.monotonic()
        if self._labels_first and not labels.items() <= pod.metadata.labels.items():
            outcome = await self._door.merge_patch(ref, {"metadata": {"labels": labels}}, given)
            if isinstance(outcome, Written):
                given = Precondition(seat.uid, outcome.version)
                outcome = await self._door.bind(ref, seat.node, given, annotations=hints(seat, plan))
        else:
            outcome = await self._door.bind(ref, seat.node, given, annotations=hints(seat, plan), labels=labels)
        match outcome:
            case Written():
                self._metrics.bound(age_s(pod, self._clock), self._clock.monotonic() - began_s)
                return Fate.TAKEN
            case Gone() | Deleted():
                return Fate.VACANT
            case Refused() | Contested() | Exists():
                return Fate.REFUSED
            case Stale() | NotNow():
                return Fate.OPEN
            case Unknown():
                await self._doubts.settle()
                return Fate.OPEN
            case _:
                assert_never(outcome)


def hints(seat: Seat, plan: Plan) -> dict[str, str]:
    """What a pod is told about its place (K11)."""
    found = {RANK: str(seat.rank)}
    if plan.domain:
        found[DOMAIN] = "/".join(plan.domain)
    if seat.segment is not None:
        found[SEGMENT] = str(seat.segment)
    if seat.zone:
        found[NUMA_ZONE] = seat.zone
    return found


def hint_labels(seat: Seat) -> dict[str, str]:
    """What of it fits into labels, for whoever selects pods by their place."""
    return {RANK: str(seat.rank)} | ({SEGMENT: str(seat.segment)} if seat.segment is not None else {})


def age_s(pod: Pod, clock: Clock) -> float:
    """How long ago it was created."""
    created = pod.metadata.creation_timestamp
    return clock.now() - datetime.fromisoformat(created).timestamp() if created else 0.0


def _settled(pod: Pod | None, seat: Seat) -> Fate | None:
    """The fate of a seat for which nothing has to be done."""
    if pod is None or pod.metadata.uid != seat.uid or not pod.is_here:
        return Fate.VACANT
    return Fate.TAKEN if pod.spec.node_name else None
