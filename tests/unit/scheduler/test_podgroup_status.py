"""What PodGroups say of their use in a world at work: true at rest, few writes, and no word against others."""

from __future__ import annotations

from typing import Any

from spinney.drive.client.paths import Key
from spinney.sim.world import World
from unit.scheduler.scheduler_world import bound, in_world, pod, podgroup, pods
from unit.scheduler.watched_world import patch, watched

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


async def says(world: World, name: str) -> Json:
    found = await world.get("PodGroup", name)
    return ((found or {}).get("status") or {}).get("resourcesStatus") or {}


def watch_groups(world: World) -> list[str]:
    """Names of PodGroups, one for each time that one is written."""
    written: list[str] = []

    def look(collection: str, event: Any) -> None:
        if collection.endswith("/podgroups") and event.new is not None and event.old is not None:
            written.append(event.new.key[1])

    world.on_write(look)
    return written


def test_k14_a_podgroup_says_what_its_pods_ask_for_and_hold_until_they_are_gone() -> None:
    async def scenario(world: World) -> None:
        whole = podgroup("whole", 2, preemptibility="non-preemptible")
        await world.apply([whole, *pods("whole", 2), podgroup("wide", 17), *pods("wide", 17)])
        await world.settle()
        held = {GPU: "16"}
        assert await says(world, "whole") == {"requested": held, "allocated": held, "allocatedNonPreemptible": held}
        assert await says(world, "wide") == {"requested": {GPU: "136"}}
        await patch(world, "PodGroup", "whole", {"spec": {"preemptibility": "preemptible"}})
        await world.settle()
        assert await says(world, "whole") == {"requested": held, "allocated": held}
        for name in ("whole-0", "whole-1"):
            await world.delete("Pod", name)
        await world.settle()
        assert await says(world, "whole") == {}

    watched(scenario)


def test_k14_a_gang_that_is_placed_at_once_is_told_of_once() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        written = watch_groups(world)
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await world.settle()
        assert len(await bound(world)) == 2
        assert written.count("a") == 3  # its plan recorded, its plan dropped, its use
        await patch(world, "Pod", "a-0", {"metadata": {"labels": {"touched": "yes"}}})
        await world.settle()
        assert written.count("a") == 3

    watched(scenario)


def test_k14_what_others_write_is_left_alone_until_the_use_changes() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a"), *pods("a", 1)])
        await world.settle()
        theirs = {"phase": "Running", "resourcesStatus": {"allocated": {GPU: "7"}}}
        await patch(world, "PodGroup", "a", {"status": theirs}, subresource="status")
        await world.settle()
        assert (await says(world, "a"))["allocated"] == {GPU: "7"}
        await world.apply([pod("a-1", "a")])
        await world.settle()
        assert await says(world, "a") == {"requested": {GPU: "16"}, "allocated": {GPU: "16"}}
        found = await world.get("PodGroup", "a")
        assert found is not None
        assert found["status"]["phase"] == "Running"

    watched(scenario)


def test_k14_nothing_is_said_of_gangs_that_are_somebody_elses() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a"), *pods("a", 1, schedulerName="another")])
        theirs = {"resourcesStatus": {"requested": {GPU: "8"}}}
        await patch(world, "PodGroup", "a", {"status": theirs}, subresource="status")
        await patch(world, "PodGroup", "a", {"spec": {"priorityClassName": "high"}})
        await world.settle()
        assert await says(world, "a") == theirs["resourcesStatus"]

    watched(scenario)


def test_k14_nothing_is_said_of_gangs_of_another_node_pool() -> None:
    async def scenario(world: World) -> None:
        group = podgroup("a")
        group["metadata"]["labels"] = {"kai.scheduler/node-pool": "another"}
        await world.apply([group, *pods("a", 1)])
        await world.settle()
        assert await says(world, "a") == {}

    in_world(scenario)


def test_k14_what_is_said_of_its_use_is_no_reason_to_decide_a_gang_again() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a"), *pods("a", 1)])
        await world.settle()
        assert world.stack.roles.scheduler is not None
        touched: list[Key] = []
        world.stack.roles.scheduler.session.scheduling_queue.touch = touched.append  # type: ignore[assignment, method-assign]
        theirs = {"resourcesStatus": {"allocated": {GPU: "7"}}}
        await patch(world, "PodGroup", "a", {"status": theirs}, subresource="status")
        await world.settle()
        assert touched == []

    watched(scenario)
