"""Simulated nodes on the embedded server: they come up, run pods, and fail as they are told."""

from __future__ import annotations

import asyncio
from typing import Any

from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.world import World
from unit.sim.worlds import condition, in_world, pod, workload

Json = dict[str, Any]


def taints(node: Json | None) -> set[tuple[str, str]]:
    found = ((node or {}).get("spec") or {}).get("taints") or []
    return {(each["key"].removeprefix("node.kubernetes.io/"), each["effect"]) for each in found}


def test_nodes_of_the_file_come_up_ready_with_a_lease() -> None:
    async def scenario(world: World) -> tuple[list[Json], list[Json]]:
        await world.settle()
        return await world.list("Node"), await world.list("Lease", "kube-node-lease")

    nodes, leases = in_world(scenario)
    assert [each["metadata"]["name"] for each in nodes] == ["r0-h0", "r0-h1", "r1-h0", "r1-h1"]
    assert {condition(each, "Ready") for each in nodes} == {"True"}
    assert len({each["status"]["addresses"][0]["address"] for each in nodes}) == 4
    assert [each["spec"]["holderIdentity"] for each in leases] == ["r0-h0", "r0-h1", "r1-h0", "r1-h1"]


def test_a_lease_is_renewed_within_its_duration() -> None:
    async def scenario(world: World) -> set[str]:
        stamps = set()
        for _ in range(4):
            await asyncio.sleep(41)
            lease = await world.get("Lease", "r0-h0", "kube-node-lease")
            assert lease is not None
            stamps.add(lease["spec"]["renewTime"])
        return stamps

    assert len(in_world(scenario)) == 4


def test_a_node_made_through_the_api_is_simulated_too() -> None:
    async def scenario(world: World) -> Json | None:
        await world.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "extra"}})
        await world.settle()
        return await world.get("Node", "extra")

    node = in_world(scenario, nodes="")
    assert condition(node, "Ready") == "True"
    assert node is not None
    assert node["status"]["allocatable"]["pods"] == "110"


def test_bound_pods_become_ready_with_addresses_of_their_own() -> None:
    async def scenario(world: World) -> list[Json]:
        await world.apply([pod(f"p{number}") for number in range(20)])
        await world.settle()
        return await world.list("Pod")

    pods = in_world(scenario)
    assert {condition(each, "Ready") for each in pods} == {"True"}
    assert len({each["status"]["podIP"] for each in pods}) == 20
    assert all(each["status"]["podIP"].startswith("10.244.") for each in pods)
    assert all(each["status"]["hostIP"].startswith("172.16.") for each in pods)


def test_a_child_clique_starts_when_enough_parents_are_ready() -> None:
    async def scenario(world: World) -> tuple[str, str]:
        labels = {"grove.io/podgang": "g", "grove.io/podclique": "g-parent"}
        slow = [
            {
                "name": "main",
                "image": "serve",
                "readinessProbe": {"initialDelaySeconds": 60, "exec": {"command": ["x"]}},
            }
        ]
        waiting = [{"name": "grove-initc", "image": "initc", "args": ["--podcliques=g-parent:2"]}]
        child = {"labels": {"grove.io/podgang": "g", "grove.io/podclique": "g-child"}}
        await world.apply(
            [
                pod("child", child, initContainers=waiting),
                pod("parent-0", {"labels": labels}),
                pod("parent-1", {"labels": labels}, containers=slow),
            ]
        )
        await asyncio.sleep(50)
        before = (await world.get("Pod", "child") or {})["status"]["phase"]
        await asyncio.sleep(20)
        return before, condition(await world.get("Pod", "child"), "Ready")

    assert in_world(scenario) == ("Pending", "True")


def test_a_deleted_pod_leaves_within_its_grace() -> None:
    async def scenario(world: World) -> tuple[Json | None, Json | None]:
        await world.apply(pod("p"))
        await world.settle()
        await world.delete("Pod", "p")
        during = await world.get("Pod", "p")
        await world.settle(quiet_s=5)
        return during, await world.get("Pod", "p")

    during, after = in_world(scenario)
    assert during is not None
    assert "deletionTimestamp" in during["metadata"]
    assert after is None


def test_a_crashed_pod_is_restarted_and_counted() -> None:
    async def scenario(world: World) -> tuple[Json | None, Json | None]:
        await world.apply(pod("p"))
        await world.settle()
        world.nodes.crash("default", "p")
        await asyncio.sleep(1)
        down = await world.get("Pod", "p")
        await world.settle()
        return down, await world.get("Pod", "p")

    down, up = in_world(scenario)
    assert condition(down, "Ready") == "False"
    assert condition(up, "Ready") == "True"
    assert up is not None
    assert up["status"]["containerStatuses"][0]["restartCount"] == 1


def test_a_lost_node_is_declared_unknown_tainted_and_emptied() -> None:
    async def scenario(world: World) -> tuple[Any, ...]:
        await world.apply(workload("ReplicaSet", "web", replicas=2))
        await world.settle()
        await world.nodes.lose("r0-h0")
        await asyncio.sleep(30)
        early = condition(await world.get("Node", "r0-h0"), "Ready")
        await asyncio.sleep(20)
        node = await world.get("Node", "r0-h0")
        pods = [each for each in await world.list("Pod") if each["spec"]["nodeName"] == "r0-h0"]
        unready = {condition(each, "Ready") for each in pods}
        await asyncio.sleep(310)
        stuck = [each for each in await world.list("Pod") if each["spec"]["nodeName"] == "r0-h0"]
        leaving = {"deletionTimestamp" in each["metadata"] for each in stuck}
        elsewhere = [each for each in await world.list("Pod") if each["spec"]["nodeName"] != "r0-h0"]
        await world.delete("Node", "r0-h0")
        await world.settle(quiet_s=100)
        left = [each for each in await world.list("Pod") if each["spec"]["nodeName"] == "r0-h0"]
        return early, condition(node, "Ready"), taints(node), unready, leaving, len(elsewhere), left

    early, ready, tainted, unready, leaving, elsewhere, left = in_world(scenario)
    assert (early, ready) == ("True", "Unknown")
    assert tainted == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    assert unready == {"False"}
    assert leaving == {True}
    assert elsewhere == 2
    assert left == []


def test_a_pod_that_tolerates_less_leaves_sooner() -> None:
    async def scenario(world: World) -> tuple[bool, bool]:
        short = [
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 10,
            }
        ]
        await world.apply([pod("short", tolerations=short), pod("long")])
        await world.settle()
        await world.nodes.lose("r0-h0")
        await asyncio.sleep(60)
        found = [await world.get("Pod", name) or {} for name in ("short", "long")]
        return "deletionTimestamp" in found[0]["metadata"], "deletionTimestamp" in found[1]["metadata"]

    assert in_world(scenario) == (True, False)


def test_a_node_that_comes_back_keeps_its_pods() -> None:
    async def scenario(world: World) -> tuple[str, set[tuple[str, str]], str, str]:
        await world.apply(pod("p"))
        await world.settle()
        await world.nodes.lose("r0-h0")
        await asyncio.sleep(100)
        during = condition(await world.get("Pod", "p"), "Ready")
        await world.nodes.recover("r0-h0")
        await world.settle()
        node = await world.get("Node", "r0-h0")
        return during, taints(node), condition(node, "Ready"), condition(await world.get("Pod", "p"), "Ready")

    assert in_world(scenario) == ("False", set(), "True", "True")


def test_a_node_that_is_not_ready_says_so_and_recovers() -> None:
    async def scenario(world: World) -> tuple[str, set[tuple[str, str]], str]:
        await world.settle()
        await world.nodes.not_ready("r0-h0")
        await world.settle()
        ill = await world.get("Node", "r0-h0")
        await world.nodes.recover("r0-h0")
        await world.settle()
        return condition(ill, "Ready"), taints(ill), condition(await world.get("Node", "r0-h0"), "Ready")

    assert in_world(scenario) == ("False", {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}, "True")


def test_a_cordoned_node_is_tainted_and_gets_no_pods() -> None:
    async def scenario(world: World) -> tuple[set[tuple[str, str]], str]:
        await world.settle()
        await world.nodes.cordon("r0-h0")
        await world.settle()
        await world.apply(pod("p"))
        await world.settle()
        return taints(await world.get("Node", "r0-h0")), (await world.get("Pod", "p") or {})["spec"]["nodeName"]

    assert in_world(scenario) == ({("unschedulable", "NoSchedule")}, "r0-h1")


def test_a_node_that_shrinks_shows_it() -> None:
    async def scenario(world: World) -> Json:
        await world.settle()
        await world.nodes.shrink("r0-h0", {"cpu": "2"})
        await world.settle()
        return (await world.get("Node", "r0-h0") or {})["status"]["allocatable"]

    assert in_world(scenario) == {"cpu": "2", "memory": "32Gi", "pods": "110"}


def test_the_binder_fills_nodes_in_order_and_never_over() -> None:
    async def scenario(world: World) -> list[str]:
        asks = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "3"}}}]
        await world.apply([pod(f"p{number}", containers=asks) for number in range(10)])
        await world.settle()
        return [each["spec"].get("nodeName", "") for each in await world.list("Pod")]

    bound = in_world(scenario)
    assert sorted(bound) == ["", "", *["r0-h0"] * 2, *["r0-h1"] * 2, *["r1-h0"] * 2, *["r1-h1"] * 2]


def test_the_binder_respects_gates_selectors_and_taints() -> None:
    async def scenario(world: World) -> dict[str, str]:
        rack = {"topology.kubernetes.io/rack": "r1"}
        await world.apply(
            [
                pod("gated", schedulingGates=[{"name": "example.com/wait"}]),
                pod("chosen", nodeSelector=rack),
                pod("nowhere", nodeSelector={"no": "such"}),
            ]
        )
        await world.settle()
        return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in await world.list("Pod")}

    assert in_world(scenario) == {"gated": "", "chosen": "r1-h0", "nowhere": ""}


def test_freed_room_is_used_again() -> None:
    async def scenario(world: World) -> str:
        asks = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "8"}}}]
        await world.apply([pod(f"p{number}", containers=asks) for number in range(5)])
        await world.settle()
        await world.delete("Pod", "p0")
        await world.settle()
        return (await world.get("Pod", "p4") or {})["spec"]["nodeName"]

    assert in_world(scenario) == "r0-h0"


def test_heartbeats_can_be_switched_off() -> None:
    async def scenario(world: World) -> list[Json]:
        await world.settle()
        return await world.list("Lease", "kube-node-lease")

    assert in_world(scenario, behaviour=NodeBehaviour(heartbeat_s=0)) == []


def test_a_pod_told_to_be_unready_is_so_until_told_otherwise() -> None:
    async def scenario(world: World) -> list[str]:
        seen = []
        for state in (None, "notready", None):
            annotations = {"spinney.dev/sim-state": state} if state else {}
            await world.apply(pod("p", {"annotations": annotations}))
            await world.settle()
            seen.append(condition(await world.get("Pod", "p"), "Ready"))
        return seen

    assert in_world(scenario) == ["True", "False", "True"]


def test_a_restarted_simulation_finds_everything_as_it_was() -> None:
    async def scenario(world: World) -> tuple[int, int]:
        inits = [{"name": "i", "image": "x"}, {"name": "side", "image": "x", "restartPolicy": "Always"}]
        await world.apply([workload("Deployment", "web", replicas=3), pod("p", initContainers=inits)])
        await world.settle()
        world.nodes.crash("default", "p")
        await world.settle()
        before = world.writes
        await world.restart()
        await world.settle()
        return before, world.writes

    before, after = in_world(scenario)
    assert before == after
