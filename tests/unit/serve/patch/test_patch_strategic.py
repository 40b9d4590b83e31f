"""Strategic merge patch: lists by key, and the directives."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_embedded.base.errors import ApiError
from kube_embedded.patch import strategic_merge_patch
from kube_embedded.schema.model import Compiler

STRING = {"type": "string"}
BY_NAME = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
VARIABLE = {"type": "object", "properties": {"name": STRING, "value": STRING}}
CONTAINER = {
    "type": "object",
    "properties": {
        "name": STRING,
        "image": STRING,
        "args": {"type": "array", "items": STRING},
        "env": {"type": "array", **BY_NAME, "items": VARIABLE},
    },
}
SCHEMA = Compiler().compile(
    {
        "type": "object",
        "properties": {
            "containers": {"type": "array", **BY_NAME, "items": CONTAINER},
            "volumes": {
                "type": "array",
                "x-kubernetes-patch-strategy": "merge,retainKeys",
                "x-kubernetes-patch-merge-key": "name",
                "items": {"type": "object", "properties": {"name": STRING, "emptyDir": {"type": "object"}}},
            },
            "finalizers": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": STRING},
            "tolerations": {"type": "array", "items": {"type": "object"}},
            "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {}},
            "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace", "properties": {}},
            "labels": {"type": "object", "additionalProperties": STRING},
        },
    }
)


def patched(before: Any, patch: Any) -> Any:
    kept = copy.deepcopy((before, patch))
    after = strategic_merge_patch(before, patch, SCHEMA)
    assert (before, patch) == kept, "a patch changes neither the object nor itself"
    return after


def named(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ({"labels": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"a": None}}, {"labels": {"b": "2"}}),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "b": "2"}}, {"labels": {"b": "2"}}),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
        ({"whole": {"a": "1"}}, {"whole": {"b": "2"}}, {"whole": {"b": "2"}}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        ({}, {"labels": {"a": None, "b": "2"}}, {"labels": {"b": "2"}}),
        ({}, {"labels": {"$patch": "delete"}}, {}),
        ({}, {"containers": [{"name": "a"}, {"name": "b", "$patch": "delete"}]}, {"containers": named("a")}),
        ({"labels": {"a": "1"}}, None, {"labels": {"a": "1"}}),
        (
            {"strategy": {"type": "Rolling", "rollingUpdate": {"x": 1}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"s": 1}}]},
            {"volumes": [{"name": "v", "secret": {"s": 1}}]},
        ),
    ],
    ids=[
        "merge map",
        "delete key",
        "replace map",
        "delete map",
        "map that is replaced",
        "atomic list",
        "nulls of a new map",
        "directive on a new map",
        "directive in a new list",
        "no patch",
        "retain keys",
        "retain keys of an item",
    ],
)
def test_what_a_strategic_patch_does(before: Any, patch: Any, after: Any) -> None:
    assert patched(before, patch) == after


def test_items_are_merged_by_their_key() -> None:
    before = {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]}
    patch = {"containers": [{"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]}]}
    merged = patched(before, patch)["containers"]
    env = [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]
    assert merged == [{"name": "a", "image": "2", "env": env}, {"name": "b"}]


def test_new_items_go_before_those_of_the_server_alone() -> None:
    assert patched({"containers": named("a", "b")}, {"containers": named("c")})["containers"] == named("c", "a", "b")


def test_an_item_is_deleted_by_its_key() -> None:
    patch = {"containers": [{"name": "a", "$patch": "delete"}]}
    assert patched({"containers": named("a", "b")}, patch)["containers"] == named("b")


def test_a_list_is_replaced_on_demand() -> None:
    patch = {"containers": [{"$patch": "replace"}, {"name": "z"}]}
    assert patched({"containers": named("a", "b")}, patch)["containers"] == named("z")


def test_scalars_are_merged_as_a_set() -> None:
    assert patched({"finalizers": ["a", "b"]}, {"finalizers": ["b", "c"]})["finalizers"] == ["a", "b", "c"]


def test_scalars_are_deleted_from_a_list() -> None:
    patch = {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}
    assert sorted(patched({"finalizers": ["a", "b"]}, patch)["finalizers"]) == ["b", "c"]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        (named("a", "b", "c"), {"$setElementOrder/containers": named("c", "a")}, named("b", "c", "a")),
        (
            named("a", "b"),
            {"$setElementOrder/containers": named("n", "b", "a"), "containers": named("n")},
            named("n", "b", "a"),
        ),
        (
            named("a", "s", "b"),
            {
                "$setElementOrder/containers": named("b"),
                "containers": [{"name": "a", "$patch": "delete"}],
            },
            named("s", "b"),
        ),
        (
            named("a", "b", "c"),
            {
                "$setElementOrder/containers": named("n"),
                "containers": [{"name": "c", "$patch": "delete"}, {"name": "n"}],
            },
            named("a", "b", "n"),
        ),
        (None, {"$setElementOrder/containers": named("b", "a"), "containers": named("b", "a")}, named("b", "a")),
    ],
    ids=["order only", "with a new item", "with a deletion", "in the place of a deleted item", "new list"],
)
def test_items_stand_in_the_order_asked_for(before: Any, patch: Any, after: Any) -> None:
    assert patched({"containers": before} if before else {}, patch)["containers"] == after


def test_an_order_for_a_list_that_is_nowhere_means_nothing() -> None:
    assert patched({}, {"$setElementOrder/containers": named("a")}) == {}


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ([], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ({"strategy": {"$retainKeys": "x"}}, 400, "invalid patch format of retainKeys"),
        ({"strategy": {"$retainKeys": ["a"], "b": 1}}, 400, "invalid patch format of retainKeys"),
        ({"$deleteFromPrimitiveList": ["x"]}, 400, "invalid patch format of primitive list"),
        ({"$setElementOrder": ["x"]}, 400, "invalid patch format of setElementOrder list"),
        ({"$setElementOrder/finalizers": "x"}, 500, "expected a []interface {}, but received a string"),
        ({"labels": {"$patch": "zonk"}}, 500, "unknown patch type: zonk in map: map[$patch:zonk]"),
        (
            {"containers": [{"name": "a", "$patch": "zonk"}]},
            500,
            "unknown patch type: zonk in map: map[$patch:zonk name:a]",
        ),
        (
            {"containers": [{"name": "a", "$patch": "merge"}]},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        ({"containers": [{"image": "i"}]}, 500, "map: map[image:i] does not contain declared merge key: name"),
        ({"finalizers": ["x", 5]}, 500, "list element types are not identical: [[f] [x 5]]"),
        (
            {"$setElementOrder/containers": named("b", "a"), "containers": named("a", "b")},
            500,
            "The order in patch list:\n[map[name:a] map[name:b]]\n"
            " doesn't match $setElementOrder list:\n[map[name:b] map[name:a]]\n",
        ),
    ],
    ids=str,
)
def test_a_patch_is_refused_in_the_words_of_the_real_server(patch: Any, code: int, message: str) -> None:
    before = {"containers": named("a"), "labels": {"x": "y"}, "strategy": {"type": "R"}, "finalizers": ["f"]}
    with pytest.raises(ApiError) as refused:
        patched(before, patch)
    assert (refused.value.code, refused.value.message) == (code, message)
