"""A scenario played with one crash, or with an old view at one moment; how it ended, and what was done for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kube_embedded.base.store import Event
from simulation.processes import SchedulerProcess
from simulation.scenarios import Scenario
from simulation.steady_state import kept_for_nobody
from simulation.trial import NEEDED, hush
from spinney.drive.client.http.transport import Stream, Transport, TransportError
from spinney.sim.event_loop import Sim, run
from spinney.sim.faults import CrashPoint, Schedule
from spinney.sim.installed_roles import installed_rules
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.scheduler.scheduler_world import TOPOLOGY

Json = dict[str, Any]
_GONE = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'


@dataclass(frozen=True, slots=True)
class Stale:
    """From the n-th piece of news on, the scheduler hears nothing for a while; then everything, or has to list anew."""

    news: int
    seconds: float
    lists_anew: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """`state`: who is where and was told what. `counts`: what was created, deleted and bound."""

    state: list[Any]
    counts: Counter[str]
    broken: list[str]
    writes: int
    news: int
    crashes: int
    bound: int
    evictions: list[str]


class Ears:
    """Watches of one scheduler, which can go deaf for a while."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.request = inner.request
        self.close = inner.close
        self.news = 0
        self.stale: Stale | None = None
        self._hears = asyncio.Event()
        self._hears.set()

    @asynccontextmanager
    async def stream(self, path: str, **rest: Any) -> AsyncIterator[Stream]:
        async with self._inner.stream(path, **rest) as inner:
            yield _Ear(inner, self, path)

    async def hear(self, path: str) -> bool:
        """Whether the news gets through; otherwise the watch is too old."""
        self.news += 1
        stale = self.stale
        if stale is not None and self.news == stale.news:
            self._hears.clear()
            asyncio.get_running_loop().call_later(stale.seconds, self._hears.set)
        if self._hears.is_set():
            return True
        await self._hears.wait()
        return not (stale is not None and stale.lists_anew)


class _Ear:
    def __init__(self, inner: Stream, ears: Ears, path: str) -> None:
        self._inner = inner
        self._ears = ears
        self._path = path
        self.status = inner.status
        self.headers = inner.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            if b'"BOOKMARK"' in chunk and chunk.count(b"\n") == 1:
                yield chunk
                continue
            if not await self._ears.hear(self._path):
                yield _GONE
                raise TransportError("connection reset by peer")
            yield chunk

    async def read(self) -> bytes:
        return await self._inner.read()


def outcome(scenario: Scenario, crash: CrashPoint | None = None, stale: Stale | None = None) -> Outcome:
    """Crashes and deafness count from the step on."""
    hush()

    async def main(sim: Sim) -> Outcome:
        parts = Parts(nodes=load_nodes(scenario.nodes), behaviour=NodeBehaviour(heartbeat_s=0), controllers=())
        async with World(sim.clock, sim.dice, parts, rules=(installed_rules(),)) as world:
            first = [] if scenario.name == "topology change" else [TOPOLOGY]
            await world.apply([*NEEDED, *first, *scenario.before])
            dog = Watchdog.over(world, late_s=stale.seconds + 1.0 if stale is not None else 1.0)
            ears: list[Ears] = []

            def listen(inner: Transport) -> Transport:
                ears.append(Ears(inner))
                return ears[-1]

            evicted: list[str] = []

            def evicts(victim: tuple[str, str], uid: str) -> None:
                evicted.append(victim[1])
                dog.evicts(victim, uid)

            process = SchedulerProcess(
                world,
                "scheduler",
                sim.dice,
                scenario.settings,
                elects=False,
                evicts=evicts,
                wrap=listen,
            )
            process.start()
            await world.settle(quiet_s=30)
            counts: Counter[str] = Counter()
            world.on_write(_counting(counts))
            life, begun, heard = process.life, process.life.faults.writes, ears[-1].news
            if crash is not None:
                life.faults.schedule = Schedule(crash=CrashPoint(begun + crash.write, crash.when))
            if stale is not None:
                ears[-1].stale = Stale(heard + stale.news, stale.seconds, stale.lists_anew)
            await scenario.step(world, process)
            await world.settle(quiet_s=60)
            broken = dog.check_at_rest() + kept_for_nobody([process])
            broken += [repr(error) for error in process.trouble]
            pods = await world.list("Pod")
            return Outcome(
                state=sorted(
                    [
                        _shape(each, scenario.elsewhere)
                        for kind in ("Pod", "PodGroup")
                        for each in await world.list(kind)
                    ]
                ),
                counts=counts,
                broken=broken,
                writes=life.faults.writes - begun,
                news=ears[0].news - heard,
                crashes=process.crashes,
                bound=sum(bool(each["spec"].get("nodeName")) for each in pods),
                evictions=sorted(set(evicted)),
            )

    return run(main, limit_s=20_000)


def _counting(counts: Counter[str]) -> Callable[[str, Event], None]:
    def count(collection: str, event: Event) -> None:
        if collection in ("/events", "coordination.k8s.io/leases"):
            return
        if event.old is None or event.new is None:
            counts[f"{'create' if event.old is None else 'delete'} {collection}"] += 1
        elif collection == "/pods" and b'"nodeName"' in event.new.body and b'"nodeName"' not in event.old.body:
            counts["bind"] += 1

    return count


def _shape(obj: Json, elsewhere: bool) -> tuple[str, ...]:
    metadata, status = obj["metadata"], obj.get("status") or {}
    told = [
        each.get("reason")
        for each in [*(status.get("conditions") or []), *(status.get("schedulingConditions") or [])]
        if "transitionID" in each or (each["type"] == "PodScheduled" and each["status"] != "True")
    ]
    annotations = metadata.get("annotations") or {}
    plan = "has a plan" if "spinney.dev/plan" in annotations else ""
    rank = annotations.get("spinney.dev/rank", "")
    node = obj["spec"].get("nodeName", "")
    place = ("bound",) if node and elsewhere else (node, rank)
    return obj["kind"], metadata["name"], plan, str(told), *place
