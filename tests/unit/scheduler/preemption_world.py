"""Gangs of several priorities, budgets, and a watchdog that sees every eviction."""

from __future__ import annotations

from typing import Any

import msgspec

from spinney.core.scheduling.plan import Plan, decode
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.drive.client.http.transport import Response
from spinney.drive.client.paths import ResourcePath
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.world import World
from unit.scheduler.scheduler_world import plan_of, podgroup

Json = dict[str, Any]

ONE_RACK = """
levels:
- {name: zone, label: topology.kubernetes.io/zone, count: 1}
- {name: block, label: example.com/block, count: 1}
- {name: rack, label: example.com/rack, count: 1}
- {name: host, count: 2}
capacity: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}
"""
TWO_RACKS = ONE_RACK.replace("example.com/rack, count: 1", "example.com/rack, count: 2")


def priority_class(name: str, value: int, **more: Any) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


CLASSES = [priority_class("low", 10), priority_class("mid", 20), priority_class("high", 30)]


def gang(name: str, minimum: int, priority: str, **spec: Any) -> Json:
    return podgroup(name, minimum, priorityClassName=priority, **spec)


def budget(name: str, labels: dict[str, str], **spec: Any) -> Json:
    body = {"selector": {"matchLabels": labels}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": body}


def guarded(world: World, **told: float | bool) -> Watchdog:
    """Every deletion mark on a pod that the scheduler asked for is judged (INV7)."""
    dog = Watchdog.over(world, **told)

    def look(collection: str, event: Any) -> None:
        if collection != "/pods" or event.new is None:
            return
        pod = msgspec.json.decode(event.new.body)
        reasons = {one.get("reason") for one in (pod.get("status") or {}).get("conditions") or ()}
        if "deletionTimestamp" in pod["metadata"] and "EvictionByEvictionAPI" in reasons:
            dog.evicts(event.new.key)

    world.on_write(look)
    return dog


async def hold(world: World, *names: str, let_go: bool = False) -> None:
    """Pods that stay when they are deleted, until they are let go."""
    for name in names:
        ref = ResourcePath("", "v1", "pods").ref(name, "default")
        written(await world.door.merge_patch(ref, {"metadata": {"finalizers": [] if let_go else ["a.b/c"]}}, ANY))


async def recorded(world: World, name: str) -> Plan | None:
    text = await plan_of(world, name)
    return decode(text) if text else None


async def events(world: World, reason: str) -> list[Json]:
    found = [each for each in await world.list("Event") if each["reason"] == reason]
    return sorted(
        found, key=lambda each: (each["involvedObject"]["kind"], each["involvedObject"]["name"], each["message"])
    )


class RefusesEvictions:
    """The first evictions are refused by a budget that nobody sees."""

    def __init__(self, inner: Any, times: int) -> None:
        self._inner = inner
        self.left = times
        self.stream, self.close = inner.stream, inner.close

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        if path.endswith("/eviction") and self.left > 0:
            self.left -= 1
            status = {"kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests"}
            return Response(429, {}, msgspec.json.encode(status))
        return await self._inner.request(method, path, **rest)
