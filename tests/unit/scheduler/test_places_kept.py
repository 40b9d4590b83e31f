"""Updates and repairs keep the place (G13): a replaced pod returns to where its predecessor was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from spinney.sim.world import World
from unit.operator.operator_world import clique, group, podcliqueset
from unit.operator.topologies import BLOCK, packed, settings
from unit.scheduler.preemption_world import CLASSES, ONE_RACK, TWO_RACKS, gang
from unit.scheduler.scheduler_world import bound, in_world, pod, podgroup
from unit.scheduler.test_queue_preemption import limited, team
from unit.scheduler.test_whole_sets import gpus
from unit.scheduler.watched_world import patch

Json = dict[str, Any]


def serving(image: str = "serve", strategy: str = "") -> Json:
    """A set of one gang and a scaled one, in a rack of two nodes each: an eighth of a node for each pod but two."""

    def running(number: int) -> Json:
        found = gpus(number)
        found["containers"][0]["image"] = image
        return found

    cliques = [
        clique("router", 2, podSpec=running(2)),
        clique("leader", 1, podSpec=running(4)),
        clique("worker", 2, podSpec=running(2)),
    ]
    groups = [group("decode", ["leader", "worker"], 2, 1, topologyConstraint=packed("rack"))]
    return podcliqueset("llm", cliques, groups, strategy=strategy, topologyConstraint=packed("block"))


async def places(world: World, prefix: str = "llm") -> dict[str, str]:
    """Nodes by what a pod is in its set, whatever its name."""
    found = {}
    for each in await world.list("Pod"):
        if each["metadata"]["name"].startswith(prefix):
            labels, node = each["metadata"]["labels"], each["spec"].get("nodeName", "")
            found[labels["grove.io/podclique"] + "/" + labels["grove.io/podclique-pod-index"]] = node
    return found


async def images(world: World) -> set[str]:
    found = [each for each in await world.list("Pod") if each["metadata"]["name"].startswith("llm")]
    return {each["spec"]["containers"][0]["image"] for each in found}


OTHERS = {f"other-{size}-{number}": size for size, count in ((8, 13), (4, 6), (2, 12)) for number in range(count)}
"""More gangs of the same order than there is room for."""


def update(strategy: str, by_hand: Callable[[World], Awaitable[None]] | None = None, *, is_full: bool = True) -> None:
    """Three updates; the others come before the set in the queue, and their pods after its own."""

    async def scenario(world: World) -> None:
        await world.apply([podgroup(name) for name in OTHERS])
        await asyncio.sleep(2)
        await world.apply(serving(strategy=strategy))
        await world.settle()
        before = await places(world)
        assert len(before) == 8 and all(before.values())
        if is_full:
            await world.apply([pod(f"{name}-0", name, size) for name, size in OTHERS.items()])
            await world.settle()
            assert len(await bound(world, "other")) < len(OTHERS)
        for image in ("second", "third", "fourth"):
            await world.apply(serving(image, strategy))
            await world.settle()
            if by_hand is not None:
                await by_hand(world)
                await world.settle()
            assert await images(world) == {image}
            assert await places(world) == before

    in_world(scenario, operator=settings())


def test_g13_an_image_update_keeps_every_pod_on_its_node_while_others_wait() -> None:
    update("")


def test_g13_an_update_does_not_move_pods_to_nodes_that_are_free_at_once() -> None:
    update("", is_full=False)


def test_g13_a_rolling_update_that_recreates_keeps_every_pod_on_its_node() -> None:
    update("RollingRecreate")


def test_g13_pods_that_a_user_deletes_for_an_update_return_to_their_nodes() -> None:
    async def delete_all(world: World) -> None:
        for name in await bound(world, "llm"):
            await world.delete("Pod", name)

    update("OnDelete", delete_all)


async def waits(world: World) -> None:
    """A gang on each of two nodes, and one that is older and waits for room."""
    await world.apply(podgroup("older"))
    await asyncio.sleep(2)
    await world.apply([podgroup("a"), pod("a-0", "a"), podgroup("b"), pod("b-0", "b")])
    await world.settle()
    await world.apply(pod("older-0", "older"))
    await world.settle()
    assert set(await bound(world)) == {"a-0", "b-0"}


def test_g13_room_is_held_for_a_replacement_that_comes_when_the_pod_is_gone() -> None:
    async def scenario(world: World) -> None:
        await waits(world)
        node = (await bound(world))["a-0"]
        await world.delete("Pod", "a-0", grace_s=0)
        await asyncio.sleep(2)
        await world.apply(pod("a-1", "a"))
        await world.settle()
        assert (await bound(world)) == {"a-1": node, "b-0": (await bound(world))["b-0"]}

    in_world(scenario, nodes=ONE_RACK)


def test_g13_room_is_not_held_for_a_workload_of_the_pod_grouper_that_was_deleted() -> None:
    """Its PodGroup may stay for a while; the pods of a Deployment have one each, and a successor is in another one."""

    async def scenario(world: World) -> None:
        await waits(world)
        grouped = {"metadata": {"annotations": {"kai.scheduler/top-owner-metadata": "name: a"}}}
        await patch(world, "PodGroup", "a", grouped)
        await world.settle()
        await world.delete("Pod", "a-0", grace_s=0)
        await asyncio.sleep(1)
        assert set(await bound(world)) == {"older-0", "b-0"}

    in_world(scenario, nodes=ONE_RACK)


def test_g13_room_is_not_held_where_no_replacement_comes() -> None:
    async def scenario(world: World) -> None:
        await waits(world)
        await world.delete("Pod", "a-0", grace_s=0)
        await asyncio.sleep(10)
        assert set(await bound(world)) == {"older-0", "b-0"}

    in_world(scenario, nodes=ONE_RACK)


def test_g13_room_is_not_held_for_ever_for_a_replacement_that_does_not_become_ready_to_start() -> None:
    async def scenario(world: World) -> None:
        await waits(world)
        await world.delete("Pod", "a-0", grace_s=0)
        await world.apply(pod("a-1", "a", schedulingGates=[{"name": "example.com/not-yet"}]))
        await asyncio.sleep(50)
        assert set(await bound(world)) == {"b-0"}
        await asyncio.sleep(15)
        assert set(await bound(world)) == {"older-0", "b-0"}

    in_world(scenario, nodes=ONE_RACK)


def test_g13_a_more_important_gang_gets_the_room_that_is_held_and_evicts_nobody() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("a", 1, "low"), pod("a-0", "a"), gang("b", 1, "low"), pod("b-0", "b")])
        await world.settle()
        await world.delete("Pod", "a-0", grace_s=0)
        await world.apply([gang("high", 1, "high"), pod("a-1", "a"), pod("high-0", "high")])
        await world.settle()
        assert set(await bound(world)) == {"high-0", "b-0"}

    in_world(scenario, nodes=ONE_RACK)


def test_g13_a_replacement_finds_its_place_after_a_restart_of_the_scheduler() -> None:
    async def scenario(world: World) -> None:
        await waits(world)
        node = (await bound(world))["a-0"]
        await world._halt()
        await world.delete("Pod", "a-0", grace_s=0)
        await world.apply(pod("a-1", "a"))
        await world.restart()
        await world.settle()
        assert (await bound(world))["a-1"] == node

    in_world(scenario, nodes=ONE_RACK)


def test_g13_where_the_node_is_lost_a_replacement_stays_in_the_rack() -> None:
    """The other rack has the tighter node, which is where a new gang would go."""

    async def scenario(world: World) -> None:
        def on(name: str) -> dict[str, str]:
            return {"kubernetes.io/hostname": f"z0-b0-{name}"}

        await world.apply([podgroup("fill"), pod("fill-0", "fill", 4, nodeSelector=on("r0-h0"))])
        await world.apply([podgroup("full"), pod("full-0", "full", 8, nodeSelector=on("r0-h1"))])
        await world.apply([podgroup("a", preferred=BLOCK), pod("a-0", "a", 4, nodeSelector=on("r1-h0"))])
        await world.settle()
        await world.nodes.cordon("z0-b0-r1-h0")
        await world.delete("Pod", "a-0")
        await world.apply(pod("a-1", "a", 4))
        await world.settle()
        assert (await bound(world))["a-1"] == "z0-b0-r1-h1"

    in_world(scenario, nodes=TWO_RACKS)


def test_g13_an_update_does_not_lend_its_quota() -> None:
    """A gang of the same queue waits for quota, though there are nodes for both."""

    async def scenario(world: World) -> None:
        await limited(world, 8, team("older", 1, "low"))
        await asyncio.sleep(2)
        await world.apply([team("a", 1, "low"), pod("a-0", "a")])
        await world.settle()
        await world.apply(pod("older-0", "older"))
        await world.settle()
        assert set(await bound(world)) == {"a-0"}
        await world.delete("Pod", "a-0", grace_s=0)
        await asyncio.sleep(2)
        await world.apply(pod("a-1", "a"))
        await world.settle()
        assert set(await bound(world)) == {"a-1"}

    in_world(scenario)
