"""Shares that remember past use: who held more than its part lately gives way to who held less."""

from __future__ import annotations

import asyncio
from typing import Any

from spinney.sim.world import World
from unit.scheduler.scheduler_world import in_world
from unit.scheduler.test_queue_shares import queue
from unit.scheduler.test_reclaim import FOUR_HOSTS, gangs, of_gangs
from unit.scheduler.test_shards import shard

Json = dict[str, Any]
NO_RECLAIM: Json = {"actions": {"reclaim": {"enabled": False}}}
REMEMBERS = shard(
    usageDBConfig={"clientType": "prometheus", "usageParams": {"halfLifePeriod": "1h"}},
    **NO_RECLAIM,
)


async def greedy(world: World, *more: Json) -> None:
    """Queue a holds everything for hours, and then both ask for everything."""
    await world.apply([*more, queue("a", 0), queue("b", 0)])
    await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
    await asyncio.sleep(6 * 3600)


async def next_ones(world: World) -> dict[str, int]:
    """Who gets the room of the gangs that end."""
    await world.apply(gangs(["a5", "a6", "a7", "a8"], "a"))
    await world.apply(gangs(["b1", "b2", "b3", "b4"], "b"))
    await world.settle()
    for name in ("a1", "a2", "a3", "a4"):
        if await world.get("Pod", f"{name}-0") is not None:
            await world.delete("Pod", f"{name}-0")
    await world.settle()
    found = await of_gangs(world)
    return {each: sum(name.startswith(each) for name in found) for each in ("a", "b")}


def test_q1_without_a_memory_two_queues_of_one_weight_get_the_same() -> None:
    async def scenario(world: World) -> None:
        await greedy(world, shard(**NO_RECLAIM))
        assert await next_ones(world) == {"a": 2, "b": 2}

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q1_a_queue_that_held_everything_gives_way_to_one_that_held_nothing() -> None:
    async def scenario(world: World) -> None:
        await greedy(world, REMEMBERS)
        assert await next_ones(world) == {"a": 0, "b": 4}

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q1_what_was_held_is_forgotten_by_and_by() -> None:
    async def scenario(world: World) -> None:
        await greedy(world, REMEMBERS)
        for name in ("a1", "a2", "a3", "a4"):
            await world.delete("Pod", f"{name}-0")
        await asyncio.sleep(24 * 3600)
        assert await next_ones(world) == {"a": 2, "b": 2}

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q1_what_was_held_is_recorded_and_survives_the_scheduler() -> None:
    async def scenario(world: World) -> None:
        await greedy(world, REMEMBERS)
        found = await world.get("Queue", "a", "")
        assert found is not None and found["status"]["pastUse"]["nvidia.com/gpu"] in ("984m", "985m")
        await world.restart()
        await world.stack.roles.scheduling.wait()
        assert await next_ones(world) == {"a": 0, "b": 4}

    in_world(scenario, nodes=FOUR_HOSTS)
