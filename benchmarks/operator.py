"""The operator at a thousand PodCliqueSets of ten pods: until all pods are there, and a look at all of it that finds
nothing to do; on the embedded server, and beside a real one's own rate of writes.

`python -m benchmarks.operator [SETS [REAL_SETS]]` prints the figures; with `--profile` also where the time goes.
Nobody binds the pods: what is measured ends where a scheduler begins.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import logging
import os
import pstats
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import structlog
import uvloop

from kube_apimachinery.system_clock import SystemClock, system_dice
from kube_embedded.base.identity import ADMIN
from kube_embedded.server.embedded import ServerOptions, build
from spinney.api.crds import all_crds
from spinney.api.operator_configuration import load_configuration
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import settings_of as admission_settings_of
from spinney.core.expansion.settings import Settings
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.drive.client.http.transport import Response, Transport
from spinney.drive.controller.controller import Controller
from spinney.drive.operator.operator import Operator
from spinney.drive.operator.reconciler import ReconcileContext
from spinney.drive.operator.settings_from_config import settings_of
from spinney.sim.kubernetes.assets import find_assets
from spinney.sim.kubernetes.control_plane import ControlPlane
from spinney.sim.kubernetes.control_plane import Settings as PlaneSettings
from spinney.sim.transport import InProcessTransport

Json = dict[str, Any]
Row = tuple[str, dict[str, Any], str]

SETS, REAL_SETS, PODS_PER_SET = 1_000, 150, 10
CONFIGURATION = """
scheduler: {profiles: [{name: kai-scheduler, default: true}]}
topologyAwareScheduling:
  enabled: true
  levels:
  - {domain: zone, key: topology.kubernetes.io/zone}
  - {domain: rack, key: topology.kubernetes.io/rack}
  - {domain: host, key: kubernetes.io/hostname}
"""
_LANES = 32
_JSON = {"content-type": "application/json"}
_MERGE = {"content-type": "application/merge-patch+json"}
_NAMESPACE = "bench"
_RAW_NAMESPACE = "plain"


def podcliqueset(name: str) -> Json:
    """Two front ends, and two groups of a leader and three workers, all of one gang: ten pods."""

    def clique(role: str, replicas: int) -> Json:
        env = [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(8)]
        limits = {"nvidia.com/gpu": "1"}
        container = {"name": "main", "image": "example.com/model:1", "env": env, "resources": {"limits": limits}}
        spec = {
            "roleName": role,
            "replicas": replicas,
            "minAvailable": replicas,
            "podSpec": {"containers": [container]},
        }
        return {"name": role, "spec": spec}

    group = {"name": "g", "cliqueNames": ["leader", "worker"], "replicas": 2, "minAvailable": 2}
    template = {
        "topologyConstraint": {"packDomain": "zone"},
        "cliques": [clique("front", 2), clique("leader", 1), clique("worker", 3)],
        "podCliqueScalingGroups": [group | {"topologyConstraint": {"packDomain": "rack"}}],
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {"replicas": 1, "template": template},
    }


class Counted:
    """A transport that counts what the operator writes, and keeps the creates for a repetition if asked to."""

    def __init__(self, inner: Transport, keep: bool = False) -> None:
        self._inner = inner
        self.stream = inner.stream
        self.close = inner.close
        self.writes: Counter[str] = Counter()
        self.kept: list[tuple[str, Json]] = []
        self._took_s: dict[str, float] = {}
        self._keep = keep
        self._waiting: list[tuple[str, int, asyncio.Event]] = []

    async def request(self, method: str, path: str, **rest: Any) -> Response:
        began = time.perf_counter()
        response = await self._inner.request(method, path, **rest)
        if method != "GET":
            self._note(method, path, response, rest.get("body"), time.perf_counter() - began)
        return response

    def told(self) -> Iterator[str]:
        """A line for each kind of write, the most frequent first: how many, and how long one took."""
        for what, count in self.writes.most_common():
            yield f"  {count:7d} {what}, {1000 * self._took_s[what] / count:.1f} ms each"

    async def reached(self, what: str, count: int) -> None:
        event = asyncio.Event()
        self._waiting.append((what, count, event))
        await event.wait()

    def _note(self, method: str, path: str, response: Response, body: bytes | None, took_s: float) -> None:
        parts = path.strip("/").split("/")
        plural = parts[-1] if method == "POST" else parts[-3] if parts[-1] == "status" else parts[-2]
        what = f"{method} {plural}{' status' if parts[-1] == 'status' else ''}"
        if response.status >= 300:
            what = f"{response.status} {what}"
        self.writes[what] += 1
        self._took_s[what] = self._took_s.get(what, 0.0) + took_s
        if self._keep and method == "POST" and response.status == 201 and body is not None:
            self.kept.append((path, json.loads(body)))
        for awaited, count, event in self._waiting:
            if awaited == what and self.writes[what] >= count:
                event.set()


@contextmanager
def _controllers() -> Iterator[list[Controller[Any]]]:
    """The controllers of operators that begin in the block."""
    made: list[Controller[Any]] = []
    plain = ReconcileContext.controller

    def kept(context: ReconcileContext, *given: Any, **named: Any) -> Controller[Any]:
        made.append(plain(context, *given, **named))
        return made[-1]

    ReconcileContext.controller = kept  # type: ignore[method-assign,assignment]
    try:
        yield made
    finally:
        ReconcileContext.controller = plain  # type: ignore[method-assign]


@asynccontextmanager
async def _operating(transport: Transport, settings: Settings) -> AsyncIterator[list[Controller[Any]]]:
    operator = Operator(transport, SystemClock(), system_dice(), settings)
    with _controllers() as made:
        task = asyncio.create_task(operator.run())
        waiting = asyncio.create_task(operator.ready.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)


async def _quiet(controllers: list[Controller[Any]], counted: Counted) -> None:
    """Until nothing waits, nothing is delayed by less than minutes, and nothing is written."""
    seen = -1
    while seen != sum(counted.writes.values()) or not all(each.queue.idle for each in controllers):
        seen = sum(counted.writes.values())
        await asyncio.sleep(0.3)


async def _resync(controllers: list[Controller[Any]]) -> tuple[int, float, float]:
    """Every object of every controller looked at again: how many, and seconds by the wall and by our own clock."""
    began, began_cpu = time.perf_counter(), time.process_time()
    keys = 0
    for controller in controllers:
        for key in controller._sources[0].cache.keys():  # noqa: SIM118 - sorted keys of a cache
            controller.queue.add(key)
            keys += 1
    while not all(each.queue.idle for each in controllers):  # noqa: ASYNC110 - a queue tells nobody that it is idle
        await asyncio.sleep(0)
    return keys, time.perf_counter() - began, time.process_time() - began_cpu


async def _send(transport: Transport, method: str, path: str, body: Json, headers: Json) -> None:
    response = await transport.request(method, path, headers=headers, body=json.dumps(body).encode())
    if response.status >= 300:
        raise RuntimeError(f"{method} {path}: {response.status} {response.body[:300]!r}")


async def _spread(work: Iterable[Callable[[], Awaitable[None]]]) -> None:
    steps = iter(work)

    async def lane() -> None:
        for step in steps:
            await step()

    await asyncio.gather(*(lane() for _ in range(_LANES)))


async def _prepare(transport: Transport) -> None:
    """Namespaces, and our kinds served."""
    for name in (_NAMESPACE, _RAW_NAMESPACE):
        await _send(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": name}}, _JSON)
    for crd in all_crds():
        await _send(transport, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd, _JSON)
    for crd in all_crds():
        spec = crd["spec"]
        version = next(each["name"] for each in spec["versions"] if each["served"])
        path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
        while (await transport.request("GET", path)).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _fill(transport: Transport, counted: Counted, sets: int) -> dict[str, float]:
    """Make the sets; seconds until every pod is there, and until every pod has lost its gate."""
    path = f"/apis/grove.io/v1alpha1/namespaces/{_NAMESPACE}/podcliquesets"
    pods = sets * PODS_PER_SET
    created = asyncio.create_task(counted.reached("POST pods", pods))
    freed = asyncio.create_task(counted.reached("PATCH pods", pods))
    began, began_cpu = time.perf_counter(), time.process_time()

    def make(number: int) -> Callable[[], Awaitable[None]]:
        return lambda: _send(transport, "POST", path, podcliqueset(f"s-{number:05d}"), _JSON)

    await _spread(make(number) for number in range(sets))
    await created
    created_s, created_cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    await freed
    return {
        "pods_created_s": round(created_s, 2),
        "pods_created_cpu_s": round(created_cpu_s, 2),
        "pods_free_s": round(time.perf_counter() - began, 2),
        "pods_free_cpu_s": round(time.process_time() - began_cpu, 2),
    }


def _write_figures(counted: Counted, sets: int) -> Json:
    """Writes per set, beside the fewest that do: one for each object and one for each gate."""
    done = {what: count for what, count in counted.writes.items() if not what[0].isdigit()}
    refused = sum(counted.writes.values()) - sum(done.values())
    creates = sum(count for what, count in done.items() if what.startswith("POST") and what != "POST events")
    return {
        "writes_per_set": round(sum(done.values()) / sets, 1),
        "fewest_per_set": round(creates / sets + PODS_PER_SET, 1),
        "refused_per_set": round(refused / sets, 2),
    }


async def on_embedded(sets: int, say: Callable[[str], None] = lambda text: None) -> list[Row]:
    """The server, its rules and the operator in one process, as `spinney up` has them."""
    configuration = load_configuration(CONFIGURATION)
    server = build(ServerOptions(plugins=(OperatorAdmission(admission_settings_of(configuration)),)))
    await server.start()
    transport = InProcessTransport(server, ADMIN)
    await _prepare(transport)
    counted = Counted(transport)
    async with _operating(counted, settings_of(configuration)) as controllers:
        filled = await _fill(transport, counted, sets)
        await _quiet(controllers, counted)
        for line in counted.told():
            say(line)
        writes = _write_figures(counted, sets)
        before = sum(counted.writes.values())
        looked = [await _resync(controllers) for _ in range(3)]
        resync_writes = sum(counted.writes.values()) - before
    began = time.perf_counter()
    again = Counted(transport)
    async with _operating(again, settings_of(configuration)) as controllers:
        ready_s = time.perf_counter() - began
        await _quiet(controllers, again)
    await server.stop()
    keys, wall_s, cpu_s = min(looked, key=lambda each: each[1])
    return [
        (f"embedded, {sets:,} sets of 10 pods", {**filled, **writes}, "all pods created <= 30 s"),
        (
            "embedded, a resync that finds nothing to do",
            {"keys": keys, "wall_s": round(wall_s, 2), "cpu_s": round(cpu_s, 2), "writes": resync_writes},
            "<= 1 s, 0 writes",
        ),
        (
            "embedded, a new operator",
            {"ready_s": round(ready_s, 2), "writes": sum(again.writes.values())},
            "0 writes",
        ),
    ]


async def _plain_rate(transport: Transport, made: list[tuple[str, Json]], sets: int) -> tuple[int, float]:
    """The same creates, and a gate less for each pod, by nobody who thinks: how many writes, and seconds."""
    own = f"/apis/grove.io/v1alpha1/namespaces/{_NAMESPACE}/podcliquesets"
    creates = [(own, podcliqueset(f"s-{number:05d}")) for number in range(sets)]
    creates += [(path, body) for path, body in made if f"/{_NAMESPACE}/" in path and not path.endswith("/events")]
    moved = []
    for path, body in creates:
        metadata = {key: value for key, value in body["metadata"].items() if key != "ownerReferences"}
        moved.append((_moved(path), {**body, "metadata": metadata | {"namespace": _RAW_NAMESPACE}}))
    pods = [f"{path}/{body['metadata']['name']}" for path, body in moved if path.endswith("/pods")]

    def create(path: str, body: Json) -> Callable[[], Awaitable[None]]:
        return lambda: _send(transport, "POST", path, body, _JSON)

    def free(path: str) -> Callable[[], Awaitable[None]]:
        return lambda: _send(transport, "PATCH", path, {"spec": {"schedulingGates": None}}, _MERGE)

    began = time.perf_counter()
    await _spread(create(path, body) for path, body in moved)
    await _spread(free(path) for path in pods)
    return len(moved) + len(pods), time.perf_counter() - began


def _moved(path: str) -> str:
    return path.replace(f"/{_NAMESPACE}/", f"/{_RAW_NAMESPACE}/")


async def on_real(kubeconfig: Path, sets: int, say: Callable[[str], None] = lambda text: None) -> Row:
    """The operator over HTTPS; no other controllers, so that all writes are its own."""
    transport = connect(find_connection(SystemClock(), kubeconfig=kubeconfig))
    try:
        await _prepare(transport)
        counted = Counted(transport, keep=True)
        async with _operating(counted, settings_of(load_configuration(CONFIGURATION))) as controllers:
            filled = await _fill(transport, counted, sets)
            await _quiet(controllers, counted)
        for line in counted.told():
            say(line)
        plain, plain_s = await _plain_rate(transport, counted.kept, sets)
    finally:
        await transport.close()
    figures = {
        **filled,
        **_write_figures(counted, sets),
        "plain_writes_per_s": round(plain / plain_s),
        "plain_s": round(plain_s, 2),
        "times_plain": round(filled["pods_free_s"] / plain_s, 2),
        "for_1000_sets_s": round(filled["pods_free_s"] * 1000 / sets, 1),
    }
    return (f"real API server, {sets:,} sets of 10 pods", figures, "times_plain <= 1.5")


def _real(sets: int, say: Callable[[str], None]) -> Row:
    assets = find_assets()
    if assets is None:
        return ("real API server", {"skipped": "its programs have not been built"}, "times_plain <= 1.5")
    with (
        tempfile.TemporaryDirectory(prefix="spinney-bench-") as scratch,
        ControlPlane(PlaneSettings(assets, Path(scratch, "plane"), ())) as plane,
    ):
        return uvloop.run(on_real(plane.kubeconfig, sets, say))


def run(progress: Callable[[str], None], sets: int = SETS, real_sets: int = REAL_SETS) -> list[Row]:
    """Every figure with the goal that stands beside it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    machine = {"cores": os.cpu_count(), "load_average": load}
    progress(f"embedded, {sets:,} sets ...")
    rows = uvloop.run(on_embedded(sets, progress))
    progress(f"real API server, {real_sets:,} sets ...")
    rows.append(_real(real_sets, progress))
    return [("machine", machine, "goals are for 2 cores and nothing else running"), *rows]


def _profiled(sets: int) -> None:
    profile = cProfile.Profile()
    profile.enable()
    uvloop.run(on_embedded(sets))
    profile.disable()
    for order in ("tottime", "cumulative"):
        pstats.Stats(profile).sort_stats(order).print_stats(45)


if __name__ == "__main__":
    counts = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    if "--profile" in sys.argv:
        _profiled(*counts)
    else:
        for title, figures, goal in run(lambda text: print(text, file=sys.stderr), *counts):
            print(f"{title}: {figures}   (goal: {goal})")
