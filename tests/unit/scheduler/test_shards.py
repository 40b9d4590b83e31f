"""SchedulingShards and Configs: what they ask for holds at once, and what of it does not is said on them."""

from __future__ import annotations

import asyncio
from typing import Any

from spinney.core.scheduling.settings import Settings
from spinney.sim.world import World
from unit.scheduler.preemption_world import CLASSES, ONE_RACK, events
from unit.scheduler.scheduler_world import bound, in_world, podgroup, pods
from unit.scheduler.test_queue_shares import queue
from unit.scheduler.test_reclaim import FOUR_HOSTS, gangs, of_gangs

Json = dict[str, Any]


def shard(name: str = "default", **spec: Any) -> Json:
    return {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": name}, "spec": spec}


async def conditions(world: World, kind: str, name: str) -> dict[str, tuple[str, str]]:
    found = await world.get(kind, name, "")
    assert found is not None
    said = (found.get("status") or {}).get("conditions") or []
    return {each["type"]: (each["status"], each["message"]) for each in said}


def test_k16_a_shard_switches_reclaim_off_and_on() -> None:
    async def scenario(world: World) -> None:
        await world.apply([shard(actions={"reclaim": {"enabled": False}}), queue("a", 16), queue("b", 16)])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
        await world.settle()
        await world.apply(gangs(["b1"], "b"))
        await world.settle()
        assert set(await of_gangs(world)) == {"a1", "a2", "a3", "a4"}
        await world.apply(shard())
        await world.settle()
        assert "b1" in await of_gangs(world)

    in_world(scenario, nodes=FOUR_HOSTS)


def test_k16_a_shard_switches_preemption_off_and_on() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, shard(actions={"preempt": {"enabled": False}})])
        await world.apply([podgroup("low", 2, priorityClassName="low"), *pods("low", 2)])
        await world.settle()
        await world.apply([podgroup("high", 2, priorityClassName="high"), *pods("high", 2)])
        await world.settle()
        assert len(await bound(world, "low")) == 2
        await world.apply(shard())
        await world.settle()
        assert len(await bound(world, "high")) == 2

    in_world(scenario, nodes=ONE_RACK)


def test_k16_a_shard_gives_queues_a_minimum_runtime() -> None:
    async def scenario(world: World) -> None:
        await world.apply([shard(minRuntime={"reclaimMinRuntime": "10m"}), queue("a", 16), queue("b", 16)])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
        await world.settle()
        await world.apply(gangs(["b1"], "b"))
        await asyncio.sleep(300)
        assert set(await of_gangs(world)) == {"a1", "a2", "a3", "a4"}
        await asyncio.sleep(600)
        assert "b1" in await of_gangs(world)

    in_world(scenario, nodes=FOUR_HOSTS)


def test_k16_a_shard_chooses_the_strategy_for_gangs_that_come() -> None:
    async def scenario(world: World) -> None:
        await world.apply(shard(placementStrategy={"gpu": "spread"}))
        await world.apply([podgroup("a"), *pods("a", 1, gpus=2)])
        await world.settle()
        await world.apply([podgroup("b"), *pods("b", 1, gpus=2)])
        await world.settle()
        first, second = await bound(world, "a"), await bound(world, "b")
        assert first["a-0"] != second["b-0"]
        await world.delete("SchedulingShard", "default", "")
        await world.settle()
        await world.apply([podgroup("c"), *pods("c", 1, gpus=6)])
        await world.settle()
        assert (await bound(world, "c"))["c-0"] in {first["a-0"], second["b-0"]}

    in_world(scenario, nodes=ONE_RACK)


def test_k16_what_of_a_shard_has_no_effect_is_in_its_conditions_and_an_event() -> None:
    async def scenario(world: World) -> None:
        await world.apply([shard(queueDepthPerAction={"reclaim": 8}), shard("second")])
        await world.apply(shard("h100", partitionLabelValue="h100"))
        await world.settle()
        text = "spec.queueDepthPerAction: has no effect: all gangs that wait are looked at"
        assert await conditions(world, "SchedulingShard", "default") == {
            "Ready": ("True", "the scheduler of node pool '' goes by it"),
            "Honoured": ("False", text),
        }
        told = [each for each in await events(world, "NotHonoured") if each["involvedObject"]["name"] == "default"]
        assert [each["message"] for each in told] == [text]
        duplicate = "spec.partitionLabelValue: found '', which default has already"
        assert (await conditions(world, "SchedulingShard", "second"))["Ready"] == ("False", duplicate)
        assert await conditions(world, "SchedulingShard", "h100") == {}, "it is for the scheduler of that pool"
        await world.apply(shard())
        await world.settle()
        assert (await conditions(world, "SchedulingShard", "default"))["Honoured"] == ("True", "")

    in_world(scenario)


def test_k16_the_scheduler_of_a_node_pool_goes_by_the_shard_of_that_pool() -> None:
    async def scenario(world: World) -> None:
        await world.apply([shard(), shard("h100", partitionLabelValue="h100")])
        await world.settle()
        ready = {name: "Ready" in await conditions(world, "SchedulingShard", name) for name in ("default", "h100")}
        assert ready == {"default": False, "h100": True}

    in_world(scenario, settings=Settings(node_pool="h100"))


def test_k16_what_of_a_config_has_no_effect_is_in_its_conditions() -> None:
    async def scenario(world: World) -> None:
        spec = {"global": {"schedulerName": "kai-scheduler"}, "binder": {"replicas": 2}}
        config = {"apiVersion": "kai.scheduler/v1", "kind": "Config"}
        await world.apply([{**config, "metadata": {"name": name}, "spec": spec} for name in ("kai-config", "other")])
        await world.settle()
        text = "spec.binder: has no effect: there is no such service here"
        assert (await conditions(world, "Config", "kai-config"))["Honoured"] == ("False", text)
        ready = (await conditions(world, "Config", "other"))["Ready"]
        assert ready == ("False", "metadata.name: found other, expected kai-config")

    in_world(scenario)
