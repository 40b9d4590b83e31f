"""What users are told: events about what came and went, and the last errors of what could not be done (2.2, 1.3)."""

from __future__ import annotations

import asyncio
from typing import Any

from kube_apimachinery.times import format_time
from spinney.api.changes import Create, Delete
from spinney.api.kinds.podclique import LastError
from spinney.api.meta import ObjectMeta
from spinney.core.expansion.objects import PODCLIQUES, PODCLIQUESETS, PODGANGS, PODS
from spinney.drive.apply.change_events import InvolvedObject, Refusal, Success, forgotten, remembered, successes
from spinney.drive.client.errors import Conflict, Forbidden, Status
from spinney.sim.world import World
from unit.operator.operator_world import clique, group, in_world, podcliqueset, writes_at_rest

NOW_S = 1_000_000.0
SUBJECT = InvolvedObject(PODCLIQUES, ObjectMeta(name="d-0-w", namespace="n", uid="u"))


async def told(world: World, kind: str, name: str) -> list[tuple[str, str]]:
    """Reason and message of the events about an object."""
    found = [each for each in await world.list("Event") if each["involvedObject"]["kind"] == kind]
    return sorted((each["reason"], each["message"]) for each in found if each["involvedObject"]["name"] == name)


async def errors(world: World, kind: str, name: str) -> dict[str, str]:
    found = (await world.get(kind, name) or {}).get("status", {}).get("lastErrors", [])
    return {each["code"]: each["description"] for each in found}


def test_g1_events_tell_what_was_made_and_then_nobody_writes() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("fe"), clique("w")], [group("g", ["w"])]))
        await world.settle()
        assert await told(world, "PodCliqueSet", "d") == [
            ("PodCliqueCreateSuccessful", "PodClique default/d-0-fe created successfully"),
            ("PodCliqueScalingGroupCreateSuccessful", "PodCliqueScalingGroup default/d-0-g created successfully"),
            ("PodGangCreateOrUpdateSuccessful", "Created/Updated PodGang default/d-0"),
        ]
        message = "PodClique default/d-0-g-0-w created successfully"
        assert await told(world, "PodCliqueScalingGroup", "d-0-g") == [("PodCliqueCreateSuccessful", message)]
        (pod,) = await world.list("Pod", labels="grove.io/podclique=d-0-fe")
        expected = [("PodCreateSuccessful", f"Created Pod: {pod['metadata']['name']}")]
        assert await told(world, "PodClique", "d-0-fe") == expected
        assert await writes_at_rest(world) == []

    in_world(scenario)


def test_g1_events_tell_what_was_removed() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("fe")], replicas=2))
        await world.settle()
        await world.apply(podcliqueset("d", [clique("fe")]))
        await world.settle()
        found = await told(world, "PodCliqueSet", "d")
        assert ("PodCliqueDeleteSuccessful", "PodClique default/d-1-fe deleted successfully") in found
        assert ("PodGangDeleteSuccessful", "Deleted PodGang default/d-1") in found

    in_world(scenario)


def test_g1_what_is_made_together_is_told_in_one_event() -> None:
    made = [Success(Create(PODS.at(name, "n"), {"metadata": {}}), name) for name in ("b", "a")]
    gone = [Success(Delete(PODGANGS.at("x", "n"), "x"), "x")]
    found = [(each.reason, each.message) for each in successes(SUBJECT, [*made, *gone])]
    assert found == [("PodCreateSuccessful", "Created Pods: a, b"), ("PodGangDeleteSuccessful", "Deleted PodGang n/x")]


def test_g1_a_long_list_is_cut_to_what_an_event_holds() -> None:
    made = [Success(Create(PODS.at(f"pod-{number:04}", "n"), {"metadata": {}}), "") for number in range(500)]
    (notice,) = successes(SUBJECT, made)
    assert len(notice.message) <= 1024
    assert notice.message.endswith(" more")


def test_s3_last_errors_tell_what_was_refused_and_go_when_it_is_put_right() -> None:
    def whole(container: str) -> dict[str, Any]:
        return podcliqueset("d", [clique("fe", podSpec={"containers": [{"name": container, "image": "serve"}]})])

    async def scenario(world: World) -> None:
        await world.apply(whole("NOT VALID"))
        await world.settle()
        found = await errors(world, "PodClique", "d-0-fe")
        assert list(found) == ["ERR_CREATE_POD"]
        assert found["ERR_CREATE_POD"].startswith("Pod default/d-0-fe-*: ")
        assert "NOT VALID" in found["ERR_CREATE_POD"]
        (event,) = [each for each in await told(world, "PodClique", "d-0-fe") if each[0] == "PodCreateFailed"]
        assert "NOT VALID" in event[1]
        await world.apply(whole("valid"))
        await world.settle()
        assert await errors(world, "PodClique", "d-0-fe") == {}
        assert (await world.get("PodCliqueSet", "d") or {})["status"]["availableReplicas"] == 1
        assert await writes_at_rest(world) == []

    in_world(scenario)


def _refused(words: str) -> Refusal:
    created = Create(PODS.at("d-0-w-abcde", "n"), {"metadata": {"generateName": "d-0-w-"}})
    return Refusal(created, Status(code=403, message=words))


def test_s3_the_same_refusal_is_written_down_once() -> None:
    refusal = _refused('pods "d-0-w-abcde" is forbidden: exceeded quota')
    written = remembered(SUBJECT, [refusal], Forbidden(refusal.status), NOW_S)
    assert written is not None
    (entry,) = written.status["lastErrors"]
    assert entry["description"] == 'Pod n/d-0-w-*: pods "d-0-w-*" is forbidden: exceeded quota'
    known = LastError(entry["code"], entry["description"], entry["observedAt"])
    again = InvolvedObject(SUBJECT.resource, SUBJECT.metadata, (known,))
    assert remembered(again, [refusal], Forbidden(refusal.status), NOW_S + 900) is None


def test_s3_other_words_for_the_same_failure_wait_a_minute() -> None:
    known = LastError("ERR_CREATE_POD", "used: 1", format_time(NOW_S))
    about = InvolvedObject(SUBJECT.resource, SUBJECT.metadata, (known,))
    other = _refused("used: 2")
    assert remembered(about, [other], Forbidden(other.status), NOW_S + 30) is None
    assert remembered(about, [other], Forbidden(other.status), NOW_S + 61) is not None


def test_s3_what_passes_by_itself_is_no_last_error() -> None:
    assert remembered(SUBJECT, [], Conflict(Status(code=409)), NOW_S) is None
    assert forgotten(SUBJECT) is None


def test_s3_a_bug_of_ours_is_a_last_error() -> None:
    about = InvolvedObject(PODCLIQUESETS, SUBJECT.metadata)
    written = remembered(about, [], ZeroDivisionError("division by zero"), NOW_S)
    assert written is not None
    assert written.status["lastErrors"][0]["code"] == "ERR_RECONCILE"


def test_g1_losing_all_nodes_is_told_once_each_time() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("w")], [group("g", ["w"])]))
        await world.settle()
        (pod,) = await world.list("Pod")
        await world.delete("Pod", pod["metadata"]["name"])
        await world.settle()
        for kind, name in (("PodClique", "d-0-g-0-w"), ("PodCliqueScalingGroup", "d-0-g")):
            found = [each for each in await told(world, kind, name) if each[0] == "AllScheduledReplicasLost"]
            assert len(found) == 1, kind
            assert "was 1" in found[0][1]

    in_world(scenario)


def test_s3_a_name_that_somebody_else_has_is_a_last_error_until_it_is_free() -> None:
    async def scenario(world: World) -> None:
        theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "d-0"}}
        await world.apply({**theirs, "spec": {"ports": [{"port": 80}]}})
        await world.apply(podcliqueset("d", [clique("fe")]))
        await world.settle(limit_s=100_000)
        found = await errors(world, "PodCliqueSet", "d")
        assert found == {"ERR_CREATE_SERVICE": 'Service default/d-0: services "d-0" already exists'}
        await world.delete("Service", "d-0")
        await world.settle(quiet_s=900)
        assert await errors(world, "PodCliqueSet", "d") == {}
        assert (await world.get("PodCliqueSet", "d") or {})["status"]["availableReplicas"] == 1

    in_world(scenario)


def test_g1_a_name_that_somebody_else_has_is_told_by_one_event() -> None:
    async def scenario(world: World) -> None:
        theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "d-0"}}
        await world.apply({**theirs, "spec": {"ports": [{"port": 80}]}})
        await world.apply(podcliqueset("d", [clique("fe")]))
        await world.settle(limit_s=100_000)
        assert await told(world, "PodCliqueSet", "d") == [("ServiceCreateFailed", 'services "d-0" already exists')]

    in_world(scenario)


def test_g1_a_termination_is_told_on_the_set_or_on_the_group_whose_replica_goes() -> None:
    sick = {"spinney.dev/sim-fail": "unready"}
    whole = podcliqueset("d", [clique("a", annotations=sick)], terminationDelay="60s")

    async def scenario(world: World) -> None:
        await world.apply(whole)
        await asyncio.sleep(100)
        reason = "PodCliqueSetReplicaDeleteSuccessful"
        text = "PodCliqueSet replica 0 deleted: it was below its minimum for longer than terminationDelay"
        assert [each for each in await told(world, "PodCliqueSet", "d") if each[0] == reason] == [(reason, text)]

    in_world(scenario)
