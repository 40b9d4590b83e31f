"""Topology from the configuration to gangs, PodGroups and pods: resolution, drift, retry, off and on again."""

from __future__ import annotations

from typing import Any

from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.operator.operator_world import clique, condition, group, in_world, podcliqueset, writes_at_rest
from unit.operator.topologies import (
    BLOCK,
    HOST,
    LEVELS,
    RACK,
    ZONE,
    events,
    packed,
    restarted,
    settings,
    topology,
)

SET = podcliqueset(
    "d",
    [
        clique("router", topologyConstraint=packed("block")),
        clique("pl", topologyConstraint=packed("host")),
        clique("pw", 2),
    ],
    [group("prefill", ["pw", "pl"], replicas=2, topologyConstraint=packed("block"))],
    topologyConstraint=packed("zone"),
)
FREE = podcliqueset("f", [clique("a")])


async def _pack(world: World, gang: str) -> Any:
    found = await world.get("PodGang", gang) or {}
    return (found["spec"].get("topologyConstraint") or {}).get("packConstraint")


def _affinity_keys(pod: dict[str, Any]) -> list[str]:
    node = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or [{}]
    return [each["key"] for each in terms[0].get("matchExpressions") or []]


def test_g3_g7_g11_a_constrained_set_reaches_gang_podgroup_and_pods() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        assert await _pack(world, "d-0") == {"required": ZONE, "preferred": HOST}
        assert await _pack(world, "d-0-prefill-0") == {"required": BLOCK, "preferred": HOST}
        whole = await world.get("PodCliqueSet", "d") or {}
        assert whole["metadata"]["labels"]["grove.io/topology-name"] == "grove-topology"
        assert condition(whole, "TopologyLevelsUnavailable") == ("False", "AllClusterTopologyLevelsAvailable")
        podgroup = await world.get("PodGroup", "d-0") or {}
        assert podgroup["spec"]["topologyConstraint"] == {
            "topology": "grove-topology",
            "requiredTopologyLevel": ZONE,
            "preferredTopologyLevel": HOST,
        }
        scaled = await world.get("PodGroup", "d-0-prefill-0") or {}
        assert scaled["metadata"]["annotations"]["spinney.dev/tied-to"] == f"d-0,{ZONE}"
        (pod,) = await world.list("Pod", labels="grove.io/podclique=d-0-router")
        assert pod["metadata"]["annotations"]["pod-group-name"] == "d-0"
        assert pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "d-0-router"
        assert pod["spec"]["schedulerName"] == "kai-scheduler"

    in_world(scenario, settings())


def test_t6_pods_under_a_constraint_ask_for_nodes_of_the_topology() -> None:
    async def scenario(world: World) -> None:
        await world.apply([SET, FREE])
        await world.settle()
        (bound,) = await world.list("Pod", labels="grove.io/podclique=d-0-router")
        assert _affinity_keys(bound) == [ZONE, BLOCK, RACK, HOST]
        (free,) = await world.list("Pod", labels="grove.io/podclique=f-0-a")
        assert _affinity_keys(free) == []

    in_world(scenario, settings())


def test_live1_a_constrained_set_is_left_alone_when_all_is_well() -> None:
    async def scenario(world: World) -> list[str]:
        await world.apply([SET, FREE])
        await world.settle()
        return await writes_at_rest(world)

    assert in_world(scenario, settings()) == []


def test_t5_two_topologies_live_side_by_side() -> None:
    h100 = {"zone": ZONE, "rack": RACK, "host": HOST}

    async def scenario(world: World) -> None:
        await world.apply([topology("h100", h100), topology("gb200", LEVELS)])
        for name, domain in (("h100", "rack"), ("gb200", "block")):
            await world.apply(
                podcliqueset(name, [clique("w")], clusterTopologyName=name, topologyConstraint=packed(domain))
            )
        await world.settle()
        for name, key in (("h100", RACK), ("gb200", BLOCK)):
            gang = await world.get("PodGang", f"{name}-0") or {}
            assert gang["metadata"]["annotations"]["grove.io/topology-name"] == name
            assert gang["spec"]["topologyConstraint"]["packConstraint"]["required"] == key
            podgroup = await world.get("PodGroup", f"{name}-0") or {}
            assert podgroup["spec"]["topologyConstraint"]["topology"] == name
        (pod,) = await world.list("Pod", labels="app.kubernetes.io/part-of=h100")
        assert _affinity_keys(pod) == [ZONE, RACK, HOST]

    in_world(scenario, settings())


def test_p5_l5_the_topology_of_a_pending_set_can_be_changed_and_everything_follows() -> None:
    other = {"zone": ZONE, "block": "example.com/other-block", "host": HOST}
    named = podcliqueset("d", [clique("w", 2)], clusterTopologyName="a", topologyConstraint=packed("block"))

    async def scenario(world: World) -> None:
        await world.apply([topology("a", LEVELS), topology("b", other), named])
        await world.settle()
        template = {**named["spec"]["template"], "clusterTopologyName": "b"}
        await world.apply({**named, "spec": {**named["spec"], "template": template}})
        await world.settle()
        gang = await world.get("PodGang", "d-0") or {}
        assert gang["metadata"]["annotations"]["grove.io/topology-name"] == "b"
        assert gang["spec"]["topologyConstraint"]["packConstraint"]["required"] == "example.com/other-block"
        podgroup = await world.get("PodGroup", "d-0") or {}
        assert podgroup["spec"]["topologyConstraint"]["topology"] == "b"
        whole = await world.get("PodCliqueSet", "d") or {}
        assert whole["metadata"]["labels"]["grove.io/topology-name"] == "b"
        pods = await world.list("Pod")
        assert [_affinity_keys(each) for each in pods] == [[ZONE, "example.com/other-block", HOST]] * 2
        assert not any(each["spec"].get("schedulingGates") for each in pods)

    in_world(scenario, settings(), binds=False)


def test_p5_a_change_that_comes_after_the_pods_got_their_nodes_is_not_followed() -> None:
    named = podcliqueset("d", [clique("w")], clusterTopologyName="a", topologyConstraint=packed("block"))

    async def scenario(world: World) -> None:
        await world.apply([topology("a", LEVELS), topology("b", {"block": "other"}), named])
        await world.settle()
        template = {**named["spec"]["template"], "clusterTopologyName": "b"}
        await world.apply({**named, "spec": {**named["spec"], "template": template}})
        await world.settle()
        gang = await world.get("PodGang", "d-0") or {}
        assert gang["metadata"]["annotations"]["grove.io/topology-name"] == "a"
        assert gang["spec"]["topologyConstraint"]["packConstraint"]["required"] == BLOCK
        assert ("Warning", "TopologyChangeIgnored") in await events(world, "PodCliqueSet")
        whole = await world.get("PodCliqueSet", "d") or {}
        assert whole["metadata"]["labels"]["grove.io/topology-name"] == "b", "as the webhook writes it"

    in_world(scenario, settings())


def test_g9_s1_s4_a_level_that_vanishes_is_stripped_and_restored_and_nothing_running_is_touched() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        before = {each["metadata"]["uid"] for each in await world.list("Pod")}
        await restarted(world, settings({"zone": ZONE, "rack": RACK, "host": HOST}))
        whole = await world.get("PodCliqueSet", "d")
        assert condition(whole, "TopologyLevelsUnavailable") == ("True", "ClusterTopologyLevelsUnavailable")
        assert await _pack(world, "d-0") == {"required": ZONE, "preferred": HOST}
        assert await _pack(world, "d-0-prefill-0") is None
        assert {each["metadata"]["uid"] for each in await world.list("Pod")} == before
        await restarted(world, settings())
        assert await _pack(world, "d-0-prefill-0") == {"required": BLOCK, "preferred": HOST}
        whole = await world.get("PodCliqueSet", "d")
        assert condition(whole, "TopologyLevelsUnavailable")[0] == "False"
        assert {each["metadata"]["uid"] for each in await world.list("Pod")} == before
        assert await events(world, "PodCliqueSet") == [
            ("Normal", "TopologyConstraintsApplied"),
            ("Warning", "ClusterTopologyLevelsUnavailable"),
            ("Normal", "TopologyConstraintsApplied"),
        ]

    in_world(scenario, settings())


def test_g9_a_key_that_changes_at_start_up_re_translates_running_gangs() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        before = {each["metadata"]["uid"] for each in await world.list("Pod")}
        await restarted(world, settings(LEVELS | {"zone": "example.com/zone"}))
        assert await _pack(world, "d-0") == {"required": "example.com/zone", "preferred": HOST}
        podgroup = await world.get("PodGroup", "d-0") or {}
        assert podgroup["spec"]["topologyConstraint"]["requiredTopologyLevel"] == "example.com/zone"
        assert {each["metadata"]["uid"] for each in await world.list("Pod")} == before

    in_world(scenario, settings())


def test_g9_s1_a_topology_removed_by_force_strips_all_and_its_return_restores_all() -> None:
    named = podcliqueset("d", [clique("w")], clusterTopologyName="a", topologyConstraint=packed("block"))

    async def scenario(world: World) -> None:
        await world.apply([topology("a", LEVELS), named])
        await world.settle()
        await world.delete("ClusterTopology", "a")
        ref = world.ref(topology("a", LEVELS))
        await world.door.merge_patch(ref, {"metadata": {"finalizers": None}}, ANY)
        await world.settle()
        assert await world.get("ClusterTopology", "a") is None
        whole = await world.get("PodCliqueSet", "d")
        assert condition(whole, "TopologyLevelsUnavailable") == ("Unknown", "ClusterTopologyNotFound")
        gang = await world.get("PodGang", "d-0") or {}
        assert "topologyConstraint" not in gang["spec"]
        assert "grove.io/topology-name" not in gang["metadata"].get("annotations", {})
        podgroup = await world.get("PodGroup", "d-0") or {}
        assert not podgroup["spec"].get("topologyConstraint")
        await world.apply(topology("a", LEVELS))
        await world.settle()
        assert await _pack(world, "d-0") == {"required": BLOCK, "preferred": HOST}
        assert len(await world.list("Pod")) == 1

    in_world(scenario, settings())


def test_c4_p7_off_strips_the_constraints_and_on_again_restores_them() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        before = {each["metadata"]["uid"] for each in await world.list("Pod")}
        await restarted(world, settings(None))
        assert await world.get("ClusterTopology", "grove-topology") is None
        assert await world.get("Topology", "grove-topology") is None
        assert await _pack(world, "d-0") is None
        whole = await world.get("PodCliqueSet", "d")
        assert condition(whole, "TopologyLevelsUnavailable") == ("Unknown", "TopologyAwareSchedulingDisabled")
        assert {each["metadata"]["uid"] for each in await world.list("Pod")} == before
        await restarted(world, settings())
        assert await _pack(world, "d-0") == {"required": ZONE, "preferred": HOST}
        assert {each["metadata"]["uid"] for each in await world.list("Pod")} == before

    in_world(scenario, settings())


def test_g11_what_the_scheduler_writes_on_a_podgroup_stays() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        podgroup = await world.get("PodGroup", "d-0") or {}
        theirs = {
            "metadata": {"annotations": {"spinney.dev/plan": "x"}},
            "spec": {"queue": "q", "schedulingBackoff": 1},
        }
        await world.door.merge_patch(world.ref(podgroup), theirs, ANY)
        await restarted(world, settings(LEVELS | {"zone": "example.com/zone"}))
        podgroup = await world.get("PodGroup", "d-0") or {}
        assert podgroup["metadata"]["annotations"]["spinney.dev/plan"] == "x"
        assert (podgroup["spec"]["queue"], podgroup["spec"]["schedulingBackoff"]) == ("q", 1)
        assert podgroup["spec"]["topologyConstraint"]["requiredTopologyLevel"] == "example.com/zone"

    in_world(scenario, settings())


def test_g11_a_deleted_podgroup_is_made_again_and_a_foreign_one_is_left_alone() -> None:
    foreign = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "f-0", "namespace": "default"},
        "spec": {"minMember": 9},
    }

    async def scenario(world: World) -> None:
        await world.apply([foreign, SET, FREE])
        await world.settle()
        await world.delete("PodGroup", "d-0")
        await world.settle()
        assert (await world.get("PodGroup", "d-0") or {})["spec"]["minMember"] == 4
        assert (await world.get("PodGroup", "f-0") or {})["spec"] == {"minMember": 9}
        assert ("Warning", "KAIBackendMappingFailed") in await events(world, "PodGang")

    in_world(scenario, settings())


def test_g11_the_queue_of_the_set_or_of_its_cliques_reaches_the_podgroup() -> None:
    queued = podcliqueset("q", [clique("a")], metadata={"labels": {"kai.scheduler/queue": "gold"}})
    inner = podcliqueset("r", [clique("a", annotations={"kai.scheduler/queue": "iron"})])

    async def scenario(world: World) -> None:
        await world.apply([queued, inner, FREE])
        await world.settle()
        found = {each["metadata"]["name"]: each["spec"]["queue"] for each in await world.list("PodGroup")}
        assert found == {"q-0": "gold", "r-0": "iron", "f-0": "default-queue"}

    in_world(scenario, settings())


def test_g10_the_default_scheduler_gets_plain_pods() -> None:
    pod_spec = {"containers": [{"name": "main", "image": "serve"}], "schedulerName": "default-scheduler"}

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("p", [clique("a", podSpec=pod_spec)]))
        await world.settle()
        (pod,) = await world.list("Pod")
        assert pod["spec"]["schedulerName"] == "default-scheduler"
        assert "pod-group-name" not in pod["metadata"].get("annotations", {})
        gang = await world.get("PodGang", "p-0") or {}
        assert gang["metadata"]["labels"]["grove.io/scheduler-name"] == "default-scheduler"
        assert await world.list("PodGroup") == []

    in_world(scenario, settings())
