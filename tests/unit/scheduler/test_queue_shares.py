"""Queues that share a cluster: who gets what is free (Q2), and whom a PriorityClass may take it from (Q4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from spinney.sim.world import World
from unit.scheduler.preemption_world import CLASSES, ONE_RACK, events, gang, guarded, recorded
from unit.scheduler.scheduler_world import bound, in_world, pod, podgroup, pods, said
from unit.scheduler.watched_world import patch

Json = dict[str, Any]
FOUR_HOSTS = ONE_RACK.replace("host, count: 2", "host, count: 4")


def queue(name: str, quota: int, weight: int = 1, limit: int = -1, **more: Any) -> Json:
    """A queue with a quota of so many GPUs."""
    shares: Json = {each: {"quota": -1, "limit": -1} for each in ("cpu", "memory")}
    shares["gpu"] = {"quota": quota, "overQuotaWeight": weight, "limit": limit}
    spec = {"parentQueue": "default-parent-queue", "resources": shares, **more}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def hosts(names: list[str], queue: str, gpus: int = 8) -> list[Json]:
    """Gangs of one pod each."""
    return [each for name in names for each in (podgroup(name, 1, queue=queue), pod(f"{name}-0", name, gpus))]


async def later(world: World) -> None:
    """What is created now has another creation timestamp."""
    await world.settle()
    await asyncio.sleep(2.0)


def test_q2_worked_case_8_room_that_ends_gangs_of_a_borrower_goes_to_the_lender() -> None:
    """Nothing is reclaimed from queue a, whose gangs have not run long enough."""

    async def scenario(world: World) -> None:
        await world.apply(
            [queue("a", 16, reclaimMinRuntime="24h"), queue("b", 16), *hosts(["a1", "a2", "a3", "a4"], "a")]
        )
        await later(world)
        await world.apply(hosts(["a5", "a6"], "a"))
        await later(world)
        await world.apply(hosts(["b1", "b2"], "b"))
        await world.settle()
        assert set(await bound(world)) == {"a1-0", "a2-0", "a3-0", "a4-0"}
        for ended, left in (("a1", {"a2-0", "a3-0", "a4-0", "b1-0"}), ("a2", {"a3-0", "a4-0", "b1-0", "b2-0"})):
            await world.delete("PodGroup", ended)
            await world.delete("Pod", f"{ended}-0")
            await world.settle()
            assert set(await bound(world)) == left
        await world.delete("PodGroup", "a3")
        await world.delete("Pod", "a3-0")
        await world.settle()
        assert set(await bound(world)) == {"a4-0", "a5-0", "b1-0", "b2-0"}, "b has its share: the next one is a's"

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q2_room_that_comes_at_once_is_shared_by_weight_whoever_came_first() -> None:
    """Worked case 3, from an empty cluster."""

    async def scenario(world: World) -> None:
        await world.apply([queue("a", 8), queue("b", 8, weight=3)])
        nodes = [each["metadata"]["name"] for each in await world.list("Node")]
        for node in nodes:
            await patch(world, "Node", node, {"spec": {"unschedulable": True}})
        await world.apply(hosts([f"a{number}" for number in range(8)], "a", 4))
        await later(world)
        await world.apply(hosts([f"b{number}" for number in range(8)], "b", 4))
        await world.settle()
        assert await bound(world) == {}
        for node in nodes:
            await patch(world, "Node", node, {"spec": {"unschedulable": None}})
        await world.settle()
        found = Counter(name[0] for name in await bound(world))
        assert found.total() == 8

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q4_worked_case_4_a_priority_class_never_takes_from_another_queue() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, queue("a", 16), queue("b", 16)])
        await world.apply([gang("held", 2, "low", queue="a"), *pods("held", 2)])
        await world.apply([gang("other", 2, "low", queue="b"), *pods("other", 2)])
        await world.settle()
        dog = guarded(world)
        await world.apply([gang("first", 1, "high", queue="a"), *pods("first", 1)])
        await world.settle()
        assert set(await bound(world)) == {"first-0", "other-0", "other-1"}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=FOUR_HOSTS)


@pytest.mark.parametrize("asks", [1, 2])
def test_q4_who_finds_nobody_in_its_own_queue_waits(asks: int) -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, queue("a", 0), queue("b", 16), gang("other", 2, "low", queue="b")])
        await world.apply(pods("other", 2))
        await world.settle()
        dog = guarded(world)
        await world.apply([gang("first", asks, "high", queue="a"), *pods("first", asks)])
        await world.settle()
        assert set(await bound(world)) == {"other-0", "other-1"}
        assert await events(world, "Evict") == []
        assert await recorded(world, "first") is None
        assert await said(world, "first")
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


def test_q4_equal_gangs_of_two_queues_get_the_answer_of_their_own() -> None:
    """What is remembered of a refusal in one queue is not told to a gang of the other."""

    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, queue("a", 0), queue("b", 16), gang("held", 1, "low", queue="b")])
        await world.apply([*pods("held", 1), gang("kept", 1, "high", queue="b"), *pods("kept", 1)])
        await world.settle()
        await world.apply([gang("in-a", 1, "high", queue="a"), *pods("in-a", 1)])
        await world.settle()
        assert set(await bound(world)) == {"held-0", "kept-0"}
        await world.apply([gang("in-b", 1, "high", queue="b"), *pods("in-b", 1)])
        await world.settle()
        assert set(await bound(world)) == {"kept-0", "in-b-0"}

    in_world(scenario, nodes=ONE_RACK)


def test_q4_a_victim_whose_gang_moves_to_another_queue_stays() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, queue("a", 16), queue("b", 16), gang("low", 2, "low", queue="a")])
        await world.apply(pods("low", 2))
        await world.settle()
        await patch(world, "PodGroup", "low", {"spec": {"queue": "b"}})
        await world.apply([gang("first", 2, "high", queue="a"), *pods("first", 2)])
        await world.settle()
        assert set(await bound(world)) == {"low-0", "low-1"}
        await patch(world, "PodGroup", "low", {"spec": {"queue": "a"}})
        await world.settle()
        assert set(await bound(world)) == {"first-0", "first-1"}

    in_world(scenario, nodes=ONE_RACK)
