"""A changed template: rolling replacement under the minimum, and replacement by hand."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import msgspec

from spinney.drive.apply.write import ANY, Precondition
from spinney.sim.world import World
from unit.operator.operator_world import clique, condition, group, in_world, podcliqueset, writes_at_rest

Json = dict[str, Any]


def _with_image(whole: Json, image: str, only: str = "") -> Json:
    changed = deepcopy(whole)
    for each in changed["spec"]["template"]["cliques"]:
        if not only or each["name"] == only:
            each["spec"]["podSpec"]["containers"][0]["image"] = image
    return changed


async def _images(world: World, labels: str = "") -> list[str]:
    pods = await world.list("Pod", labels=labels)
    return sorted(each["spec"]["containers"][0]["image"] for each in pods)


def test_g1_rolling_recreate_replaces_one_ready_pod_after_another() -> None:
    whole = podcliqueset("d", [clique("w", 3, 2)])
    together: list[int] = []

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        live: set[str] = {each["metadata"]["name"] for each in await world.list("Pod")}
        leaving: set[str] = set()

        def seen(collection: str, event: Any) -> None:
            record = event.new or event.last or event.old
            if collection != "/pods" or record is None:
                return
            if event.new is None or record.deleting:
                leaving.add(record.name)
                live.discard(record.name)
            elif b'"Running"' in record.body:
                live.add(record.name)
            together.append(len(live))

        world.on_write(seen)
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        assert await _images(world) == ["v2"] * 3
        assert len(leaving) == 3

    in_world(scenario)
    assert min(together) == 2


def test_g1_an_update_ends_with_a_status_that_says_so() -> None:
    whole = podcliqueset("d", [clique("w", 2), clique("x")], [group("g", ["x"], replicas=2)])

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        first = (await world.get("PodCliqueSet", "d") or {})["status"]
        assert "updateProgress" not in first
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        after = (await world.get("PodCliqueSet", "d") or {})["status"]
        assert after["currentGenerationHash"] != first["currentGenerationHash"]
        progress = after["updateProgress"]
        assert progress["updateEndedAt"] >= progress["updateStartedAt"]
        assert (progress["updatedPodCliquesCount"], progress["totalPodCliquesCount"]) == (3, 3)
        assert "currentlyUpdating" not in progress
        assert after["updatedReplicas"] == after["availableReplicas"] == 1
        member = await world.get("PodClique", "d-0-w") or {}
        assert member["status"]["updateProgress"]["updateEndedAt"]
        assert condition(member, "MinAvailableBreached")[0] == "False"
        grouped = await world.get("PodCliqueScalingGroup", "d-0-g") or {}
        assert grouped["status"]["updatedReplicas"] == 2
        assert grouped["status"]["updateProgress"]["updateEndedAt"]
        assert await _images(world) == ["v2"] * 4

    in_world(scenario)


def test_g1_a_set_that_is_changed_before_its_first_status_is_updated_too() -> None:
    whole = podcliqueset("d", [clique("w", 2), clique("x")], [group("g", ["x"], replicas=2)])

    async def scenario(world: World) -> None:
        made = asyncio.Event()
        world.on_write(lambda collection, event: made.set() if collection == "grove.io/podcliques" else None)
        await world.apply(whole)
        await made.wait()
        assert "status" not in (await world.get("PodCliqueSet", "d") or {})
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        assert await _images(world) == ["v2"] * 4
        progress = (await world.get("PodCliqueSet", "d") or {})["status"]["updateProgress"]
        assert progress["updateEndedAt"]

    in_world(scenario)


def test_live1_an_updated_set_is_left_alone() -> None:
    whole = podcliqueset("d", [clique("w", 2), clique("x")], [group("g", ["x"], replicas=2)])

    async def scenario(world: World) -> list[str]:
        await world.apply(whole)
        await world.settle()
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        return await writes_at_rest(world)

    assert in_world(scenario) == []


def test_g1_replicas_of_a_set_are_updated_one_at_a_time() -> None:
    whole = podcliqueset("d", [clique("w", 2, 1)], replicas=3)
    mixed: set[int] = set()

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()

        def seen(collection: str, event: Any) -> None:
            record = event.new
            if collection == "grove.io/podcliquesets" and record is not None:
                body = record.body
                mixed.add(body.count(b'"replicaIndex"'))

        world.on_write(seen)
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        assert await _images(world) == ["v2"] * 6

    in_world(scenario)
    assert mixed == {0, 1}


def test_g1_a_group_is_replaced_replica_by_replica_under_its_minimum() -> None:
    whole = podcliqueset("d", [clique("x", 2)], [group("g", ["x"], replicas=3, minimum=2)])
    available: list[int] = []

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        gangs = {each["metadata"]["uid"] for each in await world.list("PodGang")}

        def seen(collection: str, event: Any) -> None:
            if collection == "grove.io/podcliquescalinggroups" and event.new is not None:
                status = msgspec.json.decode(event.new.body).get("status") or {}
                available.append(status.get("availableReplicas", 0))

        world.on_write(seen)
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        assert await _images(world) == ["v2"] * 6
        assert {each["metadata"]["uid"] for each in await world.list("PodGang")} == gangs

    in_world(scenario)
    assert min(available) == 2


def test_g1_only_the_cliques_that_changed_lose_pods() -> None:
    whole = podcliqueset("d", [clique("a", 2), clique("b", 2)])

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        before = {each["metadata"]["uid"] for each in await world.list("Pod", labels="grove.io/podclique=d-0-a")}
        await world.apply(_with_image(whole, "v2", only="b"))
        await world.settle()
        after = {each["metadata"]["uid"] for each in await world.list("Pod", labels="grove.io/podclique=d-0-a")}
        assert before == after
        assert await _images(world, "grove.io/podclique=d-0-b") == ["v2"] * 2

    in_world(scenario)


def test_g1_a_second_change_on_the_way_wins() -> None:
    whole = podcliqueset("d", [clique("w", 3, 2)], replicas=2)

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        await world.apply(_with_image(whole, "v2"))
        await asyncio.sleep(1.0)
        await world.apply(_with_image(whole, "v3"))
        await world.settle()
        assert await _images(world) == ["v3"] * 6
        progress = (await world.get("PodCliqueSet", "d") or {})["status"]["updateProgress"]
        assert progress["updateEndedAt"]

    in_world(scenario)


def test_g1_a_broken_image_stops_the_roll_out_and_its_undoing_heals() -> None:
    whole = podcliqueset("d", [clique("w", 3, 2)])
    broken = _with_image(whole, "v2")
    broken["spec"]["template"]["cliques"][0]["annotations"] = {"spinney.dev/sim-fail": "image"}

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        await world.apply(broken)
        await world.settle()
        assert (await _images(world)).count("serve") == 2
        await world.apply(whole)
        await world.settle()
        assert await _images(world) == ["serve"] * 3
        member = await world.get("PodClique", "d-0-w") or {}
        assert member["status"]["readyReplicas"] == 3

    in_world(scenario)


def test_g1_on_delete_leaves_the_pods_to_the_user() -> None:
    cliques, groups = [clique("w", 2), clique("x")], [group("g", ["x"])]
    whole = podcliqueset("d", cliques, groups, strategy="OnDelete")

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        assert await _images(world) == ["serve"] * 3
        progress = (await world.get("PodCliqueSet", "d") or {})["status"]["updateProgress"]
        assert progress["updateEndedAt"] == progress["updateStartedAt"]
        member = await world.get("PodClique", "d-0-w") or {}
        assert (member["status"]["updatedReplicas"], member["status"]["replicas"]) == (0, 2)
        for pod in await world.list("Pod"):
            await world.delete("Pod", pod["metadata"]["name"])
        await world.settle()
        assert await _images(world) == ["v2"] * 3
        member = await world.get("PodClique", "d-0-w") or {}
        assert member["status"]["updatedReplicas"] == 2

    in_world(scenario)


def test_g1_on_delete_a_group_counts_the_podcliques_whose_pods_users_have_replaced() -> None:
    whole = podcliqueset("d", [clique("x")], [group("g", ["x"], replicas=2)], strategy="OnDelete")

    async def counted(world: World) -> tuple[int, int]:
        progress = (await world.get("PodCliqueScalingGroup", "d-0-g") or {})["status"]["updateProgress"]
        return progress["updatedPodCliquesCount"], progress["totalPodCliquesCount"]

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        assert await counted(world) == (0, 2)
        (first, second) = [pod["metadata"]["name"] for pod in await world.list("Pod")]
        await world.delete("Pod", first)
        await world.settle()
        assert await counted(world) == (1, 2)
        await world.delete("Pod", second)
        await world.settle()
        assert await counted(world) == (2, 2)

    in_world(scenario)


def test_g1_scaling_in_gives_up_outdated_pods_first() -> None:
    whole = podcliqueset("d", [clique("w", 3, 1)], strategy="OnDelete")

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        oldest = sorted(await world.list("Pod"), key=lambda each: each["metadata"]["name"])[0]
        await world.delete("Pod", oldest["metadata"]["name"])
        await world.settle()
        found = await world.get("PodClique", "d-0-w") or {}
        await world.door.scale(world.ref(found), 1, ANY)
        await world.settle()
        assert await _images(world) == ["v2"]

    in_world(scenario)


TWO_PLACES = """
levels: [{name: host, count: 2}]
capacity: {cpu: "1", pods: "10"}
"""
_ONE_CPU: Json = {"containers": [{"name": "main", "image": "serve", "resources": {"requests": {"cpu": "1"}}}]}


def test_g1_a_broken_update_of_a_group_leaves_all_other_replicas_of_the_set_alone() -> None:
    whole = podcliqueset("d", [clique("w")], [group("g", ["w"])], replicas=3)
    broken = _with_image(whole, "v2")
    broken["spec"]["template"]["cliques"][0]["annotations"] = {"spinney.dev/sim-fail": "image"}

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        await world.apply(broken)
        await world.settle()
        assert await _images(world) == ["serve", "serve", "v2"]
        status = (await world.get("PodCliqueSet", "d") or {})["status"]
        assert [each["replicaIndex"] for each in status["updateProgress"]["currentlyUpdating"]] == [0]
        assert status["availableReplicas"] == 2
        await world.apply(_with_image(whole, "v3"))
        await world.settle()
        assert await _images(world) == ["v3"] * 3

    in_world(scenario)


def test_g1_pods_without_a_node_do_not_hold_up_the_update_of_the_others() -> None:
    whole = podcliqueset("d", [clique("w", 3, 1, podSpec=_ONE_CPU)])

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        assert (await world.get("PodClique", "d-0-w") or {})["status"]["readyReplicas"] == 2
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        assert await _images(world) == ["v2"] * 3
        assert (await world.get("PodCliqueSet", "d") or {})["status"]["updateProgress"]["updateEndedAt"]

    in_world(scenario, nodes=TWO_PLACES)


def test_g1_group_replicas_without_nodes_do_not_hold_up_the_update_of_the_others() -> None:
    whole = podcliqueset("d", [clique("w", podSpec=_ONE_CPU)], [group("g", ["w"], replicas=3)])

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        assert (await world.get("PodCliqueScalingGroup", "d-0-g") or {})["status"]["availableReplicas"] == 2
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        assert await _images(world) == ["v2"] * 3
        assert (await world.get("PodCliqueSet", "d") or {})["status"]["updateProgress"]["updateEndedAt"]

    in_world(scenario, nodes=TWO_PLACES)


def test_g1_a_replica_without_nodes_does_not_hold_up_the_update_of_the_others() -> None:
    whole = podcliqueset("d", [clique("w")], replicas=2)

    async def bind_the_first_replica(world: World) -> None:
        node = (await world.list("Node"))[0]["metadata"]["name"]
        for pod in await world.list("Pod", labels="grove.io/podcliqueset-replica-index=0"):
            if "nodeName" not in pod["spec"]:
                await world.door.bind(world.ref(pod), node, Precondition(pod["metadata"]["uid"]))
        await world.settle()

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        await bind_the_first_replica(world)
        assert (await world.get("PodCliqueSet", "d") or {})["status"]["availableReplicas"] == 1
        await world.apply(_with_image(whole, "v2"))
        await world.settle()
        await bind_the_first_replica(world)
        assert await _images(world) == ["v2"] * 2
        assert (await world.get("PodCliqueSet", "d") or {})["status"]["updatedReplicas"] == 2

    in_world(scenario, binds=False)


def test_g1_an_update_never_takes_more_than_one_ready_pod_though_others_have_no_node() -> None:
    whole = podcliqueset("d", [clique("w", 3, 1, podSpec=_ONE_CPU)])
    broken = _with_image(whole, "v2")
    broken["spec"]["template"]["cliques"][0]["annotations"] = {"spinney.dev/sim-fail": "image"}

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await world.settle()
        await world.apply(broken)
        await world.settle()
        assert (await world.get("PodClique", "d-0-w") or {})["status"]["readyReplicas"] == 1

    in_world(scenario, nodes=TWO_PLACES)
