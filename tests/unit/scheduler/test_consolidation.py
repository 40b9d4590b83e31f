"""Pods that are moved so that a gang fits: on request or by setting, each with a place kept for its successor (K10)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from spinney.api.placement.problem import Consolidate
from spinney.core.scheduling.settings import Settings, limits_of, request
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.operator.topologies import RACK
from unit.scheduler.preemption_world import CLASSES, TWO_RACKS, budget, events, gang, guarded, recorded
from unit.scheduler.scheduler_world import bound, domains, in_world, pods, said

Json = dict[str, Any]
ON = Settings(consolidate=Consolidate(max_moves=4))


def owned(name: str, gpus: int) -> Json:
    """A ReplicaSet of one pod in its own PodGroup, which makes it anew."""
    annotations = {"pod-group-name": name, "kai.scheduler/skip-podgrouper": "true"}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": pods(name, 1, gpus)[0]["spec"],
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}


async def open_only(world: World, names: set[str]) -> None:
    for node in await world.list("Node"):
        name = node["metadata"]["name"]
        patch = {"spec": {"unschedulable": None if name in names else True}}
        written(await world.door.merge_patch(world.ref(node), patch, ANY))


async def scattered(world: World, priority: str = "mid", *, alone: bool = False) -> dict[str, str]:
    """One and two stand in different racks, each on half a node: no rack takes two whole nodes any more."""
    await world.apply(CLASSES)
    nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
    for name, node in (("one", nodes[0]), ("two", nodes[-1])):
        await open_only(world, {node})
        await world.apply([gang(name, 1, priority), *(pods(name, 1, 4) if alone else [owned(name, 4)])])
        await world.settle()
    await open_only(world, set(nodes))
    await world.settle()
    found = await bound(world)
    assert sorted(found.values()) == [nodes[0], nodes[-1]]
    return found


CONTROLLERS = ("replicaset", "disruption")


def test_k10_a_pod_is_moved_so_that_a_gang_fits_and_its_successor_has_its_place() -> None:
    async def scenario(world: World) -> None:
        before = await scattered(world)
        dog = guarded(world)
        await world.apply([gang("big", 2, "mid", required=RACK), *pods("big", 2)])
        await world.settle()
        after = await bound(world)
        assert len([name for name in after if name.startswith("big")]) == 2
        assert len(after) == 4
        assert len(set(before) & set(after)) == 1
        assert len(await domains(world, (await bound(world, "big")).values(), RACK)) == 1
        assert dog.check_at_rest() == []
        told = [each for each in await events(world, "Evict") if each["involvedObject"]["kind"] == "PodGroup"]
        assert len(told) == 1
        assert told[0]["message"].endswith(
            "was preempted and rescheduled due to bin packing (resource consolidation) procedure"
        )

    in_world(scenario, nodes=TWO_RACKS, settings=ON, controllers=CONTROLLERS)


def test_k10_nothing_is_moved_unless_somebody_asks_for_it_where_that_is_set() -> None:
    async def scenario(world: World) -> None:
        before = await scattered(world)
        await world.apply([gang("big", 2, "mid", required=RACK), *pods("big", 2)])
        await world.settle()
        assert await bound(world) == before
        assert await said(world, "big")
        ref = world.ref(gang("big", 2, "mid"))
        patch = {"metadata": {"annotations": {"spinney.dev/consolidate": "1,0"}}}
        written(await world.door.merge_patch(ref, patch, ANY))
        await world.settle()
        assert len(await bound(world, "big")) == 2
        assert len(await bound(world)) == 4
        found = await world.get("PodGroup", "big")
        assert found is not None and "spinney.dev/consolidate" not in found["metadata"]["annotations"]

    in_world(scenario, nodes=TWO_RACKS, controllers=CONTROLLERS, settings=Settings(consolidate=None))


@pytest.mark.parametrize("by_itself", [None, Consolidate(max_moves=0)], ids=["off", "on"])
def test_inv7_a_request_moves_nobody_where_the_scheduler_was_not_told_to_honour_requests(
    by_itself: Consolidate | None,
) -> None:
    async def scenario(world: World) -> None:
        before = await scattered(world)
        await world.apply([gang("big", 2, "mid", required=RACK), *pods("big", 2)])
        await world.settle()
        patch = {"metadata": {"annotations": {"spinney.dev/consolidate": "999999,1"}}}
        written(await world.door.merge_patch(world.ref(gang("big", 2, "mid")), patch, ANY))
        await world.settle()
        assert await bound(world) == before

    settings = Settings(consolidate=by_itself, moves_on_request=False)
    in_world(scenario, nodes=TWO_RACKS, controllers=CONTROLLERS, settings=settings)


def test_inv7_a_more_important_gang_is_not_moved() -> None:
    async def scenario(world: World) -> None:
        before = await scattered(world, "high")
        await world.apply([gang("big", 2, "mid", required=RACK), *pods("big", 2)])
        await world.settle()
        assert await bound(world) == before

    in_world(scenario, nodes=TWO_RACKS, settings=ON, controllers=CONTROLLERS)


def test_inv7_a_pod_that_nobody_makes_anew_is_not_moved() -> None:
    async def scenario(world: World) -> None:
        before = await scattered(world, alone=True)
        await world.apply([gang("big", 2, "mid", required=RACK), *pods("big", 2)])
        await world.settle()
        assert await bound(world) == before

    in_world(scenario, nodes=TWO_RACKS, settings=ON, controllers=CONTROLLERS)


def test_inv7_a_pod_that_a_budget_protects_is_not_moved() -> None:
    async def scenario(world: World) -> None:
        for name in ("one", "two"):
            await world.apply(budget(name, {"app": name}, minAvailable=1))
        before = await scattered(world)
        await world.apply([gang("big", 2, "mid", required=RACK), *pods("big", 2)])
        await world.settle()
        assert await bound(world) == before
        assert await recorded(world, "big") is None

    in_world(scenario, nodes=TWO_RACKS, settings=ON, controllers=CONTROLLERS)


@pytest.mark.parametrize(("most_gpus", "count"), [(3, 0), (4, 2)])
def test_k10_no_more_gpus_are_moved_than_allowed(most_gpus: int, count: int) -> None:
    async def scenario(world: World) -> None:
        await scattered(world)
        await world.apply([gang("big", 2, "mid", required=RACK), *pods("big", 2)])
        await world.settle()
        assert len(await bound(world, "big")) == count

    settings = Settings(consolidate=Consolidate(max_moves=4, max_gpus=most_gpus))
    in_world(scenario, nodes=TWO_RACKS, settings=settings, controllers=CONTROLLERS)


def test_k10_moves_for_one_gang_are_looked_for_once_in_a_while() -> None:
    async def scenario(world: World) -> None:
        await world.apply(CLASSES)
        for name in ("one", "two"):
            await world.apply(budget(name, {"app": name}, minAvailable=1))
        await scattered(world)
        await world.apply([gang("big", 2, "mid", required=RACK), *pods("big", 2)])
        await asyncio.sleep(5)
        assert await bound(world, "big") == {}
        for name in ("one", "two"):
            await world.delete("PodDisruptionBudget", name)
        await world.apply([gang("more", 1, "mid"), *pods("more", 1, 4)])  # it takes room and gives it back
        await asyncio.sleep(5)
        await world.delete("Pod", "more-0")
        await asyncio.sleep(20)
        assert await bound(world, "big") == {}, "not yet"
        await asyncio.sleep(80)
        assert len(await bound(world, "big")) == 2

    in_world(scenario, nodes=TWO_RACKS, settings=replace(ON, moves_every_s=100), controllers=CONTROLLERS)


@pytest.mark.parametrize("limits", [Consolidate(8, 0.0), Consolidate(1, 0.25), Consolidate(100, 1.0)])
def test_a_request_says_its_limits(limits: Consolidate) -> None:
    assert limits_of({"spinney.dev/consolidate": request(limits)}, None) == limits


@pytest.mark.parametrize("text", ["", "8", "eight,0", "8,2", "8,-0.1", "8,0,0", "99999999,0"])
def test_what_is_not_a_request_asks_for_nothing(text: str) -> None:
    assert limits_of({"spinney.dev/consolidate": text}, None) is None
