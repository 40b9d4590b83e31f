"""Reclaim between queues (Q5, Q6): the worked cases of the contract in simulated worlds."""

from __future__ import annotations

from collections import Counter
from typing import Any

from spinney.sim.world import World
from unit.scheduler.preemption_world import ONE_RACK, events, guarded, recorded
from unit.scheduler.scheduler_world import bound, in_world, podgroup, pods
from unit.scheduler.test_queue_shares import later, queue

Json = dict[str, Any]
FOUR_HOSTS = ONE_RACK.replace("host, count: 2", "host, count: 4")


def gangs(names: list[str], queue: str, count: int = 1, gpus: int = 8, **spec: Any) -> list[Json]:
    """Gangs of so many pods each."""
    return [each for name in names for each in (podgroup(name, count, queue=queue, **spec), *pods(name, count, gpus))]


async def one_by_one(world: World, names: list[str], queue: str, **more: Any) -> None:
    for name in names:
        await world.apply(gangs([name], queue, **more))
        await later(world)


async def of_gangs(world: World) -> Counter[str]:
    """How many pods of each gang are bound."""
    return Counter(name.rpartition("-")[0] for name in await bound(world))


def test_q5_worked_case_1_what_was_lent_comes_back_from_the_youngest_gangs() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        await one_by_one(world, ["a1", "a2", "a3", "a4"], "a")
        dog = guarded(world, late_s=0.5)
        await world.apply(gangs(["b1", "b2"], "b"))
        await world.settle()
        assert await of_gangs(world) == Counter(a1=1, a2=1, b1=1, b2=1)
        told = [each for each in await events(world, "Evict") if each["involvedObject"]["kind"] == "PodGroup"]
        assert [each["involvedObject"]["name"] for each in told] == ["a3", "a4"]
        await world.apply([*gangs(["b3"], "b"), *gangs(["a5"], "a")])
        await world.settle()
        assert await of_gangs(world) == Counter(a1=1, a2=1, b1=1, b2=1), "nothing moves any more"
        assert await recorded(world, "b1") is await recorded(world, "b2") is None
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=FOUR_HOSTS)
