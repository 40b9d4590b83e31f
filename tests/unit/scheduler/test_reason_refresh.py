"""A reason is as new as the state it speaks of: room that others took meanwhile is told, at a bounded rate."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from spinney.drive.scheduler import reason_refresh
from spinney.sim.world import World
from unit.operator.topologies import RACK
from unit.scheduler.scheduler_world import in_world, pod, podgroup, pods, said
from unit.scheduler.test_queue_shares import FOUR_HOSTS, hosts, queue

Json = dict[str, Any]


async def explained(world: World, name: str) -> Json:
    found = await world.get("PodGroup", name)
    assert found is not None
    told: Json = json.loads(found["metadata"]["annotations"]["spinney.dev/explanation"])
    return told


def holds(told: Json) -> list[int]:
    return [one["holds"] for one in told["best"]]


async def fill(world: World, *nodes: str) -> None:
    """Pods that somebody else places, in no gang."""
    for number, node in enumerate(nodes):
        taken = pod(f"other-{node}-{number}", "none", schedulerName="another", nodeName=node)
        taken["metadata"].pop("annotations")
        await world.apply([taken])


def test_k15_a_reason_says_that_racks_have_filled_up_since_it_was_first_told() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("wide", 3, required=RACK), *pods("wide", 3)])
        await asyncio.sleep(30)
        before = await explained(world, "wide")
        assert holds(before) == [2, 2, 2]
        nodes = sorted(one["metadata"]["name"] for one in await world.list("Node"))
        await fill(world, *nodes[:-1])
        await asyncio.sleep(20)
        after = await explained(world, "wide")
        assert holds(after) == [1]
        assert before["at"] < after["at"]
        assert after["reason"] in (await said(world, "wide")).replace("The gang", "the gang")

    in_world(scenario)


def test_k15_nothing_is_written_while_nothing_changes_and_many_gangs_have_their_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reason_refresh, "MOST", 2)

    async def scenario(world: World) -> None:
        names = [f"wide-{at}" for at in range(5)]
        for name in names:
            await world.apply([podgroup(name, 3, required=RACK), *pods(name, 3)])
        await asyncio.sleep(60)
        written: list[str] = []
        world.on_write(lambda collection, event: written.append(collection))
        await asyncio.sleep(60)
        assert [each for each in written if each.endswith("/podgroups")] == []
        await fill(world, *sorted(one["metadata"]["name"] for one in await world.list("Node")))
        await asyncio.sleep(40)
        assert [holds(await explained(world, name)) for name in names] == [[0]] * 5

    in_world(scenario)


def test_q8_a_reason_has_the_fair_share_of_now_though_nothing_but_demand_has_changed() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 8), queue("b", 8), *hosts(["a1", "a2", "a3", "a4"], "a")])
        await asyncio.sleep(30)
        await world.apply(hosts(["a5"], "a"))
        await asyncio.sleep(30)
        assert "takes nothing" not in await said(world, "a5"), "nobody else asks"
        await world.apply([podgroup("b1", 5, queue="b"), *pods("b1", 5)])
        await asyncio.sleep(30)
        assert "Gangs of queue b come first" in await said(world, "a5")

    in_world(scenario, nodes=FOUR_HOSTS)
