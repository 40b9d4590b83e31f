"""Field sets: FieldsV1 in and out, and the laws of sets."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_embedded.apply.fieldset import (
    FieldSet,
    MalformedElement,
    canonical,
    difference,
    has,
    insert,
    intersection,
    item_element,
    leaves,
    of_paths,
    ordered,
    parse,
    paths,
    recursive_difference,
    text,
    union,
)

ELEMENTS = st.sampled_from(
    ["f:a", "f:b", "f:c", 'k:{"name":"a"}', 'k:{"name":"b","port":1}', 'v:"x"', "v:1", "v:10", "v:true", "i:0"]
)
PATHS = st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple)


@st.composite
def sets(draw: st.DrawFn) -> FieldSet:
    fields: FieldSet = {}
    for path in draw(st.lists(PATHS, max_size=8)):
        insert(fields, path)
    return ordered(fields)


def members(fields: FieldSet) -> set[tuple[str, ...]]:
    return set(paths(fields))


@given(sets())
def test_what_is_written_is_read_back(fields: FieldSet) -> None:
    written = msgspec.json.encode(fields)
    assert msgspec.json.encode(parse(msgspec.json.decode(written))) == written


@given(sets(), sets())
def test_a_union_has_the_members_of_both(left: FieldSet, right: FieldSet) -> None:
    assert members(union(left, right)) == members(left) | members(right)


@given(sets(), sets())
def test_an_intersection_has_the_common_members(left: FieldSet, right: FieldSet) -> None:
    assert members(intersection(left, right)) == members(left) & members(right)


@given(sets(), sets())
def test_a_difference_has_the_members_of_the_left_alone(left: FieldSet, right: FieldSet) -> None:
    assert members(difference(left, right)) == members(left) - members(right)


@given(sets(), sets())
def test_a_recursive_difference_leaves_nothing_below_a_member_of_the_right(left: FieldSet, right: FieldSet) -> None:
    gone = members(right)
    expected = {path for path in members(left) if not any(path[: n + 1] in gone for n in range(len(path)))}
    assert members(recursive_difference(left, right)) == expected


@given(sets(), sets())
def test_results_stand_in_the_order_of_fieldsv1(left: FieldSet, right: FieldSet) -> None:
    for fields in (union(left, right), intersection(left, right), difference(left, right)):
        assert msgspec.json.encode(fields) == msgspec.json.encode(ordered(fields))


@given(sets(), sets())
def test_no_operation_changes_its_arguments(left: FieldSet, right: FieldSet) -> None:
    before = msgspec.json.encode([left, right])
    union(left, right), intersection(left, right), difference(left, right), recursive_difference(left, right)
    assert msgspec.json.encode([left, right]) == before


@given(sets())
def test_has_finds_exactly_the_members(fields: FieldSet) -> None:
    assert all(has(fields, path) for path in paths(fields))
    assert not has(fields, ("f:nowhere",))
    assert not has(fields, ())


@given(sets())
def test_leaves_are_the_members_without_members_below(fields: FieldSet) -> None:
    found = members(fields)
    expected = {path for path in found if not any(other != path and other[: len(path)] == path for other in found)}
    assert members(leaves(fields)) == expected


def test_a_parent_is_a_member_only_when_it_says_so() -> None:
    fields = parse({"f:spec": {"f:a": {}}, "f:metadata": {".": {}, "f:name": {}}})
    assert members(fields) == {("f:spec", "f:a"), ("f:metadata",), ("f:metadata", "f:name")}


def test_elements_stand_as_fields_then_keys_then_values() -> None:
    written = parse({"v:10": {}, "v:9": {}, 'k:{"name":"a b"}': {}, 'k:{"name":"a"}': {}, "f:z": {}, "f:a": {}})
    assert list(written) == ["f:a", "f:z", 'k:{"name":"a"}', 'k:{"name":"a b"}', "v:9", "v:10"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('k:{ "b": 1, "a": "x" }', 'k:{"a":"x","b":1}'),
        ("v: 5", "v:5"),
        ("i:07", "i:7"),
        ("f:any thing", "f:any thing"),
        ("x:unknown", None),
    ],
    ids=["key", "value", "index", "field", "unknown"],
)
def test_elements_of_clients_become_canonical(written: str, meant: str | None) -> None:
    assert canonical(written) == meant


@pytest.mark.parametrize("element", ["", "f", "fx", "k:5", "k:{", "v:", "i:x"])
def test_a_malformed_element_is_refused(element: str) -> None:
    with pytest.raises(MalformedElement):
        parse({element: {}})


def test_a_node_that_is_no_object_is_refused() -> None:
    with pytest.raises(MalformedElement):
        parse({"f:a": []})


def test_an_element_of_an_unknown_kind_is_ignored() -> None:
    assert parse({"x:future": {}, "f:a": {}}) == {"f:a": {}}


def test_key_values_are_escaped_as_kubernetes_does() -> None:
    element = item_element({"mountPath": '/a&b<"\b'}, ("mountPath",), {})
    assert element == r'k:{"mountPath":"/a\u0026b\u003c\"\u0008"}'


def test_keys_of_an_item_are_sorted_by_name() -> None:
    assert (
        item_element({"port": 80, "proto": "TCP", "host": "h"}, ("proto", "port"), {}) == 'k:{"port":80,"proto":"TCP"}'
    )


def test_paths_are_printed_as_conflicts_show_them() -> None:
    path = ("f:spec", 'k:{"containerPort":80,"protocol":"TCP"}', 'v:"x"', "i:3")
    assert "".join(text(element) for element in path) == '.spec[containerPort=80,protocol="TCP"][="x"][3]'


def test_plain_paths_make_a_set() -> None:
    assert of_paths("status", "metadata.labels") == {"f:metadata": {"f:labels": {}}, "f:status": {}}
