"""Gang termination where deletions take their time: others look at what was announced before it is done."""

from __future__ import annotations

import asyncio

from spinney.sim.faults import Fault, FaultyTransport, Schedule
from spinney.sim.world import World
from unit.operator.operator_world import clique, condition, group, in_world, names, podcliqueset

WHOLE = podcliqueset("d", [clique("a"), clique("w")], [group("g", ["w"])], terminationDelay="10m")
SLOW = Schedule(
    rates={Fault.LATENCY: 1.0},
    latency_s=5.0,
    only=lambda method, path: method == "DELETE" and "/podcliques/" in path,
)


async def _uids(world: World) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in await world.list("PodClique")}


def test_g1_a_group_that_is_well_goes_down_with_its_replica_once() -> None:
    async def scenario(world: World) -> None:
        await world.apply(WHOLE)
        await world.settle()
        before = await _uids(world)
        for node in names(await world.list("Node")):
            await world.nodes.cordon(node)
        (victim,) = names(await world.list("Pod", labels="grove.io/podclique=d-0-a"))
        await world.delete("Pod", victim)
        await asyncio.sleep(660)
        after = await _uids(world)
        assert after.keys() == before.keys()
        assert not set(after.values()) & set(before.values())
        told = condition(await world.get("PodCliqueScalingGroup", "d-0-g"), "GangTerminationInProgress")
        assert told == ("True", "GangTerminationActive")
        await asyncio.sleep(7200)
        assert await _uids(world) == after
        for node in names(await world.list("Node")):
            await world.nodes.cordon(node, False)
        await world.settle()
        told = condition(await world.get("PodCliqueScalingGroup", "d-0-g"), "GangTerminationInProgress")
        assert told == ("", "")

    in_world(scenario, wrap=lambda sim: lambda inner: FaultyTransport(inner, sim.dice, SLOW))
