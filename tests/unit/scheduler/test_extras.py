"""Pods beyond minimums: handed out one by one (Q10), before less important gangs, and at the cost of these (Q2, Q4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from spinney.core.scheduling.settings import Settings
from spinney.sim.world import World
from unit.operator.topologies import RACK
from unit.scheduler.preemption_world import CLASSES, ONE_RACK, TWO_RACKS, gang, guarded, recorded
from unit.scheduler.scheduler_world import bound, in_world, podgroup, pods
from unit.scheduler.test_consolidation import CONTROLLERS, open_only, scattered
from unit.scheduler.test_queue_shares import later, queue
from unit.scheduler.test_reclaim import of_gangs

Json = dict[str, Any]
HOSTS = {count: ONE_RACK.replace("host, count: 2", f"host, count: {count}") for count in (3, 4, 5)}


async def at_once(world: World, *objects: Json) -> None:
    """All of them compete: no node takes pods before all are there."""
    names = {each["metadata"]["name"] for each in await world.list("Node")}
    await open_only(world, set())
    await world.apply(list(objects))
    await world.settle()
    await open_only(world, names)
    await world.settle()


def elastic(name: str, count: int, minimum: int = 1, **spec: Any) -> list[Json]:
    return [podgroup(name, minimum, **spec), *pods(name, count)]


def test_q10_two_elastic_gangs_of_one_queue_share_five_hosts_three_to_two() -> None:
    async def scenario(world: World) -> None:
        await at_once(world, *elastic("a", 4), *elastic("b", 4))
        assert await of_gangs(world) == Counter(a=3, b=2)

    in_world(scenario, nodes=HOSTS[5])


def test_q10_what_becomes_free_goes_to_the_gang_with_fewer_pods_beyond_its_minimum() -> None:
    async def scenario(world: World) -> None:
        names = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        await open_only(world, set(names[:3]))
        await world.apply(elastic("a", 4))
        await world.settle()
        assert await of_gangs(world) == Counter(a=3)
        await world.apply(elastic("b", 4))
        await later(world)
        await open_only(world, set(names))
        await world.settle()
        assert await of_gangs(world) == Counter(a=3, b=2)

    in_world(scenario, nodes=HOSTS[5])


def test_q10_q2_elastic_gangs_of_two_queues_share_by_the_order_of_queues() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 8), queue("b", 24)])
        await at_once(world, *elastic("a1", 4, queue="a"), *elastic("b1", 4, queue="b"))
        assert await of_gangs(world) == Counter(a1=1, b1=3)

    in_world(scenario, nodes=HOSTS[4])


def test_q2_extras_come_before_minimums_of_lower_priority_in_their_queue() -> None:
    async def scenario(world: World) -> None:
        await world.apply(CLASSES)
        high = elastic("high", 3, priorityClassName="high")
        await at_once(world, *elastic("low", 1, priorityClassName="low"), *high)
        assert await of_gangs(world) == Counter(high=3)

    in_world(scenario, nodes=HOSTS[3])


def test_q2_extras_come_after_minimums_of_the_same_priority() -> None:
    async def scenario(world: World) -> None:
        await at_once(world, *elastic("a", 3), *elastic("b", 1), *elastic("c", 1))
        assert await of_gangs(world) == Counter(a=1, b=1, c=1)

    in_world(scenario, nodes=HOSTS[3])


def test_q4_extras_preempt_less_important_gangs_of_their_queue_one_after_the_other() -> None:
    async def scenario(world: World) -> None:
        await world.apply(CLASSES)
        for name in ("l1", "l2", "l3"):
            await world.apply(elastic(name, 1, priorityClassName="low"))
            await later(world)
        dog = guarded(world, late_s=0.5)
        await world.apply(elastic("high", 2, priorityClassName="high"))
        await world.settle()
        assert await of_gangs(world) == Counter(l1=1, high=2), "the youngest go"
        assert await recorded(world, "high") is None
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=HOSTS[3])


def test_q4_extras_take_extras_before_minimums() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, *elastic("low", 3, priorityClassName="low")])
        await world.settle()
        dog = guarded(world, late_s=0.5)
        await world.apply(elastic("high", 2, priorityClassName="high"))
        await world.settle()
        assert await of_gangs(world) == Counter(low=1, high=2)
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=HOSTS[3])


def test_q4_extras_take_nothing_from_their_equals() -> None:
    async def scenario(world: World) -> None:
        await world.apply(elastic("a", 3))
        await world.settle()
        await world.apply(elastic("b", 3))
        await world.settle()
        assert await of_gangs(world) == Counter(a=3)

    in_world(scenario, nodes=HOSTS[3])


def test_q5_extras_take_back_what_is_within_their_quota() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        await world.apply([*elastic("a1", 1, queue="a"), *elastic("a2", 1, queue="a"), *elastic("a3", 1, queue="a")])
        await world.settle()
        dog = guarded(world, late_s=0.5)
        await world.apply(elastic("b1", 4, queue="b"))
        await world.settle()
        assert (await of_gangs(world))["b1"] == 2
        assert (await of_gangs(world)).total() == 4
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=HOSTS[4])


def test_q6_of_victims_of_equal_price_the_youngest_goes() -> None:
    async def scenario(world: World) -> None:
        await world.apply(CLASSES)
        for name in ("c", "b", "a", "d"):
            await world.apply(elastic(name, 1, priorityClassName="low"))
            await later(world)
        dog = guarded(world, late_s=0.5)
        await world.apply(elastic("high", 1, priorityClassName="high"))
        await world.settle()
        assert set(await of_gangs(world)) == {"a", "b", "c", "high"}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=HOSTS[4])


@pytest.mark.parametrize(("settings", "count"), [(Settings(), 2), (Settings(consolidate=None), 1)], ids=["on", "off"])
def test_k10_pods_are_moved_for_one_beyond_a_minimum(settings: Settings, count: int) -> None:
    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        await scattered(world)
        dog = guarded(world)
        await open_only(world, {nodes[1]})
        await world.apply([gang("big", 1, "mid", required=RACK), *pods("big", 2)])
        await world.settle()
        await open_only(world, {*nodes})
        await asyncio.sleep(90)  # moves are looked for once in a minute
        assert len(await bound(world, "big")) == count
        assert len(await bound(world)) == 2 + count
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=TWO_RACKS, settings=settings, controllers=CONTROLLERS)
