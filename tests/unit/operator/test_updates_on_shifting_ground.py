"""An update whose ground changes on the way: pods that it waits for are scaled away, or it is taken back."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.operator.operator_world import clique, condition, group, in_world, podcliqueset

Json = dict[str, Any]


def _changed(whole: Json, annotations: Json) -> Json:
    changed = deepcopy(whole)
    for each in changed["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["containers"][0]["image"] = "v2"
        each["annotations"] = annotations
    return changed


async def _images(world: World) -> list[str]:
    return sorted(each["spec"]["containers"][0]["image"] for each in await world.list("Pod"))


def test_g1_an_update_goes_on_though_scaling_in_takes_the_pod_that_it_waits_for() -> None:
    """The replacement of the first pod is not ready yet, and so the first to go."""
    whole = podcliqueset("d", [clique("w", 3, 2)])
    slow = _changed(whole, {"spinney.dev/sim-start-delay": "30"})

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        await world.apply(slow)
        await asyncio.sleep(20)
        assert await _images(world) == ["serve", "serve", "v2"]
        found = await world.get("PodClique", "d-0-w") or {}
        await world.door.scale(world.ref(found), 2, ANY)
        await world.settle()
        assert await _images(world) == ["v2"] * 2
        status = (await world.get("PodCliqueSet", "d") or {})["status"]
        assert (status["updatedReplicas"], status["availableReplicas"]) == (1, 1)
        assert status["updateProgress"]["updateEndedAt"]

    in_world(scenario)


@pytest.mark.parametrize("after_s", [0.05, 1.0, 30.0], ids=["at once", "soon", "late"])
def test_g1_an_update_that_is_taken_back_ends(after_s: float) -> None:
    """Whether nothing was replaced yet, or pods that never became ready: nobody goes on updating for ever."""
    whole = podcliqueset("d", [clique("a"), clique("w", 2)], [group("g", ["w"], replicas=2, minimum=1)])
    broken = _changed(whole, {"spinney.dev/sim-fail": "image"})

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        await world.apply(broken)
        await asyncio.sleep(after_s)
        await world.apply(whole)
        await world.settle()
        assert await _images(world) == ["serve"] * 5
        for kind in ("PodClique", "PodCliqueScalingGroup", "PodCliqueSet"):
            for found in await world.list(kind):
                status = found["status"]
                assert status["updatedReplicas"] == status["replicas"], found["metadata"]["name"]
                progress = status.get("updateProgress")
                assert progress is None or "updateEndedAt" in progress, found["metadata"]["name"]
                assert condition(found, "MinAvailableBreached")[0] in ("", "False")

    in_world(scenario)
