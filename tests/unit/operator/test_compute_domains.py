"""Multi-node NVLink: compute domains come, are protected and go with the replicas that need them (2.11)."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.core.expansion.settings import Settings
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.drive.operator.startup import NO_COMPUTE_DOMAINS, StartupFailed
from spinney.sim.world import World
from stack_kit.compute_domains import DEFINITION, gpu_pod, in_group
from unit.operator.operator_world import clique, group, in_world, names, podcliqueset, writes_at_rest

ON = Settings(mnnvl_enabled=True)
FINALIZER = "grove.io/computedomain-finalizer"


def _set(replicas: int = 2) -> dict[str, Any]:
    """Groups from all three layers: the set's, a scaling group's, a clique's, and cliques that are in none."""
    cliques = [
        clique("router", 1),
        clique("alone", 2, podSpec=gpu_pod()),
        clique("out", 1, podSpec=gpu_pod(), **in_group("none")),
        clique("own", 1, podSpec=gpu_pod(), **in_group("c")),
        clique("w", 1, podSpec=gpu_pod()),
    ]
    return podcliqueset("d", cliques, [group("g", ["w", "own"], **in_group("b"))], replicas, metadata=in_group("a"))


async def _patch(world: World, kind: str, name: str, patch: dict[str, Any]) -> None:
    found = await world.get(kind, name) or {}
    written(await world.door.merge_patch(world.ref(found), patch, ANY))


async def _domains(world: World) -> list[str]:
    return names(await world.list("ComputeDomain"))


def test_g1_each_group_of_each_replica_gets_a_compute_domain() -> None:
    async def scenario(world: World) -> None:
        await world.apply(_set())
        await world.settle()
        assert await _domains(world) == ["d-0-a", "d-0-b", "d-0-c", "d-1-a", "d-1-b", "d-1-c"]
        found = await world.get("ComputeDomain", "d-1-b") or {}
        assert found["spec"] == {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "d-1-b"}}}
        assert found["metadata"]["finalizers"] == [FINALIZER]
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("PodCliqueSet", "d", True)
        expected = {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "d",
            "grove.io/mnnvl-group": "b",
            "grove.io/podcliqueset-replica-index": "1",
        }
        assert expected.items() <= found["metadata"]["labels"].items()
        assert await writes_at_rest(world) == []

    in_world(scenario, ON, others=[DEFINITION])


def test_g1_containers_with_gpus_claim_the_domain_of_their_group() -> None:
    async def scenario(world: World) -> None:
        await world.apply(_set(1))
        await world.settle()
        claimed = {}
        for pod in await world.list("Pod"):
            spec = pod["spec"]
            claimed[pod["metadata"]["labels"]["grove.io/podclique"]] = spec.get("resourceClaims")
            for container in spec["containers"]:
                wanted = bool(spec.get("resourceClaims")) and container["name"] == "main"
                assert ({"name": "mnnvl-claim"} in container.get("resources", {}).get("claims", [])) == wanted
        assert claimed == {
            "d-0-router": None,
            "d-0-out": None,
            "d-0-alone": [{"name": "mnnvl-claim", "resourceClaimTemplateName": "d-0-a"}],
            "d-0-g-0-w": [{"name": "mnnvl-claim", "resourceClaimTemplateName": "d-0-b"}],
            "d-0-g-0-own": [{"name": "mnnvl-claim", "resourceClaimTemplateName": "d-0-c"}],
        }

    in_world(scenario, ON, others=[DEFINITION])


def test_g1_the_podcliques_have_the_claims_as_upstream_writes_them() -> None:
    """Also one that was made before: it gets the claim by a write of its own, and no pod is replaced for it."""

    async def scenario(world: World) -> list[str]:
        await world.apply(_set(1))
        await world.settle()
        pods = {pod["metadata"]["uid"] for pod in await world.list("Pod")}
        bare = {"spec": {"podSpec": {**gpu_pod(), "resourceClaims": None}}}
        await _patch(world, "PodClique", "d-0-alone", bare)
        await world.settle()
        claimed = {}
        for found in await world.list("PodClique"):
            spec = found["spec"]["podSpec"]
            claims = [(each["name"], each["resourceClaimTemplateName"]) for each in spec.get("resourceClaims", [])]
            claimed[found["metadata"]["name"]] = claims
            given = [each["name"] for each in spec["containers"] if (each.get("resources") or {}).get("claims")]
            assert given == ["main"] * len(claims)
        assert claimed == {
            "d-0-router": [],
            "d-0-out": [],
            "d-0-alone": [("mnnvl-claim", "d-0-a")],
            "d-0-g-0-w": [("mnnvl-claim", "d-0-b")],
            "d-0-g-0-own": [("mnnvl-claim", "d-0-c")],
        }
        assert {pod["metadata"]["uid"] for pod in await world.list("Pod")} == pods
        return await writes_at_rest(world)

    assert in_world(scenario, ON, others=[DEFINITION]) == []


def test_g1_a_group_that_a_clique_without_gpus_names_has_no_effect() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w", **in_group("a"))]))
        await world.settle()
        assert await _domains(world) == []
        (pod,) = await world.list("Pod")
        assert "resourceClaims" not in pod["spec"]

    in_world(scenario, ON, others=[DEFINITION])


def test_g1_domains_come_and_go_with_the_replicas_of_the_set() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w", podSpec=gpu_pod())], metadata=in_group("a")))
        await world.settle()
        assert await _domains(world) == ["d-0-a"]
        await _patch(world, "PodCliqueSet", "d", {"spec": {"replicas": 3}})
        await world.settle()
        assert await _domains(world) == ["d-0-a", "d-1-a", "d-2-a"]
        await _patch(world, "PodCliqueSet", "d", {"spec": {"replicas": 1}})
        await world.settle()
        assert await _domains(world) == ["d-0-a"]
        await world.delete("PodCliqueSet", "d")
        await world.settle()
        assert await _domains(world) == []
        assert await world.get("PodCliqueSet", "d") is None

    in_world(scenario, ON, others=[DEFINITION])


def test_g1_a_domain_that_is_needed_outlives_its_deletion() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w", podSpec=gpu_pod())], metadata=in_group("a")))
        await world.settle()
        await world.delete("ComputeDomain", "d-0-a")
        await world.settle()
        assert FINALIZER in (await world.get("ComputeDomain", "d-0-a") or {})["metadata"]["finalizers"]
        await world.delete("PodCliqueSet", "d")
        await world.settle()
        assert await _domains(world) == []

    in_world(scenario, ON, others=[DEFINITION])


def test_g1_a_domain_whose_set_is_gone_is_let_go() -> None:
    async def scenario(world: World) -> None:
        owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "d", "uid": "gone"}
        labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "d"}
        metadata = {"name": "d-0-a", "finalizers": [FINALIZER], "labels": labels, "ownerReferences": [owner]}
        spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "d-0-a"}}}
        kind = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain"}
        await world.apply({**kind, "metadata": metadata, "spec": spec})
        await world.settle()
        assert await _domains(world) == []

    in_world(scenario, ON, others=[DEFINITION])


def test_g1_a_domain_that_is_left_behind_stays_until_somebody_deletes_it() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w", podSpec=gpu_pod())], metadata=in_group("a")))
        await world.settle()
        whole = world.ref(await world.get("PodCliqueSet", "d") or {})
        await world.door.delete(whole, ANY, propagation="Orphan")
        await world.settle()
        assert await world.get("PodCliqueSet", "d") is None
        assert await _domains(world) == ["d-0-a"]
        await world.delete("ComputeDomain", "d-0-a")
        await world.settle()
        assert await _domains(world) == []

    in_world(scenario, ON, others=[DEFINITION])


def test_g1_labels_and_finalizer_of_a_domain_are_put_right() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w", podSpec=gpu_pod())], metadata=in_group("a")))
        await world.settle()
        mine = {"grove.io/mnnvl-group": None, "team": "x"}
        await _patch(world, "ComputeDomain", "d-0-a", {"metadata": {"finalizers": None, "labels": mine}})
        await world.settle()
        metadata = (await world.get("ComputeDomain", "d-0-a") or {})["metadata"]
        assert metadata["finalizers"] == [FINALIZER]
        assert (metadata["labels"]["grove.io/mnnvl-group"], metadata["labels"]["team"]) == ("a", "x")

    in_world(scenario, ON, others=[DEFINITION])


def test_g1_switched_off_there_are_no_domains_and_no_claims() -> None:
    async def scenario(world: World) -> None:
        await world.apply(_set(1))
        await world.settle()
        assert await _domains(world) == []
        assert not any(pod["spec"].get("resourceClaims") for pod in await world.list("Pod"))

    in_world(scenario, others=[DEFINITION])


def test_g1_a_group_name_that_is_too_long_for_a_label_value_is_cut_there_only() -> None:
    async def scenario(world: World) -> None:
        long = "a" * 63
        await world.apply(podcliqueset("d", [clique("w", podSpec=gpu_pod())], metadata=in_group(long)))
        await world.settle()
        assert await _domains(world) == [f"d-0-{long}"]

    in_world(scenario, ON, others=[DEFINITION])


def test_c1_without_the_kind_an_operator_that_was_told_to_use_it_ends_with_7() -> None:
    async def scenario(world: World) -> None:
        await world.settle()

    with pytest.raises(BaseExceptionGroup) as raised:
        in_world(scenario, ON)
    found = raised.value.subgroup(StartupFailed)
    assert found is not None
    (failure,) = found.exceptions
    assert isinstance(failure, StartupFailed)
    assert failure.status == NO_COMPUTE_DOMAINS == 7
    assert "computedomains.resource.nvidia.com is not served" in str(failure)
