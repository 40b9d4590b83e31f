"""Pods that another scheduler has nominated to a node hold their room there against gangs no more important."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.scheduler.preemption_world import CLASSES, gang
from unit.scheduler.scheduler_world import bound, in_world, pod, pods

ONE_NODE = """
levels:
- {name: rack, label: example.com/rack, count: 1}
- {name: host, count: 1}
capacity: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}
"""


def others_pod(priority_class: str, **more: Any) -> dict[str, Any]:
    """A pod of a scheduler that is not ours; admission fills its priority in from the class."""
    found = pod("others", "", schedulerName="another-scheduler", priorityClassName=priority_class, **more)
    found["metadata"].pop("annotations", None)
    return found


async def nominate(world: World, name: str, node: str) -> None:
    live = await world.get("Pod", name) or {}
    await world.door.merge_patch(world.ref(live), {"status": {"nominatedNodeName": node}}, ANY, subresource="status")


@pytest.mark.parametrize(
    ("others", "holds"), [("high", True), ("mid", True), ("low", False)], ids=["above", "equal", "below"]
)
def test_k8_a_nominated_pod_of_another_scheduler_holds_its_room(others: str, holds: bool) -> None:
    """Otherwise the room that it preempted for is taken by whom it has just evicted, again and again."""

    async def scenario(world: World) -> None:
        (node,) = [each["metadata"]["name"] for each in await world.list("Node")]
        await world.apply([*CLASSES, others_pod(others)])
        await nominate(world, "others", node)
        await world.settle()
        await world.apply([gang("mine", 1, "mid"), *pods("mine", 1)])
        await world.settle()
        assert bool(await bound(world, "mine")) is not holds

    in_world(scenario, nodes=ONE_NODE)


def test_k8_room_is_free_again_when_the_nomination_is_taken_back() -> None:
    async def scenario(world: World) -> None:
        (node,) = [each["metadata"]["name"] for each in await world.list("Node")]
        await world.apply([*CLASSES, others_pod("high")])
        await nominate(world, "others", node)
        await world.apply([gang("mine", 1, "mid"), *pods("mine", 1)])
        await world.settle()
        assert not await bound(world, "mine")
        await nominate(world, "others", "")
        await world.settle()
        assert await bound(world, "mine")

    in_world(scenario, nodes=ONE_NODE)
