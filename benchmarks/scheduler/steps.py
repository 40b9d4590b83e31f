"""What every figure is made of: gangs made, somebody at work, and the time until all pods have their nodes."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.operator import CONFIGURATION, Counted
from benchmarks.scheduler.objects import (
    GANG,
    GROUPS_PATH,
    NAMESPACE,
    PODS_PATH,
    SETS_PATH,
    Json,
    node,
    pod,
    podcliqueset,
    podgroup,
    queue,
    topology,
)
from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.crds import all_crds
from spinney.api.operator_configuration import load_configuration
from spinney.core.scheduling.settings import Settings
from spinney.drive.client.http.transport import Transport
from spinney.drive.operator.operator import Operator
from spinney.drive.operator.settings_from_config import settings_of
from spinney.drive.scheduler.scheduler import Scheduler

Row = tuple[str, dict[str, Any], str]
Say = Callable[[str], None]
Step = Callable[[], Awaitable[None]]

BINDS = "POST binding"
LANES = 32
_JSON = {"content-type": "application/json"}


async def send(transport: Transport, path: str, body: Json | bytes) -> None:
    """Make an object."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = await transport.request("POST", path, headers=_JSON, body=sent)
    if response.status >= 300:
        raise RuntimeError(f"POST {path}: {response.status} {response.body[:300]!r}")


async def delete(transport: Transport, path: str) -> None:
    response = await transport.request("DELETE", path, query={"gracePeriodSeconds": "0"})
    if response.status >= 300:
        raise RuntimeError(f"DELETE {path}: {response.status} {response.body[:300]!r}")


async def spread(work: Iterable[Step], lanes: int = LANES) -> None:
    steps = iter(work)

    async def lane() -> None:
        for step in steps:
            await step()

    await asyncio.gather(*(lane() for _ in range(lanes)))


async def prepare(transport: Transport, nodes: int) -> None:
    """Kinds, a queue, a topology and nodes."""
    await send(transport, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for crd in all_crds():
        await send(transport, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    for crd in all_crds():
        spec = crd["spec"]
        version = next(each["name"] for each in spec["versions"] if each["served"])
        path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
        while (await transport.request("GET", path)).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await send(transport, "/apis/scheduling.run.ai/v2/queues", queue())
    await send(transport, "/apis/kai.scheduler/v1alpha1/topologies", topology())

    def join(number: int) -> Step:
        return lambda: send(transport, "/api/v1/nodes", node(number))

    await spread(join(number) for number in range(nodes))


@asynccontextmanager
async def at_work(*workers: Scheduler | Operator) -> AsyncIterator[None]:
    """Everybody at work; whoever fails is heard at the end."""
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    ready = asyncio.create_task(_all_ready(workers))
    await asyncio.wait([ready, *tasks], return_when=asyncio.FIRST_COMPLETED)
    try:
        for task in tasks:
            if task.done():
                await task
        yield
    finally:
        for task in (ready, *tasks):
            task.cancel()
        await asyncio.gather(ready, *tasks, return_exceptions=True)


async def _all_ready(workers: Iterable[Scheduler | Operator]) -> None:
    for worker in workers:
        await worker.ready.wait()


def a_scheduler(transport: Transport) -> Scheduler:
    return Scheduler(transport, SystemClock(), system_dice(), Settings(), record_keys=[secrets.token_bytes(32)])


def an_operator(transport: Transport) -> Operator:
    return Operator(transport, SystemClock(), system_dice(), settings_of(load_configuration(CONFIGURATION)))


def gang(transport: Transport, name: str) -> Step:
    """A gang and its pods, written down beforehand: encoding them is nobody's work here."""
    group = json.dumps(podgroup(name)).encode()
    pods = [json.dumps(pod(f"{name}-{index}", name)).encode() for index in range(GANG)]

    async def make() -> None:
        await send(transport, GROUPS_PATH, group)
        for body in pods:
            await send(transport, PODS_PATH, body)

    return make


def gangs_of(transport: Transport, pods: int) -> list[Step]:
    return [gang(transport, f"g-{number:05d}") for number in range(pods // GANG)]


def sets_of(transport: Transport, pods: int) -> list[Step]:
    def make(number: int) -> Step:
        body = json.dumps(podcliqueset(f"s-{number:05d}")).encode()
        return lambda: send(transport, SETS_PATH, body)

    return [make(number) for number in range(pods // GANG)]


class Stopwatch:
    """Wall and CPU seconds of this process since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self, pods: int) -> Json:
        wall_s, cpu_s = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {
            "pods_per_s": round(pods / wall_s),
            "wall_s": round(wall_s, 2),
            "cpu_s": round(cpu_s, 2),
            "cpu_ms_per_pod": round(1000 * cpu_s / pods, 3),
        }


async def until_bound(counted: Counted, pods: int, work: Iterable[Step]) -> Json:
    """Do the work; figures of the time until so many pods have got their nodes, and of what was written for it."""
    counted.writes.clear()
    everybody = asyncio.create_task(counted.reached(BINDS, pods))
    watch = Stopwatch()
    await spread(work)
    await everybody
    return watch.read(pods) | written(counted, pods)


def written(counted: Counted, pods: int) -> Json:
    """What was written for a pod, without what waits for better times."""
    done = {what: count for what, count in counted.writes.items() if not what[0].isdigit()}
    return {
        "writes_per_pod": round((sum(done.values()) - done.get("POST events", 0)) / pods, 2),
        "events_per_pod": round(done.get("POST events", 0) / pods, 2),
        "refused": sum(counted.writes.values()) - sum(done.values()),
    }
