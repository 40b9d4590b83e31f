"""Sets that stand for more than any cluster has: told and left, and everybody else is served."""

from __future__ import annotations

from spinney.sim.world import World
from unit.operator.operator_world import clique, group, in_world, podcliqueset
from unit.operator.test_small_promises import patch


async def told(world: World, kind: str) -> list[str]:
    events = await world.list("Event")
    return [
        each["message"] for each in events if each["reason"] == "TooLarge" and each["involvedObject"]["kind"] == kind
    ]


def test_a_set_of_too_many_podcliques_is_told_and_nothing_is_made_for_it() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("huge", [clique("w")], replicas=100_000))
        await world.apply(podcliqueset("small", [clique("w")]))
        await world.settle()
        assert [each["metadata"]["name"] for each in await world.list("PodClique")] == ["small-0-w"]
        assert await told(world, "PodCliqueSet") == [
            "PodCliqueSet default/huge would have 100000 PodCliques, at most 5000 are allowed: nothing is done for it"
        ]
        await patch(world, "PodCliqueSet", "huge", {"spec": {"replicas": 2}})
        await world.settle()
        assert len(await world.list("PodClique")) == 3

    in_world(scenario)


def test_a_group_that_is_scaled_beyond_any_cluster_keeps_what_it_has() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w")], [group("g", ["w"], 2)]))
        await world.settle()
        await patch(world, "PodCliqueScalingGroup", "d-0-g", {"spec": {"replicas": 100_000}})
        await world.settle()
        assert len(await world.list("PodClique")) == 2
        limit = "would have 100000 PodCliques, at most 5000 are allowed: nothing is done for it"
        assert await told(world, "PodCliqueScalingGroup") == [f"PodCliqueScalingGroup default/d-0-g {limit}"]
        assert await told(world, "PodCliqueSet") == [f"PodCliqueSet default/d {limit}"]

    in_world(scenario)
