"""Twelve things that happen to a scheduler at rest, each with a world of its own; small, and with one right ending."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from simulation.processes import SchedulerProcess
from spinney.api.operator_configuration import PlacementStrategy
from spinney.core.scheduling.settings import Settings
from spinney.sim.world import World
from unit.operator.topologies import BLOCK, HOST, RACK, ZONE
from unit.scheduler.scheduler_world import GPU, TOPOLOGY, constraint, pod, podgroup, pods

Json = dict[str, Any]
Step = Callable[[World, SchedulerProcess], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`step` is done to the world that `before` has made, once it is at rest.

    `elsewhere`: whoever comes after a crash may choose other nodes.
    """

    name: str
    before: list[Json]
    step: Step
    bound: int
    hosts: tuple[int, int, int] = (2, 2, 2)  # blocks, racks in each, hosts in each
    settings: Settings = field(default_factory=Settings)
    elsewhere: bool = False

    @property
    def nodes(self) -> str:
        blocks, racks, hosts = self.hosts
        return f"""
levels:
- {{name: zone, label: {ZONE}, count: 1}}
- {{name: block, label: {BLOCK}, count: {blocks}}}
- {{name: rack, label: {RACK}, count: {racks}}}
- {{name: host, count: {hosts}}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
"""


async def create(world: World, process: SchedulerProcess) -> None:
    await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2), podgroup("b", 2, required=RACK)])
    await world.apply([*pods("b", 3, 4), podgroup("c", 3, required=RACK), *pods("c", 3)])


async def nest(world: World, process: SchedulerProcess) -> None:
    leaves = [{"name": name, "minMember": 2, **constraint(RACK)} for name in ("one", "two")]
    members = [pod(f"a-{leaf}-{each}", "a", subgroup=leaf) for leaf in ("one", "two") for each in range(2)]
    await world.apply([podgroup("a", 4, required=BLOCK, subGroups=leaves), *members])


async def scale_out(world: World, process: SchedulerProcess) -> None:
    """One more gang, tied to the block of the first."""
    tied = {"spinney.dev/tied-to": f"a,{BLOCK}"}
    await world.apply([podgroup("a-1", 2, required=RACK, annotations=tied), *pods("a-1", 2)])


async def scale_in(world: World, process: SchedulerProcess) -> None:
    """What is left of one gang is its minimum, and another one gets the room."""
    await world.apply([podgroup("b", 2), *pods("b", 2)])
    await world.settle(quiet_s=5)
    for name in ("a-2", "a-3"):
        await world.delete("Pod", name, grace_s=0)


async def update(world: World, process: SchedulerProcess) -> None:
    """All pods made anew, smaller, under the same names."""
    for name in ("a-0", "a-1"):
        await world.delete("Pod", name, grace_s=0)
    await world.apply(pods("a", 2, 4))


async def delete(world: World, process: SchedulerProcess) -> None:
    """The whole gang, which another one was waiting for."""
    await world.apply([podgroup("b", 2, required=RACK), *pods("b", 2)])
    await world.settle(quiet_s=5)
    await world.delete("PodGroup", "a")
    for name in ("a-0", "a-1", "a-2", "a-3"):
        await world.delete("Pod", name, grace_s=0)


async def preempt(world: World, process: SchedulerProcess) -> None:
    await world.apply([podgroup("b", 2, required=RACK, priorityClassName="high"), *pods("b", 2)])


async def lose_node(world: World, process: SchedulerProcess) -> None:
    """One of two members is on a node that dies; whoever owns it makes it anew when it is gone."""
    victim = next(each for each in await world.list("Pod") if each["metadata"]["name"] == "a-0")
    await world.delete("Node", victim["spec"]["nodeName"])
    await world.delete("Pod", "a-0", grace_s=0)
    await world.apply(pod("a-0", "a"))
    for _ in range(20):
        await asyncio.sleep(5)  # a pod on a node that is gone is cleared away after 40 s, whenever it got there
        if await world.get("Pod", "a-0") is None:
            await world.apply(pod("a-0", "a"))


async def change_topology(world: World, process: SchedulerProcess) -> None:
    """Nobody knows any more what a rack is, and then everybody does."""
    await world.apply([TOPOLOGY, podgroup("b", 2, required=RACK)])
    await world.delete("Topology", "tree")
    await world.apply(pods("b", 2))
    await world.settle(quiet_s=5)
    await world.apply(TOPOLOGY)


async def come_late(world: World, process: SchedulerProcess) -> None:
    await world.apply(pod("a-late", "a", 4))


async def grow(world: World, process: SchedulerProcess) -> None:
    """More pods than there is room for, then room in the right rack."""
    await world.apply([pod("a-2", "a"), pod("a-3", "a")])
    await world.settle(quiet_s=5)
    taken = {each["spec"].get("nodeName") for each in await world.list("Pod")}
    twin = next(each for each in await world.list("Node") if each["metadata"]["name"] in taken)
    labels = {**twin["metadata"]["labels"], HOST: "late"}
    amounts = {key: twin["status"][key] for key in ("capacity", "allocatable")}
    await world.apply(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late", "labels": labels}, "status": amounts}
    )


async def reconfigure(world: World, process: SchedulerProcess) -> None:
    """The next one spreads, and may find work of the one before."""
    process.settings = Settings(strategy=PlacementStrategy.both("spread"))
    await world.apply([podgroup("b", 2), *pods("b", 2, 2)])


_HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 90,
}

SCENARIOS = (
    Scenario("create", [], create, 5),
    Scenario("nested", [], nest, 4),
    Scenario("scale out", [podgroup("a", 2, required=RACK), *pods("a", 2)], scale_out, 4),
    Scenario("scale in", [podgroup("a", 2), *pods("a", 4)], scale_in, 4, hosts=(1, 2, 2)),
    Scenario("update", [podgroup("a", 2, required=RACK), *pods("a", 2)], update, 2),
    Scenario("delete", [podgroup("a", 4), *pods("a", 4)], delete, 2, hosts=(1, 2, 2)),
    Scenario("preempt", [_HIGH, podgroup("a", 2, required=RACK), *pods("a", 2)], preempt, 2, hosts=(1, 1, 2)),
    Scenario("node loss", [podgroup("a", 2, required=RACK), *pods("a", 2)], lose_node, 2, hosts=(1, 2, 3)),
    Scenario("topology change", [podgroup("a", 1), *pods("a", 1)], change_topology, 3),
    Scenario("late member", [podgroup("a", 2, required=RACK), *pods("a", 2, 4)], come_late, 3),
    Scenario("elastic growth", [podgroup("a", 2, required=RACK), *pods("a", 2)], grow, 3),
    Scenario("restart with other settings", [podgroup("a", 2), *pods("a", 2, 2)], reconfigure, 4, elsewhere=True),
)
