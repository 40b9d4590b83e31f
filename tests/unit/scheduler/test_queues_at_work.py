"""Queues in the loop: what a gang asks of its queue is what it gets, no more and no less."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.sim.world import World
from unit.scheduler.scheduler_world import bound, pod, podgroup, pods, said
from unit.scheduler.watched_world import patch, watched

Json = dict[str, Any]


def queue(name: str, gpus: int) -> Json:
    unlimited = {each: {"quota": -1, "limit": -1} for each in ("cpu", "memory")}
    spec = {"parentQueue": "default-parent-queue", "resources": {**unlimited, "gpu": {"quota": -1, "limit": gpus}}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_k16_a_gang_grows_as_far_as_its_queue_allows_and_further_when_it_allows_more() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("team", 24), podgroup("a", 1, queue="team"), *pods("a", 5)])
        await world.settle()
        assert len(await bound(world)) == 3
        await patch(world, "Queue", "team", {"spec": {"resources": {"gpu": {"limit": 32}}}})
        await world.settle()
        assert len(await bound(world)) == 4

    watched(scenario)


def test_k14_a_queue_is_asked_for_as_many_children_as_suffice() -> None:
    async def scenario(world: World) -> None:
        leaves = [{"name": name, "minMember": 1} for name in ("one", "two", "three")]
        members = [pod(each["name"], "a", subgroup=each["name"]) for each in leaves]  # type: ignore[arg-type]
        group = podgroup("a", queue="team", subGroups=leaves, minSubGroup=2)
        del group["spec"]["minMember"]
        await world.apply([queue("team", 16), group, *members])
        await world.settle()
        assert len(await bound(world)) == 2

    watched(scenario)


def test_k16_children_that_ask_for_more_than_the_least_are_refused_where_the_queue_has_not_that_much() -> None:
    async def scenario(world: World) -> None:
        leaves = [{"name": name, "minMember": 1} for name in ("small", "large")]
        selector: dict[str, Any] = {"nodeSelector": {"example.com/none": "there"}}
        members = [pod("small", "a", 1, subgroup="small", **selector), pod("large", "a", 8, subgroup="large")]
        group = podgroup("a", queue="team", subGroups=leaves, minSubGroup=1)
        del group["spec"]["minMember"]
        await world.apply([queue("team", 4), group, *members])
        await world.settle()
        assert await bound(world) == {}
        assert "Limit is 4 GPUs" in await said(world, "a")

    watched(scenario)


def test_k16_live4_children_that_the_queue_allows_are_chosen_where_the_best_ones_ask_for_too_much() -> None:
    """Both of a pair fit and so does the lone one; only the lone one fits the queue (seed 200566)."""

    async def scenario(world: World) -> None:
        leaves = [{"name": "pair", "minMember": 2}, {"name": "lone", "minMember": 1}]
        members = [pod(name, "a", subgroup=name.split("-")[0]) for name in ("pair-0", "pair-1", "lone-0")]
        group = podgroup("a", queue="team", subGroups=leaves, minSubGroup=1)
        del group["spec"]["minMember"]
        await world.apply([queue("team", 12), group, *members])
        await world.settle()
        assert set(await bound(world)) == {"lone-0"}

    watched(scenario)


def test_k14_k16_parts_of_a_gang_share_what_its_queue_has_left() -> None:
    async def scenario(world: World) -> None:
        leaves = [{"name": name, "minMember": 1} for name in ("prefill", "decode")]
        members = [pod(f"{each['name']}-{i}", "a", 1, subgroup=each["name"]) for each in leaves for i in range(4)]  # type: ignore[arg-type]
        await world.apply([queue("team", 6), podgroup("a", 2, queue="team", subGroups=leaves), *members])
        await world.settle()
        assert len(await bound(world, "prefill")) == len(await bound(world, "decode")) == 3

    watched(scenario)


@pytest.mark.parametrize("names", [("a-1", "a-2"), ("a-2", "a-1")])
def test_k16_live4_pods_without_room_leave_their_share_of_the_queue_to_those_that_have_some(names: list[str]) -> None:
    """Beyond the minimum the queue allows one of the two; one fits nowhere (seed 771301790)."""

    async def scenario(world: World) -> None:
        nowhere, fits = names
        large = pod(nowhere, "a", 8, nodeSelector={"example.com/none": "there"})
        await world.apply([queue("team", 12), podgroup("a", 1, queue="team"), pod("a-0", "a", 4)])
        await world.apply([large, pod(fits, "a", 4)])
        await world.settle()
        assert set(await bound(world)) == {"a-0", fits}

    watched(scenario)


def test_k16_pods_of_one_set_that_fit_are_placed_as_far_as_the_queue_allows_beside_larger_ones() -> None:
    async def scenario(world: World) -> None:
        nowhere: dict[str, Any] = {"nodeSelector": {"example.com/none": "there"}}
        large = [pod(f"large-{number}", "a", 8, **nowhere) for number in range(3)]
        await world.apply([queue("team", 30), podgroup("a", 1, queue="team"), *pods("a", 4, 4), *large])
        await world.settle()
        assert len(await bound(world, "a")) == 4
        await patch(world, "Queue", "team", {"spec": {"resources": {"gpu": {"limit": 8}}}})
        await world.apply(pod("a-4", "a", 4))
        await world.settle()
        assert len(await bound(world)) == 4

    watched(scenario)


def test_k15_k16_pods_beyond_the_minimum_that_the_queue_refuses_are_told_so() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("team", 16), podgroup("a", 1, queue="team"), *pods("a", 3)])
        await world.settle()
        (late,) = [each for each in await world.list("Pod") if not each["spec"].get("nodeName")]
        told = next(each for each in late["status"]["conditions"] if each["type"] == "PodScheduled")
        why = (
            "team quota has reached the allowable limit of GPUs. Limit is 16 GPUs, in use are 16 GPUs, "
            "the workload asks for 8 GPUs"
        )
        name = late["metadata"]["name"]
        assert told["message"] == f"Resources were not found for pod default/{name} due to: {why}"
        group = await world.get("PodGroup", "a")
        assert group is not None
        assert f"1 pod beyond the minimum waits: {why}" in group["metadata"]["annotations"]["spinney.dev/explanation"]

    watched(scenario)
