"""Content types: what a server reads and what it answers with."""

from __future__ import annotations

import struct

import pytest
import yaml

from cluster_kit.objects import budget, config, crd, custom, deployment, job, pod
from cluster_kit.server import Reply, eventually
from cluster_kit.space import Space

PROTOBUF = "application/vnd.kubernetes.protobuf"


def field(number: int, content: bytes) -> bytes:
    """One length-delimited protobuf field (contents of less than 16384 bytes)."""
    size = len(content)
    length = bytes([size]) if size < 128 else struct.pack("BB", (size & 127) | 128, size >> 7)
    return bytes([number << 3 | 2]) + length + content


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\0" + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, raw)


def protobuf_config(name: str) -> bytes:
    metadata = field(1, name.encode()) + field(11, field(1, b"label") + field(2, b"x"))
    return envelope("v1", "ConfigMap", field(1, metadata) + field(2, field(1, b"k") + field(2, b"v")))


def send(space: Space, raw: bytes, content_type: str | None, method: str = "POST", name: str = "") -> Reply:
    headers = {"Content-Type": content_type} if content_type else {}
    return space.server.http(method, space.path("configmaps", name), raw=raw, headers=headers)


def test_a_protobuf_body_is_read(space: Space) -> None:
    made = send(space, protobuf_config("a"), PROTOBUF).ok(201)
    assert (made["data"], made["metadata"]["labels"]) == ({"k": "v"}, {"label": "x"})


def test_a_protobuf_body_replaces(space: Space) -> None:
    space.create("configmaps", config("a", {"old": "1"})).ok(201)
    assert send(space, protobuf_config("a"), PROTOBUF, "PUT", "a").ok(200)["data"] == {"k": "v"}


def test_protobuf_delete_options_are_read(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    options = envelope("v1", "DeleteOptions", field(4, b"Foreground"))
    answer = send(space, options, PROTOBUF, "DELETE", "a").ok(200)
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_protobuf_delete_options_with_a_failing_precondition(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    options = envelope("v1", "DeleteOptions", field(2, field(1, b"another-uid")))
    send(space, options, PROTOBUF, "DELETE", "a").refused(409, "Conflict")


TYPED_CLIENTS = {
    "batch/v1": ("jobs", job("a", suspend=True)),
    "apps/v1": ("deployments", deployment("a", replicas=0)),
    "policy/v1": ("poddisruptionbudgets", budget("a", minAvailable=1)),
    "nope.example/v1": ("configmaps", config("a")),
}


@pytest.mark.parametrize("version", TYPED_CLIENTS)
def test_protobuf_delete_options_are_those_of_the_group_of_a_typed_client(version: str, space: Space) -> None:
    plural, body = TYPED_CLIENTS[version]
    space.create(plural, body).ok(201)
    options = envelope(version, "DeleteOptions", field(4, b"Foreground"))
    path, headers = space.path(plural, "a"), {"Content-Type": PROTOBUF}
    answer = space.server.http("DELETE", path, raw=options, headers=headers).ok(200)
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_protobuf_delete_options_delete_a_collection(space: Space) -> None:
    space.create("jobs", job("a", suspend=True)).ok(201)
    options = envelope("batch/v1", "DeleteOptions", field(4, b"Background"))
    space.server.http("DELETE", space.path("jobs"), raw=options, headers={"Content-Type": PROTOBUF}).ok(200)
    eventually(lambda: space.names("jobs") == [], "the job is gone")


NOWHERE = field(1, b"a") + field(3, b"")
"""Metadata as typed clients send it: Go writes empty strings too."""
SUBRESOURCES = {
    "binding": envelope("v1", "Binding", field(1, NOWHERE) + field(2, field(1, b"Node") + field(3, b"node"))),
    "eviction": envelope("policy/v1", "Eviction", field(1, NOWHERE)),
}


@pytest.mark.parametrize("sub", SUBRESOURCES)
def test_an_empty_namespace_in_a_body_for_a_subresource_is_none(sub: str, space: Space) -> None:
    space.create("pods", pod("a")).ok(201)
    path, headers = space.path("pods", "a", sub), {"Content-Type": PROTOBUF}
    space.server.http("POST", path, raw=SUBRESOURCES[sub], headers=headers).ok(201)


def test_a_protobuf_of_another_kind_is_refused(space: Space) -> None:
    send(space, envelope("v1", "Secret", field(1, field(1, b"a"))), PROTOBUF).refused(400, "BadRequest")


@pytest.mark.parametrize("content_type", ["application/yaml", "application/yaml; charset=utf-8"])
def test_a_yaml_body_is_read(content_type: str, space: Space) -> None:
    assert send(space, yaml.safe_dump(config("a")).encode(), content_type).ok(201)["data"] == {"k": "v"}


def test_json_is_yaml_too(space: Space) -> None:
    send(space, b'{"metadata": {"name": "a"}}', "application/yaml").ok(201)


@pytest.mark.parametrize("content_type", [None, "application/json", "application/json; charset=utf-8"])
def test_a_json_body_is_read(content_type: str | None, space: Space) -> None:
    send(space, b'{"metadata": {"name": "a"}}', content_type).ok(201)


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "application/x-www-form-urlencoded"])
def test_other_bodies_are_not_read(content_type: str, space: Space) -> None:
    refused = send(space, b'{"metadata": {"name": "a"}}', content_type)
    refused.refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
    assert space.names("configmaps") == []


@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "text/html, application/json;q=0.5"])
def test_the_answer_is_json_when_that_will_do(accept: str, space: Space) -> None:
    reply = space.get("configmaps", accept=accept)
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.ok()["kind"] == "ConfigMapList"


def test_the_answer_may_be_yaml(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    reply = space.get("configmaps", "a", accept="application/yaml")
    assert reply.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(reply.raw)["data"] == {"k": "v"}


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "application/*",
        "application/xml",
        "application/json;as=Tabel;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
    ],
)
def test_other_answers_are_not_given(accept: str, space: Space) -> None:
    space.get("configmaps", accept=accept).refused(406, "NotAcceptable")


def test_the_first_acceptable_kind_of_answer_is_given(space: Space) -> None:
    kinds = [f"application/json;as={kind};v=v1;g=meta.k8s.io" for kind in ("Nonsense", "Table")]
    accept = ", ".join([*kinds, "application/json"])
    assert space.get("configmaps", accept=accept).ok()["kind"] == "Table"


def test_metadata_only(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    seen = space.get("configmaps", "a", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").ok()
    assert (seen["kind"], seen["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert seen["metadata"] == made["metadata"]
    assert set(seen) == {"kind", "apiVersion", "metadata"}


def test_metadata_only_of_a_custom_object(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    space.create(f"{group}/v1/widgets", custom(group, "a", spec={"size": 1})).ok(201)
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    listed = space.get(f"{group}/v1/widgets", accept=accept).ok()
    assert (listed["kind"], [set(item) for item in listed["items"]]) == (
        "PartialObjectMetadataList",
        [{"kind", "apiVersion", "metadata"}],
    )


def test_gzip_is_read_back_by_those_who_ask(space: Space) -> None:
    for index in range(3):
        space.create("configmaps", config(f"c{index}", {"k": "x" * 100_000})).ok(201)
    reply = space.server.http("GET", space.path("configmaps"), headers={"Accept-Encoding": "gzip"})
    assert len(reply.ok()["items"]) == 3


def test_watches_are_chunked_json_lines(space: Space) -> None:
    with space.watch("configmaps", resourceVersion=space.list("configmaps")["metadata"]["resourceVersion"]) as watch:
        assert watch.headers["Content-Type"].startswith("application/json")
        assert watch.headers.get("Transfer-Encoding") == "chunked"


def test_answers_must_not_be_cached(space: Space) -> None:
    assert space.get("configmaps").headers["Cache-Control"] == "no-cache, private"


def test_pretty_answers_have_lines(space: Space) -> None:
    assert space.get("configmaps", pretty="true").raw.count(b"\n") > 3
    assert space.get("configmaps").raw.strip().count(b"\n") == 0
