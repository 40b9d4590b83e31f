"""Kinds that the server gets after the scheduler has started are noticed without a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from spinney.core.scheduling.settings import Settings
from spinney.sim.event_loop import Sim, run
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.operator_world import CRDS
from unit.operator.topologies import BLOCK, RACK
from unit.scheduler.scheduler_world import NODES, TOPOLOGY, bound, domains, podgroup, pods

Json = dict[str, Any]
TREE = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopology",
    "metadata": {"name": "tree"},
    "spec": {"levels": [{"domain": "block", "key": BLOCK}, {"domain": "rack", "key": RACK}]},
}


def without_kinds(scenario: Callable[[World], Awaitable[None]], *absent: str) -> None:
    """A world whose server has all our kinds but some when the scheduler starts."""

    async def main(sim: Sim) -> None:
        parts = Parts(
            nodes=load_nodes(NODES),
            behaviour=NodeBehaviour(heartbeat_s=0),
            controllers=(),
            scheduler=Settings(incomplete_grace_s=1.0),
        )
        async with World(sim.clock, sim.dice, parts) as world:
            await world.apply([each for each in CRDS if each["spec"]["names"]["kind"] not in absent])
            await asyncio.sleep(30)
            await scenario(world)

    run(main, limit_s=20_000)


def definition(kind: str) -> Json:
    return next(each for each in CRDS if each["spec"]["names"]["kind"] == kind)


def test_live4_a_cluster_topology_whose_kind_comes_late_is_used() -> None:
    async def scenario(world: World) -> None:
        assert world.stack.roles.scheduling.is_set()
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        assert await bound(world) == {}
        await world.apply([definition("ClusterTopology"), TREE])
        await world.settle()
        nodes = await bound(world)
        assert len(nodes) == 2
        assert len(await domains(world, nodes.values(), RACK)) == 1

    without_kinds(scenario, "ClusterTopology")


def test_live4_a_kind_that_comes_late_is_noticed_within_a_second() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await asyncio.sleep(33)
        await world.apply([definition("ClusterTopology"), TREE])
        await asyncio.sleep(1)
        assert len(await bound(world)) == 2

    without_kinds(scenario, "ClusterTopology")


def test_live4_a_kind_that_goes_and_comes_again_is_used() -> None:
    async def scenario(world: World) -> None:
        await world.apply(TREE)
        await asyncio.sleep(1)
        await world.delete("CustomResourceDefinition", "clustertopologies.grove.io")
        await asyncio.sleep(200)
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await asyncio.sleep(5)
        assert await bound(world) == {}
        await world.apply([definition("ClusterTopology"), TREE])
        await asyncio.sleep(1)
        assert len(await bound(world)) == 2

    without_kinds(scenario)


def test_live4_topologies_and_queues_whose_kinds_come_late_are_used() -> None:
    async def scenario(world: World) -> None:
        assert not world.stack.roles.scheduling.is_set()
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await asyncio.sleep(30)
        await world.apply([definition("Topology"), definition("Queue"), TOPOLOGY])
        await world.settle()
        assert len(await bound(world)) == 2

    without_kinds(scenario, "Topology", "Queue")


def test_live4_podgroups_whose_kind_comes_late_are_used() -> None:
    async def scenario(world: World) -> None:
        await world.apply([definition("PodGroup"), TOPOLOGY])
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        assert len(await bound(world)) == 2

    without_kinds(scenario, "PodGroup")
