from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_embedded.schema.shaping import Defaulter, compile_structural, default
from unit.serve.schema.schema_kit import STRING

RAW = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "default": {},
            "properties": {
                "a": {"type": "string", "default": "A"},
                "o": {
                    "type": "object",
                    "default": {"x": "1"},
                    "properties": {
                        "x": STRING,
                        "y": {"type": "integer", "default": 5},
                        "n": {"type": "string", "nullable": True, "default": "nn"},
                    },
                },
                "p": {"type": "object", "properties": {"q": {"type": "boolean", "default": True}}},
                "l": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "default": {"d": "dd"},
                        "properties": {"z": {"type": "number", "default": 1.5}, "d": STRING},
                    },
                },
                "m": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"w": {"default": "W"}}},
                },
                "nul": {"type": "array", "items": {"type": "string", "nullable": True}},
            },
        }
    },
}
SCHEMA = compile_structural(RAW)
FULL = {"a": "A", "o": {"x": "1", "y": 5, "n": "nn"}}

ROWS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("an absent object gets its default, and that its own defaults", {}, {"spec": FULL}),
    ("a null object gets its default", {"spec": None}, {"spec": FULL}),
    ("an object that is there is filled up", {"spec": {"o": {}}}, {"spec": {"a": "A", "o": {"y": 5, "n": "nn"}}}),
    (
        "null becomes the default, stays where it is allowed, and goes where there is no default",
        {"spec": {"a": None, "o": {"y": None, "n": None, "x": None}}},
        {"spec": {"a": "A", "o": {"y": 5, "n": None}}},
    ),
    ("no object is made for the defaults inside it", {"spec": {"p": {}}}, {"spec": {**FULL, "p": {"q": True}}}),
    (
        "items of lists are filled up, null items replaced",
        {"spec": {"l": [{}, {"z": 2}, None]}},
        {"spec": {**FULL, "l": [{"z": 1.5}, {"z": 2}, {"d": "dd", "z": 1.5}]}},
    ),
    (
        "values of maps are filled up, null values dropped",
        {"spec": {"m": {"k": {}, "j": None}}},
        {"spec": {**FULL, "m": {"k": {"w": "W"}}}},
    ),
    ("null items stay where they are allowed", {"spec": {"nul": [None]}}, {"spec": {**FULL, "nul": [None]}}),
]


@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_defaulting(given: dict[str, Any], expected: dict[str, Any]) -> None:
    again = copy.deepcopy(given)
    default(given, SCHEMA)
    Defaulter(SCHEMA).apply(again)
    assert given == again == expected


def test_two_objects_never_share_a_default() -> None:
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    defaulter = Defaulter(SCHEMA)
    defaulter.apply(first)
    first["spec"]["o"]["x"] = "changed"
    defaulter.apply(second)
    assert second["spec"] == FULL
