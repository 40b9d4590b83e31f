"""The embedded API server: creates and binds over HTTP and in process, lists, watch fan-out, memory.

The server runs in a process of its own; one process loads it through our own client, so that both cores of a small
machine are used.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import uvloop

from kube_embedded.base.http import HttpRequest
from kube_embedded.base.identity import ADMIN
from kube_embedded.server.embedded import ServerOptions, build
from spinney.drive.client.config.credentials import Connection, Fixed, Grant
from spinney.drive.client.http.http_transport import HttpTransport
from spinney.drive.client.http.transport import Transport

CONNECTIONS = 48
PODS = "/api/v1/namespaces/default/pods"
_SERVE = """
import asyncio, uvloop
from kube_embedded.server.embedded import ServerOptions, build
from kube_embedded.server.embedded import Listen, listening
async def main():
    async with listening(build(ServerOptions()), Listen()) as url:
        print(url, flush=True)
        await asyncio.Event().wait()
uvloop.run(main())
"""


def pod(name: str) -> dict[str, Any]:
    """A pod of one container with eight variables, as users write them."""
    env = [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(8)]
    resources = {"requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "example.com/model:1", "env": env, "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "bench", "gang": name[:-2]}},
        "spec": {"containers": [container], "schedulerName": "kai-scheduler"},
    }


def binding(name: str, node: str) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


async def _spread(count: int, one: Callable[[int], Awaitable[None]], lanes: int = CONNECTIONS) -> float:
    """Run `one` for 0..count-1 in so many lanes; seconds it took."""
    numbers = iter(range(count))

    async def lane() -> None:
        for number in numbers:
            await one(number)

    started = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(lanes)))
    return time.perf_counter() - started


async def _post(transport: Transport, path: str, body: bytes) -> None:
    response = await transport.request("POST", path, headers={"content-type": "application/json"}, body=body)
    if response.status >= 300:
        raise RuntimeError(f"{response.status}: {response.body[:300]!r}")


def _served() -> tuple[subprocess.Popen[str], str]:
    """A server in a process of its own, and its address."""
    server = subprocess.Popen([sys.executable, "-c", _SERVE], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return server, server.stdout.readline().strip()


async def over_http(count: int) -> dict[str, Any]:
    """Creates, binds, a list and the memory of the server, from one client process."""
    server, base = _served()
    transport = HttpTransport(Connection(base, Fixed(Grant())), connections=CONNECTIONS)
    bodies = [json.dumps(pod(f"p-{i:06d}")).encode() for i in range(count)]
    binds = [json.dumps(binding(f"p-{i:06d}", f"node-{i % 200}")).encode() for i in range(count)]
    try:
        create_s = await _spread(count, lambda i: _post(transport, PODS, bodies[i]))
        bind_s = await _spread(count, lambda i: _post(transport, f"{PODS}/p-{i:06d}/binding", binds[i]))
        started = time.perf_counter()
        size = len((await transport.request("GET", PODS)).body)
        list_s = time.perf_counter() - started
        return {
            "pods": count,
            "creates_per_s": round(count / create_s),
            "binds_per_s": round(count / bind_s),
            "list_s": round(list_s, 3),
            "list_mb": round(size / 1e6, 1),
            "server_rss_mb": _rss_mb(server.pid),
        }
    finally:
        await transport.close()
        server.terminate()
        server.wait()


async def fan_out(watchers: int, changes: int, per_second: int) -> dict[str, Any]:
    """Every change to every watcher: how many arrived, and how late the last one was."""
    server, base = _served()
    transport = HttpTransport(Connection(base, Fixed(Grant())))
    counts = [0] * watchers
    try:

        async def follow(index: int) -> None:
            async with transport.stream(PODS, query={"watch": "true"}) as stream:
                async for chunk in stream:
                    counts[index] += chunk.count(b'"type":"ADDED"')
                    if counts[index] >= changes:
                        return

        followers = [asyncio.create_task(follow(i)) for i in range(watchers)]
        await asyncio.sleep(0.3)
        started = time.perf_counter()

        async def paced(i: int) -> None:
            due = started + i / per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await _post(transport, PODS, json.dumps(pod(f"w-{i:06d}")).encode())

        write_s = await _spread(changes, paced, lanes=16)
        await asyncio.wait_for(asyncio.gather(*followers), timeout=60)
        total_s = time.perf_counter() - started
        return {
            "watchers": watchers,
            "changes_per_s": round(changes / write_s),
            "delivered_per_s": round(sum(counts) / total_s),
            "lag_s": round(total_s - write_s, 3),
        }
    finally:
        await transport.close()
        server.terminate()
        server.wait()


async def in_process(count: int) -> dict[str, Any]:
    """Binds by the in-process transport: no socket, the same rules."""
    server = build(ServerOptions())
    await server.start()
    for i in range(count):
        request = HttpRequest("POST", PODS, body=json.dumps(pod(f"p-{i:06d}")).encode(), identity=ADMIN)
        reply = await server.handle(request)
        assert reply.status == 201, reply.body
    requests = [
        HttpRequest(
            "POST",
            f"{PODS}/p-{i:06d}/binding",
            body=json.dumps(binding(f"p-{i:06d}", f"node-{i % 200}")).encode(),
            identity=ADMIN,
        )
        for i in range(count)
    ]
    started = time.perf_counter()
    for request in requests:
        reply = await server.handle(request)
        if reply.status != 201:
            raise RuntimeError(repr(reply.body))
    bind_s = time.perf_counter() - started
    await server.stop()
    return {"pods": count, "binds_per_s": round(count / bind_s)}


def _rss_mb(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


def run(progress: Callable[[str], None]) -> list[tuple[str, dict[str, Any], str]]:
    """Every figure with the goal that stands beside it."""
    figures = []
    steps: Sequence[tuple[str, Callable[[], Awaitable[dict[str, Any]]], str]] = (
        ("HTTP, 20,000 pods", lambda: over_http(20_000), "creates and binds >= 5,000/s; list of 20,000 <= 0.5 s"),
        ("in process", lambda: in_process(20_000), "binds >= 40,000/s"),
        ("watch fan-out", lambda: fan_out(20, 5_000, 1_000), "20 watchers of 1,000 changes/s"),
        ("HTTP, 100,000 pods", lambda: over_http(100_000), "memory <= 1,000 MB"),
    )
    for name, measure, goal in steps:
        progress(f"{name} ...")
        figures.append((name, uvloop.run(_bounded(measure)), goal))
    return figures


async def _bounded(measure: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    async with asyncio.timeout(600):
        return await measure()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    for title, figure, wanted in run(lambda text: print(text, file=sys.stderr)):
        print(f"{title}: {figure}   (goal: {wanted})")
