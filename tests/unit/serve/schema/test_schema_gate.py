"""The fast check passes nothing that the explanation refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_embedded.schema.validate import Validator, explain

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(
        [2**31, 2**63, -(2**63) - 1, 0.5, 1.5, 1e20, 1e39, "", "a", "ab", "A", "2020-01-01", "1.2.3.4", "10"]
    ),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner), max_leaves=6
)
LEAVES: list[dict[str, Any]] = [
    {"type": "string", "minLength": 1},
    {"type": "string", "maxLength": 1, "nullable": True},
    {"type": "string", "pattern": "^[a-z]+$"},
    {"type": "string", "pattern": "(?i)^A$"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "ipv4"},
    {"type": "string", "enum": ["a", "b"], "nullable": True},
    {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
    {"type": "integer", "format": "int32"},
    {"type": "integer", "multipleOf": 2},
    {"type": "number", "maximum": 1, "multipleOf": 0.5},
    {"type": "number", "format": "float"},
    {"type": "boolean"},
    {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"},
    {"x-kubernetes-preserve-unknown-fields": True},
]
JUNCTORS: list[dict[str, Any]] = [
    {},
    {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"not": {"required": ["a"]}},
    {"allOf": [{"properties": {"a": {"minLength": 2}}}, {"maxProperties": 1}]},
]


def _schemas() -> st.SearchStrategy[dict[str, Any]]:
    def wrapped(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        lists = st.builds(
            lambda items, most: {"type": "array", "items": items, "maxItems": most}, inner, st.integers(0, 2)
        )
        maps = st.builds(lambda value: {"type": "object", "additionalProperties": value}, inner)
        objects = st.builds(
            lambda a, b, junctor: {"type": "object", "required": ["a"], "properties": {"a": a, "b": b}, **junctor},
            inner,
            inner,
            st.sampled_from(JUNCTORS),
        )
        return lists | maps | objects

    return st.recursive(st.sampled_from(LEAVES), wrapped, max_leaves=4)


@settings(max_examples=300, deadline=None)
@given(raw=_schemas(), value=VALUES)
def test_what_the_fast_check_passes_has_no_error(raw: dict[str, Any], value: Any) -> None:
    validator = Validator(raw)
    assert validator.validate(value) == explain(value, raw)


@pytest.mark.parametrize("raw", LEAVES, ids=str)
def test_a_valid_value_is_not_explained(raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kube_embedded.schema.validate.explain", lambda *_: ["asked"])
    samples: dict[str, Any] = {"string": "a", "integer": 2, "number": 0.5, "boolean": True}
    value = "10" if "x-kubernetes-int-or-string" in raw else samples.get(raw.get("type", ""), "a")
    value = {"date": "2020-01-01", "ipv4": "1.2.3.4"}.get(raw.get("format", ""), value)
    fractional = raw.get("multipleOf") == 0.5
    assert Validator(raw).validate(value) == (["asked"] if fractional else [])  # type: ignore[comparison-overlap]
