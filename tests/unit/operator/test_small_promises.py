"""What is promised in half a sentence of the reference, one test each."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kube_apimachinery.times import format_time
from spinney.api.meta import Condition
from spinney.core.expansion.gang_termination import FIRST_AVAILABLE, due_s
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.operator.operator_world import clique, condition, group, in_world, podcliqueset, writes_at_rest
from unit.operator.topologies import settings

ORDERED: dict[str, Any] = {"cliqueStartupType": "CliqueStartupTypeInOrder"}


async def patch(world: World, kind: str, name: str, body: dict[str, Any]) -> None:
    found = await world.get(kind, name) or {}
    written(await world.door.merge_patch(world.ref(found), body, ANY))


def test_g1_pods_are_always_restarted_whatever_the_template_says() -> None:
    pod_spec = {"containers": [{"name": "main", "image": "serve"}], "restartPolicy": "Never"}

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w", podSpec=pod_spec)]))
        await world.settle()
        (pod,) = await world.list("Pod")
        assert pod["spec"]["restartPolicy"] == "Always"

    in_world(scenario)


def test_g1_scale_in_leaves_the_lowest_indices() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w", 6, 1)]))
        await world.settle()
        await patch(world, "PodClique", "d-0-w", {"spec": {"replicas": 2}})
        await world.settle()
        left = await world.list("Pod")
        assert sorted(each["metadata"]["labels"]["grove.io/podclique-pod-index"] for each in left) == ["0", "1"]

    in_world(scenario)


def test_g1_a_token_that_was_deleted_is_there_again_before_a_pod_needs_it() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("a"), clique("b")], **ORDERED))
        await world.settle()
        await world.delete("Secret", "d-ic-sat")
        (pod,) = await world.list("Pod", labels="grove.io/podclique=d-0-b")
        await world.delete("Pod", pod["metadata"]["name"])
        await world.settle()
        secret = await world.get("Secret", "d-ic-sat") or {}
        assert secret["metadata"]["annotations"]["kubernetes.io/service-account.name"] == "d"
        assert secret["type"] == "kubernetes.io/service-account-token"

    in_world(scenario)


def test_g1_a_token_goes_with_its_account_and_comes_back_with_it() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("a"), clique("b")], **ORDERED))
        await world.settle()
        await world.delete("Secret", "d-ic-sat")
        await world.delete("ServiceAccount", "d")
        await world.settle()
        assert await world.get("ServiceAccount", "d") is not None
        assert await world.get("Secret", "d-ic-sat") is not None

    in_world(scenario)


@pytest.mark.parametrize("happened_s", [1_000_000.0, 1_000_000.4, 1_000_000.999])
def test_g1_termination_is_never_due_before_its_delay(happened_s: float) -> None:
    """The time of a breach is written in whole seconds, cut off."""
    breach = Condition(
        type="MinAvailableBreached", status="True", last_transition_time=format_time(happened_s), reason="", message=""
    )
    once = msgspec.structs.replace(breach, type=FIRST_AVAILABLE)
    due = due_s((breach, once), FIRST_AVAILABLE, 600.0)
    assert due is not None
    assert happened_s + 600 <= due <= happened_s + 601


def test_g1_termination_comes_after_its_delay_and_not_before() -> None:
    """Seen in the world: when the breach was seen, and when the first PodClique went."""
    gone: list[float] = []
    breached: list[float] = []

    async def scenario(world: World) -> None:
        sick = clique("a", annotations={"spinney.dev/sim-fail": "unready"})

        def note(collection: str, event: Any) -> None:
            if collection != "grove.io/podcliques" or event.new is None:
                return
            found = msgspec.json.decode(event.new.body)
            if condition(found, "MinAvailableBreached") == ("True", "InsufficientReadyPods") and not breached:
                breached.append(world.clock.now())
            if found["metadata"].get("deletionTimestamp") and not gone:
                gone.append(world.clock.now())

        world.on_write(note)
        await asyncio.sleep(0.7)
        await world.apply(podcliqueset("d", [sick], terminationDelay="90s"))
        await asyncio.sleep(150)

    in_world(scenario)
    assert gone and breached
    assert 90 <= gone[0] - breached[0] <= 92


@pytest.mark.parametrize(
    ("text", "score"),
    [("0.75", 0.75), ("1", 1.0), ("0", 0.0), ("1.5", None), ("-0.1", None), ("nan", None), ("near", None), ("", None)],
)
def test_s3_the_score_of_the_scheduler_reaches_the_gang(text: str, score: float | None) -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w")]))
        await world.settle()
        assert "placementScore" not in (await world.get("PodGang", "d-0") or {})["status"]
        noted = {"metadata": {"annotations": {"spinney.dev/placement-score": text}}}
        await patch(world, "PodGroup", "d-0", noted)
        await world.settle()
        assert (await world.get("PodGang", "d-0") or {})["status"].get("placementScore") == score
        await patch(world, "PodGroup", "d-0", {"metadata": {"annotations": {"spinney.dev/placement-score": None}}})
        await world.settle()
        assert "placementScore" not in (await world.get("PodGang", "d-0") or {})["status"]

    in_world(scenario, settings())


def _rolled(whole: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole))
    for each in changed["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["containers"][0]["image"] = "v2"
    return changed


def _statuses(world: World, collection: str, field: str) -> list[Any]:
    """Every value that a part of the update progress has from now on."""
    found: list[Any] = []

    def note(where: str, event: Any) -> None:
        if where != collection or event.new is None:
            return
        progress = msgspec.json.decode(event.new.body).get("status", {}).get("updateProgress", {})
        if not found or found[-1] != progress.get(field):
            found.append(progress.get(field))

    world.on_write(note)
    return found


def test_g1_the_progress_of_a_clique_names_the_ready_pods_that_had_their_turn() -> None:
    async def scenario(world: World) -> None:
        whole = podcliqueset("d", [clique("w", 3, 1)])
        await world.apply(whole)
        await world.settle()
        order = [
            each["metadata"]["name"]
            for each in sorted(
                await world.list("Pod"), key=lambda pod: int(pod["metadata"]["labels"]["grove.io/podclique-pod-index"])
            )
        ]
        found = _statuses(world, "grove.io/podcliques", "readyPodsSelectedToUpdate")
        await world.apply(_rolled(whole))
        await world.settle()
        chosen = [each for each in found if each is not None]
        assert [each["current"] for each in chosen] == order
        assert [each.get("completed", []) for each in chosen] == [order[:0], order[:1], order[:2]]
        assert found[-1] is None
        assert await writes_at_rest(world) == []

    in_world(scenario)


def test_g1_the_progress_of_a_group_names_the_replicas_that_had_their_turn() -> None:
    async def scenario(world: World) -> None:
        whole = podcliqueset("d", [clique("w")], [group("g", ["w"], replicas=3)])
        await world.apply(whole)
        await world.settle()
        found = _statuses(world, "grove.io/podcliquescalinggroups", "readyReplicaIndicesSelectedToUpdate")
        await world.apply(_rolled(whole))
        await world.settle()
        chosen = [each for each in found if each is not None]
        assert [each["current"] for each in chosen] == [0, 1, 2]
        assert [each.get("completed", []) for each in chosen] == [[], [0], [0, 1]]
        assert found[-1] is None

    in_world(scenario)


def test_g1_on_delete_counts_a_replica_as_updated_when_its_last_old_pod_is_gone() -> None:
    async def scenario(world: World) -> None:
        whole = podcliqueset("d", [clique("a"), clique("w", 2)], [group("g", ["w"])], replicas=2, strategy="OnDelete")
        await world.apply(whole)
        await world.settle()
        await world.apply(_rolled(whole))
        await world.settle()
        status = (await world.get("PodCliqueSet", "d") or {})["status"]
        assert status.get("updatedReplicas", 0) == 0
        assert status["updateProgress"]["updateEndedAt"] == status["updateProgress"]["updateStartedAt"]
        for pod in await world.list("Pod", labels="grove.io/podcliqueset-replica-index=1"):
            await world.delete("Pod", pod["metadata"]["name"])
        await world.settle()
        status = (await world.get("PodCliqueSet", "d") or {})["status"]
        assert status["updatedReplicas"] == 1
        groups = {each["metadata"]["name"]: each["status"] for each in await world.list("PodCliqueScalingGroup")}
        assert [groups[name].get("updatedReplicas", 0) for name in ("d-0-g", "d-1-g")] == [0, 1]
        assert await writes_at_rest(world) == []

    in_world(scenario)


def test_g1_the_service_is_put_right() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w")]))
        await world.settle()
        before = await world.get("Service", "d-0") or {}
        spoiled = {"selector": {"app": "other", "grove.io/podcliqueset-replica-index": None}}
        await patch(world, "Service", "d-0", {"spec": {**spoiled, "publishNotReadyAddresses": False}})
        await world.settle()
        after = await world.get("Service", "d-0") or {}
        assert after["spec"] == before["spec"]
        assert after["spec"]["publishNotReadyAddresses"] is True

    in_world(scenario)


def test_g1_old_pods_that_were_left_to_users_are_rolled_once_the_strategy_says_so() -> None:
    """One replica of the set after the other: never do both have a pod less than they should."""
    together: list[int] = []

    async def scenario(world: World) -> None:
        cliques = [clique("a", 2, 1), clique("w")]
        whole = podcliqueset("d", cliques, [group("g", ["w"], replicas=2)], replicas=2, strategy="OnDelete")
        await world.apply(whole)
        await world.settle()
        await world.apply(_rolled(whole))
        await world.settle()
        assert {each["spec"]["containers"][0]["image"] for each in await world.list("Pod")} == {"serve"}

        def note(collection: str, event: Any) -> None:
            if collection == "grove.io/podcliquesets" and event.new is not None:
                progress = msgspec.json.decode(event.new.body).get("status", {}).get("updateProgress", {})
                together.append(len(progress.get("currentlyUpdating", [])))

        world.on_write(note)
        await world.apply(_rolled(podcliqueset("d", cliques, [group("g", ["w"], replicas=2)], replicas=2)))
        await world.settle()
        assert {each["spec"]["containers"][0]["image"] for each in await world.list("Pod")} == {"v2"}
        status = (await world.get("PodCliqueSet", "d") or {})["status"]
        assert status["updatedReplicas"] == 2
        assert status["updateProgress"]["updateEndedAt"]
        assert await writes_at_rest(world) == []

    in_world(scenario)
    assert max(together) == 1
