"""The embedded server, the scheduler and whoever makes the pods in one process, as `spinney up` has them."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import pstats
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from benchmarks.operator import CONFIGURATION, Counted
from benchmarks.scheduler.objects import GANG, GROUPS_PATH, PODS_PATH, pod
from benchmarks.scheduler.steps import (
    BINDS,
    Row,
    Say,
    Step,
    Stopwatch,
    a_scheduler,
    an_operator,
    at_work,
    delete,
    gang,
    gangs_of,
    prepare,
    send,
    sets_of,
    spread,
    until_bound,
    written,
)
from kube_embedded.base.identity import ADMIN
from kube_embedded.server.api_server import ApiServer
from kube_embedded.server.embedded import ServerOptions, build
from spinney.api.operator_configuration import load_configuration
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import settings_of as admission_settings_of
from spinney.drive.client.http.transport import Transport
from spinney.sim.transport import InProcessTransport


async def _server() -> ApiServer:
    rules = OperatorAdmission(admission_settings_of(load_configuration(CONFIGURATION)))
    server = build(ServerOptions(plugins=(rules,)))
    await server.start()
    return server


@asynccontextmanager
async def embedded(nodes: int) -> AsyncIterator[InProcessTransport]:
    """A server with its nodes. What is there from the start is left alone by the interpreter's collector."""
    server = await _server()
    transport = InProcessTransport(server, ADMIN)
    await prepare(transport, nodes)
    gc.collect()
    gc.freeze()
    try:
        yield transport
    finally:
        await server.stop()
        gc.unfreeze()


async def podgroups_on_embedded(pods: int, nodes: int, say: Say = lambda text: None) -> Row:
    """Server, scheduler and whoever makes the pods in one process, as `spinney up` has them."""
    async with embedded(nodes) as transport:
        counted = Counted(transport)
        async with at_work(a_scheduler(counted)):
            await until_bound(counted, GANG, [gang(transport, "first")])
            figures = await until_bound(counted, pods, gangs_of(transport, pods))
    for line in counted.told():
        say(line)
    return (f"embedded, {pods:,} pods with PodGroups, {nodes:,} nodes", figures, "pods_per_s >= 2,000")


async def creates_on_embedded(pods: int) -> Row:
    """The same pods while nobody looks: what of the first figure is not the scheduler's."""
    async with embedded(0) as transport:
        work = gangs_of(transport, pods)
        watch = Stopwatch()
        await spread(work)
        return (f"embedded, {pods:,} pods made and nothing else", watch.read(pods), "none")


async def backlog_on_embedded(pods: int, nodes: int) -> Row:
    """All pods are there when the scheduler starts."""
    async with embedded(nodes) as transport:
        await spread(gangs_of(transport, pods))
        counted = Counted(transport)
        everybody = asyncio.create_task(counted.reached(BINDS, pods))
        watch = Stopwatch()
        async with at_work(a_scheduler(counted)):
            await everybody
            figures = watch.read(pods) | written(counted, pods)
    return (f"embedded, {pods:,} pods waiting, then a scheduler, {nodes:,} nodes", figures, "pods_per_s >= 2,000")


async def sets_on_embedded(pods: int, nodes: int, say: Say = lambda text: None) -> Row:
    """From PodCliqueSets through the operator."""
    async with embedded(nodes) as transport:
        counted = Counted(transport)
        async with at_work(a_scheduler(counted), an_operator(counted)):
            await until_bound(counted, GANG, [gang(transport, "first")])
            figures = await until_bound(counted, pods, sets_of(transport, pods))
    for line in counted.told():
        say(line)
    return (f"embedded, {pods:,} pods as PodCliqueSets, {nodes:,} nodes", figures, "pods_per_s >= 400")


async def _occupy(transport: Transport, nodes: int) -> None:
    """Six of ten hosts have one pod of somebody else."""

    def settle(number: int) -> Step:
        body = pod(f"old-{number:06d}", "")
        body["spec"]["nodeName"] = f"host-{number:06d}"
        return lambda: send(transport, PODS_PATH, body)

    await spread(settle(number) for number in range(nodes) if number % 10 < 6)


async def _come_and_go(transport: Transport, every_s: float = 0.1) -> None:
    """Gangs of others, some of which are there at a time."""
    number = 0
    while True:
        await gang(transport, f"other-{number:05d}")()
        if number >= 20:
            gone = f"other-{number - 20:05d}"
            for index in range(GANG):
                await delete(transport, f"{PODS_PATH}/{gone}-{index}")
            await delete(transport, f"{GROUPS_PATH}/{gone}")
        number += 1
        await asyncio.sleep(every_s)


async def waits_on_embedded(gangs: int, nodes: int) -> Row:
    """From the last pod of one gang to its last bind, while others come and go."""
    took_ms: list[float] = []
    async with embedded(nodes) as transport:
        await _occupy(transport, nodes)
        counted = _Single(transport)
        async with at_work(a_scheduler(counted)):
            await until_bound(counted, GANG, [gang(transport, "first")])
            others = asyncio.create_task(_come_and_go(transport))
            try:
                for number in range(gangs):
                    done = counted.expect(f"/single-{number:05d}-")
                    await gang(transport, f"single-{number:05d}")()
                    began = time.perf_counter()
                    await done
                    took_ms.append(1000 * (time.perf_counter() - began))
                    await asyncio.sleep(0.03)
            finally:
                others.cancel()
                await asyncio.gather(others, return_exceptions=True)
    cuts = statistics.quantiles(took_ms, n=100, method="inclusive")
    figures = {
        "gangs": gangs,
        "p50_ms": round(cuts[49], 1),
        "p99_ms": round(cuts[98], 1),
        "max_ms": round(max(took_ms), 1),
    }
    return (f"embedded, one gang on a busy cluster of {nodes:,} nodes", figures, "p50 <= 20 ms, p99 <= 100 ms")


class _Single(Counted):
    """Tells when all pods of the expected gang are bound."""

    def expect(self, prefix: str) -> asyncio.Future[None]:
        self._prefix, self._left = prefix, GANG
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return self._done

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        response = await super().request(method, path, **rest)
        if path.endswith("/binding") and response.status < 300 and self._prefix in path:
            self._left -= 1
            if not self._left:
                self._done.set_result(None)
        return response

    _prefix = "none"


def profiled(pods: int = 10_000, nodes: int = 5_000) -> None:
    profile = cProfile.Profile()

    async def main() -> None:
        async with embedded(nodes) as transport:
            counted = Counted(transport)
            async with at_work(a_scheduler(counted)):
                profile.enable()
                await until_bound(counted, pods, gangs_of(transport, pods))
                profile.disable()

    uvloop.run(main())
    for order in ("tottime", "cumulative"):
        pstats.Stats(profile).sort_stats(order).print_stats(60)
