"""What becomes of a group when its last pod has left it."""

from __future__ import annotations

from typing import Any

from unit.grouper.grouper_world import GrouperWorld, in_world, job, placed

Json = dict[str, Any]
ASKS = placed(topology="network", required="rack")
SUSPEND = {"spec": {"suspend": True}}


async def _left(world: GrouperWorld, **metadata: Any) -> list[str]:
    """The groups of a Job whose pods are all gone, and which may make others."""
    await world.world.apply(job("train", 3, annotations=ASKS))
    await world.settle()
    (name,) = await world.groups()
    if metadata:
        await world.patch("PodGroup", name, {"metadata": metadata})
    await world.patch("Job", "train", SUSPEND)
    await world.settle()
    assert not await world.world.list("Pod")
    return [*(await world.groups())]


def test_k2_a_group_that_nobody_owns_goes_with_its_last_pod() -> None:
    """So it is where an owner was deleted and its pods were not."""

    async def scenario(world: GrouperWorld) -> list[str]:
        return await _left(world, ownerReferences=None)

    assert in_world(scenario, controllers=("job",)) == []


def test_k2_a_group_whose_owner_may_make_more_pods_stays() -> None:
    assert len(in_world(_left, controllers=("job",))) == 1


def test_k2_a_group_of_somebody_else_stays_whoever_leaves_it() -> None:
    async def scenario(world: GrouperWorld) -> list[str]:
        return await _left(
            world, ownerReferences=None, annotations={"kai.scheduler/top-owner-metadata": None, "kept": "by hand"}
        )

    assert len(in_world(scenario, controllers=("job",))) == 1


def test_k2_a_gang_that_is_taken_apart_leaves_no_group_behind() -> None:
    async def scenario(world: GrouperWorld) -> tuple[int, list[Json]]:
        await world.world.apply(job("train", 3, annotations=ASKS))
        await world.settle()
        whole = len(await world.groups())
        await world.annotate("Job", "train", topology=None, required=None)
        await world.settle(quiet_s=90)
        return whole, [*(await world.groups()).values()]

    whole, found = in_world(scenario, controllers=("job",))
    assert whole == 1
    assert [each["metadata"]["ownerReferences"][0]["kind"] for each in found] == ["Pod"] * 3
