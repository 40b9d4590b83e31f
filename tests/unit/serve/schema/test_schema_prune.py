from __future__ import annotations

from typing import Any

import pytest

from kube_embedded.schema.shaping import compile_structural, prune
from unit.serve.schema.schema_kit import STRING, keyed, obj, spec

ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
RAW = spec(
    known=STRING,
    inner=obj(a=STRING),
    items=keyed(),
    map={"type": "object", "additionalProperties": obj(a=STRING)},
    any=ANYTHING,
    open={"type": "object", **ANYTHING, "properties": {"known": obj(a=STRING)}},
    scalars={"type": "object", "additionalProperties": True},
    pod={"type": "object", "x-kubernetes-embedded-resource": True, **ANYTHING},
    closed={"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": obj(a=STRING)}},
)
SCHEMA = compile_structural(RAW)

ROWS: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("a field of the spec", {"known": "x", "foo": 1}, {"known": "x"}, ["spec.foo"]),
    ("a field further in", {"inner": {"a": "1", "b": 2}}, {"inner": {"a": "1"}}, ["spec.inner.b"]),
    ("a field of a list item", {"items": [{"k": "1", "q": 1}]}, {"items": [{"k": "1"}]}, ["spec.items[0].q"]),
    ("a field of a map value", {"map": {"x": {"b": 1}}}, {"map": {"x": {}}}, ["spec.map.x.b"]),
    ("nothing of arbitrary JSON", {"any": {"x": [{"y": 1}]}}, {"any": {"x": [{"y": 1}]}}, []),
    (
        "only what is below a described field of an open object",
        {"open": {"u": {"v": 1}, "known": {"a": "1", "b": 2}}},
        {"open": {"u": {"v": 1}, "known": {"a": "1"}}},
        ["spec.open.known.b"],
    ),
    (
        "what is inside the values of additionalProperties: true",
        {"scalars": {"s": 1, "o": {"x": 1}, "l": [{"y": 2}]}},
        {"scalars": {"s": 1, "o": {}, "l": [{}]}},
        ["spec.scalars.l[0].y", "spec.scalars.o.x"],
    ),
    (
        "unknown metadata of an embedded object",
        {"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "foo": 1}, "x": 1}},
        {"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": 1}},
        ["spec.pod.metadata.foo"],
    ),
    (
        "unknown fields of a described embedded object",
        {"closed": {"apiVersion": "v1", "kind": "P", "metadata": {"labels": {"a": "b"}}, "spec": {"b": 1}, "q": 1}},
        {"closed": {"apiVersion": "v1", "kind": "P", "metadata": {"labels": {"a": "b"}}, "spec": {}}},
        ["spec.closed.q", "spec.closed.spec.b"],
    ),
]


@pytest.mark.parametrize(("given", "kept", "unknown"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_pruning_drops(given: dict[str, Any], kept: dict[str, Any], unknown: list[str]) -> None:
    obj = {"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": given}
    assert prune(obj, SCHEMA) == unknown
    assert obj == {"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": kept}


def test_unknown_fields_are_told_metadata_first_embedded_metadata_last() -> None:
    obj = {
        "metadata": {"name": "x", "foo": 1},
        "bla": 2,
        "spec": {"unk": 1, "pod": {"apiVersion": "v1", "kind": "P", "metadata": {"bar": 1}}},
    }
    assert prune(obj, SCHEMA) == ["metadata.foo", "bla", "spec.unk", "spec.pod.metadata.bar"]
