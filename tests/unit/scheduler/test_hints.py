"""What pods learn about their place at the bind, and the look-ups that decide it."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.core.scheduling.settings import Settings
from spinney.sim.world import World
from unit.operator.topologies import BLOCK, LEVELS, RACK, topology
from unit.scheduler.scheduler_world import bound, domains, in_world, pod, podgroup, pods, said
from unit.scheduler.watched_world import patch, watched

Json = dict[str, Any]
NUMA = "example.com/numa"


async def found(world: World, name: str) -> Json:
    one = await world.get("Pod", name)
    assert one is not None
    return one


@pytest.mark.parametrize("before", [False, True])
def test_k11_rank_and_segment_are_labels_as_well(before: bool) -> None:
    async def scenario(world: World) -> None:
        asked = {
            "kai.scheduler/segment-size": "2",
            "kai.scheduler/segment-topology-required-placement": RACK,
            "kai.scheduler/topology": "tree",
        }
        await world.apply([podgroup("a", 4, required=BLOCK, annotations=asked), *pods("a", 4)])
        await world.settle()
        members = [each["metadata"] for each in await world.list("Pod")]
        for metadata in members:
            for key in ("spinney.dev/rank", "spinney.dev/segment"):
                assert metadata["labels"][key] == metadata["annotations"][key]
            assert "spinney.dev/domain" not in metadata["labels"]
        assert sorted(each["labels"]["spinney.dev/rank"] for each in members) == ["0", "1", "2", "3"]
        by_segment = {
            segment: {each["labels"]["spinney.dev/rank"] for each in members if _segment(each) == segment}
            for segment in ("0", "1")
        }
        assert set(map(frozenset, by_segment.values())) == {frozenset("01"), frozenset("23")}

    watched(scenario, settings=Settings(labels_before_bind=before))


def _segment(metadata: Json) -> str:
    return str(metadata["annotations"]["spinney.dev/segment"])


def test_k11_segments_of_two_leaves_are_not_mixed() -> None:
    async def scenario(world: World) -> None:
        asked = {
            "kai.scheduler/segment-size": "2",
            "kai.scheduler/segment-topology-required-placement": RACK,
            "kai.scheduler/topology": "tree",
        }
        leaves = [{"name": name, "minMember": 2} for name in ("one", "two")]
        members = [pod(f"{leaf}-{each}", "a", 4, subgroup=leaf) for leaf in ("one", "two") for each in range(2)]
        await world.apply([podgroup("a", 4, required=BLOCK, annotations=asked, subGroups=leaves), *members])
        await world.settle()
        ranks = {
            each["metadata"]["name"]: int(each["metadata"]["labels"]["spinney.dev/rank"])
            for each in members_of(await world.list("Pod"))
        }
        assert abs(ranks["one-0"] - ranks["one-1"]) == abs(ranks["two-0"] - ranks["two-1"]) == 1

    watched(scenario)


def members_of(found: list[Json]) -> list[Json]:
    return [each for each in found if each["spec"].get("nodeName")]


def test_k13_segments_know_the_short_names_of_levels() -> None:
    async def scenario(world: World) -> None:
        await world.apply(topology("tree", LEVELS))
        asked = {
            "kai.scheduler/segment-size": "2",
            "kai.scheduler/segment-topology-required-placement": "rack",
            "kai.scheduler/topology": "tree",
        }
        await world.apply([podgroup("a", 4, required=BLOCK, annotations=asked), *pods("a", 4)])
        await world.settle()
        assert len(await bound(world)) == 4

    watched(scenario)


def test_live4_a_short_name_that_is_defined_later_is_understood() -> None:
    async def scenario(world: World) -> None:
        asked = {
            "kai.scheduler/segment-size": "2",
            "kai.scheduler/segment-topology-required-placement": "rack",
            "kai.scheduler/topology": "tree",
        }
        await world.apply([podgroup("a", 4, required=BLOCK, annotations=asked), *pods("a", 4)])
        await world.settle()
        assert "'rack'" in await said(world, "a")
        await world.apply(topology("tree", LEVELS))
        await world.settle()
        assert len(await bound(world)) == 4

    watched(scenario)


def test_k8_a_pod_goes_where_its_resource_claim_is_allocated_and_waits_until_it_is() -> None:
    async def scenario(world: World) -> None:
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "gpu"},
            "spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu"}}]}},
        }
        asks: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
        await world.apply([claim, podgroup("a"), pod("a-0", "a", **asks)])
        await world.settle()
        assert "ResourceClaim gpu is not allocated" in await said(world, "a")
        node = (await world.list("Node"))[5]["metadata"]["name"]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        status = {"status": {"allocation": {"nodeSelector": {"nodeSelectorTerms": terms}}}}
        await patch(world, "ResourceClaim", "gpu", status, subresource="status")
        await world.settle()
        assert await bound(world) == {"a-0": node}

    watched(scenario)


def definition() -> Json:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "NodeResourceTopology", "plural": "noderesourcetopologies", "singular": "noderesourcetopology"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "noderesourcetopologies.topology.node.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved"},
        },
        "spec": {
            "group": "topology.node.k8s.io",
            "scope": "Cluster",
            "names": {**names, "listKind": "NodeResourceTopologyList"},
            "versions": [version],
        },
    }


def zones(node: str) -> Json:
    def zone(name: str) -> Json:
        amounts = {"nvidia.com/gpu": "4", "cpu": "32", "memory": "32Gi"}
        resources = [{"name": key, "capacity": value, "allocatable": value} for key, value in amounts.items()]
        return {"name": name, "type": "Node", "resources": resources}

    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [zone("node-0"), zone("node-1")],
    }


def test_k12_a_pod_goes_to_one_zone_of_a_node_and_learns_which() -> None:
    async def scenario(world: World) -> None:
        await world.apply(definition())
        names = [each["metadata"]["name"] for each in await world.list("Node")]
        await world.apply([zones(name) for name in names])
        await world.settle()
        await world.apply([podgroup("a", 2), *pods("a", 2, 3), podgroup("b"), *pods("b", 1, 8)])
        await world.settle()
        assert len(await bound(world, "a")) == 2
        assert await bound(world, "b") == {}
        told = {(await found(world, f"a-{each}"))["metadata"]["annotations"]["spinney.dev/zone"] for each in range(2)}
        assert told == {"node-0", "node-1"}
        assert len(set((await bound(world, "a")).values())) == 1

    watched(scenario)


def test_k12_members_that_share_a_zone_are_together_and_the_room_they_hold_is_kept() -> None:
    async def scenario(world: World) -> None:
        await world.apply([definition(), topology("tree", {**LEVELS, "numa": NUMA})])
        name = (await world.list("Node"))[0]["metadata"]["name"]
        await world.apply(zones(name))
        await world.settle()
        await world.apply([podgroup("a", 2, required=NUMA), *pods("a", 2, 2)])
        await world.settle()
        told = {(await found(world, f"a-{each}"))["metadata"]["annotations"]["spinney.dev/zone"] for each in range(2)}
        assert (set((await bound(world, "a")).values()), len(told)) == ({name}, 1)
        await world.restart()
        await world.apply([podgroup("b", 2, required=NUMA), *pods("b", 2, 2)])
        await world.settle()
        theirs = {(await found(world, f"b-{each}"))["metadata"]["annotations"]["spinney.dev/zone"] for each in range(2)}
        assert told | theirs == {"node-0", "node-1"}
        assert len(await domains(world, (await bound(world)).values(), RACK)) == 1

    in_world(scenario)  # the watchdog knows levels by their labels only
