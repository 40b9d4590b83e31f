"""Deployments from the API to running pods and back to their status, in one seeded world."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

import pytest

from spinney.api.dynamo_conversion import to_alpha
from spinney.drive.client.errors import ClientError
from spinney.sim.world import World
from unit.dynamo.dynamo_kit import Json, component, deployment, packed
from unit.dynamo.dynamo_world import in_world, manifest, told
from unit.operator.operator_world import clique, podcliqueset
from unit.operator.topologies import LEVELS, RACK, ZONE

WIDE = component("Decode", gpus=8, line="python3 -m dynamo.sglang --tp 16", multinode={"nodeCount": 2}, replicas=2)


async def domains(world: World, prefix: str, level: str) -> Counter[str]:
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in await world.list("Node")}
    pods = [each for each in await world.list("Pod") if each["metadata"]["name"].startswith(prefix)]
    keys = list(LEVELS.values())
    path = keys[: keys.index(level) + 1]
    return Counter("/".join(labels[pod["spec"]["nodeName"]][key] for key in path) for pod in pods)


def test_the_documents_mixed_example_runs_where_it_asks_to() -> None:
    async def scenario(world: World) -> None:
        worker = {**WIDE, "topologyConstraint": packed("rack")}
        await world.apply(
            manifest(deployment("llm", worker, component("Frontend", "frontend"), topologyConstraint=packed("zone")))
        )
        await world.settle()
        assert (await told(world, "llm", "Ready"))[:2] == ("True", "all_resources_are_ready")
        assert (await told(world, "llm", "TopologyConstraintsEnforced"))[:2] == ("True", "AllTopologyLevelsAvailable")
        assert len(await domains(world, "llm-0", ZONE)) == 1
        for replica in (0, 1):
            assert list((await domains(world, f"llm-0-decode-{replica}", RACK)).values()) == [2]
        found = await world.get("DynamoGraphDeployment", "llm")
        assert found is not None
        assert found["status"]["state"] == "successful"
        assert found["status"]["placement"]["state"] == "Reported"

    in_world(scenario)


def test_scaling_a_component_keeps_the_topology_and_the_set() -> None:
    async def scenario(world: World) -> None:
        obj = deployment("llm", {**WIDE, "topologyConstraint": packed("rack")}, topologyConstraint=packed("zone"))
        await world.apply(manifest(obj))
        await world.settle()
        before = await world.get("PodCliqueSet", "llm")
        obj["spec"]["components"][0]["replicas"] = 4
        await world.apply(manifest(obj))
        await world.settle()
        after = await world.get("PodCliqueSet", "llm")
        assert before is not None and after is not None
        assert before["spec"] == after["spec"]
        assert (await told(world, "llm", "Ready"))[0] == "True"
        assert len(await domains(world, "llm-0", ZONE)) == 1
        assert sorted((await domains(world, "llm-0-decode", RACK)).values()) == [2, 2, 2, 2]

    in_world(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_a_component_without_replicas_keeps_nobody_waiting(seed: int) -> None:
    async def scenario(world: World) -> None:
        idle = component("Idle", gpus=8, replicas=0, topologyConstraint=packed("rack"))
        obj = deployment("llm", component("Frontend", "frontend"), idle, topologyConstraint=packed("zone"))
        await world.apply(manifest(obj))
        await world.settle()
        assert (await told(world, "llm", "Ready"))[:2] == ("True", "all_resources_are_ready")
        assert [each["metadata"]["labels"]["grove.io/podclique"] for each in await world.list("Pod")] == [
            "llm-0-frontend"
        ]
        obj["spec"]["components"][1]["replicas"] = 2
        await world.apply(manifest(obj))
        await world.settle()
        assert list((await domains(world, "llm-0-idle", RACK)).values()) == [2]

    in_world(scenario, seed=seed)


def test_no_room_is_a_capacity_problem_and_says_so() -> None:
    async def scenario(world: World) -> None:
        big = component("Decode", gpus=8, line="python3 -m dynamo.sglang", multinode={"nodeCount": 3})
        await world.apply(manifest(deployment("big", {**big, "topologyConstraint": packed("rack")})))
        await world.settle()
        status, reason, message = await told(world, "big", "Ready")
        assert (status, reason) == ("False", "insufficient_capacity")
        assert "Decode" in message

    in_world(scenario)


def test_d9_d10_a_level_that_disappears_and_comes_back_shows_on_the_deployment() -> None:
    """Users that are not scheduled do not protect their levels; its own levels come back as they were."""

    def named(domains: Iterable[str]) -> Json:
        levels = [{"domain": domain, "key": LEVELS[domain]} for domain in domains]
        body = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "metadata": {"name": "mine"}}
        return {**body, "spec": {"levels": levels}}

    async def scenario(world: World) -> None:
        await world.apply(named(LEVELS))
        await world.settle()
        big = component("Decode", gpus=9)
        await world.apply(manifest(deployment("llm", big, topologyConstraint=packed("rack", "mine"))))
        await world.settle()
        assert (await told(world, "llm", "TopologyLevelsAvailable"))[0] == "True"
        await world.apply(named(domain for domain in LEVELS if domain != "rack"))
        await world.settle()
        lost = "Topology level 'rack' is no longer available in the cluster topology"
        for kind in ("TopologyConstraintsEnforced", "TopologyLevelsAvailable"):
            assert await told(world, "llm", kind) == ("False", "TopologyLevelsUnavailable", lost)
        await world.apply(named(LEVELS))
        await world.settle()
        assert (await told(world, "llm", "TopologyConstraintsEnforced"))[0] == "True"
        assert await events(world) == [
            ("Normal", "TopologyConstraintsApplied"),
            ("Warning", "TopologyLevelsUnavailable"),
            ("Normal", "TopologyConstraintsApplied"),
        ]

    in_world(scenario)


async def events(world: World) -> list[tuple[str, str]]:
    """Of deployments, in the order they came."""
    found = [each for each in await world.list("Event") if each["involvedObject"]["kind"] == "DynamoGraphDeployment"]
    by_age = sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))
    return [(each["type"], each["reason"]) for each in by_age]


def test_d13_a_set_that_is_refused_shows_on_the_deployment() -> None:
    async def scenario(world: World) -> None:
        await world.apply(manifest(deployment("llm", component("Decode"), topologyConstraint=packed("rack"))))
        await world.settle()
        status, reason, message = await told(world, "llm", "Ready")
        assert (status, reason) == ("False", "failed_to_reconcile_the_resources")
        assert "topology support is not enabled in the operator" in message

    from unit.operator.topologies import settings, topology

    async def with_topology(world: World) -> None:
        await world.apply(topology("grove-topology", LEVELS))
        await scenario(world)

    in_world(with_topology, operator=settings(None))


def test_d13_a_set_of_somebody_else_is_left_alone_and_named() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("llm", [clique("own")]))
        await world.settle()
        await world.apply(manifest(deployment("llm", component("w"))))
        await asyncio.sleep(30)
        status, reason, message = await told(world, "llm", "Ready")
        assert (status, reason) == ("False", "failed_to_reconcile_the_resources")
        assert message == "PodCliqueSet llm is there and does not belong to this deployment"
        assert [each["metadata"]["name"] for each in await world.list("PodClique")] == ["llm-0-own"]

    in_world(scenario)


def test_a_refused_deployment_is_refused_by_the_server_in_the_words_of_its_version() -> None:
    async def scenario(world: World) -> None:
        bad = deployment(
            "llm", component("Decode", topologyConstraint=packed("zone")), topologyConstraint=packed("rack")
        )
        with pytest.raises(ClientError, match=r"spec\.components\[0\]\.topologyConstraint\.packDomain"):
            await world.apply(manifest(bad))
        with pytest.raises(ClientError, match=r"spec\.services\[Decode\]\.topologyConstraint\.packDomain"):
            await world.apply(manifest(to_alpha(bad)))

    in_world(scenario)


def test_live1_at_rest_nothing_is_written() -> None:
    async def scenario(world: World) -> None:
        await world.apply(manifest(deployment("llm", WIDE, component("Frontend", "frontend"))))
        await world.settle()
        before = world.writes
        await world.restart()
        await world.settle()
        assert world.writes == before

    in_world(scenario)


def test_what_is_deleted_takes_everything_with_it() -> None:
    async def scenario(world: World) -> None:
        await world.apply(manifest(deployment("llm", WIDE, component("Frontend", "frontend"))))
        await world.settle()
        await world.delete("DynamoGraphDeployment", "llm")
        await world.settle()
        left = [kind for kind in ("PodCliqueSet", "PodGang", "Pod", "ConfigMap") if await world.list(kind, "default")]
        assert left in ([], ["ConfigMap"])
        assert [
            each["metadata"]["name"]
            for each in await world.list("Service", "default")
            if "llm" in each["metadata"]["name"]
        ] == []

    in_world(scenario)


def test_a_deployment_without_a_spec_says_what_it_lacks() -> None:
    """The API server takes it, and so do our rules: components may be given later."""

    async def scenario(world: World) -> None:
        obj = manifest(deployment("llm"))
        del obj["spec"]
        await world.apply(obj)
        await world.settle()
        assert "at least one PodClique must be defined" in (await told(world, "llm", "Ready"))[2]

    in_world(scenario)
