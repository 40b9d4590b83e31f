"""Gang termination: what has been below its minimum for too long is taken down as a whole, and only that."""

from __future__ import annotations

import asyncio

from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.operator.operator_world import clique, condition, group, in_world, names, podcliqueset

WHOLE = podcliqueset(
    "d", [clique("a"), clique("w", 2)], [group("g", ["w"], replicas=3, minimum=2)], terminationDelay="10m"
)
SICK = {"spinney.dev/sim-fail": "unready"}


async def _uids(world: World, kind: str = "PodClique") -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in await world.list(kind)}


async def _starve(world: World, *cliques: str) -> None:
    """Take a pod from each clique, and let no node take its replacement."""
    for node in names(await world.list("Node")):
        await world.nodes.cordon(node)
    for each in cliques:
        pods = names(await world.list("Pod", labels=f"grove.io/podclique={each}"))
        await world.delete("Pod", pods[0])
    await world.settle(quiet_s=60)


def _changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def test_g1_a_standalone_clique_in_breach_for_too_long_takes_its_replica_down() -> None:
    """The pods of `a` start and never become ready; `b` is well and goes with it, the other replica stays."""
    whole = podcliqueset("d", [clique("a", annotations=SICK), clique("b")], terminationDelay="10m")

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await asyncio.sleep(60)
        before = await _uids(world)
        found = await world.get("PodClique", "d-0-a")
        assert condition(found, "MinAvailableBreached") == ("True", "InsufficientReadyPods")
        await asyncio.sleep(480)
        assert await _uids(world) == before
        await asyncio.sleep(120)
        assert _changed(before, await _uids(world)) == {"d-0-a", "d-0-b"}

    in_world(scenario)


def test_g1_what_never_had_its_nodes_is_left_alone() -> None:
    async def scenario(world: World) -> None:
        await world.apply(WHOLE)
        await asyncio.sleep(60)
        before = await _uids(world)
        await asyncio.sleep(7200)
        assert await _uids(world) == before

    in_world(scenario, binds=False)


def test_g1_a_replica_of_a_group_goes_alone_while_the_group_has_its_minimum() -> None:
    async def scenario(world: World) -> None:
        await world.apply(WHOLE)
        await world.settle()
        before = await _uids(world)
        await _starve(world, "d-0-g-2-w")
        found = await world.get("PodCliqueScalingGroup", "d-0-g")
        assert condition(found, "MinAvailableBreached")[0] == "False"
        assert await _uids(world) == before
        await asyncio.sleep(700)
        assert _changed(before, await _uids(world)) == {"d-0-g-2-w"}

    in_world(scenario)


def test_g1_a_group_below_its_minimum_takes_the_set_replica_down_once() -> None:
    async def scenario(world: World) -> None:
        await world.apply(WHOLE)
        await world.settle()
        before = await _uids(world)
        groups = await _uids(world, "PodCliqueScalingGroup")
        await _starve(world, "d-0-g-2-w", "d-0-g-1-w")
        found = await world.get("PodCliqueScalingGroup", "d-0-g")
        assert condition(found, "MinAvailableBreached")[0] == "True"
        await asyncio.sleep(700)
        after = await _uids(world)
        assert _changed(before, after) == set(before)
        found = await world.get("PodCliqueScalingGroup", "d-0-g")
        assert condition(found, "GangTerminationInProgress") == ("True", "GangTerminationActive")
        await asyncio.sleep(7200)
        assert await _uids(world) == after
        assert await _uids(world, "PodCliqueScalingGroup") == groups
        for node in names(await world.list("Node")):
            await world.nodes.cordon(node, False)
        await world.settle()
        found = await world.get("PodCliqueScalingGroup", "d-0-g")
        assert condition(found, "GangTerminationInProgress") == ("", "")
        assert condition(found, "MinAvailableBreached")[0] == "False"
        assert {each["status"]["phase"] for each in await world.list("Pod")} == {"Running"}

    in_world(scenario)


def test_g1_what_the_operator_takes_down_itself_is_not_told_as_lost() -> None:
    async def scenario(world: World) -> None:
        await world.apply(WHOLE)
        await world.settle()
        await _starve(world, "d-0-a")
        await asyncio.sleep(700)
        found = await world.get("PodCliqueScalingGroup", "d-0-g")
        assert condition(found, "GangTerminationInProgress") == ("True", "GangTerminationActive")
        told = [(each["involvedObject"]["name"], each["reason"]) for each in await world.list("Event")]
        assert ("d", "PodCliqueSetReplicaDeleteSuccessful") in told
        assert ("d-0-a", "AllScheduledReplicasLost") in told
        assert ("d-0-g", "AllScheduledReplicasLost") not in told

    in_world(scenario)


def test_g1_a_breach_that_heals_in_time_takes_nothing_down() -> None:
    async def scenario(world: World) -> None:
        await world.apply(WHOLE)
        await world.settle()
        before = await _uids(world)
        await _starve(world, "d-0-a")
        assert condition(await world.get("PodClique", "d-0-a"), "MinAvailableBreached")[0] == "True"
        for node in names(await world.list("Node")):
            await world.nodes.cordon(node, False)
        await asyncio.sleep(7200)
        assert await _uids(world) == before

    in_world(scenario)


def test_g1_what_was_scaled_keeps_its_count_when_its_gang_is_terminated() -> None:
    """The set is asked for two replicas, the group for three, the clique for four: none of it is in the template."""
    whole = podcliqueset("d", [clique("a", annotations=SICK), clique("b"), clique("w")], [group("g", ["w"], 1, 1)])
    whole["spec"]["template"]["terminationDelay"] = "10m"

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await asyncio.sleep(30)
        for kind, name, count in (
            ("PodCliqueSet", "d", 2),
            ("PodCliqueScalingGroup", "d-0-g", 3),
            ("PodClique", "d-0-b", 4),
        ):
            found = await world.get(kind, name)
            assert found is not None
            ref = world.ref(found | {"apiVersion": "grove.io/v1alpha1", "kind": kind})
            await world.door.scale(ref, count, ANY)
        await asyncio.sleep(60)
        before = await _uids(world)
        await asyncio.sleep(700)
        assert {"d-0-a", "d-0-b"} <= _changed(before, await _uids(world))
        counts = {each["metadata"]["name"]: each["spec"]["replicas"] for each in await world.list("PodClique")}
        assert (counts["d-0-b"], counts["d-1-b"]) == (4, 1)
        assert len(await world.list("Pod", labels="grove.io/podclique=d-0-b")) == 4
        assert {"d-0-g-2-w", "d-1-g-0-w"} <= counts.keys()

    in_world(scenario)
