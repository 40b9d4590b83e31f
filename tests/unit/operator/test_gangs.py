"""Scaling groups: base and scaled gangs, their pods, their gates, and scaling at all three kinds."""

from __future__ import annotations

from typing import Any

from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.operator.operator_world import clique, condition, group, in_world, names, podcliqueset, writes_at_rest

SET = podcliqueset(
    "d",
    [clique("router"), clique("pw", 2), clique("pl")],
    [group("prefill", ["pw", "pl"], replicas=3, minimum=1)],
)


async def _scale(world: World, kind: str, name: str, replicas: int) -> None:
    resource = {"PodCliqueSet": "podcliquesets", "PodClique": "podcliques"}.get(kind, "podcliquescalinggroups")
    found = await world.get(kind, name) or {}
    ref = world.ref(found)
    assert ref.resource.plural == resource
    written(await world.door.scale(ref, replicas, ANY))
    await world.settle()


async def _gangs(world: World) -> dict[str, list[str]]:
    found = await world.list("PodGang")
    return {each["metadata"]["name"]: [part["name"] for part in each["spec"]["podgroups"]] for each in found}


def test_g2_the_base_gang_has_what_makes_the_set_work_and_each_further_replica_is_a_gang() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        assert await _gangs(world) == {
            "d-0": ["d-0-router", "d-0-prefill-0-pw", "d-0-prefill-0-pl"],
            "d-0-prefill-0": ["d-0-prefill-1-pw", "d-0-prefill-1-pl"],
            "d-0-prefill-1": ["d-0-prefill-2-pw", "d-0-prefill-2-pl"],
        }
        assert {each["status"]["phase"] for each in await world.list("PodGang")} == {"Running"}
        assert {each["status"]["phase"] for each in await world.list("Pod")} == {"Running"}
        assert len(await world.list("Pod")) == 10

    in_world(scenario)


def test_g1_members_of_a_group_know_their_group() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        (pod,) = await world.list("Pod", labels="grove.io/podclique=d-0-prefill-2-pl")
        expected = {
            "grove.io/podgang": "d-0-prefill-1",
            "grove.io/base-podgang": "d-0",
            "grove.io/podcliquescalinggroup": "d-0-prefill",
            "grove.io/podcliquescalinggroup-replica-index": "2",
        }
        assert expected.items() <= pod["metadata"]["labels"].items()
        environment = {each["name"]: each for each in pod["spec"]["containers"][0]["env"]}
        assert environment["GROVE_PCSG_NAME"]["value"] == "d-0-prefill"
        assert environment["GROVE_PCSG_TEMPLATE_NUM_PODS"]["value"] == "3"
        source = environment["GROVE_PCSG_INDEX"]["valueFrom"]["fieldRef"]["fieldPath"]
        assert source == "metadata.labels['grove.io/podcliquescalinggroup-replica-index']"
        assert "grove.io/base-podgang" not in (await world.get("PodGang", "d-0-prefill-1") or {})["metadata"]["labels"]

    in_world(scenario)


def test_g1_pods_of_a_scaled_gang_stay_gated_until_the_base_gang_has_its_nodes() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        pods = await world.list("Pod")
        gated = {each["metadata"]["labels"]["grove.io/podgang"] for each in pods if each["spec"].get("schedulingGates")}
        free = {
            each["metadata"]["labels"]["grove.io/podgang"] for each in pods if not each["spec"].get("schedulingGates")
        }
        assert (free, gated) == ({"d-0"}, {"d-0-prefill-0", "d-0-prefill-1"})

    in_world(scenario, binds=False)


def test_g1_the_status_of_a_group_counts_its_replicas() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        found = await world.get("PodCliqueScalingGroup", "d-0-prefill") or {}
        status = found["status"]
        counts = ("replicas", "scheduledReplicas", "availableReplicas", "updatedReplicas")
        assert [status[key] for key in counts] == [3, 3, 3, 3]
        assert "grove.io/podcliquescalinggroup=d-0-prefill" in status["selector"]
        assert condition(found, "MinAvailableBreached")[0] == "False"
        member = await world.get("PodClique", "d-0-prefill-0-pw") or {}
        assert "hpaPodSelector" not in member["status"]

    in_world(scenario)


def test_g1_scaling_a_group_out_and_in_makes_and_removes_gangs_cliques_and_pods() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        await _scale(world, "PodCliqueScalingGroup", "d-0-prefill", 4)
        assert "d-0-prefill-2" in await _gangs(world)
        assert (await world.get("PodGang", "d-0-prefill-2") or {})["status"]["phase"] == "Running"
        await _scale(world, "PodCliqueScalingGroup", "d-0-prefill", 1)
        assert sorted(await _gangs(world)) == ["d-0"]
        assert len(await world.list("PodClique")) == 3
        assert len(await world.list("Pod")) == 4

    in_world(scenario)


def test_g1_scaling_a_clique_keeps_the_gang_and_its_minimum() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        await _scale(world, "PodClique", "d-0-router", 3)
        gang = await world.get("PodGang", "d-0") or {}
        router = gang["spec"]["podgroups"][0]
        assert (router["minReplicas"], len(router["podReferences"])) == (1, 3)
        assert (await world.get("PodClique", "d-0-router") or {})["status"]["readyReplicas"] == 3
        await _scale(world, "PodClique", "d-0-router", 1)
        assert len(await world.list("Pod", labels="grove.io/podclique=d-0-router")) == 1

    in_world(scenario)


def test_g1_a_clique_that_is_scaled_to_none_is_missed_by_nobody() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        before = {each["metadata"]["uid"] for each in await world.list("Pod")}
        await _scale(world, "PodClique", "d-0-router", 0)
        assert (await _gangs(world))["d-0"] == ["d-0-prefill-0-pw", "d-0-prefill-0-pl"]
        assert {each["status"]["phase"] for each in await world.list("PodGang")} == {"Running"}
        router = await world.get("PodClique", "d-0-router") or {}
        assert condition(router, "MinAvailableBreached")[0] == "False"
        whole = await world.get("PodCliqueSet", "d") or {}
        assert whole["status"]["availableReplicas"] == 1
        await _scale(world, "PodClique", "d-0-router", 1)
        assert (await _gangs(world))["d-0"][0] == "d-0-router"
        after = await world.list("Pod")
        assert len(after) == 10
        assert len({each["metadata"]["uid"] for each in after} & before) == 9

    in_world(scenario)


def test_g1_scaling_the_set_makes_and_removes_whole_replicas() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        await _scale(world, "PodCliqueSet", "d", 2)
        assert "d-1" in await _gangs(world)
        assert len(await world.list("Pod")) == 20
        assert (await world.get("PodCliqueSet", "d") or {})["status"]["availableReplicas"] == 2
        await _scale(world, "PodCliqueSet", "d", 1)
        assert len(await world.list("Pod")) == 10
        assert "d-1" not in names(await world.list("Service"))
        assert not [name for name in await _gangs(world) if name.startswith("d-1")]
        assert names(await world.list("PodCliqueScalingGroup")) == ["d-0-prefill"]

    in_world(scenario)


def test_g1_the_template_does_not_undo_a_scaling() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        await _scale(world, "PodCliqueScalingGroup", "d-0-prefill", 2)
        changed: dict[str, Any] = {**SET, "spec": {**SET["spec"], "replicas": 2}}
        await world.apply(changed)
        await world.settle()
        found = await world.get("PodCliqueScalingGroup", "d-0-prefill") or {}
        assert found["spec"]["replicas"] == 2
        other = await world.get("PodCliqueScalingGroup", "d-1-prefill") or {}
        assert other["spec"]["replicas"] == 3

    in_world(scenario)


def test_g1_cliques_whose_names_end_alike_keep_their_own_templates() -> None:
    cliques = [clique("worker", 1), clique("decode-worker", 2, 1)]

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", cliques))
        await world.settle()
        gang = await world.get("PodGang", "d-0") or {}
        found = {each["name"]: (each["minReplicas"], len(each["podReferences"])) for each in gang["spec"]["podgroups"]}
        assert found == {"d-0-worker": (1, 1), "d-0-decode-worker": (1, 2)}

    in_world(scenario)


def test_live1_a_set_with_groups_is_left_alone_when_all_is_well() -> None:
    async def scenario(world: World) -> list[str]:
        await world.apply(SET)
        await world.settle()
        return await writes_at_rest(world)

    assert in_world(scenario) == []


def test_g1_deleting_a_set_leaves_nothing_behind() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        await world.delete("PodCliqueSet", "d")
        await world.settle()
        for kind in ("PodCliqueSet", "PodClique", "PodCliqueScalingGroup", "PodGang", "Pod"):
            assert await world.list(kind) == [], kind
        assert "d-0" not in names(await world.list("Service"))

    in_world(scenario)


def test_g1_a_deleted_clique_is_made_again_with_new_pods() -> None:
    async def scenario(world: World) -> None:
        await world.apply(SET)
        await world.settle()
        before = await world.get("PodClique", "d-0-prefill-1-pw") or {}
        await world.delete("PodClique", "d-0-prefill-1-pw")
        await world.settle()
        after = await world.get("PodClique", "d-0-prefill-1-pw") or {}
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["status"]["readyReplicas"] == 2

    in_world(scenario)
