"""From pods and PodGroups to binds, in a world of simulated time."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.core.scheduling.settings import Settings
from spinney.sim.world import World
from unit.operator.operator_world import clique, group, podcliqueset, writes_at_rest
from unit.operator.topologies import BLOCK, HOST, RACK, ZONE, packed, settings
from unit.scheduler.scheduler_world import (
    bound,
    constraint,
    domains,
    in_world,
    plan_of,
    pod,
    podgroup,
    pods,
    said,
)
from unit.scheduler.watched_world import patch

ONE_RACK = """
levels:
- {name: zone, label: topology.kubernetes.io/zone, count: 1}
- {name: block, label: example.com/block, count: 1}
- {name: rack, label: example.com/rack, count: 1}
- {name: host, count: 2}
capacity: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}
"""


def gpus(number: int) -> dict[str, Any]:
    amounts = {"nvidia.com/gpu": str(number)}
    return {"containers": [{"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}]}


def test_k3_a_gang_with_a_required_rack_is_bound_in_one_rack() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        nodes = await bound(world)
        assert len(nodes) == 2
        assert len(await domains(world, nodes.values(), RACK)) == 1
        assert await plan_of(world, "a") is None
        assert await said(world, "a") == ""

    in_world(scenario)


def test_g11_a_set_with_three_levels_runs_in_the_right_domains() -> None:
    async def scenario(world: World) -> None:
        cliques = [
            clique("leader", 1, podSpec=gpus(8), topologyConstraint=packed("host")),
            clique("worker", 2, podSpec=gpus(8), topologyConstraint=packed("rack")),
        ]
        groups = [group("grp", ["leader", "worker"], 1, 1, topologyConstraint=packed("block"))]
        await world.apply(podcliqueset("llm", cliques, groups, topologyConstraint=packed("zone")))
        await world.settle()
        everybody, workers = await bound(world, "llm-0"), await bound(world, "llm-0-grp-0-worker")
        assert (len(everybody), len(workers)) == (3, 2)
        assert len(await domains(world, everybody.values(), BLOCK)) == 1
        assert len(await domains(world, workers.values(), RACK)) == 1
        assert {each["status"]["phase"] for each in await world.list("Pod")} == {"Running"}

    in_world(scenario, operator=settings())


def test_k4_a_gang_that_does_not_fit_is_not_bound_in_part_and_says_why() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3, required=RACK), *pods("a", 3)])
        await world.settle()
        assert await bound(world) == {}
        assert "can allocate only 2 of 3 required pods" in await said(world, "a")
        told = [each["status"]["conditions"][0] for each in await world.list("Pod")]
        assert {(each["type"], each["status"], each["reason"]) for each in told} == {
            ("PodScheduled", "False", "Unschedulable")
        }

    in_world(scenario)


def test_live4_capacity_that_arrives_later_is_used_and_what_was_said_is_taken_back() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3, required=RACK), *pods("a", 3)])
        await world.settle()
        twin = (await world.list("Node"))[0]
        rack = twin["metadata"]["labels"][RACK]
        metadata = {"name": "late", "labels": {**twin["metadata"]["labels"], HOST: "late"}}
        await world.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": twin["status"]})
        await world.settle()
        nodes = await bound(world)
        assert len(nodes) == 3
        assert {path[-1] for path in await domains(world, nodes.values(), RACK)} == {rack}
        assert await said(world, "a") == ""

    in_world(scenario)


def test_live4_room_that_others_leave_is_used() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await world.settle()
        await world.apply([podgroup("b", 2), *pods("b", 2)])
        await world.settle()
        assert set(await bound(world)) == {"a-0", "a-1"}
        for name in ("a-0", "a-1"):
            await world.delete("Pod", name)
        await world.settle()
        assert set(await bound(world)) == {"b-0", "b-1"}

    in_world(scenario, nodes=ONE_RACK)


def test_k3_nothing_is_bound_before_the_gang_is_complete() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3), *pods("a", 2)])
        await world.settle()
        assert await bound(world) == {}
        await world.apply(pod("a-2", "a"))
        await world.settle()
        assert len(await bound(world)) == 3

    in_world(scenario)


def test_k5_pods_beyond_the_minimum_come_after_everybodys_minimum() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 1), podgroup("b", 1), *pods("a", 3), *pods("b", 1)])
        await world.settle()
        assert len(await bound(world, "a")) == 1
        assert len(await bound(world, "b")) == 1

    in_world(scenario, nodes=ONE_RACK, settings=Settings(gather_s=0.5))


def test_k14_a_pod_that_comes_late_stays_in_the_domain_of_its_gang() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2, 4)])
        await world.settle()
        await world.apply(pod("a-late", "a", 4))
        await world.settle()
        nodes = await bound(world)
        assert len(nodes) == 3
        assert len(await domains(world, nodes.values(), RACK)) == 1

    in_world(scenario)


def test_g12_a_scaled_gang_is_decided_after_its_base_and_in_its_domain() -> None:
    async def scenario(world: World) -> None:
        tied = {"spinney.dev/tied-to": f"z-base,{BLOCK}"}
        scaled = podgroup("a-scaled", 2, required=BLOCK, annotations=tied)
        await world.apply([scaled, podgroup("z-base", 2, required=BLOCK), *pods("a-scaled", 2), *pods("z-base", 2)])
        await world.settle()
        nodes = await bound(world)
        assert len(nodes) == 4
        assert len(await domains(world, nodes.values(), BLOCK)) == 1

    in_world(scenario)


def test_g12_a_scaled_gang_waits_with_a_reason_while_its_base_is_not_placed() -> None:
    async def scenario(world: World) -> None:
        tied = {"spinney.dev/tied-to": f"base,{BLOCK}"}
        await world.apply([podgroup("scaled", 1, required=BLOCK, annotations=tied), *pods("scaled", 1)])
        await world.settle()
        assert await bound(world) == {}
        assert "tied to gang default/base" in await said(world, "scaled")

    in_world(scenario)


def test_k2_podgroups_of_one_name_in_two_namespaces_are_two_gangs() -> None:
    async def scenario(world: World) -> None:
        await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        mine, theirs = podgroup("a", 2, required=HOST), podgroup("a", 2, namespace="other", required=ZONE)
        await world.apply([mine, theirs, *pods("a", 2, 4), *pods("a", 2, 8, namespace="other")])
        await world.settle()
        assert len(set((await bound(world, namespace="default")).values())) == 1
        assert len(set((await bound(world, namespace="other")).values())) == 2

    in_world(scenario)


def test_inv5_a_pod_of_an_unknown_podgroup_is_told_so_and_scheduled_when_it_comes() -> None:
    async def scenario(world: World) -> None:
        await world.apply(pod("a-0", "a"))
        await world.settle()
        found = await world.get("Pod", "a-0")
        assert found is not None
        assert found["status"]["conditions"][0]["message"] == "PodGroup default/a does not exist"
        await world.apply(podgroup("a"))
        await world.settle()
        assert len(await bound(world)) == 1

    in_world(scenario)


def test_live4_a_queue_that_comes_later_is_used() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", queue="team"), *pods("a", 1)])
        await world.settle()
        assert await said(world, "a") == "Queue 'team' does not exist"
        parent = {"parentQueue": "default-parent-queue"}
        unlimited = {each: {"quota": -1, "limit": -1} for each in ("gpu", "cpu", "memory")}
        spec = {**parent, "resources": unlimited}
        metadata = {"name": "team"}
        await world.apply({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": spec})
        await world.settle()
        assert len(await bound(world)) == 1

    in_world(scenario)


def test_inv1_pods_of_other_schedulers_take_room() -> None:
    async def scenario(world: World) -> None:
        await world.apply([pod(f"theirs-{each}", "", schedulerName="other") for each in range(2)])
        for number, node in enumerate(sorted(each["metadata"]["name"] for each in await world.list("Node"))):
            await world.delete("Pod", f"theirs-{number}")
            await world.apply(pod(f"theirs-{number}", "", schedulerName="other", nodeName=node))
        await world.apply([podgroup("a"), *pods("a", 1)])
        await world.settle()
        assert await bound(world, "a") == {}

    in_world(scenario, nodes=ONE_RACK)


def test_k11_pods_learn_their_rank_and_domain_at_the_bind() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 4, required=BLOCK), *pods("a", 4)])
        await world.settle()
        found = await world.list("Pod")
        by_rank = sorted(found, key=lambda each: int(each["metadata"]["annotations"]["spinney.dev/rank"]))
        nodes = [each["spec"]["nodeName"] for each in by_rank]
        assert nodes == sorted(nodes)
        assert {each["metadata"]["annotations"]["spinney.dev/domain"] for each in found} == {"z0/z0-b0"}

    in_world(scenario)


def test_k3_sub_groups_have_domains_of_their_own() -> None:
    async def scenario(world: World) -> None:
        leaves = [{"name": name, "minMember": 2, **constraint(RACK)} for name in ("One", "two")]
        members = [pod(f"{leaf}-{each}".lower(), "a", subgroup=leaf) for leaf in ("One", "two") for each in range(2)]
        await world.apply([podgroup("a", 4, required=BLOCK, subGroups=leaves), *members])
        await world.settle()
        one, two = await bound(world, "one"), await bound(world, "two")
        assert len(await domains(world, one.values(), RACK)) == len(await domains(world, two.values(), RACK)) == 1
        assert len(await domains(world, [*one.values(), *two.values()], BLOCK)) == 1

    in_world(scenario)


def test_live1_a_fresh_scheduler_writes_nothing_to_a_world_at_rest() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2), podgroup("b", 3, required=RACK)])
        await world.apply([*pods("b", 3), podgroup("c", 3), *pods("c", 2), pod("lost", "nobody")])
        await world.settle()
        assert await writes_at_rest(world) == []

    in_world(scenario)


@pytest.mark.parametrize(("pool", "placed"), [("", {"b-0"}), ("blue", {"a-0"})])
def test_k16_a_scheduler_takes_the_gangs_and_the_nodes_of_its_pool_and_no_others(pool: str, placed: set[str]) -> None:
    async def scenario(world: World) -> None:
        first = (await world.list("Node"))[0]["metadata"]["name"]
        await patch(world, "Node", first, {"metadata": {"labels": {"kai.scheduler/node-pool": "blue"}}})
        blue = podgroup("a")
        blue["metadata"]["labels"] = {"kai.scheduler/node-pool": "blue"}
        await world.apply([blue, podgroup("b"), *pods("a", 1), *pods("b", 1)])
        await world.settle()
        found = await bound(world)
        assert set(found) == placed
        assert (first in found.values()) == bool(pool)

    in_world(scenario, settings=Settings(node_pool=pool))
