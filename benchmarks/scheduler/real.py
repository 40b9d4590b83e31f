"""A real API server over HTTPS: binds beside its own rate of them, and from kubectl to bound pods."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks.operator import Counted
from benchmarks.scheduler.objects import PODS_PATH, Json, pod, podcliqueset
from benchmarks.scheduler.steps import (
    BINDS,
    Row,
    Say,
    Step,
    Stopwatch,
    a_scheduler,
    an_operator,
    at_work,
    gangs_of,
    prepare,
    send,
    spread,
    written,
)
from kube_apimachinery.system_clock import SystemClock
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.drive.client.http.transport import Transport
from spinney.sim.kubernetes.assets import Assets, find_assets
from spinney.sim.kubernetes.control_plane import ControlPlane
from spinney.sim.kubernetes.control_plane import Settings as PlaneSettings

NODES = 1_000
_LANES = 64
_APPLIED = (
    ("one gang of 8", 1, 8, 1.0),
    ("one gang of 64", 1, 64, 1.5),
    ("100 sets of 8", 100, 8, 5.0),
)


async def _bind_plainly(transport: Transport, names: list[str]) -> float:
    """Pods that are there, bound by nobody who thinks: pods a second."""

    def bind(name: str, number: int) -> Step:
        target = {"apiVersion": "v1", "kind": "Node", "name": f"host-{number % NODES:06d}"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        return lambda: send(transport, f"{PODS_PATH}/{name}/binding", body)

    work = [bind(name, number) for number, name in enumerate(names)]
    began = time.perf_counter()
    await spread(work, lanes=_LANES)
    return len(names) / (time.perf_counter() - began)


async def _make_plain(transport: Transport, pods: int) -> list[str]:
    names = [f"plain-{number:05d}" for number in range(pods)]

    def make(name: str) -> Step:
        return lambda: send(transport, PODS_PATH, pod(name, ""))

    await spread(make(name) for name in names)
    return names


async def binds_on_real(transport: Transport, pods: int, say: Say) -> Row:
    """All pods are there; a bare loop binds as many, one half before the scheduler and one half after it."""
    await spread(gangs_of(transport, pods))
    names = await _make_plain(transport, pods)
    before = await _bind_plainly(transport, names[::2])
    counted = Counted(transport)
    everybody = asyncio.create_task(counted.reached(BINDS, pods))
    async with at_work(a_scheduler(counted)):
        watch = Stopwatch()
        await everybody
        figures = watch.read(pods) | written(counted, pods)
    for line in counted.told():
        say(line)
    after = await _bind_plainly(transport, names[1::2])
    plain = 2 / (1 / before + 1 / after)
    figures |= {"plain_binds_per_s": round(plain), "of_plain": round(figures["pods_per_s"] / plain, 2)}
    return (f"real API server, {pods:,} pods with PodGroups waiting, {NODES:,} nodes", figures, "of_plain >= 0.8")


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
    async with at_work(a_scheduler(counted), an_operator(counted)):
        for title, sets, pods, limit_s in _APPLIED:
            took_s = []
            for turn in range(repeats):
                objects = [podcliqueset(f"a{sets}-{pods}-{turn}-{number}", pods) for number in range(sets)]
                everybody = asyncio.create_task(counted.reached(BINDS, counted.writes[BINDS] + sets * pods))
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
            rows.append((f"kubectl apply to bound, {NODES:,} nodes, {title}", figures, f"bound_s <= {limit_s}"))
    return rows


async def on_real(assets: Assets, kubeconfig: Path, pods: int, say: Say) -> list[Row]:
    """Operator and scheduler over HTTPS; no other controllers, so that all writes are theirs."""
    transport = connect(find_connection(SystemClock(), kubeconfig=kubeconfig))
    try:
        await prepare(transport, NODES)
        return [
            await binds_on_real(transport, pods, say),
            *await applies_on_real(transport, assets.kubectl, kubeconfig),
        ]
    finally:
        await transport.close()


def on_real_server(pods: int, say: Say) -> list[Row]:
    assets = find_assets()
    if assets is None:
        return [("real API server", {"skipped": "its programs have not been built"}, "of_plain >= 0.8")]
    with (
        tempfile.TemporaryDirectory(prefix="spinney-bench-") as scratch,
        ControlPlane(PlaneSettings(assets, Path(scratch, "plane"), ())) as plane,
    ):
        return uvloop.run(on_real(assets, plane.kubeconfig, pods, say))
