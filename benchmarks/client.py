"""How fast the client folds a watch into its cache, and how long it holds up the loop while caching many pods.

`python -m benchmarks.client` prints the figures. Events are made in memory, so that nothing but the client is measured.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from spinney.api.builtin.pod import Pod
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.codec import codec_for
from spinney.drive.client.http.transport import Response, Stream
from spinney.drive.client.informers.cache import Cache, of_struct
from spinney.drive.client.informers.gc_pause import pause_in_this_process
from spinney.drive.client.informers.watch import Watcher
from spinney.drive.client.paths import ResourcePath

PODS = ResourcePath("", "v1", "pods")

_CHUNK = 256 << 10


def pod(number: int, version: int) -> dict[str, Any]:
    """A bound GPU pod as a cluster has it, about 3.9 kB of JSON."""
    name = f"inference-decode-{number:06d}"
    env = [{"name": f"VARIABLE_{i}", "value": f"value-of-variable-{i}-for-{number % 997}"} for i in range(22)]
    mounts = [{"name": f"volume-{i}", "mountPath": f"/var/lib/volume-{i}", "readOnly": True} for i in range(4)]
    tolerations = [
        {"key": f"example.com/taint-{i}", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 300}
        for i in range(3)
    ]
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-11-15T10:00:00Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 20}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-11-15T10:00:00Z",
            "labels": {f"example.com/label-{i}": f"value-{i}-{number % 50}" for i in range(6)},
            "annotations": {f"example.com/annotation-{i}": f"some longer value {i} of {number % 50}" for i in range(4)},
            "ownerReferences": [
                {
                    "apiVersion": "grove.io/v1alpha1",
                    "kind": "PodClique",
                    "name": f"clique-{number // 8}",
                    "uid": f"10000000-0000-4000-8000-{number // 8:012d}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeName": f"node-{number % 5000:05d}",
            "schedulerName": "kai-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/team/inference:1.2.3",
                    "env": env,
                    "volumeMounts": mounts,
                    "resources": {
                        "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
                        "limits": {"nvidia.com/gpu": "1"},
                    },
                }
            ],
            "tolerations": tolerations,
            "volumes": [{"name": f"volume-{i}", "emptyDir": {}} for i in range(4)],
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "podIP": "10.0.0.1",
            "startTime": "2026-11-15T10:00:00Z",
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-11-15T10:00:00Z"}},
                }
            ],
        },
    }


def event(kind: str, number: int, version: int) -> bytes:
    return _bytes({"type": kind, "object": pod(number, version)}) + b"\n"


class _Script:
    """A server that has pods in pages of 500, and a watch whose chunks come in parts, each when told to go on."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, pages: list[bytes], parts: list[list[bytes]]) -> None:
        self._pages = pages
        self._parts = parts
        self._gate = asyncio.Semaphore(0)

    def go_on(self) -> None:
        self._gate.release()

    async def request(self, method: str, path: str, *, query: Mapping[str, str] | None = None, **_: Any) -> Response:
        page = int((query or {}).get("continue", "0"))
        return Response(200, {}, self._pages[page])

    @asynccontextmanager
    async def stream(self, path: str, **_: Any) -> AsyncIterator[Stream]:
        yield self

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            await self._gate.acquire()
            for chunk in part:
                yield chunk
        await asyncio.Event().wait()

    async def read(self) -> bytes:
        return b""

    async def close(self) -> None:
        pass


class _PauseMeter:
    """The longest time in which the loop did not get round to a task that is always ready.

    By the wall clock, which also counts what other processes take, and by our own processor time, which does not.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.longest_cpu_s = 0.0

    async def run(self) -> None:
        last, last_cpu = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0)
            now, now_cpu = time.perf_counter(), time.thread_time()
            self.longest_s = max(self.longest_s, now - last)
            self.longest_cpu_s = max(self.longest_cpu_s, now_cpu - last_cpu)
            last, last_cpu = now, now_cpu


def watch_rate(events: int = 40_000, rounds: int = 5) -> dict[str, float]:
    """Events per second from chunks of a watch into an indexed cache: pods that come, then changes of those pods.

    The best of some rounds, each with a new cache: what other processes take is not the client's.
    """
    added = b"".join(event("ADDED", i, 2 + i) for i in range(events))
    changed = b"".join(event("MODIFIED", i, 2 + events + i) for i in range(events))
    watches = _cut(added), _cut(changed)
    took = [asyncio.run(_fold_watches(events, *watches)) for _ in range(rounds)]
    added_s, added_cpu_s, changed_s, changed_cpu_s = (min(figures) for figures in zip(*took, strict=True))
    return {
        "events": events,
        "rounds": rounds,
        "bytes_per_event": round(len(added) / events),
        "added_per_s": round(events / added_s),
        "added_per_cpu_s": round(events / added_cpu_s),
        "changed_per_s": round(events / changed_s),
        "changed_per_cpu_s": round(events / changed_cpu_s),
    }


async def _fold_watches(events: int, *watches: list[bytes]) -> list[float]:
    cache = _pod_cache()
    took: list[float] = []
    script = _Script(_pages(0), list(watches))
    async with _running(script, cache):
        await cache.wait_synced()
        for number in range(1, len(watches) + 1):
            script.go_on()
            began, began_cpu = time.perf_counter(), time.process_time()
            await cache.wait_for(str(1 + number * events))
            took += [time.perf_counter() - began, time.process_time() - began_cpu]
    return took


def _cut(lines: bytes) -> list[bytes]:
    return [lines[start : start + _CHUNK] for start in range(0, len(lines), _CHUNK)]


def caching_pause(pods: int = 100_000) -> dict[str, float]:
    """The longest pause of the loop while a first list of so many pods is cached, and how long all of it takes."""
    script = _Script(_pages(pods), [])
    meter = _PauseMeter()

    async def measure() -> float:
        cache = _pod_cache()
        metering = asyncio.create_task(meter.run())
        began = time.perf_counter()
        async with _running(script, cache):
            await cache.wait_synced()
            await asyncio.sleep(0.1)
        metering.cancel()
        return time.perf_counter() - began - 0.1

    took_s = asyncio.run(measure())
    return {
        "pods": pods,
        "longest_pause_ms": round(meter.longest_s * 1000, 1),
        "longest_pause_cpu_ms": round(meter.longest_cpu_s * 1000, 1),
        "list_s": round(took_s, 2),
    }


def _pod_cache() -> Cache[Pod]:
    return Cache(PODS, indexes={"node": lambda each: (each.spec.node_name,)}, identity=of_struct)


@asynccontextmanager
async def _running(script: _Script, cache: Cache[Pod]) -> AsyncIterator[None]:
    pause_in_this_process()
    dice = random.Random(1)
    client = ApiClient(script, dice)
    watcher = Watcher(client, Selection(PODS), codec_for(Pod), cache, dice)
    task = asyncio.create_task(watcher.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _pages(pods: int, size: int = 500) -> list[bytes]:
    pages = []
    for start in range(0, max(pods, 1), size):
        more = start + size < pods
        meta = {"resourceVersion": str(max(pods, 1)), "continue": str(start // size + 1) if more else ""}
        items = [pod(i, i + 1) for i in range(start, min(start + size, pods))]
        pages.append(_bytes({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items}))
    return pages


def _bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def run(progress: Callable[[str], None]) -> list[tuple[str, dict[str, float], str]]:
    """Every figure with the goal that stands beside it."""
    progress("watch rate ...")
    rate = watch_rate()
    progress("caching 100,000 pods ...")
    pause = caching_pause()
    return [
        ("watch rate", rate, ">= 80,000 events/s decoded into the cache"),
        ("caching pause", pause, "100,000 pods with no pause over 50 ms"),
    ]


if __name__ == "__main__":
    for title, figures, goal in run(print):
        print(f"{title}: {figures}   (goal: {goal})")
