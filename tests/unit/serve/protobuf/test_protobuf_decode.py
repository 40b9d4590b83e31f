"""Protobuf bodies, as a real kube-apiserver and kubectl write them, become the same objects as JSON bodies."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_embedded.base.errors import ApiError
from kube_embedded.builtins import snapshot
from kube_embedded.builtins.decode import conform
from kube_embedded.requests.protobuf import decode

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("bodies.json").read_text())
BODIES = {name: base64.b64decode(case["body"]) for name, case in RECORDED.items()}
POD = BODIES["Pod: full container"]


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def envelope(version: str, kind: str, raw: bytes, *more: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, version.encode()) + field(2, kind.encode())) + field(2, raw) + b"".join(more)


def normalised(obj: dict[str, Any]) -> dict[str, Any]:
    group, _, version = obj["apiVersion"].rpartition("/")
    component = snapshot.component_of(group, version, obj["kind"])
    assert component is not None
    found = conform(obj, component)
    assert found.errors == () and found.unknown == ()
    return obj


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_recorded_body_is_the_same_object_as_its_json(name: str) -> None:
    assert normalised(decode(BODIES[name])) == normalised(RECORDED[name]["object"])


def test_delete_options_are_read() -> None:
    raw = field(1, 30) + field(2, field(1, b"uid-1")) + field(4, b"Foreground")
    assert decode(envelope("v1", "DeleteOptions", raw)) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 30,
        "preconditions": {"uid": "uid-1"},
        "propagationPolicy": "Foreground",
    }


def test_an_eviction_carries_its_delete_options() -> None:
    raw = field(1, field(1, b"pod")) + field(2, field(1, 0))
    obj = decode(envelope("policy/v1", "Eviction", raw))
    assert obj["metadata"] == {"name": "pod"}
    assert obj["deleteOptions"] == {"gracePeriodSeconds": 0}


SIZES = field(5, b"integer")
LETTERS = field(5, b"string")
SCHEMAS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "one schema of all items": (field(24, field(1, SIZES)), {"items": {"type": "integer"}}),
    "a schema of each item": (
        field(24, field(2, SIZES) + field(2, LETTERS)),
        {"items": [{"type": "integer"}, {"type": "string"}]},
    ),
    "a schema of more properties": (
        field(30, field(1, 1) + field(2, LETTERS)),
        {"additionalProperties": {"type": "string"}},
    ),
    "more properties": (field(30, field(1, 1)), {"additionalProperties": True}),
    "no more properties": (field(30, field(1, 0)), {"additionalProperties": False}),
    "names that a property asks for": (
        field(32, field(1, b"a") + field(2, field(2, b"b") + field(2, b"c"))),
        {"dependencies": {"a": ["b", "c"]}},
    ),
    "a schema that a property asks for": (
        field(32, field(1, b"a") + field(2, field(1, SIZES))),
        {"dependencies": {"a": {"type": "integer"}}},
    ),
    "a default": (field(8, field(1, b'{"a": [1]}')), {"default": {"a": [1]}}),
    "values": (field(20, field(1, b'"a"')) + field(20, field(1, b"2")), {"enum": ["a", 2]}),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_of_a_definition_is_read(name: str) -> None:
    raw, expected = SCHEMAS[name]
    version = field(1, b"v1") + field(4, field(1, raw))
    obj = decode(envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", field(2, field(7, version))))
    assert obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == expected


def test_a_map_of_lists_is_read() -> None:
    extra = field(1, b"scopes") + field(2, field(1, b"a") + field(1, b"b"))
    raw = field(2, field(5, extra))
    obj = decode(envelope("authorization.k8s.io/v1", "SubjectAccessReview", raw))
    assert obj["spec"]["extra"] == {"scopes": ["a", "b"]}


def test_a_negative_number_is_read() -> None:
    raw = field(2, 2**64 - 5)
    assert decode(envelope("scheduling.k8s.io/v1", "PriorityClass", raw))["value"] == -5


def test_fields_that_nobody_knows_are_passed_over() -> None:
    raw = field(1, field(1, b"x")) + field(999, b"from the future")
    assert decode(envelope("v1", "ConfigMap", raw))["metadata"] == {"name": "x"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "expected prefix"),
        (b'{"kind": "Pod"}', "expected prefix"),
        (b"k8s\x00", 'no kind ""'),
        (envelope("v1", "Nonsense", b""), 'no kind "Nonsense"'),
        (envelope("v1", "ConfigMap", b"\x0a\xff\xff\xff\xff\x0f"), "unexpected EOF"),
        (envelope("v1", "ConfigMap", b"\x0a" + b"\xff" * 11), "integer overflow"),
        (envelope("v1", "ConfigMap", b"\x0b"), "illegal wireType"),
        (envelope("v1", "ConfigMap", field(1, field(1, b"\xff\xfe"))), "not valid UTF-8"),
        (envelope("v1", "ConfigMap", field(1, 7)), "wrong wireType"),
        (envelope("v1", "ConfigMap", b"", field(3, b"gzip")), "content encoding"),
        (envelope("v1", "Lease", b""), 'no kind "Lease"'),
    ],
    ids=["empty", "json", "bare", "kind", "length", "varint", "group", "text", "wire type", "gzip", "version"],
)
def test_a_body_that_is_no_message_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(ApiError, match=words) as caught:
        decode(body)
    assert caught.value.code == 400


def test_a_time_beyond_the_calendar_is_refused() -> None:
    stamp = field(8, field(1, 2**62))
    with pytest.raises(ApiError, match="time is out of range"):
        decode(envelope("v1", "ConfigMap", field(1, stamp)))


def test_every_cut_of_a_body_is_read_or_refused() -> None:
    for end in range(len(POD)):
        try:
            decode(POD[:end])
        except ApiError as error:
            assert error.code == 400


@given(st.integers(4, len(POD) - 1), st.binary(min_size=1, max_size=6))
@settings(max_examples=300, deadline=None)
def test_a_damaged_body_is_read_or_refused(position: int, damage: bytes) -> None:
    body = POD[:position] + damage + POD[position + len(damage) :]
    try:
        decode(body)
    except ApiError as error:
        assert error.code == 400
