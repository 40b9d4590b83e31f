"""JSON patch as the real server applies it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_embedded.base.errors import ApiError
from kube_embedded.patch import json_patch

DOCUMENT = {"data": {"a": "1", "x/y": "s"}, "list": ["p", "q", "r"], "deep": [{"n": 1}]}


def op(op: str, path: str, value: Any = None, **more: Any) -> dict[str, Any]:
    return {"op": op, "path": path, "value": value, **more}


@pytest.mark.parametrize(
    ("operations", "where", "expected"),
    [
        ([op("add", "/data/b", "2")], "data", {"a": "1", "x/y": "s", "b": "2"}),
        ([op("replace", "/data/a", "2")], "data", {"a": "2", "x/y": "s"}),
        ([op("replace", "/data/new", "2")], "data", {"a": "1", "x/y": "s", "new": "2"}),
        ([op("remove", "/data/x~1y")], "data", {"a": "1"}),
        ([op("add", "/list/-", "z")], "list", ["p", "q", "r", "z"]),
        ([op("add", "/list/1", "z")], "list", ["p", "z", "q", "r"]),
        ([op("add", "/list/3", "z")], "list", ["p", "q", "r", "z"]),
        ([op("add", "/list/-1", "z")], "list", ["p", "q", "r", "z"]),
        ([op("remove", "/list/-1")], "list", ["p", "q"]),
        ([op("replace", "/list/0", "z")], "list", ["z", "q", "r"]),
        ([op("replace", "/deep/0/n", 2)], "deep", [{"n": 2}]),
        ([op("move", "/data/z", **{"from": "/data/a"})], "data", {"x/y": "s", "z": "1"}),
        ([op("copy", "/data/z", **{"from": "/data/a"})], "data", {"a": "1", "x/y": "s", "z": "1"}),
        ([op("copy", "/data/z", **{"from": "/data/nowhere"})], "data", {"a": "1", "x/y": "s", "z": None}),
        ([{"op": "add", "path": "/data/b"}], "data", {"a": "1", "x/y": "s", "b": None}),
        ([op("test", "/data/a", "1"), op("remove", "/data/a")], "data", {"x/y": "s"}),
        ([op("test", "/data/nowhere", None)], "data", {"a": "1", "x/y": "s"}),
        (None, "data", {"a": "1", "x/y": "s"}),
    ],
)
def test_what_operations_do(operations: Any, where: str, expected: Any) -> None:
    assert json_patch(DOCUMENT, operations)[where] == expected


@pytest.mark.parametrize(
    "operation",
    [
        op("remove", "/data/nowhere"),
        op("replace", "/nowhere/a", 1),
        op("replace", "/list/3", 1),
        op("add", "/list/9", 1),
        op("add", "/list/x", 1),
        op("add", "", {}),
        op("add", "/data/a/b", 1),
        op("replace", "", 5),
        op("test", "/data/a", "2"),
        op("test", "/deep/0/n", True),
        op("test", "/deep/0/n", 1.0),
        op("zonk", "/data/a"),
        op("move", "/data/b", **{"from": "/data/nowhere"}),
        {"op": "copy", "path": "/data/b"},
        {"op": "add", "value": 1},
        {"path": "/data/a"},
    ],
    ids=str,
)
def test_a_patch_that_does_not_apply_is_unprocessable(operation: Any) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch(DOCUMENT, [operation])
    status = refused.value.status()
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"] == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"op": "add"}, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([1], "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": "add", "path": 5}], "cannot unmarshal number into Go struct field jsonPatchOp.path of type string"),
    ],
    ids=["no list", "no operation", "no path"],
)
def test_a_malformed_patch_is_a_bad_request(patch: Any, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch(DOCUMENT, patch)
    assert (refused.value.code, refused.value.message) == (400, f"error decoding patch: json: {message}")


def test_too_many_operations_are_too_large() -> None:
    with pytest.raises(ApiError) as refused:
        json_patch(DOCUMENT, [op("test", "/data/a", "1")] * 10_001)
    assert refused.value.code == 413
    assert refused.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_the_document_and_the_patch_stay_as_they_were() -> None:
    operations = [op("add", "/data/b", {"c": 1}), op("add", "/data/b/d", 2), op("remove", "/list/0")]
    before = copy.deepcopy((DOCUMENT, operations))
    json_patch(DOCUMENT, operations)
    assert before == (DOCUMENT, operations)
