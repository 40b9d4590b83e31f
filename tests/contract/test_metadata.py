"""What a server does with metadata on create and update."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cluster_kit.objects import config, crd, custom, deployment, merged, pod
from cluster_kit.space import Space

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def test_a_created_object_carries_what_the_server_gives(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"name": "a"}}).ok(201)
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    meta = made["metadata"]
    assert meta["namespace"] == space.namespace
    assert UID.fullmatch(meta["uid"])
    assert TIME.fullmatch(meta["creationTimestamp"])
    assert int(meta["resourceVersion"]) > 0
    assert "generation" not in meta
    assert "selfLink" not in meta


def test_what_only_the_server_gives_is_not_taken_from_the_creator(space: Space) -> None:
    wanted = config(
        "a",
        uid="11111111-2222-3333-4444-555555555555",
        creationTimestamp="2001-01-01T00:00:00Z",
        deletionTimestamp="2001-01-01T00:00:00Z",
        deletionGracePeriodSeconds=5,
        generation=7,
        selfLink="/x",
    )
    meta = space.create("configmaps", wanted).ok(201)["metadata"]
    assert meta["uid"] != wanted["metadata"]["uid"]
    assert not meta["creationTimestamp"].startswith("2001")
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & set(meta)


def test_generate_name_appends_five_characters(space: Space) -> None:
    body = {"metadata": {"generateName": "job-"}}
    names = {space.create("configmaps", body).ok(201)["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"job-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


def test_a_name_wins_over_generate_name(space: Space) -> None:
    meta = space.create("configmaps", {"metadata": {"name": "a", "generateName": "b-"}}).ok(201)["metadata"]
    assert (meta["name"], meta["generateName"]) == ("a", "b-")


def test_a_long_generate_name_is_cut_to_fit(space: Space) -> None:
    meta = space.create("configmaps", {"metadata": {"generateName": "x" * 62}}).ok(201)["metadata"]
    assert len(meta["name"]) == 63


def test_without_name_and_generate_name_nothing_is_created(space: Space) -> None:
    refused = space.create("configmaps", {"metadata": {}})
    refused.refused(422, "Invalid", "name or generateName is required")
    assert refused.causes == [("FieldValueRequired", "metadata.name")]


BAD_METADATA = {
    "upper case name": ({"name": "A"}, ("FieldValueInvalid", "metadata.name")),
    "name with slash": ({"name": "a/b"}, ("FieldValueInvalid", "metadata.name")),
    "name too long": ({"name": "a" * 254}, ("FieldValueInvalid", "metadata.name")),
    "name ends with dash": ({"name": "a-"}, ("FieldValueInvalid", "metadata.name")),
    "label key": ({"name": "a", "labels": {"-x": "y"}}, ("FieldValueInvalid", "metadata.labels")),
    "label value": ({"name": "a", "labels": {"x": "no spaces"}}, ("FieldValueInvalid", "metadata.labels")),
    "label value too long": ({"name": "a", "labels": {"x": "y" * 64}}, ("FieldValueInvalid", "metadata.labels")),
    "annotation key": ({"name": "a", "annotations": {"b a d": ""}}, ("FieldValueInvalid", "metadata.annotations")),
    "annotations too large": (
        {"name": "a", "annotations": {"a": "x" * 262145}},
        ("FieldValueTooLong", "metadata.annotations"),
    ),
    "finalizer name": ({"name": "a", "finalizers": ["b a d"]}, ("FieldValueInvalid", "metadata.finalizers")),
    "finalizer without domain": (
        {"name": "a", "finalizers": ["mine"]},
        ("FieldValueInvalid", "metadata.finalizers[0]"),
    ),
    "owner without uid": (
        {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}]},
        ("FieldValueInvalid", "metadata.ownerReferences.uid"),
    ),
    "owner without kind": (
        {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "p", "uid": "u"}]},
        ("FieldValueInvalid", "metadata.ownerReferences.kind"),
    ),
    "two controllers": (
        {
            "name": "a",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}", "controller": True} for i in (1, 2)
            ],
        },
        ("FieldValueInvalid", "metadata.ownerReferences"),
    ),
    "an event as owner": (
        {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]},
        ("FieldValueInvalid", "metadata.ownerReferences"),
    ),
}


@pytest.mark.parametrize("row", BAD_METADATA)
def test_bad_metadata_is_refused(row: str, space: Space) -> None:
    metadata, cause = BAD_METADATA[row]
    refused = space.create("configmaps", {"metadata": metadata}).refused(422, "Invalid")
    assert cause in refused.causes
    assert space.names("configmaps") == []


def test_all_field_errors_are_told_at_once(space: Space) -> None:
    body = {"metadata": {"name": "A", "labels": {"-x": "y"}}, "data": {"not a key": ""}}
    refused = space.create("configmaps", body).refused(422, "Invalid", 'ConfigMap "A" is invalid: [')
    assert [field for _, field in refused.causes] == ["data[not a key]", "metadata.labels", "metadata.name"]


def test_the_name_in_the_body_must_be_that_of_the_path(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    refused = space.replace("configmaps", config("b"), name="a")
    refused.refused(400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)")


def test_the_namespace_in_the_body_must_be_that_of_the_path(space: Space) -> None:
    refused = space.create("configmaps", config("a", namespace="other"))
    refused.refused(
        400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request"
    )
    assert not space.exists("configmaps", "a")


def test_the_namespace_cannot_be_changed_by_replace(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    refused = space.replace("configmaps", config("a", namespace="other"))
    refused.refused(
        400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request"
    )


IMMUTABLE: dict[str, tuple[Any, Any]] = {
    "creationTimestamp": ("2001-01-01T00:00:00Z", None),
    "deletionTimestamp": ("2001-01-01T00:00:00Z", None),
    "deletionGracePeriodSeconds": (5, None),
    "generation": (9, None),
}


@pytest.mark.parametrize("field", IMMUTABLE)
def test_system_metadata_survives_a_merge_patch(field: str, space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)["metadata"]
    space.patch("configmaps", "a", {"metadata": {field: IMMUTABLE[field][0]}})
    now = space.get("configmaps", "a").ok()["metadata"]
    assert now.get(field) == made.get(field)


def test_renaming_by_patch_is_refused(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    space.patch("configmaps", "a", {"metadata": {"name": "b"}}).refused(
        400, "BadRequest", "does not match the name on the URL"
    )
    assert space.names("configmaps") == ["a"]


def test_generation_counts_changes_of_the_spec_only(space: Space) -> None:
    made = space.create("deployments", deployment("d")).ok(201)
    assert made["metadata"]["generation"] == 1
    labelled = space.patch("deployments", "d", {"metadata": {"labels": {"a": "b"}}}).ok(200)
    assert labelled["metadata"]["generation"] == 1
    status = space.patch("deployments", "d", {"status": {"replicas": 3}}, sub="status").ok(200)
    assert status["metadata"]["generation"] == 1
    scaled = space.patch("deployments", "d", {"spec": {"replicas": 3}}).ok(200)
    assert scaled["metadata"]["generation"] == 2


def test_generation_of_custom_objects_counts_everything_but_metadata_and_status(
    space: Space, cluster: Space, unique: str
) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group, subresources={"status": {}}))
    widgets = f"{group}/v1/widgets"
    assert space.create(widgets, custom(group, "a", spec={"size": 1})).ok(201)["metadata"]["generation"] == 1
    assert space.patch(widgets, "a", {"metadata": {"labels": {"a": "b"}}}).ok()["metadata"]["generation"] == 1
    assert space.patch(widgets, "a", {"status": {"seen": 1}}, sub="status").ok()["metadata"]["generation"] == 1
    assert space.patch(widgets, "a", {"spec": {"size": 2}}).ok()["metadata"]["generation"] == 2


def test_without_a_status_subresource_a_status_change_counts(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    widgets = f"{group}/v1/widgets"
    space.create(widgets, custom(group, "a", status={"seen": 1})).ok(201)
    assert space.patch(widgets, "a", {"status": {"seen": 2}}).ok()["metadata"]["generation"] == 2


def test_a_generation_sent_by_the_creator_is_replaced(space: Space) -> None:
    made = space.create("deployments", merged(deployment("d"), {"metadata": {"generation": 9}})).ok(201)
    assert made["metadata"]["generation"] == 1


def test_pods_have_a_generation(space: Space) -> None:
    assert space.create("pods", pod("p")).ok(201)["metadata"]["generation"] == 1
    assert space.patch("pods", "p", {"spec": {"activeDeadlineSeconds": 9}}).ok()["metadata"]["generation"] == 2


def test_managed_fields_tell_who_wrote_what(space: Space) -> None:
    made = space.create("configmaps", config("a"), fieldManager="mine").ok(201)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("mine", "Update", "v1")
    assert entry["fieldsType"] == "FieldsV1"
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:k": {}}}
    assert TIME.fullmatch(entry["time"])


def test_the_field_manager_is_by_default_the_program_of_the_user_agent(space: Space) -> None:
    path = space.path("configmaps")
    made = space.server.http("POST", path, config("a"), headers={"User-Agent": "robot/1.2 (linux)"}).ok(201)
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["robot"]


def test_a_field_manager_name_that_is_too_long_is_refused(space: Space) -> None:
    refused = space.create("configmaps", config("a"), fieldManager="m" * 129)
    refused.refused(422, "Invalid", "fieldManager")
    assert not space.exists("configmaps", "a")


def test_managed_fields_of_a_second_writer_take_over_what_it_changed(space: Space) -> None:
    space.create("configmaps", config("a", {"x": "1", "y": "1"}), fieldManager="first").ok(201)
    now = space.patch("configmaps", "a", {"data": {"y": "2"}}, fieldManager="second").ok(200)
    owned = {entry["manager"]: entry["fieldsV1"] for entry in now["metadata"]["managedFields"]}
    assert owned == {"first": {"f:data": {".": {}, "f:x": {}}}, "second": {"f:data": {"f:y": {}}}}


def test_managed_fields_can_be_cleared(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    now = space.patch("configmaps", "a", {"metadata": {"managedFields": [{}]}}).ok(200)
    assert "managedFields" not in now["metadata"]


def test_status_writes_are_managed_under_their_subresource(space: Space) -> None:
    space.create("deployments", deployment("d"), fieldManager="author").ok(201)
    now = space.patch("deployments", "d", {"status": {"replicas": 2}}, sub="status", fieldManager="robot").ok(200)
    entry = next(entry for entry in now["metadata"]["managedFields"] if entry["manager"] == "robot")
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:replicas": {}}})
