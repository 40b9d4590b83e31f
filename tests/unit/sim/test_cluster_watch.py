"""What the watchdog of a cluster makes of watches: order, gaps, and objects that nobody can judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from kube_apimachinery.clock import Clock
from spinney.api.labels import POD_GROUP_NAME, SCHEDULER_KAI
from spinney.drive.client.api import Listing, Selection
from spinney.sim.event_loop import Sim, run
from spinney.sim.invariants.cluster_watch import HOLD_S, RESOURCES, ClusterWatch, Violation
from spinney.sim.invariants.watchdog import NODES, PODGROUPS, PODS, Watchdog

Json = dict[str, Any]
BY_PATH = {resource.collection(): name for name, resource in RESOURCES.items()}


class ScriptedServer:
    """Lists what is stored, at version 10, and sends the events that a test puts."""

    def __init__(self, *stored: tuple[str, Json]) -> None:
        self.stored = list(stored)
        self.lists = 0
        self._events: dict[str, asyncio.Queue[bytes]] = {name: asyncio.Queue() for name in RESOURCES}

    def put(self, collection: str, version: int, kind: str, obj: Json) -> None:
        metadata = {**obj.get("metadata", {}), "resourceVersion": str(version)}
        self._events[collection].put_nowait(
            msgspec.json.encode({"type": kind, "object": {**obj, "metadata": metadata}})
        )

    async def read(self, path: str, query: object = None) -> bytes:
        return b"{}"

    async def list(self, selection: Selection) -> Listing[Json]:
        self.lists += 1
        name = BY_PATH[selection.path]
        return Listing(tuple(obj for collection, obj in self.stored if collection == name), "10")

    @asynccontextmanager
    async def watch(self, selection: Selection, version: str, timeout_s: int) -> AsyncIterator[AsyncIterator[bytes]]:
        async def events() -> AsyncIterator[bytes]:
            while True:
                yield await self._events[BY_PATH[selection.path]].get() + b"\n"

        yield events()


def watched(scenario: Callable[[ScriptedServer, ClusterWatch, list[Violation]], Awaitable[None]]) -> None:
    async def main(sim: Sim) -> None:
        server, found = ScriptedServer((NODES, NODE)), list[Violation]()

        async def report(violation: Violation) -> None:
            found.append(violation)

        watch = _watch(server, sim.clock, report)
        task = asyncio.create_task(watch.run())
        await asyncio.sleep(0.1)
        await scenario(server, watch, found)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main, seed=0, limit_s=2_000)


def _watch(server: Any, clock: Clock, report: Callable[[Violation], Awaitable[None]]) -> ClusterWatch:
    return ClusterWatch(server, clock, report, frozenset({SCHEDULER_KAI}))


NODE: Json = {
    "metadata": {"name": "n0"},
    "spec": {},
    "status": {"allocatable": {"cpu": "8", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]},
}
LATER_S = HOLD_S + 1


def pod(name: str, uid: str = "u0", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "annotations": {POD_GROUP_NAME: "g"}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"schedulerName": SCHEDULER_KAI, "containers": [], **spec}}


def test_b10_a_bind_without_a_record_is_found_once() -> None:
    async def scenario(server: ScriptedServer, watch: ClusterWatch, found: list[Violation]) -> None:
        server.put(PODS, 11, "ADDED", pod("a"))
        server.put(PODS, 12, "MODIFIED", pod("a", nodeName="n0"))
        server.put(PODS, 13, "MODIFIED", pod("a", nodeName="n0"))
        await asyncio.sleep(LATER_S)
        assert [(each.invariant, each.key, each.uid) for each in found] == [("INV4", ("ns", "a"), "u0")]
        assert watch.totals == {"INV4": 1}

    watched(scenario)


def test_b10_events_of_several_watches_are_judged_in_the_order_of_their_versions() -> None:
    """The pod moves before its node is deleted, though the watch of nodes is faster."""

    async def scenario(server: ScriptedServer, watch: ClusterWatch, found: list[Violation]) -> None:
        server.put(NODES, 13, "DELETED", NODE)
        await asyncio.sleep(HOLD_S / 2)
        server.put(PODS, 11, "ADDED", pod("a"))
        server.put(PODS, 12, "MODIFIED", pod("a", nodeName="n0"))
        await asyncio.sleep(LATER_S)
        assert [each.invariant for each in found] == ["INV4"], "not INV1: the node was there"
        assert watch.gaps == 0

    watched(scenario)


def test_b10_an_event_that_comes_after_later_ones_begins_anew_without_a_verdict() -> None:
    async def scenario(server: ScriptedServer, watch: ClusterWatch, found: list[Violation]) -> None:
        server.put(PODS, 15, "ADDED", pod("a"))
        await asyncio.sleep(LATER_S)
        server.put(PODGROUPS, 14, "ADDED", {"metadata": {"name": "g", "namespace": "ns", "uid": "g"}, "spec": {}})
        before = server.lists
        await asyncio.sleep(LATER_S)
        assert (watch.gaps, found) == (1, [])
        await asyncio.sleep(LATER_S)
        assert (server.lists - before, watch.trouble) == (len(RESOURCES), "")

    watched(scenario)


def test_b10_an_expired_watch_begins_anew() -> None:
    async def scenario(server: ScriptedServer, watch: ClusterWatch, found: list[Violation]) -> None:
        status = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
        server.put(PODS, 11, "ERROR", status)
        server.stored.append((PODS, pod("a", nodeName="n0")))
        await asyncio.sleep(2 * LATER_S)
        assert (watch.gaps, watch.trouble, found) == (1, "", []), "what is stored by then is accepted"

    watched(scenario)


def test_b10_an_object_of_another_shape_stops_nobody() -> None:
    async def scenario(server: ScriptedServer, watch: ClusterWatch, found: list[Violation]) -> None:
        odd = {"metadata": {"name": "g", "namespace": "ns", "uid": "g"}, "spec": {"subGroups": 7}}
        server.put(PODGROUPS, 11, "ADDED", odd)
        server.put(PODS, 12, "ADDED", pod("a"))
        server.put(PODS, 13, "MODIFIED", pod("a", nodeName="n0"))
        await asyncio.sleep(LATER_S)
        assert [each.invariant for each in found] == ["INV4"]
        assert watch.figures()["watchdog_unreadable_total"] == 1

    watched(scenario)


def test_b10_memory_stays_bounded() -> None:
    """Pods that came and went long ago are forgotten, and those that are there are not."""
    now = [0.0]
    watchdog = Watchdog(lambda: now[0])
    watchdog.see(NODES, ("", "n0"), NODE)
    for number in range(50):
        now[0] += 100.0
        name = f"p{number}"
        watchdog.see(PODS, ("ns", name), pod(name, uid=name))
        watchdog.see(PODS, ("ns", name), None)
        watchdog.see(NODES, ("", "n0"), {**NODE, "metadata": {"name": "n0", "labels": {"at": name}}})
    watchdog.see(PODS, ("ns", "stays"), pod("stays", uid="stays"))
    watchdog.forget()
    assert set(watchdog.ground.pods) == {("ns", "stays")}
    sizes = [len(value) for value in vars(watchdog).values() if isinstance(value, dict | set)]
    assert max(sizes) < 10
    assert len(watchdog.ground.nodes["n0"].versions) < 5
