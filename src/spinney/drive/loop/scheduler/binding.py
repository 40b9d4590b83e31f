"""Seats of a recorded plan become binds: each names the pod's uid and version, many run at a time.

A bind is a replay: carried out twice, by whomever, it ends in the same place. Never binds to a node that is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import assert_never

from spinney.api.builtin.pod import Pod
from spinney.api.clock import Clock, Dice
from spinney.api.labels import DOMAIN, NUMA_ZONE, RANK, SEGMENT
from spinney.core.scheduling.plan import Plan, Seat
from spinney.core.scheduling.reporting import WriteFailure
from spinney.core.scheduling.reporting.texts import failed_binding
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Contested, Deleted, Exists, Gone, NotNow, Refused, Stale, Unknown, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.backoff import Backoff
from spinney.drive.client.cache import Cache
from spinney.drive.client.errors import Status, TransportError, words
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.doubts import Doubts
from spinney.drive.loop.scheduler.metrics import Metrics
from spinney.drive.loop.scheduler.settings import Settings
from spinney.drive.loop.scheduler.views import PODS

_TRIES = 8
_NO_DRY_RUN = 400  # a webhook with side effects cannot be asked what it would say
_BACKOFF = Backoff(base_s=0.005, cap_s=1.0, factor=3.0)


class Fate(Enum):
    """What became of a seat."""

    TAKEN = "taken"  # the pod has a node
    VACANT = "vacant"  # the pod is gone or leaving: nobody needs the seat
    REFUSED = "refused"  # the pod can not have it: the seat has to be given up
    OPEN = "open"  # not yet: try again


@dataclass(frozen=True, slots=True)
class Bound:
    """What became of the seats of a plan, by uid, and what the API server said to those it did not bind."""

    fates: Mapping[str, Fate]
    failures: tuple[WriteFailure, ...] = ()


_Tried = tuple[Fate, Status | None]
"""What came of a bind, and what the API server said if it did not take it."""


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

    async def bind_all(self, plan: Plan, keys: Mapping[str, Key]) -> Bound:
        """The fate of every seat. `keys` are the pods that are there, by uid."""
        fates = {seat.uid: Fate.VACANT for seat in plan.seats}
        seats = [seat for seat in plan.seats if seat.uid in keys]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._bind(keys[seat.uid], seat, plan)) for seat in seats]
        tried = [task.result() for task in tasks]
        fates |= {seat.uid: fate for seat, (fate, _) in zip(seats, tried, strict=True)}
        return Bound(fates, _failures(keys, seats, [said for _, said in tried]))

    async def probe(self, plan: Plan, keys: Mapping[str, Key]) -> tuple[WriteFailure, ...]:
        """Which binds of a plan the API server would refuse; nothing is written."""
        seats = [seat for seat in plan.seats if seat.uid in keys]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._would_refuse(keys[seat.uid], seat, plan)) for seat in seats]
        return _failures(keys, seats, [task.result() for task in tasks])

    async def _would_refuse(self, key: Key, seat: Seat, plan: Plan) -> Status | None:
        async with self._turns:
            outcome = await self._door.bind(
                PODS.ref(key[1], key[0]),
                seat.node,
                Precondition(seat.uid),
                annotations=hints(seat, plan),
                labels={} if self._labels_first else hint_labels(seat),
                dry_run=True,
            )
        is_no = isinstance(outcome, Refused) and outcome.status.code != _NO_DRY_RUN
        return outcome.status if is_no and isinstance(outcome, Refused) else None

    async def _bind(self, key: Key, seat: Seat, plan: Plan) -> _Tried:
        said: Status | None = None
        for attempt in range(_TRIES):
            pod = self._pods.get(key)
            settled = _settled(pod, seat)
            if settled is not None:
                return settled, None
            assert pod is not None
            if not self._stands(seat.node):
                return Fate.REFUSED, None
            async with self._turns:
                fate, said = await self._try(key, pod, seat, plan)
            if fate is not Fate.OPEN:
                return fate, said
            await asyncio.sleep(_BACKOFF.delay_s(attempt, self._dice))
        return Fate.OPEN, said

    async def _try(self, key: Key, pod: Pod, seat: Seat, plan: Plan) -> _Tried:
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
                return Fate.TAKEN, None
            case Gone() | Deleted():
                return Fate.VACANT, None
            case Refused(status) | Contested(status) | Exists(status):
                return Fate.REFUSED, status
            case Stale():
                return Fate.OPEN, None
            case NotNow(reason):
                return Fate.OPEN, _answer(reason)
            case Unknown(reason):
                await self._doubts.settle()
                return Fate.OPEN, _answer(reason)
            case _:
                assert_never(outcome)


def _answer(reason: Status | TransportError) -> Status | None:
    """What the API server said; None: it did not say anything."""
    return reason if isinstance(reason, Status) else None


def _failures(
    keys: Mapping[str, Key], seats: Sequence[Seat], said: Sequence[Status | None]
) -> tuple[WriteFailure, ...]:
    """In the order of the names of pods: the same one is told first each time."""
    found = [
        WriteFailure("bind", failed_binding(keys[seat.uid], seat.node, words(status)), status.code, pod, seat.uid)
        for seat, status in zip(seats, said, strict=True)
        if status is not None and (pod := keys[seat.uid])
    ]
    return tuple(sorted(found, key=lambda each: each.pod))


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
