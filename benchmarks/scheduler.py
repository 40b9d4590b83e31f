"""The scheduler with gangs of eight: how many pods a second get their nodes, how long one gang waits for them, and both
beside a real API server's own rate of binds.

`python -m benchmarks.scheduler [PODS [NODES [REAL_PODS]]]` prints the figures; with `--profile` also where the time of
the first one goes. No kubelets and no heartbeats: what is measured ends with the bind.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import json
import logging
import os
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
import uvloop

from benchmarks.operator import CONFIGURATION, Counted
from spinney.api.crds import all_crds
from spinney.api.operator_configuration import load_configuration
from spinney.core.admission.review import OperatorAdmission
from spinney.core.admission.settings import settings_of as admission_settings_of
from spinney.drive.client.connect import connect, find_connection
from spinney.drive.client.transport import Transport
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.operator.configured import settings_of
from spinney.drive.loop.operator.running import Operator
from spinney.drive.loop.scheduler.running import Scheduler
from spinney.drive.loop.scheduler.settings import Settings
from spinney.serve.apiserver.access.identity import ADMIN
from spinney.serve.apiserver.embedded import Embedded, build
from spinney.serve.apiserver.server import ApiServer
from spinney.sim.kubernetes.assets import Assets, find_assets
from spinney.sim.kubernetes.control_plane import ControlPlane
from spinney.sim.kubernetes.control_plane import Settings as PlaneSettings
from spinney.sim.transport import InProcessTransport

Json = dict[str, Any]
Row = tuple[str, dict[str, Any], str]
Say = Callable[[str], None]
Step = Callable[[], Awaitable[None]]

PODS, NODES, REAL_PODS, REAL_NODES, SINGLE_GANGS = 10_000, 5_000, 2_000, 1_000, 300
GANG = 8
RACK = "topology.kubernetes.io/rack"
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_HOSTS_PER_RACK, _RACKS_PER_ZONE, _GPUS = 16, 16, 8
_LANES, _REAL_LANES = 32, 64
_JSON = {"content-type": "application/json"}
_NAMESPACE = "bench"
_PODS_PATH = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_GROUPS_PATH = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{_NAMESPACE}/podgroups"
_SETS_PATH = f"/apis/grove.io/v1alpha1/namespaces/{_NAMESPACE}/podcliquesets"
_BINDS = "POST binding"
_APPLIED = (
    ("one gang of 8", 1, 8, 1.0),
    ("one gang of 64", 1, 64, 1.5),
    ("100 sets of 8", 100, 8, 5.0),
)


# Objects


def node(number: int) -> Json:
    """A host of eight GPUs; sixteen are a rack, sixteen racks a zone."""
    rack, name = number // _HOSTS_PER_RACK, f"host-{number:06d}"
    labels = {_ZONE: f"zone-{rack // _RACKS_PER_ZONE:03d}", RACK: f"rack-{rack:05d}", _HOST: name}
    amounts = {"cpu": "192", "memory": "2048Gi", "pods": "110", "nvidia.com/gpu": str(_GPUS)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def _container() -> Json:
    env = [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(8)]
    limits = {"nvidia.com/gpu": "1"}
    resources = {"requests": {"cpu": "4", "memory": "16Gi", **limits}, "limits": limits}
    return {"name": "main", "image": "example.com/model:1", "env": env, "resources": resources}


def podgroup(name: str) -> Json:
    """A gang of eight in one rack."""
    constraint = {"topology": "bench", "requiredTopologyLevel": RACK}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {"minMember": GANG, "queue": "default-queue", "topologyConstraint": constraint},
    }


def pod(name: str, group: str) -> Json:
    annotations = {"pod-group-name": group, "kai.scheduler/skip-podgrouper": "true"} if group else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": _NAMESPACE, "annotations": annotations},
        "spec": {"schedulerName": "kai-scheduler" if group else "nobody", "containers": [_container()]},
    }


def podcliqueset(name: str, pods: int = GANG) -> Json:
    """One clique in one rack."""
    spec = {"roleName": "worker", "replicas": pods, "minAvailable": pods, "podSpec": {"containers": [_container()]}}
    template = {"topologyConstraint": {"packDomain": "rack"}, "cliques": [{"name": "worker", "spec": spec}]}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {"replicas": 1, "template": template},
    }


def _kai_topology() -> Json:
    levels = [{"nodeLabel": key} for key in (_ZONE, RACK, _HOST)]
    metadata = {"name": "bench"}
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": metadata,
        "spec": {"levels": levels},
    }


def _queue() -> Json:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"cpu": free, "gpu": free, "memory": free}}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "default-queue"},
        "spec": spec,
    }


# Steps


async def _send(transport: Transport, path: str, body: Json | bytes) -> None:
    """Make an object."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = await transport.request("POST", path, headers=_JSON, body=sent)
    if response.status >= 300:
        raise RuntimeError(f"POST {path}: {response.status} {response.body[:300]!r}")


async def _delete(transport: Transport, path: str) -> None:
    response = await transport.request("DELETE", path, query={"gracePeriodSeconds": "0"})
    if response.status >= 300:
        raise RuntimeError(f"DELETE {path}: {response.status} {response.body[:300]!r}")


async def _spread(work: Iterable[Step], lanes: int = _LANES) -> None:
    steps = iter(work)

    async def lane() -> None:
        for step in steps:
            await step()

    await asyncio.gather(*(lane() for _ in range(lanes)))


async def _prepare(transport: Transport, nodes: int) -> None:
    """Kinds, a queue, a topology and nodes."""
    await _send(transport, "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    for crd in all_crds():
        await _send(transport, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    for crd in all_crds():
        spec = crd["spec"]
        version = next(each["name"] for each in spec["versions"] if each["served"])
        path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
        while (await transport.request("GET", path)).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await _send(transport, "/apis/scheduling.run.ai/v2/queues", _queue())
    await _send(transport, "/apis/kai.scheduler/v1alpha1/topologies", _kai_topology())

    def join(number: int) -> Step:
        return lambda: _send(transport, "/api/v1/nodes", node(number))

    await _spread(join(number) for number in range(nodes))


@asynccontextmanager
async def _at_work(*workers: Scheduler | Operator) -> AsyncIterator[None]:
    """Everybody at work; whoever fails is heard at the end."""
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    ready = asyncio.gather(*(worker.ready.wait() for worker in workers))
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


def _scheduler(transport: Transport) -> Scheduler:
    return Scheduler(transport, SystemClock(), system_dice(), Settings())


def _operator(transport: Transport) -> Operator:
    return Operator(transport, SystemClock(), system_dice(), settings_of(load_configuration(CONFIGURATION)))


def _gang(transport: Transport, name: str) -> Step:
    """A gang and its pods, written down beforehand: encoding them is nobody's work here."""
    group = json.dumps(podgroup(name)).encode()
    pods = [json.dumps(pod(f"{name}-{index}", name)).encode() for index in range(GANG)]

    async def make() -> None:
        await _send(transport, _GROUPS_PATH, group)
        for body in pods:
            await _send(transport, _PODS_PATH, body)

    return make


def _gangs(transport: Transport, pods: int) -> list[Step]:
    return [_gang(transport, f"g-{number:05d}") for number in range(pods // GANG)]


def _sets(transport: Transport, pods: int) -> list[Step]:
    def make(number: int) -> Step:
        body = json.dumps(podcliqueset(f"s-{number:05d}")).encode()
        return lambda: _send(transport, _SETS_PATH, body)

    return [make(number) for number in range(pods // GANG)]


class _Watch:
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


async def _bound(counted: Counted, pods: int, work: Iterable[Step]) -> Json:
    """Do the work; figures of the time until so many pods have got their nodes, and of what was written for it."""
    counted.writes.clear()
    everybody = asyncio.create_task(counted.reached(_BINDS, pods))
    watch = _Watch()
    await _spread(work)
    await everybody
    return watch.read(pods) | _writes(counted, pods)


def _writes(counted: Counted, pods: int) -> Json:
    """What was written for a pod, without what waits for better times."""
    done = {what: count for what, count in counted.writes.items() if not what[0].isdigit()}
    return {
        "writes_per_pod": round((sum(done.values()) - done.get("POST events", 0)) / pods, 2),
        "events_per_pod": round(done.get("POST events", 0) / pods, 2),
        "refused": sum(counted.writes.values()) - sum(done.values()),
    }


# Embedded


async def _server() -> ApiServer:
    rules = OperatorAdmission(admission_settings_of(load_configuration(CONFIGURATION)))
    server = build(Embedded(plugins=(rules,)))
    await server.start()
    return server


@asynccontextmanager
async def _embedded(nodes: int) -> AsyncIterator[InProcessTransport]:
    """A server with its nodes. What is there from the start is left alone by the interpreter's collector."""
    server = await _server()
    transport = InProcessTransport(server, ADMIN)
    await _prepare(transport, nodes)
    gc.collect()
    gc.freeze()
    try:
        yield transport
    finally:
        await server.stop()
        gc.unfreeze()


async def podgroups_on_embedded(pods: int, nodes: int, say: Say = lambda text: None) -> Row:
    """Server, scheduler and whoever makes the pods in one process, as `spinney up` has them."""
    async with _embedded(nodes) as transport:
        counted = Counted(transport)
        async with _at_work(_scheduler(counted)):
            await _bound(counted, GANG, [_gang(transport, "first")])
            figures = await _bound(counted, pods, _gangs(transport, pods))
    for line in counted.told():
        say(line)
    return (f"embedded, {pods:,} pods with PodGroups, {nodes:,} nodes", figures, "pods_per_s >= 2,000")


async def creates_on_embedded(pods: int) -> Row:
    """The same pods while nobody looks: what of the first figure is not the scheduler's."""
    async with _embedded(0) as transport:
        work = _gangs(transport, pods)
        watch = _Watch()
        await _spread(work)
        return (f"embedded, {pods:,} pods made and nothing else", watch.read(pods), "none")


async def backlog_on_embedded(pods: int, nodes: int) -> Row:
    """All pods are there when the scheduler starts."""
    async with _embedded(nodes) as transport:
        await _spread(_gangs(transport, pods))
        counted = Counted(transport)
        everybody = asyncio.create_task(counted.reached(_BINDS, pods))
        watch = _Watch()
        async with _at_work(_scheduler(counted)):
            await everybody
            figures = watch.read(pods) | _writes(counted, pods)
    return (f"embedded, {pods:,} pods waiting, then a scheduler, {nodes:,} nodes", figures, "pods_per_s >= 2,000")


async def sets_on_embedded(pods: int, nodes: int, say: Say = lambda text: None) -> Row:
    """From PodCliqueSets through the operator."""
    async with _embedded(nodes) as transport:
        counted = Counted(transport)
        async with _at_work(_scheduler(counted), _operator(counted)):
            await _bound(counted, GANG, [_gang(transport, "first")])
            figures = await _bound(counted, pods, _sets(transport, pods))
    for line in counted.told():
        say(line)
    return (f"embedded, {pods:,} pods as PodCliqueSets, {nodes:,} nodes", figures, "pods_per_s >= 400")


async def _occupy(transport: Transport, nodes: int) -> None:
    """Six of ten hosts have one pod of somebody else."""

    def settle(number: int) -> Step:
        body = pod(f"old-{number:06d}", "")
        body["spec"]["nodeName"] = f"host-{number:06d}"
        return lambda: _send(transport, _PODS_PATH, body)

    await _spread(settle(number) for number in range(nodes) if number % 10 < 6)


async def _come_and_go(transport: Transport, every_s: float = 0.1) -> None:
    """Gangs of others, some of which are there at a time."""
    number = 0
    while True:
        await _gang(transport, f"other-{number:05d}")()
        if number >= 20:
            gone = f"other-{number - 20:05d}"
            for index in range(GANG):
                await _delete(transport, f"{_PODS_PATH}/{gone}-{index}")
            await _delete(transport, f"{_GROUPS_PATH}/{gone}")
        number += 1
        await asyncio.sleep(every_s)


async def waits_on_embedded(gangs: int, nodes: int) -> Row:
    """From the last pod of one gang to its last bind, while others come and go."""
    took_ms: list[float] = []
    async with _embedded(nodes) as transport:
        await _occupy(transport, nodes)
        counted = _Single(transport)
        async with _at_work(_scheduler(counted)):
            others = asyncio.create_task(_come_and_go(transport))
            try:
                for number in range(gangs):
                    done = counted.expect(f"/single-{number:05d}-")
                    await _gang(transport, f"single-{number:05d}")()
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


# A real server


async def _bind_plainly(transport: Transport, names: list[str]) -> float:
    """Pods that are there, bound by nobody who thinks: pods a second."""

    def bind(name: str, number: int) -> Step:
        target = {"apiVersion": "v1", "kind": "Node", "name": f"host-{number % REAL_NODES:06d}"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        return lambda: _send(transport, f"{_PODS_PATH}/{name}/binding", body)

    work = [bind(name, number) for number, name in enumerate(names)]
    began = time.perf_counter()
    await _spread(work, lanes=_REAL_LANES)
    return len(names) / (time.perf_counter() - began)


async def _make_plain(transport: Transport, pods: int) -> list[str]:
    names = [f"plain-{number:05d}" for number in range(pods)]

    def make(name: str) -> Step:
        return lambda: _send(transport, _PODS_PATH, pod(name, ""))

    await _spread(make(name) for name in names)
    return names


async def binds_on_real(transport: Transport, pods: int, say: Say) -> Row:
    """All pods are there; a bare loop binds as many, one half before the scheduler and one half after it."""
    await _spread(_gangs(transport, pods))
    names = await _make_plain(transport, pods)
    before = await _bind_plainly(transport, names[::2])
    counted = Counted(transport)
    everybody = asyncio.create_task(counted.reached(_BINDS, pods))
    async with _at_work(_scheduler(counted)):
        watch = _Watch()
        await everybody
        figures = watch.read(pods) | _writes(counted, pods)
    for line in counted.told():
        say(line)
    after = await _bind_plainly(transport, names[1::2])
    plain = 2 / (1 / before + 1 / after)
    figures |= {"plain_binds_per_s": round(plain), "of_plain": round(figures["pods_per_s"] / plain, 2)}
    return (f"real API server, {pods:,} pods with PodGroups waiting, {REAL_NODES:,} nodes", figures, "of_plain >= 0.8")


async def _apply(kubectl: Path, kubeconfig: Path, objects: list[Json]) -> None:
    text = "\n---\n".join(map(json.dumps, objects)).encode()
    words = [str(kubectl), "--kubeconfig", str(kubeconfig), "apply", "-f", "-"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=asyncio.subprocess.DEVNULL, stderr=pipe)
    _, complaint = await process.communicate(text)
    if process.returncode:
        raise RuntimeError(complaint.decode())


async def applies_on_real(transport: Transport, kubectl: Path, kubeconfig: Path, repeats: int = 3) -> list[Row]:
    """From the start of kubectl to the last bind."""
    rows: list[Row] = []
    counted = Counted(transport)
    async with _at_work(_scheduler(counted), _operator(counted)):
        for title, sets, pods, limit_s in _APPLIED:
            took_s = []
            for turn in range(repeats):
                objects = [podcliqueset(f"a{sets}-{pods}-{turn}-{number}", pods) for number in range(sets)]
                everybody = asyncio.create_task(counted.reached(_BINDS, counted.writes[_BINDS] + sets * pods))
                began = time.perf_counter()
                await _apply(kubectl, kubeconfig, objects)
                applied_s = time.perf_counter() - began
                await everybody
                took_s.append((time.perf_counter() - began, applied_s))
                await asyncio.sleep(2.0)
            bound_s, applied_s = (
                statistics.median(each[0] for each in took_s),
                statistics.median(each[1] for each in took_s),
            )
            figures = {
                "bound_s": round(bound_s, 2),
                "best_s": round(min(took_s)[0], 2),
                "kubectl_s": round(applied_s, 2),
            }
            rows.append((f"kubectl apply to bound, {REAL_NODES:,} nodes, {title}", figures, f"bound_s <= {limit_s}"))
    return rows


async def on_real(assets: Assets, kubeconfig: Path, pods: int, say: Say) -> list[Row]:
    """Operator and scheduler over HTTPS; no other controllers, so that all writes are theirs."""
    transport = connect(find_connection(SystemClock(), kubeconfig=kubeconfig))
    try:
        await _prepare(transport, REAL_NODES)
        return [
            await binds_on_real(transport, pods, say),
            *await applies_on_real(transport, assets.kubectl, kubeconfig),
        ]
    finally:
        await transport.close()


def _real(pods: int, say: Say) -> list[Row]:
    assets = find_assets()
    if assets is None:
        return [("real API server", {"skipped": "its programs have not been built"}, "of_plain >= 0.8")]
    with (
        tempfile.TemporaryDirectory(prefix="spinney-bench-") as scratch,
        ControlPlane(PlaneSettings(assets, Path(scratch, "plane"), ())) as plane,
    ):
        return uvloop.run(on_real(assets, plane.kubeconfig, pods, say))


def run(
    progress: Say, pods: int = PODS, nodes: int = NODES, real_pods: int = REAL_PODS, gangs: int = SINGLE_GANGS
) -> list[Row]:
    """Every figure with the goal that stands beside it; without real pods only those of the embedded server."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    rows: list[Row] = [
        ("machine", {"cores": os.cpu_count(), "load_average": load}, "goals are for 2 cores and nothing else running")
    ]
    progress(f"embedded, {pods:,} pods on {nodes:,} nodes ...")
    rows.append(uvloop.run(creates_on_embedded(pods)))
    rows.append(uvloop.run(podgroups_on_embedded(pods, nodes, progress)))
    rows.append(uvloop.run(backlog_on_embedded(pods, nodes)))
    rows.append(uvloop.run(waits_on_embedded(gangs, nodes)))
    rows.append(uvloop.run(sets_on_embedded(pods, nodes, progress)))
    if real_pods:
        progress(f"real API server, {real_pods:,} pods ...")
        rows += _real(real_pods, progress)
    return rows


def _profiled(pods: int = PODS, nodes: int = NODES) -> None:
    profile = cProfile.Profile()

    async def main() -> None:
        async with _embedded(nodes) as transport:
            counted = Counted(transport)
            async with _at_work(_scheduler(counted)):
                profile.enable()
                await _bound(counted, pods, _gangs(transport, pods))
                profile.disable()

    uvloop.run(main())
    for order in ("tottime", "cumulative"):
        pstats.Stats(profile).sort_stats(order).print_stats(60)


if __name__ == "__main__":
    counts = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    if "--profile" in sys.argv:
        _profiled(*counts)
    else:
        for title, figures, goal in run(lambda text: print(text, file=sys.stderr), *counts):
            print(f"{title}: {figures}   (goal: {goal})")
