"""JSON merge patch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_embedded.base.errors import ApiError
from kube_embedded.patch import merge_patch


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": 1}, {"a": None}, {"b": 1}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, {"a": {"b": {"c": None, "d": 1}}}, {"a": {"b": {"d": 1}}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_what_a_merge_patch_does(before: Any, patch: Any, after: Any) -> None:
    assert merge_patch(before, patch) == after


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        ([], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("x", "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
    ],
)
def test_a_patch_that_is_no_object_is_a_bad_request(patch: Any, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        merge_patch({}, patch)
    assert (refused.value.code, refused.value.message) == (400, message)


VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["x", "y"]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from("abc"), below, max_size=3),
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_applied_twice_is_as_applied_once(before: Any, patch: Any) -> None:
    once = merge_patch(before, patch)
    assert merge_patch(once, patch) == once
