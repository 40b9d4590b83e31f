"""ClusterTopologyBindings: the same as ClusterTopologies, and the topologies that schedulers have already (T8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.operator.operator_world import CRDS, clique, condition, in_world, podcliqueset, writes_at_rest
from unit.operator.topologies import BLOCK, HOST, LEVELS, RACK, ZONE, events, packed, restarted, settings, topology

USER = podcliqueset("d", [clique("w")], clusterTopologyName="a", topologyConstraint=packed("block"))
KIND = "ClusterTopologyBinding"


def binding(name: str, levels: dict[str, str] = LEVELS, **references: str) -> dict[str, Any]:
    """`references`: the topology object by scheduler, `_` for `-`."""
    bound = [
        {"schedulerName": scheduler.replace("_", "-"), "topologyReference": reference}
        for scheduler, reference in references.items()
    ]
    made = {**topology(name, levels), "kind": KIND}
    return {**made, "spec": made["spec"] | ({"schedulerTopologyBindings": bound} if bound else {})}


def kai_topology(name: str, *keys: str) -> dict[str, Any]:
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": key} for key in keys]},
    }


async def _required(world: World) -> str:
    gang = await world.get("PodGang", "d-0") or {}
    return str(gang["spec"].get("topologyConstraint", {}).get("packConstraint", {}).get("required", ""))


async def _drift(world: World, name: str = "a") -> tuple[str, str]:
    return condition(await world.get(KIND, name), "SchedulerTopologyDrift")


def test_t8_a_set_is_translated_by_a_binding_alone() -> None:
    async def scenario(world: World) -> list[str]:
        await world.apply([binding("a"), USER])
        await world.settle()
        assert await _required(world) == BLOCK
        podgroup = await world.get("PodGroup", "d-0") or {}
        assert podgroup["spec"]["topologyConstraint"]["topology"] == "a"
        twin = await world.get("Topology", "a") or {}
        assert [level["nodeLabel"] for level in twin["spec"]["levels"]] == [ZONE, BLOCK, RACK, HOST]
        assert [owner["kind"] for owner in twin["metadata"]["ownerReferences"]] == [KIND]
        found = await world.get(KIND, "a") or {}
        assert found["metadata"]["finalizers"] == ["grove.io/clustertopology"]
        assert await _drift(world) == ("False", "InSync")
        assert [each["inSync"] for each in found["status"]["schedulerTopologyStatuses"]] == [True]
        return await writes_at_rest(world)

    assert in_world(scenario, settings()) == []


def test_t8_l2_a_binding_in_use_outlives_its_deletion() -> None:
    async def scenario(world: World) -> None:
        await world.apply([binding("a"), USER])
        await world.settle()
        await world.delete(KIND, "a")
        await world.settle()
        assert await world.get(KIND, "a") is not None
        assert ("Warning", "DeletionBlocked") in await events(world, KIND)
        await world.delete("PodCliqueSet", "d")
        await world.settle()
        assert await world.get(KIND, "a") is None
        assert await world.get("Topology", "a") is None

    in_world(scenario, settings())


def test_b4_l2_unprotected_a_binding_in_use_goes_at_once_as_upstream_does_it() -> None:
    async def scenario(world: World) -> list[str]:
        await world.apply([binding("a"), USER])
        await world.settle()
        assert not (await world.get(KIND, "a") or {})["metadata"].get("finalizers")
        await world.delete(KIND, "a")
        await world.settle()
        assert await world.get(KIND, "a") is None
        assert await world.get("Topology", "a") is None
        assert condition(await world.get("PodCliqueSet", "d"), "TopologyLevelsUnavailable")[0] == "Unknown"
        return await writes_at_rest(world)

    assert in_world(scenario, replace(settings(), protects_topologies=False)) == []


def test_b4_l2_a_finalizer_from_before_holds_nobody_up_once_topologies_are_unprotected() -> None:
    async def scenario(world: World) -> None:
        await world.apply([binding("a"), USER])
        await world.settle()
        assert (await world.get(KIND, "a") or {})["metadata"]["finalizers"]
        await restarted(world, replace(settings(), protects_topologies=False))
        await world.delete(KIND, "a")
        await world.settle()
        assert await world.get(KIND, "a") is None

    in_world(scenario, settings())


def test_t8_of_both_kinds_of_one_name_the_binding_wins_and_is_told() -> None:
    async def scenario(world: World) -> list[str]:
        await world.apply([topology("a", {"block": "other", "host": HOST}), USER])
        await world.settle()
        assert await _required(world) == "other"
        await world.apply(binding("a"))
        await world.settle()
        assert await _required(world) == BLOCK
        twin = await world.get("Topology", "a") or {}
        assert [level["nodeLabel"] for level in twin["spec"]["levels"]] == [ZONE, BLOCK, RACK, HOST]
        older = await world.get("ClusterTopology", "a")
        assert condition(older, "Superseded") == ("True", "ClusterTopologyBindingExists")
        assert ("Warning", "TopologySuperseded") in await events(world, "ClusterTopology")
        assert await writes_at_rest(world) == []
        await world.delete("ClusterTopology", "a")
        await world.settle()
        assert await world.get("ClusterTopology", "a") is None, "nobody uses it"
        assert await _required(world) == BLOCK
        return await writes_at_rest(world)

    assert in_world(scenario, settings(), binds=False) == []


def test_t8_a_bound_topology_is_compared_and_never_written() -> None:
    async def scenario(world: World) -> None:
        await world.apply([binding("a", kai_scheduler="theirs"), USER])
        await world.settle()
        assert await _drift(world) == ("True", "Drift")
        (status,) = (await world.get(KIND, "a") or {})["status"]["schedulerTopologyStatuses"]
        assert status["message"] == 'KAI Topology "theirs" not found'
        assert await world.get("Topology", "a") is None
        await world.apply(kai_topology("theirs", ZONE, RACK))
        await world.settle()
        (status,) = (await world.get(KIND, "a") or {})["status"]["schedulerTopologyStatuses"]
        assert status["message"] == "KAI Topology levels differ from ClusterTopologyBinding levels"
        theirs = await world.get("Topology", "theirs") or {}
        assert [level["nodeLabel"] for level in theirs["spec"]["levels"]] == [ZONE, RACK]
        await world.delete("Topology", "theirs")
        await world.apply(kai_topology("theirs", ZONE, BLOCK, RACK, HOST))
        await world.settle()
        assert await _drift(world) == ("False", "InSync")
        podgroup = await world.get("PodGroup", "d-0") or {}
        assert podgroup["spec"]["topologyConstraint"]["topology"] == "theirs"
        assert await events(world, KIND) == [("Warning", "TopologyDriftDetected"), ("Normal", "TopologyInSync")]
        assert await writes_at_rest(world) == []

    in_world(scenario, settings(), binds=False)


def test_t8_podgroups_follow_a_binding_that_names_another_topology() -> None:
    async def scenario(world: World) -> None:
        await world.apply([binding("a"), kai_topology("theirs", ZONE, BLOCK, RACK, HOST), USER])
        await world.settle()
        found = await world.get(KIND, "a") or {}
        bound = [{"schedulerName": "kai-scheduler", "topologyReference": "theirs"}]
        await world.door.merge_patch(world.ref(found), {"spec": {"schedulerTopologyBindings": bound}}, ANY)
        await world.settle()
        podgroup = await world.get("PodGroup", "d-0") or {}
        assert podgroup["spec"]["topologyConstraint"]["topology"] == "theirs"

    in_world(scenario, settings(), binds=False)


def test_t8_a_bound_scheduler_without_topologies_is_told() -> None:
    async def scenario(world: World) -> None:
        await world.apply(binding("a", volcano="x"))
        await world.settle()
        assert await _drift(world) == ("Unknown", "TopologyNotFound")
        statuses = (await world.get(KIND, "a") or {})["status"]["schedulerTopologyStatuses"]
        assert {each["schedulerName"]: each.get("message", "") for each in statuses} == {
            "kai-scheduler": "",
            "volcano": 'scheduler backend "volcano" is not available for topology management',
        }
        assert "observedGeneration" not in (await world.get(KIND, "a") or {})["status"]

    in_world(scenario, settings())


def test_t8_c3_where_only_bindings_are_served_the_default_topology_is_one(monkeypatch: Any) -> None:
    kinds = [each for each in CRDS if each["spec"]["names"]["kind"] != "ClusterTopology"]
    monkeypatch.setattr("unit.operator.operator_world.CRDS", kinds)

    async def scenario(world: World) -> None:
        implicit = podcliqueset("d", [clique("w")], topologyConstraint=packed("block"))
        await world.apply(implicit)
        await world.settle()
        found = await world.get(KIND, "grove-topology") or {}
        assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "grove-operator"
        assert await _required(world) == BLOCK
        await restarted(world, settings(None))
        assert await world.get(KIND, "grove-topology") is None

    in_world(scenario, settings())
