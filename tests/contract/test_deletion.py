"""Deleting: grace, finalizers, preconditions, collections."""

from __future__ import annotations

import pytest

from cluster_kit.kinds import KINDS, Kind, body_of
from cluster_kit.objects import binding, config, merged, node, pod
from cluster_kit.server import eventually
from cluster_kit.space import Space

HELD = "example.com/hold"


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural) for kind in KINDS if kind.plural != "namespaces"])
def test_a_deleted_object_is_gone(kind: Kind, space: Space, cluster: Space, unique: str) -> None:
    at = space if kind.namespaced else cluster
    name = at.create(kind.plural, body_of(kind, unique, space.namespace)).ok(201)["metadata"]["name"]
    at.delete(kind.plural, name).ok(200)
    at.gone(kind.plural, name)


def test_a_deletion_answers_with_a_status(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    answer = space.delete("configmaps", "a").ok(200)
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}


def test_a_deletion_of_a_pod_answers_with_the_pod(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    answer = space.delete("pods", "p").ok(200)
    assert (answer["kind"], answer["metadata"]["name"]) == ("Pod", "p")


def test_deleting_twice_is_not_found(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    space.delete("configmaps", "a").ok(200)
    space.delete("configmaps", "a").refused(404, "NotFound", 'configmaps "a" not found')


def test_a_finalizer_holds_an_object_until_it_is_removed(space: Space) -> None:
    made = space.create("configmaps", config("a", finalizers=[HELD])).ok(201)
    answer = space.delete("configmaps", "a").ok(200)
    assert (answer["kind"], answer["metadata"]["deletionGracePeriodSeconds"]) == ("ConfigMap", 0)
    held = space.get("configmaps", "a").ok()
    assert held["metadata"]["deletionTimestamp"]
    assert int(held["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    space.patch("configmaps", "a", {"metadata": {"finalizers": None}}).ok(200)
    assert not space.exists("configmaps", "a")


def test_the_last_of_several_finalizers_frees_the_object(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=[HELD, "example.com/second"])).ok(201)
    space.delete("configmaps", "a").ok(200)
    space.patch("configmaps", "a", {"metadata": {"finalizers": ["example.com/second"]}}).ok(200)
    assert space.exists("configmaps", "a")
    space.patch("configmaps", "a", {"metadata": {"finalizers": []}}).ok(200)
    assert not space.exists("configmaps", "a")


def test_a_held_object_takes_no_new_finalizers(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=[HELD])).ok(201)
    space.delete("configmaps", "a").ok(200)
    refused = space.patch("configmaps", "a", {"metadata": {"finalizers": [HELD, "example.com/new"]}})
    refused.refused(422, "Invalid", "no new finalizers can be added if the object is being deleted")
    assert set(refused.causes) == {("FieldValueForbidden", "metadata.finalizers")}


def test_a_held_object_can_still_be_changed(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=[HELD])).ok(201)
    space.delete("configmaps", "a").ok(200)
    assert space.patch("configmaps", "a", {"data": {"k": "late"}}).ok(200)["data"] == {"k": "late"}


def test_deleting_a_held_object_again_changes_nothing(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=[HELD])).ok(201)
    first = space.delete("configmaps", "a").ok(200)["metadata"]
    second = space.delete("configmaps", "a").ok(200)["metadata"]
    assert second["deletionTimestamp"] == first["deletionTimestamp"]
    assert second["resourceVersion"] == first["resourceVersion"]


def test_a_held_name_cannot_be_taken(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=[HELD])).ok(201)
    space.delete("configmaps", "a").ok(200)
    refused = space.create("configmaps", config("a"))
    refused.refused(409, "AlreadyExists", 'object is being deleted: configmaps "a" already exists')


def test_removing_a_finalizer_of_a_living_object_keeps_it(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=[HELD])).ok(201)
    space.patch("configmaps", "a", {"metadata": {"finalizers": None}}).ok(200)
    assert space.exists("configmaps", "a")


def test_generation_grows_when_a_deletion_begins(space: Space) -> None:
    body = {"metadata": {"name": "p", "finalizers": [HELD]}, "spec": pod("p")["spec"]}
    before = space.create("pods", body).ok(201)["metadata"]["generation"]
    space.delete("pods", "p", {"gracePeriodSeconds": 0}).ok(200)
    assert space.get("pods", "p").ok()["metadata"]["generation"] == before + 1


PRECONDITIONS = {
    "uid": {"uid": "11111111-2222-3333-4444-555555555555"},
    "version": {"resourceVersion": "1"},
}


@pytest.mark.parametrize("row", PRECONDITIONS)
def test_a_failed_precondition_keeps_the_object(row: str, space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    refused = space.delete("configmaps", "a", {"preconditions": PRECONDITIONS[row]})
    refused.refused(409, "Conflict")
    assert space.exists("configmaps", "a")


def test_a_met_precondition_deletes(space: Space) -> None:
    meta = space.create("configmaps", config("a")).ok(201)["metadata"]
    exact = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    space.delete("configmaps", "a", {"preconditions": exact}).ok(200)
    assert not space.exists("configmaps", "a")


BAD_OPTIONS = {
    "unknown policy": ({"propagationPolicy": "Sideways"}, 422, "Invalid"),
    "policy and orphanDependents": ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "Invalid"),
    "unknown dry run": ({"dryRun": ["Some"]}, 422, "Invalid"),
    "another kind": ({"kind": "Pod", "apiVersion": "v1"}, 400, "BadRequest"),
    "a list": ([], 400, "BadRequest"),
}


@pytest.mark.parametrize("row", BAD_OPTIONS)
def test_bad_options_delete_nothing(row: str, space: Space) -> None:
    body, code, reason = BAD_OPTIONS[row]
    space.create("configmaps", config("a")).ok(201)
    space.delete("configmaps", "a", body).refused(code, reason)
    assert space.exists("configmaps", "a")


def test_an_unbound_pod_goes_at_once(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    space.delete("pods", "p").ok(200)
    assert not space.exists("pods", "p")


@pytest.fixture
def bound(space: Space, cluster: Space, unique: str) -> str:
    """A pod that sits on a node."""
    cluster.create("nodes", node(unique)).ok(201)
    space.create("pods", pod("p", {"terminationGracePeriodSeconds": 42})).ok(201)
    space.create("pods", binding("p", unique), name="p", sub="binding").ok(201)
    return "p"


def test_a_bound_pod_is_given_its_grace(space: Space, bound: str) -> None:
    answer = space.delete("pods", bound).ok(200)
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 42
    assert space.get("pods", bound).ok()["metadata"]["deletionTimestamp"] > answer["metadata"]["creationTimestamp"]


def test_grace_can_be_named_and_only_be_shortened(space: Space, bound: str) -> None:
    assert space.delete("pods", bound, {"gracePeriodSeconds": 30}).ok()["metadata"]["deletionGracePeriodSeconds"] == 30
    assert space.delete("pods", bound, {"gracePeriodSeconds": 60}).ok()["metadata"]["deletionGracePeriodSeconds"] == 30
    assert space.delete("pods", bound, {"gracePeriodSeconds": 5}).ok()["metadata"]["deletionGracePeriodSeconds"] == 5


def test_grace_may_stand_in_the_query(space: Space, bound: str) -> None:
    assert space.delete("pods", bound, gracePeriodSeconds=7).ok()["metadata"]["deletionGracePeriodSeconds"] == 7


def test_no_grace_ends_a_bound_pod_at_once(space: Space, bound: str) -> None:
    space.delete("pods", bound, {"gracePeriodSeconds": 0}).ok(200)
    assert not space.exists("pods", bound)


def test_a_finished_pod_goes_at_once(space: Space, bound: str) -> None:
    space.patch("pods", bound, {"status": {"phase": "Succeeded"}}, sub="status").ok(200)
    space.delete("pods", bound).ok(200)
    assert not space.exists("pods", bound)


def test_a_terminating_pod_ends_by_a_second_deletion_without_grace(space: Space, bound: str) -> None:
    space.delete("pods", bound).ok(200)
    space.delete("pods", bound, {"gracePeriodSeconds": 0}).ok(200)
    assert not space.exists("pods", bound)


def test_a_collection_is_deleted_whole(space: Space) -> None:
    for name in ("a", "b", "c"):
        space.create("configmaps", config(name)).ok(201)
    answer = space.delete("configmaps").ok(200)
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b", "c"]
    assert space.names("configmaps") == []


def test_a_collection_is_deleted_by_field(space: Space) -> None:
    for name in ("a", "b"):
        space.create("configmaps", config(name)).ok(201)
    space.delete("configmaps", fieldSelector="metadata.name=a").ok(200)
    assert space.names("configmaps") == ["b"]


def test_a_collection_keeps_what_finalizers_hold(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=[HELD])).ok(201)
    space.create("configmaps", config("b")).ok(201)
    space.delete("configmaps").ok(200)
    (left,) = space.list("configmaps")["items"]
    assert left["metadata"]["name"] == "a"
    assert left["metadata"]["deletionTimestamp"]


def test_an_empty_body_is_no_options(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    space.server.http("DELETE", space.path("configmaps", "a"), headers={"Content-Type": "application/json"}).ok(200)
    assert not space.exists("configmaps", "a")


def test_foreground_of_an_object_without_dependents_ends_soon(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    answer = space.delete("configmaps", "a", {"propagationPolicy": "Foreground"}).ok(200)
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    space.gone("configmaps", "a")


def test_orphan_of_an_object_without_dependents_ends_soon(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    answer = space.delete("configmaps", "a", {"propagationPolicy": "Orphan"}).ok(200)
    assert answer["metadata"]["finalizers"] == ["orphan"]
    space.gone("configmaps", "a")


def test_a_later_deletion_may_change_the_policy(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=[HELD])).ok(201)
    space.delete("configmaps", "a", {"propagationPolicy": "Foreground"}).ok(200)
    space.delete("configmaps", "a", {"propagationPolicy": "Background"}).ok(200)
    eventually(lambda: space.get("configmaps", "a").ok()["metadata"]["finalizers"] == [HELD])


def test_a_replace_that_drops_the_last_finalizer_ends_a_deletion(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=[HELD])).ok(201)
    held = space.delete("configmaps", "a").ok(200)
    space.replace("configmaps", merged(held, {"metadata": {"finalizers": []}})).ok(200)
    assert not space.exists("configmaps", "a")
