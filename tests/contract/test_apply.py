"""Server-side apply: fields have owners, and nobody loses one unasked."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cluster_kit.objects import crd, custom, deployment, pod, service
from cluster_kit.server import PATCH_TYPES
from cluster_kit.space import Space


def wanted(name: str = "a", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def owners(now: Any) -> dict[tuple[str, str], Any]:
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in now["metadata"]["managedFields"]}


def test_apply_creates_what_is_not_there(space: Space) -> None:
    made = space.apply("configmaps", wanted(x="1"), manager="one").ok(201)
    assert made["data"] == {"x": "1"}
    assert owners(made) == {("one", "Apply"): {"f:data": {"f:x": {}}}}


def test_applying_the_same_again_changes_nothing(space: Space) -> None:
    made = space.apply("configmaps", wanted(x="1"), manager="one").ok(201)
    again = space.apply("configmaps", wanted(x="1"), manager="one").ok(200)
    assert again == made


def test_a_field_left_out_is_removed(space: Space) -> None:
    space.apply("configmaps", wanted(x="1", y="2"), manager="one").ok(201)
    now = space.apply("configmaps", wanted(x="1"), manager="one").ok(200)
    assert now["data"] == {"x": "1"}


def test_a_field_left_out_stays_while_another_owns_it(space: Space) -> None:
    space.apply("configmaps", wanted(x="1", y="2"), manager="one").ok(201)
    space.apply("configmaps", wanted(y="2"), manager="two").ok(200)
    now = space.apply("configmaps", wanted(x="1"), manager="one").ok(200)
    assert now["data"] == {"x": "1", "y": "2"}
    assert owners(now) == {("one", "Apply"): {"f:data": {"f:x": {}}}, ("two", "Apply"): {"f:data": {"f:y": {}}}}


def test_fields_of_others_are_left_alone(space: Space) -> None:
    space.apply("configmaps", wanted(x="1"), manager="one").ok(201)
    now = space.apply("configmaps", wanted(y="2"), manager="two").ok(200)
    assert now["data"] == {"x": "1", "y": "2"}


def test_a_conflict_names_the_owner_and_the_field(space: Space) -> None:
    space.apply("configmaps", wanted(x="1"), manager="one").ok(201)
    refused = space.apply("configmaps", wanted(x="2"), manager="two")
    refused.refused(409, "Conflict", 'Apply failed with 1 conflict: conflict with "one": .data.x')
    assert refused.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.x"}
    ]
    assert space.get("configmaps", "a").ok()["data"] == {"x": "1"}


def test_several_conflicts_are_told_together(space: Space) -> None:
    space.apply("configmaps", wanted(x="1", y="1"), manager="one").ok(201)
    refused = space.apply("configmaps", wanted(x="2", y="2"), manager="two")
    refused.refused(409, "Conflict", 'Apply failed with 2 conflicts: conflicts with "one":', "- .data.x", "- .data.y")


def test_force_takes_the_field_over(space: Space) -> None:
    space.apply("configmaps", wanted(x="1", y="1"), manager="one").ok(201)
    now = space.apply("configmaps", wanted(x="2"), manager="two", force="true").ok(200)
    assert now["data"] == {"x": "2", "y": "1"}
    assert owners(now) == {("one", "Apply"): {"f:data": {"f:y": {}}}, ("two", "Apply"): {"f:data": {"f:x": {}}}}


def test_the_same_value_is_shared_without_conflict(space: Space) -> None:
    space.apply("configmaps", wanted(x="1"), manager="one").ok(201)
    now = space.apply("configmaps", wanted(x="1"), manager="two").ok(200)
    assert owners(now) == {("one", "Apply"): {"f:data": {"f:x": {}}}, ("two", "Apply"): {"f:data": {"f:x": {}}}}


def test_an_update_conflicts_with_a_later_apply(space: Space) -> None:
    space.create("configmaps", wanted(x="1"), fieldManager="editor").ok(201)
    refused = space.apply("configmaps", wanted(x="2"), manager="two")
    refused.refused(409, "Conflict", 'conflict with "editor" using v1: .data.x')


def test_an_update_takes_ownership_of_what_it_changes(space: Space) -> None:
    space.apply("configmaps", wanted(x="1", y="1"), manager="one").ok(201)
    now = space.patch("configmaps", "a", {"data": {"x": "9"}}, fieldManager="editor").ok(200)
    assert owners(now) == {("one", "Apply"): {"f:data": {"f:y": {}}}, ("editor", "Update"): {"f:data": {"f:x": {}}}}
    space.apply("configmaps", wanted(x="1", y="1"), manager="one").refused(
        409, "Conflict", 'conflict with "editor" using v1'
    )


def test_an_applier_and_an_updater_of_one_name_are_two(space: Space) -> None:
    space.apply("configmaps", wanted(x="1"), manager="same").ok(201)
    now = space.patch("configmaps", "a", {"data": {"y": "1"}}, fieldManager="same").ok(200)
    assert set(owners(now)) == {("same", "Apply"), ("same", "Update")}


def test_apply_needs_a_field_manager(space: Space) -> None:
    refused = space.patch("configmaps", "a", wanted(x="1"), "apply")
    refused.refused(422, "Invalid", "fieldManager: Required value: is required for apply patch")


def test_force_is_for_apply_only(space: Space) -> None:
    space.create("configmaps", wanted(x="1")).ok(201)
    space.patch("configmaps", "a", {"data": {"x": "2"}}, "merge", force="true").refused(
        422, "Invalid", "force: Forbidden"
    )


def test_managed_fields_may_not_be_applied(space: Space) -> None:
    body = wanted(x="1")
    body["metadata"]["managedFields"] = [{"manager": "x", "operation": "Apply", "apiVersion": "v1"}]
    space.apply("configmaps", body).refused(400, "BadRequest", "metadata.managedFields must be nil")


def test_apply_takes_yaml(space: Space) -> None:
    raw = yaml.safe_dump(wanted(x="1")).encode()
    headers = {"Content-Type": PATCH_TYPES["apply"]}
    query = {"fieldManager": "one"}
    made = space.server.http("PATCH", space.path("configmaps", "a"), raw=raw, headers=headers, query=query).ok(201)
    assert made["data"] == {"x": "1"}


def test_apply_creates_even_with_a_version(space: Space) -> None:
    body = wanted(x="1")
    body["metadata"]["resourceVersion"] = "5"
    assert space.apply("configmaps", body).ok(201)["metadata"]["resourceVersion"] != "5"


def test_apply_with_an_old_version_is_refused(space: Space) -> None:
    made = space.apply("configmaps", wanted(x="1")).ok(201)
    space.apply("configmaps", wanted(x="2")).ok(200)
    body = wanted(x="3")
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    space.apply("configmaps", body).refused(409, "Conflict")


BAD: dict[str, tuple[dict[str, Any], int, str]] = {
    "another name": ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}, 400, "BadRequest"),
    "another kind": ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}, 400, "BadRequest"),
    "no kind": ({"metadata": {"name": "a"}}, 400, "BadRequest"),
    "wrong type": ({**wanted(), "data": {"x": 5}}, 500, ""),
    "invalid": ({**wanted(), "data": {"b a d": "x"}}, 422, "Invalid"),
}


@pytest.mark.parametrize("row", BAD)
def test_a_bad_apply_stores_nothing(row: str, space: Space) -> None:
    body, code, reason = BAD[row]
    reply = space.patch("configmaps", "a", body, "apply", fieldManager="one")
    reply.refused(code, reason)
    assert space.names("configmaps") == []


def test_unknown_fields_are_refused(space: Space) -> None:
    refused = space.apply("configmaps", {**wanted(x="1"), "nonsense": 1})
    refused.refused(500, "", "failed to create typed patch object", ".nonsense: field not declared in schema")
    assert not space.exists("configmaps", "a")


def test_list_elements_are_merged_by_their_keys(space: Space) -> None:
    ports = [{"port": 80, "name": "web", "protocol": "TCP"}]
    body = {**service("s"), "spec": {"ports": ports}}
    space.apply("services", body, manager="one").ok(201)
    body = {**service("s"), "spec": {"ports": [{"port": 9090, "name": "metrics", "protocol": "TCP"}]}}
    now = space.apply("services", body, manager="two").ok(200)
    assert sorted(port["name"] for port in now["spec"]["ports"]) == ["metrics", "web"]
    now = space.apply("services", {**service("s"), "spec": {}}, manager="two").ok(200)
    assert [port["name"] for port in now["spec"]["ports"]] == ["web"]


def test_containers_of_two_owners(space: Space) -> None:
    space.apply("deployments", deployment("d"), manager="one").ok(201)
    side = deployment("d", replicas=2)
    side["spec"] = {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/s:1"}]}}}
    now = space.apply("deployments", side, manager="two").ok(200)
    assert sorted(c["name"] for c in now["spec"]["template"]["spec"]["containers"]) == ["main", "side"]
    side["spec"]["template"]["spec"]["containers"] = [{"name": "main", "image": "example.com/other:2"}]
    refused = space.apply("deployments", side, manager="two")
    refused.refused(409, "Conflict", '.spec.template.spec.containers[name="main"].image')


def test_sets_are_merged(space: Space) -> None:
    for manager, finalizer in (("one", "example.com/a"), ("two", "example.com/b")):
        body = wanted(x="1")
        body["metadata"]["finalizers"] = [finalizer]
        now = space.apply("configmaps", body, manager=manager).ok()
    assert sorted(now["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    now = space.apply("configmaps", wanted(x="1"), manager="one").ok(200)
    assert now["metadata"]["finalizers"] == ["example.com/b"]
    space.patch("configmaps", "a", {"metadata": {"finalizers": None}}).ok(200)


def test_atomic_lists_have_one_owner(space: Space) -> None:
    def with_command(*command: str) -> Any:
        return pod("p", {"containers": [{"name": "main", "image": "example.com/app:1", "command": list(command)}]})

    space.apply("pods", with_command("a", "b"), manager="one").ok(201)
    refused = space.apply("pods", with_command("a", "c"), manager="two")
    refused.refused(409, "Conflict", '.spec.containers[name="main"].command')


def test_duplicate_keys_in_an_applied_list_are_refused(space: Space) -> None:
    body = service(
        "s", ports=[{"port": 80, "protocol": "TCP", "name": "a"}, {"port": 80, "protocol": "TCP", "name": "b"}]
    )
    refused = space.apply("services", body)
    refused.refused(500, "", '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]')


def test_defaults_are_not_owned_by_the_applier(space: Space) -> None:
    now = space.apply("deployments", deployment("d"), manager="one").ok(201)
    assert now["spec"]["replicas"] == 1
    spec = owners(now)[("one", "Apply")]["f:spec"]
    assert "f:replicas" not in spec
    key = 'k:{"name":"main"}'
    assert set(spec["f:template"]["f:spec"]["f:containers"][key]) == {".", "f:name", "f:image"}


def test_status_is_applied_through_its_own_door(space: Space) -> None:
    space.apply("deployments", deployment("d"), manager="one").ok(201)
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"replicas": 3}}
    now = space.apply("deployments", body, manager="robot", sub="status").ok(200)
    assert now["status"]["replicas"] == 3
    entry = next(entry for entry in now["metadata"]["managedFields"] if entry["manager"] == "robot")
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")


def test_status_in_an_apply_of_the_object_is_not_owned(space: Space) -> None:
    now = space.apply("deployments", {**deployment("d"), "status": {"replicas": 3}}, manager="one").ok(201)
    assert now["status"] == {}
    assert "f:status" not in owners(now)[("one", "Apply")]


@pytest.fixture
def widgets(cluster: Space, unique: str) -> str:
    group = f"{unique}.example.com"
    schema = {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "color": {"type": "string", "default": "grey"},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                    },
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "order": {"type": "array", "items": {"type": "string"}},
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"},
                },
            },
        },
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
    }
    cluster.establish(crd(group, schema, subresources={"status": {}}))
    return f"{group}/v1/widgets"


def widget(widgets: str, **spec: Any) -> dict[str, Any]:
    return custom(widgets.split("/")[0], "a", spec=spec)


def test_custom_lists_of_type_map_are_merged_by_key(space: Space, widgets: str) -> None:
    space.apply(widgets, widget(widgets, parts=[{"name": "x", "count": 1}]), manager="one").ok(201)
    now = space.apply(widgets, widget(widgets, parts=[{"name": "y", "count": 2}]), manager="two").ok(200)
    assert now["spec"]["parts"] == [{"name": "x", "count": 1}, {"name": "y", "count": 2}]
    refused = space.apply(widgets, widget(widgets, parts=[{"name": "x", "count": 5}]), manager="two")
    refused.refused(409, "Conflict", '.spec.parts[name="x"].count')
    now = space.apply(widgets, widget(widgets, parts=[]), manager="one").ok(200)
    assert now["spec"]["parts"] == [{"name": "y", "count": 2}]


def test_custom_sets_are_merged(space: Space, widgets: str) -> None:
    space.apply(widgets, widget(widgets, tags=["a"]), manager="one").ok(201)
    now = space.apply(widgets, widget(widgets, tags=["b"]), manager="two").ok(200)
    assert sorted(now["spec"]["tags"]) == ["a", "b"]
    fields = owners(now)[("two", "Apply")]
    assert fields == {"f:spec": {"f:tags": {'v:"b"': {}}}}


def test_custom_lists_without_a_type_are_atomic(space: Space, widgets: str) -> None:
    space.apply(widgets, widget(widgets, order=["a"]), manager="one").ok(201)
    space.apply(widgets, widget(widgets, order=["b"]), manager="two").refused(409, "Conflict", ".spec.order")
    now = space.apply(widgets, widget(widgets, order=["b"]), manager="two", force="true").ok(200)
    assert now["spec"]["order"] == ["b"]


def test_custom_atomic_maps(space: Space, widgets: str) -> None:
    space.apply(widgets, widget(widgets, whole={"a": "1"}), manager="one").ok(201)
    space.apply(widgets, widget(widgets, whole={"b": "1"}), manager="two").refused(409, "Conflict", ".spec.whole")


def test_custom_defaults_are_not_owned(space: Space, widgets: str) -> None:
    now = space.apply(widgets, widget(widgets, size=1), manager="one").ok(201)
    assert now["spec"] == {"size": 1, "color": "grey"}
    assert owners(now) == {("one", "Apply"): {"f:spec": {"f:size": {}}}}


def test_a_custom_field_left_out_returns_to_its_default(space: Space, widgets: str) -> None:
    space.apply(widgets, widget(widgets, color="red"), manager="one").ok(201)
    now = space.apply(widgets, widget(widgets, size=2), manager="one").ok(200)
    assert now["spec"] == {"size": 2, "color": "grey"}


def test_custom_status_is_applied_through_its_own_door(space: Space, widgets: str) -> None:
    space.apply(widgets, widget(widgets, size=1), manager="one").ok(201)
    body = custom(widgets.split("/")[0], "a", status={"seen": 4})
    now = space.apply(widgets, body, manager="robot", sub="status").ok(200)
    assert (now["spec"]["size"], now["status"]) == (1, {"seen": 4})


def test_an_apply_that_breaks_the_schema_is_refused(space: Space, widgets: str) -> None:
    refused = space.apply(widgets, widget(widgets, size="big"))
    refused.refused(500, "", ".spec.size: expected numeric (int or float), got string")
    assert not space.exists(widgets, "a")


def test_an_empty_apply_gives_everything_up(space: Space) -> None:
    space.apply("configmaps", wanted(x="1"), manager="one").ok(201)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    now = space.apply("configmaps", body, manager="one").ok(200)
    assert "data" not in now


def test_labels_are_applied_one_by_one(space: Space) -> None:
    for manager in ("one", "two"):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        body["metadata"]["labels"] = {manager: "yes"}  # type: ignore[index]
        now = space.apply("configmaps", body, manager=manager).ok()
    assert now["metadata"]["labels"] == {"one": "yes", "two": "yes"}
