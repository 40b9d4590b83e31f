"""Reclaim between queues (Q5, Q6): the worked cases of the contract in simulated worlds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from spinney.sim.world import World
from unit.operator.operator_world import writes_at_rest
from unit.operator.topologies import RACK
from unit.scheduler.preemption_world import (
    CLASSES,
    ONE_RACK,
    events,
    guarded,
    recorded,
)
from unit.scheduler.scheduler_world import bound, domains, in_world, pod, podgroup, pods, said
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


def test_q3_worked_case_2_gangs_that_are_not_preemptible_never_exceed_the_quota() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        await one_by_one(world, ["a1", "a2", "a3"], "a", preemptibility="non-preemptible")
        assert await of_gangs(world) == Counter(a1=1, a2=1)
        assert "Non-preemptible workload is over quota" in await said(world, "a3")
        await world.apply(gangs(["b1", "b2"], "b"))
        await world.settle()
        assert await of_gangs(world) == Counter(a1=1, a2=1, b1=1, b2=1)
        assert await events(world, "Evict") == []

    in_world(scenario, nodes=FOUR_HOSTS)


A, B = [f"a{number}" for number in range(8)], [f"b{number}" for number in range(8)]


@pytest.mark.parametrize(
    "order", [[*A, *B], [*B, *A], [*A[:4], *B, *A[4:]]], ids=["all were a's", "all were b's", "both had half"]
)
def test_q5_worked_case_3_weights_decide_where_the_cluster_settles_whatever_the_start(order: list[str]) -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 8), queue("b", 8, weight=3)])
        dog = guarded(world, late_s=0.5)
        for name in order:
            await world.apply(gangs([name], name[0], gpus=4))
            await later(world)
        found = Counter(name[0] for name in await bound(world))
        assert found == Counter(a=3, b=5), "4 GPUs each: 12 and 20"
        assert len(await events(world, "Evict")) <= 2 * 8
        assert await writes_at_rest(world) == []
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q4_worked_case_4_a_full_queue_does_not_take_from_another_for_a_higher_class() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, queue("a", 16), queue("b", 16)])
        await world.apply([*gangs(["a1"], "a", 2, priorityClassName="mid"), *gangs(["b1"], "b", 2)])
        await world.settle()
        dog = guarded(world, late_s=0.5)
        await world.apply(gangs(["a2"], "a", priorityClassName="mid"))
        await world.settle()
        assert await of_gangs(world) == Counter(a1=2, b1=2), "it waits"
        await world.apply(gangs(["a3"], "a", priorityClassName="high"))
        await world.settle()
        assert set(await of_gangs(world)) >= {"a3", "b1"}, "it takes from its own queue"
        assert (await of_gangs(world))["b1"] == 2
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=FOUR_HOSTS)


def child(name: str, parent: str, quota: int, weight: int = 1) -> Json:
    return queue(name, quota, weight, parentQueue=parent)


@pytest.mark.parametrize(
    ("lent", "taken"),
    [(["q1", "q2", "q3", "q4"], "q"), (["q1", "q2", "p2-1", "p2-2"], "p2"), (["q1", "q2", "q3", "p2-1"], "p2 and q")],
    ids=["all is q's", "p2 has what is p1's", "both have some"],
)
def test_q5_worked_case_5_queues_are_compared_where_their_paths_part(lent: list[str], taken: str) -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("p", 16), queue("q", 16), child("p1", "p", 16), child("p2", "p", 0)])
        for name in lent:
            await one_by_one(world, [name], "q" if name.startswith("q") else "p2")
        dog = guarded(world, late_s=0.5)
        await world.apply(gangs(["p1-1", "p1-2"], "p1"))
        await world.settle()
        found = Counter(
            name.partition("-")[0][:1] + ("2" if name.startswith("p2") else "") for name in await bound(world)
        )
        assert found == Counter({"p": 2, "q": 2}), f"taken from {taken}"
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q6_worked_case_6_an_elastic_gang_shrinks_to_its_minimum_and_is_not_evicted() -> None:
    """In hosts of one GPU each it would be 8 and 4: here a pod is a host."""

    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        await world.apply([podgroup("a1", 2, queue="a"), *pods("a1", 4)])
        await world.settle()
        assert await of_gangs(world) == Counter(a1=4)
        dog = guarded(world, late_s=0.5)
        await world.apply(gangs(["b1"], "b", 2))
        await world.settle()
        assert await of_gangs(world) == Counter(a1=2, b1=2)
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q6_worked_case_7_the_rack_is_chosen_that_empties_with_the_least() -> None:
    three_racks = ONE_RACK.replace("rack, count: 1", "rack, count: 3")

    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        by_rack: dict[tuple[str, ...], list[str]] = {}
        for node in nodes:
            (rack,) = await domains(world, [node])
            by_rack.setdefault(rack, []).append(node)
        racks = [by_rack[rack] for rack in sorted(by_rack)]
        held = [("a1", racks[0][0], 8), ("a2", racks[1][0], 8), ("a3", racks[0][1], 8), ("a4", racks[2][0], 8)]
        for name, node, gpus in [*held, ("a5", racks[2][1], 8)]:
            await world.apply(
                [
                    podgroup(name, 1, queue="a"),
                    pod(f"{name}-0", name, gpus, nodeSelector={"kubernetes.io/hostname": node}),
                ]
            )
            await later(world)
        dog = guarded(world, late_s=0.5)
        await world.apply(gangs(["b1"], "b", 2, required=RACK))
        await world.settle()
        assert set(await domains(world, (await bound(world, "b1")).values())) == {sorted(by_rack)[1]}
        assert await of_gangs(world) == Counter(a1=1, a3=1, a4=1, a5=1, b1=2)
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=three_racks)


@pytest.mark.parametrize("elsewhere", [0, 2], ids=["there is room", "others hold the rest"])
def test_q5_what_a_sibling_borrowed_comes_back_where_the_limit_of_their_parent_is_reached(elsewhere: int) -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("top", 16, limit=16), child("a", "top", 8), child("b", "top", 8), queue("c", 16)])
        await one_by_one(world, ["a1", "a2"], "a")
        await world.apply(gangs(["c1"], "c", elsewhere) if elsewhere else [])
        await later(world)
        dog = guarded(world, late_s=0.5)
        await world.apply(gangs(["b1"], "b"))
        await world.settle()
        held = await of_gangs(world)
        assert (held["a1"], held["a2"], held["b1"], held["c1"]) == (1, 0, 1, elsewhere)
        await world.apply(gangs(["b2"], "b"))
        await world.settle()
        assert "quota has reached the allowable limit of GPUs" in await said(world, "b2")
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=FOUR_HOSTS)
