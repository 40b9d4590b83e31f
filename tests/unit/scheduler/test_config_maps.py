"""A pod that names a ConfigMap that does not exist is not bound until it does."""

from __future__ import annotations

import asyncio
from typing import Any

from spinney.sim.world import World
from unit.scheduler.scheduler_world import bound, in_world, pod, podgroup, said
from unit.scheduler.watched_world import watched

Json = dict[str, Any]
CONFIG: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"a": "b"}}
MISSING = 'configmap "config" not found, which containers[main].envFrom names'


def gang(**source: Any) -> list[Json]:
    pods = [pod(f"a-{number}", "a") for number in range(2)]
    pods[1]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "config", **source}}]
    return [podgroup("a", 2), *pods]


def test_k8_a_gang_waits_for_a_config_map_says_so_and_goes_when_it_is_made() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang())
        await world.settle()
        assert await bound(world) == {}
        assert MISSING in await said(world, "a")
        waiting = await world.get("Pod", "a-1")
        assert waiting is not None and MISSING in waiting["status"]["conditions"][0]["message"]
        await world.apply({**CONFIG, "metadata": {"name": "other"}})
        await world.settle()
        assert await bound(world) == {}
        await world.apply(CONFIG)
        await world.settle()
        assert sorted(await bound(world)) == ["a-0", "a-1"]

    watched(scenario)


def test_k8_an_optional_config_map_keeps_nobody_waiting() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang(optional=True))
        await world.settle()
        assert sorted(await bound(world)) == ["a-0", "a-1"]

    in_world(scenario)


def test_k8_the_loss_of_a_config_map_is_told_while_the_gang_waits_for_room() -> None:
    async def scenario(world: World) -> None:
        huge = gang()
        for each in huge[1:]:
            each["spec"]["nodeSelector"] = {"no": "where"}
        await world.apply([CONFIG, *huge])
        await asyncio.sleep(5)
        assert MISSING not in await said(world, "a")
        await world.delete("ConfigMap", "config")
        await world.settle()
        assert MISSING in await said(world, "a")

    in_world(scenario)
