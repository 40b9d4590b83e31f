"""Bad input: the same code and reason from both servers, nothing stored, the server unharmed."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import config, crd, custom, deployment, merged, node, pod
from cluster_kit.server import Reply
from cluster_kit.space import Space

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def post(space: Space, plural: str, raw: bytes, content_type: str = JSON) -> Reply:
    return space.server.http("POST", space.path(plural), raw=raw, headers={"Content-Type": content_type})


UNREADABLE = {
    "empty": (b"", JSON),
    "half an object": (b"{", JSON),
    "a list": (b"[]", JSON),
    "a text": (b'"x"', JSON),
    "a number": (b"5", JSON),
    "something after the object": (b'{"metadata":{"name":"a"}} trailing', JSON),
    "no unicode": (b"\xff\xfe", JSON),
    "a key without quotes": (b'{metadata:{"name":"a"}}', JSON),
    "a trailing comma": (b'{"metadata":{"name":"a"},}', JSON),
    "too deep": (b'{"metadata":{"name":"a"},"data":' + b"[" * 20000 + b"]" * 20000 + b"}", JSON),
    "half a yaml": (b"a: [", YAML),
    "a yaml text": (b"just words", YAML),
    "a yaml with tabs": (b"metadata:\n\tname: a\n", YAML),
    "protobuf garbage": (b"k8s\x00garbage", PROTOBUF),
    "protobuf without its mark": (b"garbage", PROTOBUF),
}


@pytest.mark.parametrize("row", UNREADABLE)
def test_what_cannot_be_read_is_refused(row: str, space: Space) -> None:
    raw, content_type = UNREADABLE[row]
    post(space, "configmaps", raw, content_type).refused(400, "BadRequest")
    assert space.names("configmaps") == []


@pytest.mark.parametrize("row", [row for row in UNREADABLE if UNREADABLE[row][1] != PROTOBUF])
def test_what_cannot_be_read_is_refused_for_custom_kinds_too(row: str, widgets: str, space: Space) -> None:
    raw, content_type = UNREADABLE[row]
    post(space, widgets, raw, content_type).refused(400, "BadRequest")
    assert space.names(widgets) == []


@pytest.fixture
def widgets(cluster: Space, unique: str) -> str:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    return f"{group}/v1/widgets"


WRONG_TYPES: dict[str, tuple[str, Any, str]] = {
    "name is a number": ("configmaps", {"metadata": {"name": 5}}, "cannot unmarshal number"),
    "metadata is a text": ("configmaps", {"metadata": "x"}, "cannot unmarshal string"),
    "data holds a number": ("configmaps", {"metadata": {"name": "a"}, "data": {"k": 5}}, "cannot unmarshal number"),
    "data is a list": ("configmaps", {"metadata": {"name": "a"}, "data": []}, "cannot unmarshal array"),
    "labels is a list": ("configmaps", {"metadata": {"name": "a", "labels": []}}, "cannot unmarshal array"),
    "a label is a number": ("configmaps", {"metadata": {"name": "a", "labels": {"a": 1}}}, "cannot unmarshal number"),
    "a time is a word": ("configmaps", {"metadata": {"name": "a", "creationTimestamp": "yesterday"}}, "parsing time"),
    "containers is an object": (
        "pods",
        {"metadata": {"name": "a"}, "spec": {"containers": {}}},
        "cannot unmarshal object",
    ),
    "spec is a list": ("pods", {"metadata": {"name": "a"}, "spec": []}, "cannot unmarshal array"),
    "grace is a text": ("pods", pod("a", {"terminationGracePeriodSeconds": "5"}), "cannot unmarshal string"),
    "a flag is a text": ("pods", pod("a", {"hostNetwork": "yes"}), "cannot unmarshal string"),
    "replicas is a fraction": ("deployments", deployment("a", replicas=1.5), "cannot unmarshal number 1.5"),
    "replicas is too large": (
        "deployments",
        deployment("a", replicas=3_000_000_000),
        "cannot unmarshal number 3000000000",
    ),
    "replicas is a text": ("deployments", deployment("a", replicas="3"), "cannot unmarshal string"),
    "a quantity is a word": (
        "pods",
        pod("a", {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "fast"}}}]}),
        "quantities must match the regular expression",
    ),
    "bytes are not base64": ("secrets", {"metadata": {"name": "a"}, "data": {"k": "%%%"}}, "illegal base64 data"),
}


@pytest.mark.parametrize("row", WRONG_TYPES)
def test_wrong_types_are_refused(row: str, space: Space) -> None:
    plural, body, fragment = WRONG_TYPES[row]
    space.create(plural, body).refused(400, "BadRequest", fragment)
    assert space.names(plural) == []


WRONG_IDENTITIES: dict[str, dict[str, Any]] = {
    "another kind": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}},
    "an unknown kind": {"apiVersion": "v1", "kind": "Nonsense", "metadata": {"name": "a"}},
    "another group": {"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
    "an unknown group": {"apiVersion": "nonsense.example.com/v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
    "another version": {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}},
    "a version with three parts": {"apiVersion": "a/b/c", "kind": "ConfigMap", "metadata": {"name": "a"}},
}


@pytest.mark.parametrize("row", WRONG_IDENTITIES)
def test_a_body_of_another_kind_is_refused(row: str, space: Space) -> None:
    space.create("configmaps", WRONG_IDENTITIES[row]).refused(400, "BadRequest")
    assert space.names("configmaps") == []
    assert space.names("secrets") == []


@pytest.mark.parametrize("missing", ["kind", "apiVersion"])
def test_a_built_in_body_may_leave_its_kind_out(missing: str, space: Space) -> None:
    body = config("a")
    del body[missing]
    made = space.create("configmaps", body).ok(201)
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")


CUSTOM_IDENTITIES: dict[str, tuple[dict[str, Any], int, str]] = {
    "no kind": ({"kind": None}, 400, "BadRequest"),
    "no version": ({"apiVersion": None}, 400, "BadRequest"),
    "another kind": ({"kind": "Gadget"}, 422, "Invalid"),
    "another version": ({"apiVersion": "GROUP/v2"}, 400, "BadRequest"),
    "another group": ({"apiVersion": "v1"}, 400, "BadRequest"),
}


@pytest.mark.parametrize("row", CUSTOM_IDENTITIES)
def test_a_custom_body_of_another_kind_is_refused(row: str, widgets: str, space: Space) -> None:
    group = widgets.split("/")[0]
    change, code, reason = CUSTOM_IDENTITIES[row]
    if change.get("apiVersion"):
        change = {"apiVersion": change["apiVersion"].replace("GROUP", group)}
    space.create(widgets, merged(custom(group, "a"), change)).refused(code, reason)
    assert space.names(widgets) == []


def test_a_body_over_three_mebibytes_is_refused(space: Space) -> None:
    raw = b'{"metadata":{"name":"a"},"data":{"k":"' + b"x" * (3 * 1024 * 1024) + b'"}}'
    post(space, "configmaps", raw).refused(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    assert space.names("configmaps") == []


def test_an_object_that_is_too_large_for_its_kind_is_refused(space: Space) -> None:
    refused = space.create("configmaps", config("a", {"k": "x" * (1024 * 1024 + 1)}))
    refused.refused(422, "Invalid", "Too long: may not be more than 1048576 bytes")
    assert space.names("configmaps") == []


def test_a_deep_custom_body_below_the_limit_is_read(space: Space, widgets: str) -> None:
    group = widgets.split("/")[0]
    head = f'{{"apiVersion":"{group}/v1","kind":"Widget","metadata":{{"name":"a"}},"spec":{{"x":'.encode()
    reply = post(space, widgets, head + b"[" * 2000 + b"]" * 2000 + b"}}")
    assert reply.ok(201)["spec"] == {}


PATHS: dict[str, tuple[str, str, int]] = {
    "unknown plural": ("GET", "/api/v1/nothings", 404),
    "unknown group": ("GET", "/apis/nothing.example.com/v1/things", 404),
    "unknown version": ("GET", "/apis/apps/v9", 404),
    "unknown root": ("GET", "/nothing", 404),
    "plural of another group": ("GET", "/apis/apps/v1/namespaces/default/pods", 404),
    "namespaced kind by name without namespace": ("GET", "/api/v1/pods/x", 404),
    "unknown subresource": ("GET", "/api/v1/namespaces/default/configmaps/a/nothing", 404),
    "put on a collection": ("PUT", "/api/v1/namespaces/default/configmaps", 405),
    "patch on a collection": ("PATCH", "/api/v1/namespaces/default/configmaps", 405),
    "post on an object": ("POST", "/api/v1/namespaces/default/configmaps/a", 405),
    "options": ("OPTIONS", "/api/v1/namespaces/default/configmaps", 405),
    "an invented method": ("FOO", "/api/v1/namespaces/default/configmaps", 405),
    "delete of a subresource": ("DELETE", "/api/v1/namespaces/default/pods/p/status", 405),
    "get of a binding": ("GET", "/api/v1/namespaces/default/pods/p/binding", 405),
    "get of an eviction": ("GET", "/api/v1/namespaces/default/pods/p/eviction", 405),
    "create across namespaces": ("POST", "/api/v1/configmaps", 405),
    "delete all namespaces at once": ("DELETE", "/api/v1/namespaces", 405),
    "get of a review": ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
}


@pytest.mark.parametrize("row", PATHS)
def test_paths_and_methods_that_are_not_there(row: str, cluster: Space) -> None:
    method, path, code = PATHS[row]
    body: dict[str, Any] | None = {} if method in ("PUT", "PATCH", "POST") else None
    reply = cluster.server.http(method, path, body)
    assert reply.status == code, reply.raw
    if code == 405:
        reply.refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    elif row in ("unknown group", "unknown root"):
        assert reply.raw == b"404 page not found\n"
    else:
        reply.refused(404, "NotFound", "the server could not find the requested resource")


def test_a_namespace_means_nothing_to_a_kind_of_the_cluster(cluster: Space, unique: str) -> None:
    made = cluster.create("nodes", merged(node(unique), {"metadata": {"namespace": "default"}})).ok(201)
    assert "namespace" not in made["metadata"]


def test_the_server_answers_after_all_this(space: Space) -> None:
    for raw, content_type in UNREADABLE.values():
        post(space, "configmaps", raw, content_type)
    space.create("configmaps", config("a")).ok(201)
    assert space.names("configmaps") == ["a"]


def test_null_is_an_empty_object(space: Space) -> None:
    refused = post(space, "configmaps", b"null").refused(422, "Invalid")
    assert refused.causes == [("FieldValueRequired", "metadata.name")]


def test_nulls_in_maps_and_lists(space: Space) -> None:
    body = pod(
        "p", {"nodeSelector": None, "tolerations": None, "containers": [{"name": "c", "image": "i", "env": None}]}
    )
    made = space.create("pods", {**body, "metadata": {"name": "p", "labels": None}}).ok(201)
    assert "nodeSelector" not in made["spec"]
    assert "labels" not in made["metadata"]
