"""Updates and repairs keep the place (G13): a replaced pod returns to where its predecessor was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from spinney.sim.world import World
from unit.operator.operator_world import clique, group, podcliqueset
from unit.operator.topologies import packed, settings
from unit.scheduler.scheduler_world import bound, in_world, plan_of, pod, podgroup, pods
from unit.scheduler.test_whole_sets import gpus

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


def update(
    strategy: str, by_hand: Callable[[World], Awaitable[None]] | None = None, *, is_full: bool = True
) -> None:
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
