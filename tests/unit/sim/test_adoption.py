"""An owner that is made anew takes over what the one before it has left."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.sim.worlds import in_world, pod, workload

Json = dict[str, Any]


def _owners(objects: list[Json]) -> dict[str, list[str]]:
    return {
        each["metadata"]["name"]: [one["uid"] for one in each["metadata"].get("ownerReferences") or ()]
        for each in objects
    }


@pytest.mark.parametrize(
    ("kind", "children"), [("StatefulSet", "Pod"), ("ReplicaSet", "Pod"), ("Deployment", "ReplicaSet")]
)
def test_what_was_orphaned_is_adopted_by_the_next_owner(kind: str, children: str) -> None:
    async def scenario(world: World) -> tuple[Json, Json, Json, Json]:
        owner = workload(kind, "web", replicas=3)
        await world.apply(owner)
        await world.settle()
        before = await world.get(kind, "web")
        assert before is not None
        first = _owners(await world.list(children))
        await world.door.delete(world.ref(before), ANY, propagation="Orphan")
        await world.settle()
        alone = _owners(await world.list(children))
        await world.apply(owner)
        await world.settle()
        after = await world.get(kind, "web")
        assert after is not None
        return first, alone, _owners(await world.list(children)), after

    first, alone, last, owner = in_world(scenario)
    assert alone == {name: [] for name in first}
    assert last == {name: [owner["metadata"]["uid"]] for name in first}
    assert owner["status"]["readyReplicas"] == 3


def test_a_pod_that_is_not_selected_stays_alone() -> None:
    async def scenario(world: World) -> Json:
        await world.apply([pod("web-7"), workload("StatefulSet", "web", replicas=1)])
        await world.settle()
        return _owners(await world.list("Pod"))

    assert in_world(scenario)["web-7"] == []
