"""A gang that is said to lack members may need fewer by now: its owner is looked at again."""

from __future__ import annotations

from typing import Any

from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import Precondition
from unit.grouper.grouper_world import GrouperWorld, in_world, job, placed

Json = dict[str, Any]
ASKS = placed(topology="network", required="rack")
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
STALE = {"metadata": {"annotations": {"kai.scheduler/stale-podgroup-timestamp": "2026-01-01T00:00:00Z"}}}


def test_k14_a_gang_marked_as_stale_needs_no_index_that_was_given_up() -> None:
    async def scenario(world: GrouperWorld) -> tuple[int, int]:
        """Nobody sees the Job's status change: it is not watched."""
        training = job("train", 3, annotations=ASKS)
        training["spec"]["template"]["spec"]["containers"][0]["command"] = ["sleep", "infinity"]
        await world.world.apply([NODE, training])
        await world.settle()
        for each in await world.world.list("Pod"):
            given = Precondition(each["metadata"]["uid"])
            written(await world.world.door.bind(world.world.ref(each), "n", given))
        await world.settle()
        before = await world.the_group()
        await world.patch("Job", "train", {"status": {"failedIndexes": "1"}}, sub="status")
        await world.patch("PodGroup", before["metadata"]["name"], STALE)
        await world.settle()
        return before["spec"]["minMember"], (await world.the_group())["spec"]["minMember"]

    assert in_world(scenario, controllers=("job",)) == (3, 2)
