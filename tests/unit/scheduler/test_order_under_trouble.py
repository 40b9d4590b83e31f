"""Who comes first stays first: while a plan is tried again, and while the last pods of a gang are on their way."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from spinney.drive.client.http.transport import Response
from spinney.sim.event_loop import Sim
from spinney.sim.world import World
from unit.operator.topologies import BLOCK, RACK, ZONE
from unit.scheduler.scheduler_world import GPU, bound, domains, in_world, podgroup, pods
from unit.scheduler.watched_world import patch

ONE_RACK = f"""
levels:
- {{name: zone, label: {ZONE}, count: 1}}
- {{name: block, label: {BLOCK}, count: 1}}
- {{name: rack, label: {RACK}, count: 1}}
- {{name: host, short: n, count: 2}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
"""
UNEQUAL_RACKS = ONE_RACK.replace(f"{RACK}, count: 1", f"{RACK}, count: 2").replace(
    "count: 2}\ncap", "count: [3, 2]}\ncap"
)
HOST = "z0-b0-r0-n0"


class FirstPlanFails:
    """A server on which the first plan for gang `a` meets a conflict."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.stream = inner.stream
        self.close = inner.close
        self.failed = False

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        plans = method == "PATCH" and path.endswith("/podgroups/a") and b"spinney.dev/plan" in (rest.get("body") or b"")
        if plans and not self.failed:
            self.failed = True
            body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409}
            return Response(409, {"content-type": "application/json"}, msgspec.json.encode(body))
        return await self._inner.request(method, path, **rest)


def test_live4_nobody_overtakes_a_gang_whose_plan_is_tried_again() -> None:
    transports: list[FirstPlanFails] = []

    def wrapping(_: Sim) -> Any:
        def wrap(inner: Any) -> FirstPlanFails:
            transports.append(FirstPlanFails(inner))
            return transports[-1]

        return wrap

    async def scenario(world: World) -> None:
        await patch(world, "Node", HOST, {"spec": {"unschedulable": True}})
        for name in ("a", "b"):
            await world.apply([podgroup(name, 2, required=RACK), *pods(name, 2)])
            await world.settle()
        await patch(world, "Node", HOST, {"spec": {"unschedulable": None}})
        await world.settle()
        assert any(each.failed for each in transports)
        assert set(await bound(world)) == {"a-0", "a-1"}

    in_world(scenario, nodes=ONE_RACK, wrap=wrapping)


GATES = [{"name": "wait"}]


async def _with_gates(world: World) -> None:
    """Two pods of four may go, which is the minimum."""
    free, gated = pods("a", 2), pods("a", 4, schedulingGates=GATES)[2:]
    await world.apply([podgroup("a", 2, required=RACK), *gated, *free])


def test_k14_a_gang_whose_last_gates_are_about_to_go_begins_with_all_its_pods() -> None:
    async def scenario(world: World) -> None:
        await _with_gates(world)
        await asyncio.sleep(0.5)
        for name in ("a-2", "a-3"):
            await patch(world, "Pod", name, {"spec": {"schedulingGates": None}})
        await world.settle()
        nodes = await bound(world)
        assert await domains(world, nodes.values()) == {("z0", "z0-b0", "z0-b0-r0"): 3}

    in_world(scenario, nodes=UNEQUAL_RACKS)


def test_k14_gates_that_stay_do_not_keep_the_minimum_waiting() -> None:
    async def scenario(world: World) -> None:
        await _with_gates(world)
        await world.settle()
        nodes = await bound(world)
        assert set(nodes) == {"a-0", "a-1"}
        assert len(await domains(world, nodes.values())) == 1

    in_world(scenario, nodes=UNEQUAL_RACKS)
