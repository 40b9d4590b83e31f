"""Scheduler processes in a simulated world: each with a network, a clock and a fate of its own.

A process dies, is paused and comes back as real ones do; what it has sent before a pause arrives after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube_apimachinery.clock import Clock, Dice
from spinney.api.builtin.pod import Pod
from spinney.api.labels import PLAN
from spinney.api.roles import NAMESPACE
from spinney.core.grouping.queue_and_priority import GrouperSettings
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.plan import Plan, decode
from spinney.core.scheduling.plan_records import Term
from spinney.core.scheduling.settings import Settings
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.http.transport import Response, Stream, Transport, TransportTimeout
from spinney.drive.election.leader_election import (
    LEASES,
    Candidacy,
    Elect,
    Election,
    Leadership,
    LeadershipLost,
    LeaseSettings,
)
from spinney.drive.grouper.grouper import Grouper
from spinney.drive.operator.startup import StartupFailed
from spinney.drive.scheduler.scheduler import FIELD_MANAGER, Scheduler
from spinney.sim.faults import Crash, FaultyTransport, Schedule
from spinney.sim.transport import TracingTransport
from spinney.sim.world import World

WRITES = ("POST", "PUT", "PATCH", "DELETE")
TERMS = LeaseSettings(duration_s=12, renew_deadline_s=8.0, retry_s=3.0)
_TIMEOUT_S = 5.0


class SkewedClock:
    """A clock whose wall time is wrong by so many seconds."""

    def __init__(self, inner: Clock, skew_s: float) -> None:
        self._inner = inner
        self._skew_s = skew_s

    def now(self) -> float:
        return self._inner.now() + self._skew_s

    def monotonic(self) -> float:
        return self._inner.monotonic()


class Wire:
    """The network of one process. While `paused`, nothing comes and nothing goes; what was sent goes afterwards.

    `late`: how likely a write arrives only after its sender has given it up, and is carried out all the same.
    """

    def __init__(self, inner: Transport, dice: Dice, evicts: Callable[[tuple[str, str], str], None]) -> None:
        self._inner = inner
        self._dice = dice
        self._evicts = evicts
        self.late = 0.0
        self.late_writes = 0
        self.writes = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._on_the_way: set[asyncio.Task[Response]] = set()

    def pause(self) -> None:
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    async def request(self, method: str, path: str, **rest: Any) -> Response:
        if method not in WRITES:
            await self._flowing.wait()
            return await self._inner.request(method, path, **rest)
        late = self._dice.random() < self.late
        sent = asyncio.get_running_loop().create_task(self._deliver(method, path, late, rest))
        self._on_the_way.add(sent)
        sent.add_done_callback(self._on_the_way.discard)
        if late:
            await asyncio.sleep(_TIMEOUT_S)
            raise TransportTimeout(f"no answer within {_TIMEOUT_S:g} s")
        return await asyncio.shield(sent)

    async def _deliver(self, method: str, path: str, late: bool, rest: Mapping[str, Any]) -> Response:
        if late:
            self.late_writes += 1
            await asyncio.sleep(_TIMEOUT_S + 60 * self._dice.random() ** 4)
        await self._flowing.wait()
        self.writes += 1
        parts = path.split("/")
        if "pods" in parts and (method == "DELETE" or parts[-1] == "eviction"):
            at = parts.index("pods")
            self._evicts((parts[at - 1], parts[at + 1]), _named_uid(rest.get("body")))
        return await self._inner.request(method, path, **rest)

    @asynccontextmanager
    async def stream(self, path: str, **rest: Any) -> AsyncIterator[Stream]:
        await self._flowing.wait()
        async with self._inner.stream(path, **rest) as inner:
            yield _Held(inner, self._flowing)

    async def close(self) -> None:
        await self._inner.close()


def _named_uid(body: bytes | None) -> str:
    """Whom an eviction or a deletion is meant for; empty: whoever has that name."""
    found = msgspec.json.decode(body) if body else {}
    options = found.get("deleteOptions") or found
    return str((options.get("preconditions") or {}).get("uid") or "")


class _Announcing:
    """Tells of every plan that is sent, before anything can delay it."""

    def __init__(self, inner: Transport, sends: Callable[[tuple[str, str], Plan], None]) -> None:
        self._inner = inner
        self._sends = sends
        self.stream = inner.stream
        self.close = inner.close

    async def request(self, method: str, path: str, **rest: Any) -> Response:
        parts, body = path.split("/"), rest.get("body")
        if method == "PATCH" and parts[-2] == "podgroups" and body:
            text = (msgspec.json.decode(body).get("metadata", {}).get("annotations") or {}).get(PLAN)
            if text:
                self._sends((parts[-3], parts[-1]), decode(text))
        return await self._inner.request(method, path, **rest)


def _announce_reservations(cluster: Cluster, reserves: Callable[[str], None]) -> None:
    reserve = cluster.reserve

    def announced(pod: Pod, node: str, zone: str = "") -> None:
        reserves(pod.metadata.uid)
        reserve(pod, node, zone)

    cluster.reserve = announced  # type: ignore[method-assign]


class _Held:
    def __init__(self, inner: Stream, flowing: asyncio.Event) -> None:
        self._inner = inner
        self._flowing = flowing
        self.status = inner.status
        self.headers = inner.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            await self._flowing.wait()
            yield chunk

    async def read(self) -> bytes:
        return await self._inner.read()


@dataclass(slots=True)
class Life:
    """One start of a process, to its end. Faults lie before the wire, the trace behind everything."""

    wire: Wire
    faults: FaultyTransport
    trace: TracingTransport
    task: asyncio.Task[None] | None = None
    scheduler: Scheduler | None = None


@dataclass(slots=True)
class SchedulerProcess:
    """Started anew whenever it ends, until told to `stop`. `elects` False: it leads without asking anybody."""

    world: World
    name: str
    dice: Dice
    settings: Settings = field(default_factory=Settings)
    elects: bool = True
    epoch: int = 0
    skew_s: float = 0.0
    next_schedule: Callable[[], Schedule] = Schedule
    late: float = 0.0
    evicts: Callable[[tuple[str, str], str], None] = lambda key, uid: None
    sends: Callable[[tuple[str, str], Plan], None] = lambda key, plan: None
    reserves: Callable[[str], None] = lambda uid: None
    lives: list[Life] = field(default_factory=list)
    crashes: int = 0
    lost: int = 0
    gave_up: int = 0
    trouble: list[BaseException] = field(default_factory=list)
    is_calm: bool = False
    groups: bool = True
    make: type[Scheduler] = Scheduler
    wrap: Callable[[Transport], Transport] = lambda inner: inner
    _keeper: asyncio.Task[None] | None = None

    @property
    def life(self) -> Life:
        return self.lives[-1]

    @property
    def scheduler(self) -> Scheduler | None:
        return self.life.scheduler

    def start(self) -> None:
        self._keeper = asyncio.get_running_loop().create_task(self._keep(), name=f"keeper of {self.name}")

    async def kill(self) -> None:
        """As kill -9 does: at once, in the middle of anything."""
        task = self.lives[-1].task if self.lives else None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def pause(self) -> None:
        for life in self.lives[-1:]:
            life.wire.pause()

    def resume(self) -> None:
        for life in self.lives:
            life.wire.resume()

    def calm(self) -> None:
        """Nothing goes wrong any more, in this life and in all to come."""
        self.is_calm = True
        for life in self.lives:
            life.faults.calm()
            life.wire.late = 0.0
            life.wire.resume()

    async def stop(self) -> None:
        assert self._keeper is not None
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        await self.kill()

    async def _keep(self) -> None:
        while True:
            life = self._new_life()
            life.task = asyncio.get_running_loop().create_task(self._run(life), name=self.name)
            await asyncio.wait([life.task])
            self._note(life.task)
            await asyncio.sleep(1.0 + 4.0 * self.dice.random())

    def _note(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self.crashes += 1
            return
        error = task.exception()
        leaves = _leaves(error)
        if any(isinstance(each, Crash) for each in leaves):
            self.crashes += 1
        elif leaves and all(isinstance(each, LeadershipLost) for each in leaves):
            self.lost += 1
        elif leaves and all(isinstance(each, (ClientError, StartupFailed)) for each in leaves) and not self.is_calm:
            self.gave_up += 1
        elif error is not None:
            self.trouble.append(error)

    def _new_life(self) -> Life:
        trace = TracingTransport(self.world.as_role("scheduler"), self.world.clock, f"{self.name}-{len(self.lives)}")
        wire = Wire(self.wrap(trace), self.dice, self.evicts)
        faults = FaultyTransport(wire, self.dice, self.next_schedule())
        wire.late = self.late
        self.lives.append(Life(wire, faults, trace))
        if self.is_calm:
            self.calm()
        return self.life

    async def _run(self, life: Life) -> None:
        if not self.elects:
            await self._schedule(life, None)
            return
        client = ApiClient(life.faults, self.dice)
        door = Door(life.faults, self.dice, field_manager=FIELD_MANAGER)
        clock = SkewedClock(self.world.clock, self.skew_s)
        lease = LEASES.ref("spinney-scheduler", NAMESPACE)
        election = Election(
            client,
            door,
            Candidacy(lease, f"{self.name}-{len(self.lives)}", TERMS, watches=True),
            clock,
            self.dice,
        )
        await election.campaign(lambda elect: self._schedule(life, elect))

    async def _schedule(self, life: Life, elect: Elect | None) -> None:
        """As `spinney run scheduler` does: views while it stands by, the pod-grouper when it leads."""
        elected: asyncio.Future[Callable[[], None]] = asyncio.get_running_loop().create_future()

        async def elect_both() -> Leadership:
            assert elect is not None
            leadership = await elect()
            elected.set_result(leadership.check)
            return leadership

        if elect is None:
            elected.set_result(lambda: None)
        clock = SkewedClock(self.world.clock, self.skew_s)
        asked = elect_both if elect is not None else None
        life.scheduler = self.make(
            _Announcing(life.faults, self.sends),
            clock,
            self.dice,
            self.settings,
            record_keys=self.world.record_keys,
            leads=asked or Term(epoch=self.epoch),
        )
        _announce_reservations(life.scheduler.session.cluster, self.reserves)
        async with asyncio.TaskGroup() as group:
            group.create_task(life.scheduler.run(), name="scheduler")
            if self.groups:
                group.create_task(self._group_pods(life, clock, elected), name="pod-grouper")

    async def _group_pods(self, life: Life, clock: Clock, elected: asyncio.Future[Callable[[], None]]) -> None:
        may_write = await elected
        names = GrouperSettings(self.settings.names)
        await Grouper(life.faults, clock, self.dice, names, may_write=may_write).run()


def _leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error] if error is not None else []
