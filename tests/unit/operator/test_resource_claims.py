"""Resource claims that pods share: made once or per replica, given to the right pods, gone with their replica."""

from __future__ import annotations

from typing import Any

from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.operator.operator_world import clique, group, in_world, names, podcliqueset, writes_at_rest

DEVICES = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
TEMPLATES = [{"name": "net", "templateSpec": {"metadata": {"labels": {"of": "net"}}, "spec": DEVICES}}]


def _sharing(name: str, scope: str, **filtered: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "scope": scope}
    return found | ({"filter": filtered} if filtered else {})


SET = podcliqueset(
    "d",
    [clique("a", 2, resourceSharing=[_sharing("net", "PerReplica")]), clique("w")],
    [group("g", ["w"], replicas=2, resourceSharing=[_sharing("net", "PerReplica")])],
    resourceClaimTemplates=TEMPLATES,
    resourceSharing=[_sharing("net", "AllReplicas", childScalingGroupNames=["g"])],
)


async def _claims(world: World, clique_name: str) -> list[list[str]]:
    pods = await world.list("Pod", labels=f"grove.io/podclique={clique_name}")
    found = [[each["resourceClaimName"] for each in pod["spec"].get("resourceClaims") or []] for pod in pods]
    return sorted(found)


def test_g1_claims_are_made_for_set_group_and_clique_and_given_to_their_pods() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        assert names(await world.list("ResourceClaim")) == [
            "d-0-a-0-net",
            "d-0-a-1-net",
            "d-0-g-0-net",
            "d-0-g-1-net",
            "d-all-net",
        ]
        assert await _claims(world, "d-0-a") == [["d-0-a-0-net"], ["d-0-a-1-net"]]
        assert await _claims(world, "d-0-g-1-w") == [["d-all-net", "d-0-g-1-net"]]
        (pod,) = await world.list("Pod", labels="grove.io/podclique=d-0-g-0-w")
        assert pod["spec"]["containers"][0]["resources"]["claims"] == [{"name": "d-all-net"}, {"name": "d-0-g-0-net"}]
        claim = await world.get("ResourceClaim", "d-all-net") or {}
        assert claim["metadata"]["labels"]["of"] == "net"
        assert claim["metadata"]["ownerReferences"][0]["kind"] == "PodCliqueSet"

    in_world(scenario)


def test_g1_a_claim_goes_with_its_replica() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        found = await world.get("PodCliqueScalingGroup", "d-0-g") or {}
        await world.door.scale(world.ref(found), 1, ANY)
        await world.settle()
        assert "d-0-g-1-net" not in names(await world.list("ResourceClaim"))
        assert "d-0-g-0-net" in names(await world.list("ResourceClaim"))

    in_world(scenario)


def test_g1_a_template_object_that_comes_late_is_used_when_it_is_there() -> None:
    late = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "late", "namespace": "default"},
        "spec": {"spec": DEVICES},
    }
    whole = podcliqueset("d", [clique("a")], resourceSharing=[_sharing("late", "AllReplicas")])

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        assert await world.list("ResourceClaim") == []
        assert "ResourceClaimCreateFailed" in {each["reason"] for each in await world.list("Event")}
        await world.apply(late)
        await world.settle()
        assert names(await world.list("ResourceClaim")) == ["d-all-late"]

    in_world(scenario)


def test_live1_claims_are_left_alone_when_all_is_well() -> None:
    async def scenario(world: World) -> list[str]:
        await world.apply(SET)
        await world.settle()
        return await writes_at_rest(world)

    assert in_world(scenario) == []


def test_g1_a_pod_that_stays_keeps_its_claim_though_its_index_is_not_among_the_lowest() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        (first,) = await world.list("Pod", labels="grove.io/podclique=d-0-a,grove.io/podclique-pod-index=0")
        unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await world.door.merge_patch(world.ref(first), unready, ANY, subresource="status")
        found = await world.get("PodClique", "d-0-a") or {}
        await world.door.scale(world.ref(found), 1, ANY)
        await world.settle()
        assert await _claims(world, "d-0-a") == [["d-0-a-1-net"]]
        assert "d-0-a-1-net" in names(await world.list("ResourceClaim"))

    in_world(scenario)


def test_g1_the_labels_of_a_claim_are_put_right() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        claim = await world.get("ResourceClaim", "d-all-net") or {}
        wrong = {"metadata": {"labels": {"of": "me", "app.kubernetes.io/component": None, "mine": "stays"}}}
        await world.door.merge_patch(world.ref(claim), wrong, ANY)
        await world.settle()
        after = await world.get("ResourceClaim", "d-all-net") or {}
        assert after["metadata"]["labels"] == claim["metadata"]["labels"] | {"mine": "stays"}

    in_world(scenario)


def test_g1_pods_have_a_short_word_for_a_claim_with_a_long_name() -> None:
    """Both claims of a pod are named alike to the last letters, and no part of a pod may be named as long as they."""
    long = f"{'r' * 50}.net"
    shared = [_sharing(f"{long}-{number}", "PerReplica") for number in range(2)]
    templates = [{**TEMPLATES[0], "name": each["name"]} for each in shared]
    whole = podcliqueset("p" * 30, [clique("c" * 15, 2, resourceSharing=shared)], resourceClaimTemplates=templates)

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        pods = await world.list("Pod")
        owner = f"{'p' * 30}-0-{'c' * 15}"
        given = sorted(each["resourceClaimName"] for pod in pods for each in pod["spec"]["resourceClaims"])
        assert given == sorted(f"{owner}-{index}-{each['name']}" for index in range(2) for each in shared)
        assert names(await world.list("ResourceClaim")) == given
        for pod in pods:
            words = {each["name"] for each in pod["spec"]["resourceClaims"]}
            assert len(words) == 2
            assert {each["name"] for each in pod["spec"]["containers"][0]["resources"]["claims"]} == words

    in_world(scenario)
