"""Patches: JSON patch, merge patch, strategic merge patch, and what each refuses."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import config, crd, custom, deployment, node, pod, service
from cluster_kit.server import PATCH_TYPES
from cluster_kit.space import Space

START = {"a": "1", "b": "2"}

JSON_PATCHES: dict[str, tuple[list[dict[str, Any]], dict[str, str]]] = {
    "add": ([{"op": "add", "path": "/data/c", "value": "3"}], {"a": "1", "b": "2", "c": "3"}),
    "add over": ([{"op": "add", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}),
    "remove": ([{"op": "remove", "path": "/data/a"}], {"b": "2"}),
    "replace": ([{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}),
    "move": ([{"op": "move", "from": "/data/a", "path": "/data/c"}], {"b": "2", "c": "1"}),
    "copy": ([{"op": "copy", "from": "/data/a", "path": "/data/c"}], {"a": "1", "b": "2", "c": "1"}),
    "test": ([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/a"}], {"b": "2"}),
    "dotted": ([{"op": "add", "path": "/data/x.y-z", "value": "3"}], {**START, "x.y-z": "3"}),
    "whole": ([{"op": "replace", "path": "/data", "value": {"z": "1"}}], {"z": "1"}),
    "nothing": ([], START),
    "replace of what is not there": ([{"op": "replace", "path": "/data/c", "value": "3"}], {**START, "c": "3"}),
}


@pytest.mark.parametrize("row", JSON_PATCHES)
def test_a_json_patch_changes_what_it_names(row: str, space: Space) -> None:
    patch, expected = JSON_PATCHES[row]
    space.create("configmaps", config("a", START)).ok(201)
    assert space.patch("configmaps", "a", patch, "json").ok(200)["data"] == expected
    assert space.get("configmaps", "a").ok()["data"] == expected


BAD_JSON_PATCHES: dict[str, tuple[Any, int, str]] = {
    "remove of nothing": ([{"op": "remove", "path": "/data/absent"}], 422, "Invalid"),
    "add into nothing": ([{"op": "add", "path": "/absent/x", "value": "x"}], 422, "Invalid"),
    "failed test": ([{"op": "test", "path": "/data/a", "value": "wrong"}], 422, "Invalid"),
    "unknown operation": ([{"op": "spin", "path": "/data/a"}], 422, "Invalid"),
    "not a list": ({"op": "remove", "path": "/data/a"}, 400, "BadRequest"),
    "not operations": (["x"], 400, "BadRequest"),
    "a text": ("x", 400, "BadRequest"),
    "wrong type": ([{"op": "replace", "path": "/data", "value": "text"}], 422, "Invalid"),
    "a number as value": ([{"op": "replace", "path": "/data/a", "value": 5}], 422, "Invalid"),
    "an invalid key": ([{"op": "add", "path": "/data/b a d", "value": "x"}], 422, "Invalid"),
    "another kind": ([{"op": "replace", "path": "/kind", "value": "Secret"}], 422, "Invalid"),
    "another version": ([{"op": "replace", "path": "/apiVersion", "value": "apps/v1"}], 422, "Invalid"),
}


@pytest.mark.parametrize("row", BAD_JSON_PATCHES)
def test_a_bad_json_patch_changes_nothing(row: str, space: Space) -> None:
    patch, code, reason = BAD_JSON_PATCHES[row]
    made = space.create("configmaps", config("a", START)).ok(201)
    space.patch("configmaps", "a", patch, "json").refused(code, reason)
    assert space.get("configmaps", "a").ok() == made


def test_a_json_patch_of_more_operations_than_allowed_is_refused(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    patch = [{"op": "add", "path": "/data/k", "value": "x"}] * 10001
    space.patch("configmaps", "a", patch, "json").refused(413, "RequestEntityTooLarge")


def test_a_json_patch_with_slashes_in_a_key(space: Space) -> None:
    space.create("configmaps", config("a", annotations={"x": "y"})).ok(201)
    patch = [{"op": "add", "path": "/metadata/annotations/example.com~1key", "value": "v"}]
    now = space.patch("configmaps", "a", patch, "json").ok(200)
    assert now["metadata"]["annotations"] == {"x": "y", "example.com/key": "v"}


def test_a_json_patch_can_append_to_and_insert_into_lists(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=["example.com/b"])).ok(201)
    patch = [
        {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"},
        {"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/a"},
    ]
    now = space.patch("configmaps", "a", patch, "json").ok(200)
    assert now["metadata"]["finalizers"] == ["example.com/a", "example.com/b", "example.com/c"]
    space.patch("configmaps", "a", [{"op": "remove", "path": "/metadata/finalizers/9"}], "json").refused(422, "Invalid")


MERGES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "add": ({"data": {"c": "3"}}, {"a": "1", "b": "2", "c": "3"}),
    "remove": ({"data": {"a": None}}, {"b": "2"}),
    "remove what is not there": ({"data": {"z": None}}, START),
    "remove all": ({"data": None}, None),
    "nothing": ({}, START),
}


@pytest.mark.parametrize("row", MERGES)
@pytest.mark.parametrize("type", ["merge", "strategic"])
def test_a_merge_patch_merges_maps(row: str, type: str, space: Space) -> None:
    patch, expected = MERGES[row]
    space.create("configmaps", config("a", START)).ok(201)
    assert space.patch("configmaps", "a", patch, type).ok(200).get("data") == expected


BAD_MERGES: dict[str, tuple[Any, str, int, str]] = {
    "a list": ([], "merge", 400, "BadRequest"),
    "a text": ("x", "merge", 400, "BadRequest"),
    "wrong type": ({"data": "x"}, "merge", 422, "Invalid"),
    "a number as value": ({"data": {"a": 5}}, "merge", 422, "Invalid"),
    "an invalid label": ({"metadata": {"labels": {"a": "b c"}}}, "merge", 422, "Invalid"),
    "a strategic list": ([], "strategic", 400, "BadRequest"),
    "a strategic text": ("x", "strategic", 400, "BadRequest"),
    "a strategic wrong type": ({"data": "x"}, "strategic", 422, "Invalid"),
    "an unknown directive": ({"data": {"$patch": "explode"}}, "strategic", 500, ""),
}


@pytest.mark.parametrize("row", BAD_MERGES)
def test_a_bad_merge_changes_nothing(row: str, space: Space) -> None:
    patch, type, code, reason = BAD_MERGES[row]
    made = space.create("configmaps", config("a", START)).ok(201)
    space.patch("configmaps", "a", patch, type).refused(code, reason)
    assert space.get("configmaps", "a").ok() == made


def test_a_merge_patch_replaces_lists_whole(space: Space) -> None:
    space.create("deployments", deployment("d")).ok(201)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}}
    now = space.patch("deployments", "d", patch, "merge").ok(200)
    assert [c["name"] for c in now["spec"]["template"]["spec"]["containers"]] == ["side"]


def containers(now: Any) -> list[str]:
    return [container["name"] for container in now["spec"]["template"]["spec"]["containers"]]


def strategic(space: Space, **spec: Any) -> Any:
    return space.patch("deployments", "d", {"spec": {"template": {"spec": spec}}}, "strategic").ok(200)


@pytest.fixture
def deployed(space: Space) -> Any:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    body = deployment("d")
    body["spec"]["template"]["spec"]["containers"][0]["env"] = env
    return space.create("deployments", body).ok(201)


def test_strategic_merges_containers_by_name(space: Space, deployed: Any) -> None:
    now = strategic(space, containers=[{"name": "side", "image": "example.com/side:1"}])
    assert sorted(containers(now)) == ["main", "side"]
    now = strategic(space, containers=[{"name": "main", "image": "example.com/app:2"}])
    images = {c["name"]: c["image"] for c in now["spec"]["template"]["spec"]["containers"]}
    assert images == {"main": "example.com/app:2", "side": "example.com/side:1"}


def test_strategic_merges_variables_by_name(space: Space, deployed: Any) -> None:
    now = strategic(
        space, containers=[{"name": "main", "env": [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]}]
    )
    env = {each["name"]: each["value"] for each in now["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env == {"A": "1", "B": "9", "C": "3"}


def test_strategic_deletes_a_list_element(space: Space, deployed: Any) -> None:
    now = strategic(space, containers=[{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}])
    assert now["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "B", "value": "2"}]


def test_strategic_replaces_a_list(space: Space, deployed: Any) -> None:
    patch = [{"name": "C", "value": "3"}, {"$patch": "replace"}]
    now = strategic(space, containers=[{"name": "main", "env": patch}])
    assert now["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "C", "value": "3"}]


def test_strategic_replaces_a_map(space: Space, deployed: Any) -> None:
    space.patch("deployments", "d", {"metadata": {"labels": {"a": "1", "b": "2"}}}, "merge").ok(200)
    now = space.patch("deployments", "d", {"metadata": {"labels": {"c": "3", "$patch": "replace"}}}, "strategic").ok(
        200
    )
    assert now["metadata"]["labels"] == {"c": "3"}


def test_strategic_orders_list_elements(space: Space, deployed: Any) -> None:
    order = [{"name": "B"}, {"name": "C"}, {"name": "A"}]
    env = [{"name": "C", "value": "3"}]
    now = strategic(space, containers=[{"name": "main", "env": env, "$setElementOrder/env": order}])
    assert [each["name"] for each in now["spec"]["template"]["spec"]["containers"][0]["env"]] == ["B", "C", "A"]


def test_strategic_deletes_from_a_primitive_list(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=["example.com/a", "example.com/b"])).ok(201)
    now = space.patch(
        "configmaps", "a", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}, "strategic"
    )
    assert now.ok(200)["metadata"]["finalizers"] == ["example.com/b"]
    now = space.patch("configmaps", "a", {"metadata": {"finalizers": ["example.com/c"]}}, "strategic")
    assert sorted(now.ok(200)["metadata"]["finalizers"]) == ["example.com/b", "example.com/c"]


def test_strategic_keeps_atomic_lists_whole(space: Space, cluster: Space, unique: str) -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
    cluster.create("nodes", node(unique, spec={"taints": taints})).ok(201)
    now = cluster.patch("nodes", unique, {"spec": {"taints": [{"key": "c", "effect": "NoExecute"}]}}, "strategic").ok(
        200
    )
    assert [taint["key"] for taint in now["spec"]["taints"]] == ["c"]


def test_strategic_merges_ports_of_a_service_by_port(space: Space) -> None:
    space.create("services", service("s", ports=[{"name": "http", "port": 80}])).ok(201)
    ports = [{"name": "metrics", "port": 9090}, {"name": "web", "port": 80}]
    now = space.patch("services", "s", {"spec": {"ports": ports}}, "strategic").ok(200)
    assert {port["port"]: port["name"] for port in now["spec"]["ports"]} == {80: "web", 9090: "metrics"}


def test_strategic_merges_conditions_by_type(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    for kind, value in (("Ready", "False"), ("Initialized", "True"), ("Ready", "True")):
        patch = {"status": {"conditions": [{"type": kind, "status": value}]}}
        now = space.patch("pods", "p", patch, "strategic", "status").ok(200)
    assert {each["type"]: each["status"] for each in now["status"]["conditions"]} == {
        "Ready": "True",
        "Initialized": "True",
    }


def test_strategic_retains_one_of_a_union(space: Space) -> None:
    space.create("deployments", deployment("d", strategy={"type": "RollingUpdate"})).ok(201)
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert space.patch("deployments", "d", patch, "strategic").ok(200)["spec"]["strategy"] == {"type": "Recreate"}


def test_custom_objects_know_no_strategic_merge(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    space.create(f"{group}/v1/widgets", custom(group, "a")).ok(201)
    refused = space.patch(f"{group}/v1/widgets", "a", {"spec": {"size": 1}}, "strategic")
    refused.refused(415, "UnsupportedMediaType", PATCH_TYPES["json"], PATCH_TYPES["merge"], PATCH_TYPES["apply"])


@pytest.mark.parametrize("type", ["application/json", "text/plain", "application/xml", ""])
def test_other_types_of_patch_are_not_known(type: str, space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    space.patch("configmaps", "a", {}, type).refused(415, "UnsupportedMediaType")


@pytest.mark.parametrize("type", ["json", "merge", "strategic"])
def test_a_patch_that_is_no_json_is_refused(type: str, space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    headers = {"Content-Type": PATCH_TYPES[type]}
    reply = space.server.http("PATCH", space.path("configmaps", "a"), raw=b"{nonsense", headers=headers)
    reply.refused(400, "BadRequest")


@pytest.mark.parametrize("type", ["merge", "json"])
def test_json_and_merge_patches_of_custom_objects(type: str, space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    widgets = f"{group}/v1/widgets"
    space.create(widgets, custom(group, "a", spec={"size": 1, "tags": ["x"]})).ok(201)
    patch: Any = {"spec": {"size": None, "tags": ["y", "z"]}}
    if type == "json":
        patch = [{"op": "remove", "path": "/spec/size"}, {"op": "replace", "path": "/spec/tags", "value": ["y", "z"]}]
    assert space.patch(widgets, "a", patch, type).ok(200)["spec"] == {"tags": ["y", "z"]}
