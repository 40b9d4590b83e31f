"""JSON patches of webhooks, with the texts of the API server."""

from __future__ import annotations

from typing import Any

import pytest

from kube_embedded.patch.json_operations import PatchFailed, apply_operations

DOCUMENT: dict[str, Any] = {"a": {"b": 1}, "list": [1, 2, 3], "x/y": 0, "none": None}

APPLIED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "add a member": ({"op": "add", "path": "/c", "value": 2}, {"c": 2}),
    "add over a member": ({"op": "add", "path": "/a", "value": 2}, {"a": 2}),
    "add to a list": ({"op": "add", "path": "/list/1", "value": 9}, {"list": [1, 9, 2, 3]}),
    "append": ({"op": "add", "path": "/list/-", "value": 9}, {"list": [1, 2, 3, 9]}),
    "remove from a list": ({"op": "remove", "path": "/list/0"}, {"list": [2, 3]}),
    "remove from the end": ({"op": "remove", "path": "/list/-1"}, {"list": [1, 2]}),
    "replace": ({"op": "replace", "path": "/a/b", "value": 2}, {"a": {"b": 2}}),
    "replace what is not there": ({"op": "replace", "path": "/a/z", "value": 2}, {"a": {"b": 1, "z": 2}}),
    "an escaped key": ({"op": "replace", "path": "/x~1y", "value": 5}, {"x/y": 5}),
    "copy": ({"op": "copy", "from": "/a", "path": "/c"}, {"c": {"b": 1}}),
    "test": ({"op": "test", "path": "/a", "value": {"b": 1}}, {}),
    "test nothing": ({"op": "test", "path": "/zz", "value": None}, {}),
}


@pytest.mark.parametrize(("operation", "changes"), APPLIED.values(), ids=APPLIED)
def test_an_operation_applies(operation: dict[str, Any], changes: dict[str, Any]) -> None:
    assert apply_operations(DOCUMENT, [operation]) == {**DOCUMENT, **changes}


def test_a_member_is_moved() -> None:
    assert apply_operations({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}]) == {"b": 1}


def test_the_document_itself_stays_as_it_is() -> None:
    document = {"a": {"b": 1}}
    apply_operations(document, [{"op": "replace", "path": "/a/b", "value": 2}])
    assert document == {"a": {"b": 1}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "add below nothing": (
        {"op": "add", "path": "/no/x", "value": 1},
        'add operation does not apply: doc is missing path: "/no/x": missing value',
    ),
    "replace below nothing": (
        {"op": "replace", "path": "/no/x", "value": 1},
        "replace operation does not apply: doc is missing path: /no/x: missing value",
    ),
    "remove nothing": (
        {"op": "remove", "path": "/no"},
        "error in remove for path: '/no': Unable to remove nonexistent key: no: missing value",
    ),
    "beyond the list": (
        {"op": "add", "path": "/list/7", "value": 1},
        "error in add for path: '/list/7': Unable to access invalid index: 7: invalid index referenced",
    ),
    "a test that fails": ({"op": "test", "path": "/a/b", "value": 2}, "testing value /a/b failed: test failed"),
    "true is not one": ({"op": "test", "path": "/a/b", "value": True}, "testing value /a/b failed: test failed"),
    "an unknown operation": ({"op": "frob", "path": "/a"}, "Unexpected kind: frob"),
    "no path": ({"op": "add", "value": 1}, "add operation failed to decode path: missing value"),
}


@pytest.mark.parametrize(("operation", "text"), REFUSED.values(), ids=REFUSED)
def test_an_operation_that_does_not_apply_says_why(operation: dict[str, Any], text: str) -> None:
    with pytest.raises(PatchFailed) as caught:
        apply_operations(DOCUMENT, [operation])
    assert str(caught.value) == text
