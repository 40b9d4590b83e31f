import asyncio
from spinney.sim.world import World
from unit.operator.operator_world import clique, condition, group, in_world, names, podcliqueset
from unit.operator.test_termination import _starve, _uids, _changed

WHOLE = podcliqueset("d", [clique("a"), clique("w")], [group("g", ["w"])], terminationDelay="10m")

def test_g1_a_well_group_goes_down_with_its_replica_once() -> None:
    async def scenario(world: World) -> None:
        await world.apply(WHOLE)
        await world.settle()
        before = await _uids(world)
        await _starve(world, "d-0-a")
        await asyncio.sleep(600)
        after = await _uids(world)
        assert _changed(before, after) == {"d-0-a", "d-0-g-0-w"}
        print(condition(await world.get("PodCliqueScalingGroup", "d-0-g"), "GangTerminationInProgress"))
        await asyncio.sleep(7200)
        assert await _uids(world) == after
    from spinney.sim.faults import Fault, FaultyTransport, Schedule
    slow = Schedule(rates={Fault.LATENCY: 1.0}, only=lambda method, path: method == "DELETE" and "/podcliques/" in path)
    in_world(scenario, wrap=lambda sim: lambda inner: FaultyTransport(inner, sim.dice, slow))
