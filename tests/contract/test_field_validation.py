"""fieldValidation: what is done with fields the server does not know, and with fields that come twice."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cluster_kit.objects import config, crd, custom, deployment, pod
from cluster_kit.server import Reply
from cluster_kit.space import Space

UNKNOWN = pod("p", {"nonsense": 1, "containers": [{"name": "c", "image": "i", "imagePullpolicy": "Always"}]})
TWICE = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1"},"data":{"k":"2"}}'


def post(space: Space, plural: str, raw: bytes, **query: Any) -> Reply:
    headers = {"Content-Type": "application/json"}
    return space.server.http("POST", space.path(plural), raw=raw, headers=headers, query=query)


def test_strict_refuses_all_unknown_fields_at_once(space: Space) -> None:
    refused = space.create("pods", UNKNOWN, fieldValidation="Strict")
    refused.refused(400, "BadRequest", "strict decoding error")
    assert 'unknown field "spec.nonsense"' in refused.message
    assert 'unknown field "spec.containers[0].imagePullpolicy"' in refused.message
    assert not space.exists("pods", "p")


@pytest.mark.parametrize("query", [{}, {"fieldValidation": "Warn"}], ids=["by default", "by name"])
def test_warn_accepts_and_warns(query: dict[str, str], space: Space) -> None:
    reply = space.create("pods", UNKNOWN, **query)
    made = reply.ok(201)
    assert "nonsense" not in made["spec"]
    assert sorted(reply.warnings) == [
        'unknown field "spec.containers[0].imagePullpolicy"',
        'unknown field "spec.nonsense"',
    ]


def test_ignore_is_silent(space: Space) -> None:
    reply = space.create("pods", UNKNOWN, fieldValidation="Ignore")
    assert "nonsense" not in reply.ok(201)["spec"]
    assert reply.warnings == []


def test_an_unknown_mode_is_refused(space: Space) -> None:
    space.create("pods", pod("p"), fieldValidation="Perhaps").refused(422, "Invalid", "fieldValidation")
    assert not space.exists("pods", "p")


def test_a_field_that_comes_twice_is_refused_by_strict(space: Space) -> None:
    refused = post(space, "configmaps", TWICE, fieldValidation="Strict")
    refused.refused(400, "BadRequest", 'strict decoding error: duplicate field "data"')
    assert not space.exists("configmaps", "a")


def test_a_field_that_comes_twice_is_warned_of(space: Space) -> None:
    reply = post(space, "configmaps", TWICE)
    assert reply.ok(201)["data"] == {"k": "2"}
    assert reply.warnings == ['duplicate field "data"']


def test_unknown_fields_in_yaml(space: Space) -> None:
    raw = yaml.safe_dump({**config("a"), "nonsense": 1}).encode()
    headers = {"Content-Type": "application/yaml"}
    query = {"fieldValidation": "Strict"}
    refused = space.server.http("POST", space.path("configmaps"), raw=raw, headers=headers, query=query)
    refused.refused(400, "BadRequest", 'unknown field "nonsense"')


def test_field_names_are_case_sensitive(space: Space) -> None:
    body = deployment("d")
    body["spec"]["Replicas"] = 3
    reply = space.create("deployments", body)
    assert reply.ok(201)["spec"]["replicas"] == 1
    assert reply.warnings == ['unknown field "spec.Replicas"']


def test_strict_on_replace(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    refused = space.replace("configmaps", {**made, "nonsense": 1}, fieldValidation="Strict")
    refused.refused(400, "BadRequest", 'unknown field "nonsense"')


PATCHES = {
    "merge": {"data": {"k": "new"}, "nonsense": 1},
    "json": [{"op": "add", "path": "/nonsense", "value": 1}],
    "strategic": {"data": {"k": "new"}, "nonsense": 1},
}


@pytest.mark.parametrize("type", PATCHES)
def test_strict_on_patch(type: str, space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    refused = space.patch("configmaps", "a", PATCHES[type], type, fieldValidation="Strict")
    refused.refused(422, "Invalid", 'unknown field "nonsense"')
    assert space.get("configmaps", "a").ok() == made


@pytest.mark.parametrize("type", PATCHES)
def test_warn_on_patch(type: str, space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    reply = space.patch("configmaps", "a", PATCHES[type], type)
    assert "nonsense" not in reply.ok(200)
    assert reply.warnings == ['unknown field "nonsense"']


@pytest.fixture
def widgets(cluster: Space, unique: str) -> str:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    return f"{group}/v1/widgets"


def test_strict_on_custom_objects(space: Space, widgets: str) -> None:
    body = custom(widgets.split("/")[0], "a", spec={"size": 1, "nonsense": {"deep": 1}}, more=1)
    refused = space.create(widgets, body, fieldValidation="Strict")
    refused.refused(400, "BadRequest", "strict decoding error", 'unknown field "spec.nonsense"', 'unknown field "more"')
    assert not space.exists(widgets, "a")


def test_unknown_fields_of_custom_objects_are_pruned_with_a_warning(space: Space, widgets: str) -> None:
    body = custom(widgets.split("/")[0], "a", spec={"size": 1, "nonsense": {"deep": 1}})
    reply = space.create(widgets, body)
    assert reply.ok(201)["spec"] == {"size": 1}
    assert reply.warnings == ['unknown field "spec.nonsense"']


def test_unknown_metadata_of_custom_objects(space: Space, widgets: str) -> None:
    body = custom(widgets.split("/")[0], "a")
    body["metadata"]["nonsense"] = 1
    space.create(widgets, body, fieldValidation="Strict").refused(
        400, "BadRequest", 'unknown field "metadata.nonsense"'
    )


def test_strict_on_a_custom_merge_patch(space: Space, widgets: str) -> None:
    space.create(widgets, custom(widgets.split("/")[0], "a")).ok(201)
    refused = space.patch(widgets, "a", {"spec": {"nonsense": 1}}, fieldValidation="Strict")
    refused.refused(422, "Invalid", 'unknown field "spec.nonsense"')


def test_a_custom_field_that_comes_twice(space: Space, widgets: str) -> None:
    group = widgets.split("/")[0]
    raw = (
        f'{{"apiVersion":"{group}/v1","kind":"Widget","metadata":{{"name":"a"}},"spec":{{"size":1,"size":2}}}}'.encode()
    )
    refused = post(space, widgets, raw, fieldValidation="Strict")
    refused.refused(400, "BadRequest", 'duplicate field "spec.size"')


def test_strict_apply_of_custom_objects(space: Space, widgets: str) -> None:
    body = custom(widgets.split("/")[0], "a", spec={"nonsense": 1})
    refused = space.apply(widgets, body, fieldValidation="Strict")
    refused.refused(500, "", ".spec.nonsense: field not declared in schema")
    assert not space.exists(widgets, "a")
