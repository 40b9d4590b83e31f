"""Startup order with its init container and account, and autoscalers."""

from __future__ import annotations

import asyncio
from typing import Any

from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.operator.operator_world import clique, group, in_world, names, podcliqueset, writes_at_rest

SLOW = {"spinney.dev/sim-start-delay": "30"}


def _parents(pod: dict[str, Any]) -> list[str]:
    found = [each for each in pod["spec"].get("initContainers") or () if each["name"] == "grove-initc"]
    return [word.removeprefix("--podcliques=") for each in found for word in each["args"]]


async def _pod(world: World, clique_name: str) -> dict[str, Any]:
    return (await world.list("Pod", labels=f"grove.io/podclique={clique_name}"))[0]


def test_g1_in_order_each_clique_waits_for_the_one_before_it() -> None:
    cliques = [clique("a", 2, 1, annotations=SLOW), clique("b"), clique("c")]

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", cliques, cliqueStartupType="CliqueStartupTypeInOrder"))
        await asyncio.sleep(20)
        waiting = await world.list("Pod", labels="app.kubernetes.io/part-of=d")
        assert {each["status"]["phase"] for each in waiting} == {"Pending"}
        assert all(each["spec"].get("nodeName") for each in waiting)
        await world.settle()
        assert _parents(await _pod(world, "d-0-a")) == []
        assert _parents(await _pod(world, "d-0-b")) == ["d-0-a:1"]
        assert _parents(await _pod(world, "d-0-c")) == ["d-0-b:1"]
        assert (await world.get("PodClique", "d-0-c") or {})["spec"]["startsAfter"] == ["d-0-b"]
        assert {each["status"]["phase"] for each in await world.list("Pod")} == {"Running"}

    in_world(scenario)


def test_g1_explicit_parents_in_groups_are_named_by_base_replicas_or_the_own_one() -> None:
    cliques = [clique("a"), clique("l"), clique("w", startsAfter=["l", "a"])]
    groups = [group("g", ["l", "w"], replicas=3, minimum=2)]

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", cliques, groups, cliqueStartupType="CliqueStartupTypeExplicit"))
        await world.settle()
        assert _parents(await _pod(world, "d-0-g-0-w")) == ["d-0-g-0-l:1", "d-0-g-1-l:1", "d-0-a:1"]
        assert _parents(await _pod(world, "d-0-g-2-w")) == ["d-0-g-2-l:1"]
        assert {each["status"]["phase"] for each in await world.list("Pod")} == {"Running"}

    in_world(scenario)


def test_g1_nobody_waits_for_what_was_scaled_away() -> None:
    """Neither for a clique without pods nor for a replica that its group no longer has."""
    cliques = [clique("a"), clique("l"), clique("w", startsAfter=["l", "a"])]
    groups = [group("g", ["l", "w"], replicas=2, minimum=2)]

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", cliques, groups, cliqueStartupType="CliqueStartupTypeExplicit"))
        await world.settle()
        for kind, name, replicas in (("PodClique", "d-0-a", 0), ("PodCliqueScalingGroup", "d-0-g", 1)):
            await world.door.scale(world.ref(await world.get(kind, name) or {}), replicas, ANY)
        await world.settle()
        await world.delete("Pod", (await _pod(world, "d-0-g-0-w"))["metadata"]["name"])
        await world.settle()
        assert _parents(await _pod(world, "d-0-g-0-w")) == ["d-0-g-0-l:1"]
        assert {each["status"]["phase"] for each in await world.list("Pod")} == {"Running"}
        for kind, name, replicas in (("PodClique", "d-0-a", 1), ("PodCliqueScalingGroup", "d-0-g", 2)):
            await world.door.scale(world.ref(await world.get(kind, name) or {}), replicas, ANY)
        await world.settle()
        assert _parents(await _pod(world, "d-0-g-1-w")) == ["d-0-g-0-l:1", "d-0-g-1-l:1", "d-0-a:1"]

    in_world(scenario)


def test_g1_the_init_container_has_an_account_that_may_only_read_pods() -> None:
    cliques = [clique("a"), clique("b")]

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", cliques, cliqueStartupType="CliqueStartupTypeInOrder"))
        await world.settle()
        role = await world.get("Role", "grove.io:pcs:d") or {}
        assert role["rules"] == [
            {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list", "watch"]}
        ]
        binding = await world.get("RoleBinding", "grove.io:pcs:d") or {}
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "d", "namespace": "default"}]
        assert await world.get("ServiceAccount", "d") is not None
        assert (await world.get("Secret", "d-ic-sat") or {})["type"] == "kubernetes.io/service-account-token"
        pod = await _pod(world, "d-0-b")
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        assert volumes["grove-initc-token"]["secret"]["secretName"] == "d-ic-sat"
        files = {each["path"] for each in volumes["grove-pod-info"]["downwardAPI"]["items"]}
        assert files == {"namespace", "podgangname"}
        await world.door.merge_patch(world.ref(role), {"rules": []}, ANY)
        await world.settle()
        assert (await world.get("Role", "grove.io:pcs:d") or {})["rules"] == role["rules"]

    in_world(scenario)


def test_g1_the_init_container_keeps_a_guaranteed_pod_guaranteed_and_a_root_pod_starting() -> None:
    """Equal requests and limits; and a user of its own where the pod's is root, which the kubelet would refuse."""
    as_root = {"containers": [{"name": "main", "image": "serve"}], "securityContext": {"runAsUser": 0}}
    cliques = [clique("a"), clique("b"), clique("c", podSpec=as_root)]

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", cliques, cliqueStartupType="CliqueStartupTypeInOrder"))
        await world.settle()
        plain, root = [(await _pod(world, name))["spec"]["initContainers"][-1] for name in ("d-0-b", "d-0-c")]
        assert plain["resources"]["requests"] == plain["resources"]["limits"]
        assert set(plain["resources"]["limits"]) == {"cpu", "memory"}
        assert "runAsUser" not in plain["securityContext"]
        assert root["securityContext"]["runAsUser"] > 0

    in_world(scenario)


def test_g1_sets_without_order_need_no_account() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("a"), clique("b")]))
        await world.settle()
        assert await world.list("Role", "default") == []

    in_world(scenario)


SCALABLE = podcliqueset(
    "d",
    [clique("a", 2, 1, autoScalingConfig={"maxReplicas": 5}), clique("w")],
    [group("g", ["w"], replicas=2, scaleConfig={"minReplicas": 1, "maxReplicas": 4})],
    replicas=2,
)


def test_g1_scalable_cliques_and_groups_get_an_autoscaler_per_replica() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SCALABLE)
        await world.settle()
        found = {each["metadata"]["name"]: each["spec"] for each in await world.list("HorizontalPodAutoscaler")}
        assert sorted(found) == ["d-0-a", "d-0-g", "d-1-a", "d-1-g"]
        assert found["d-0-a"]["scaleTargetRef"]["kind"] == "PodClique"
        assert (found["d-0-a"]["minReplicas"], found["d-0-a"]["maxReplicas"]) == (2, 5)
        assert found["d-0-g"]["scaleTargetRef"]["kind"] == "PodCliqueScalingGroup"
        assert (found["d-0-g"]["minReplicas"], found["d-0-g"]["maxReplicas"]) == (1, 4)
        await world.apply({**SCALABLE, "spec": {**SCALABLE["spec"], "replicas": 1}})
        await world.settle()
        assert names(await world.list("HorizontalPodAutoscaler")) == ["d-0-a", "d-0-g"]

    in_world(scenario)


def test_live1_autoscalers_and_accounts_are_left_alone_when_all_is_well() -> None:
    ordered = podcliqueset("e", [clique("a"), clique("b")], cliqueStartupType="CliqueStartupTypeInOrder")

    async def scenario(world: World) -> list[str]:
        await world.apply([SCALABLE, ordered])
        await world.settle()
        return await writes_at_rest(world)

    assert in_world(scenario) == []


def test_g1_a_changed_autoscaler_is_put_right() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SCALABLE)
        await world.settle()
        found = await world.get("HorizontalPodAutoscaler", "d-0-a") or {}
        await world.door.merge_patch(world.ref(found), {"spec": {"maxReplicas": 99}}, ANY)
        await world.settle()
        assert (await world.get("HorizontalPodAutoscaler", "d-0-a") or {})["spec"]["maxReplicas"] == 5

    in_world(scenario)
