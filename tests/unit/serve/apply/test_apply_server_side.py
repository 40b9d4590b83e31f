"""Server-side apply: merge, ownership, conflicts."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_embedded.apply import apply, created, track_update
from kube_embedded.base.errors import ApiError
from unit.serve.apply.apply_kinds import CUSTOM, LATER, MAIN, NOW, stored, workload

Object = dict[str, Any]


def applied(live: Object | None, config: Object, manager: str = "one", time: str = NOW, force: bool = False) -> Object:
    """The object after an apply, as it would be stored."""
    obj, _ = apply(MAIN, live, config, manager, time, force=force)
    obj["metadata"].setdefault("uid", "u-1")
    return obj


def owners(obj: Object) -> dict[str, Any]:
    return {found["manager"]: found["fieldsV1"] for found in obj["metadata"].get("managedFields", [])}


def owned_by_hand(spec: Object) -> Object:
    obj = stored(spec)
    obj["metadata"]["managedFields"] = created(MAIN, obj, "hand", NOW)
    return obj


def test_an_apply_of_nothing_yet_creates_and_owns_what_it_says() -> None:
    obj, entries = apply(MAIN, None, workload({"replicas": 2}, labels={"a": "1"}), "one", NOW)
    assert (obj["spec"]["replicas"], obj["metadata"]["labels"]) == (2, {"a": "1"})
    assert entries == [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": "apps/v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:replicas": {}}},
        }
    ]
    assert obj["metadata"]["managedFields"] == entries


def test_what_a_configuration_leaves_out_stays() -> None:
    live = owned_by_hand({"replicas": 1, "paused": True})
    assert applied(live, workload({"replicas": 1}))["spec"] == {"replicas": 1, "paused": True}


def test_the_same_value_is_shared() -> None:
    live = applied(None, workload({"replicas": 2}), "one")
    both = applied(live, workload({"replicas": 2}), "two")
    assert owners(both) == {"one": {"f:spec": {"f:replicas": {}}}, "two": {"f:spec": {"f:replicas": {}}}}


def test_a_new_owner_of_what_was_there_anyway_has_no_time() -> None:
    live = applied(None, workload({"replicas": 2}), "one")
    both = applied(live, workload({"replicas": 2}), "two", LATER)
    assert {found["manager"]: found.get("time") for found in both["metadata"]["managedFields"]} == {
        "one": NOW,
        "two": None,
    }


def test_another_value_is_a_conflict_that_names_owner_and_field() -> None:
    live = owned_by_hand({"replicas": 1})
    with pytest.raises(ApiError) as refused:
        applied(live, workload({"replicas": 2}))
    assert refused.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "hand" using apps/v1: .spec.replicas',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "hand" using apps/v1',
                    "field": ".spec.replicas",
                }
            ]
        },
        "code": 409,
    }


def test_several_conflicts_are_listed_by_owner() -> None:
    live = applied(None, workload({"replicas": 1, "containers": [{"name": "c", "image": "i"}]}), "one")
    new = copy.deepcopy(live)
    new["metadata"]["labels"] = {"a": "1"}
    new["metadata"]["managedFields"] = track_update(MAIN, live, new, "ctl", NOW)
    wanted = workload({"replicas": 2, "containers": [{"name": "c", "image": "j"}]}, labels={"a": "2"})
    with pytest.raises(ApiError) as refused:
        applied(new, wanted, "two")
    assert refused.value.message == (
        'Apply failed with 3 conflicts: conflicts with "ctl" using apps/v1:\n- .metadata.labels.a\n'
        'conflicts with "one":\n- .spec.replicas\n- .spec.containers[name="c"].image'
    )


def test_force_takes_over() -> None:
    live = owned_by_hand({"replicas": 1, "paused": True})
    taken = applied(live, workload({"replicas": 2}), force=True)
    assert taken["spec"]["replicas"] == 2
    assert owners(taken) == {"one": {"f:spec": {"f:replicas": {}}}, "hand": {"f:spec": {"f:paused": {}}}}


def test_what_is_applied_no_more_is_removed() -> None:
    live = applied(None, workload({"replicas": 1, "paused": True}, labels={"a": "1", "b": "2"}))
    after = applied(live, workload({"replicas": 1}, labels={"b": "2"}))
    assert (after["spec"], after["metadata"]["labels"]) == ({"replicas": 1}, {"b": "2"})


def test_what_another_manager_owns_too_is_kept() -> None:
    live = applied(applied(None, workload({"replicas": 1}), "one"), workload({"replicas": 1}), "two")
    after = applied(live, workload(), "one")
    assert after["spec"]["replicas"] == 1
    assert owners(after) == {"two": {"f:spec": {"f:replicas": {}}}}


def test_fields_below_a_removed_item_that_somebody_else_owns_keep_the_item() -> None:
    live = applied(None, workload({"containers": [{"name": "c", "image": "i"}]}), "one")
    live = applied(live, workload({"containers": [{"name": "c", "args": ["x"]}]}), "two")
    after = applied(live, workload(), "one")
    assert after["spec"]["containers"] == [{"name": "c", "args": ["x"]}]


def test_items_are_merged_by_key_in_the_order_of_the_configuration() -> None:
    live = owned_by_hand({"containers": [{"name": "a", "image": "i"}, {"name": "x"}, {"name": "b"}]})
    after = applied(live, workload({"containers": [{"name": "b"}, {"name": "n"}, {"name": "a", "args": ["1"]}]}))
    assert after["spec"]["containers"] == [
        {"name": "x"},
        {"name": "b"},
        {"name": "n"},
        {"name": "a", "image": "i", "args": ["1"]},
    ]


def test_a_key_left_out_has_its_default() -> None:
    live = applied(None, workload({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}))
    config = workload({"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "p"}]}]})
    ports = applied(live, config)["spec"]["containers"][0]["ports"]
    assert ports == [{"containerPort": 80, "protocol": "TCP", "name": "p"}]


def test_sets_are_merged_and_atomic_values_replaced() -> None:
    live = owned_by_hand({"zones": ["a", "b"], "nodeSelector": {"x": "1"}})
    after = applied(live, workload({"zones": ["c"], "nodeSelector": {"y": "2"}}), force=True)
    assert after["spec"]["zones"] == ["a", "b", "c"]
    assert after["spec"]["nodeSelector"] == {"y": "2"}


def test_an_object_nobody_tracked_belongs_to_before_first_apply() -> None:
    after = applied(stored({"replicas": 1, "paused": True}), workload({"replicas": 1}), time=LATER)
    assert owners(after) == {
        "one": {"f:spec": {"f:replicas": {}}},
        "before-first-apply": {"f:spec": {"f:paused": {}, "f:replicas": {}}},
    }


def test_duplicates_in_the_live_object_are_replaced_by_the_applied_item() -> None:
    twice = [{"name": "c", "image": "1"}, {"name": "c", "image": "2"}, {"name": "d"}]
    after = applied(
        owned_by_hand({"containers": twice}), workload({"containers": [{"name": "c", "image": "3"}]}), force=True
    )
    assert after["spec"]["containers"] == [{"name": "c", "image": "3"}, {"name": "d"}]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"zonk": 1}, ".spec.zonk: field not declared in schema"),
        ({"replicas": "x"}, ".spec.replicas: expected numeric (int or float), got string"),
        ({"paused": "x"}, ".spec.paused: expected boolean, got &{x}"),
        (
            {"zones": [], "containers": [{"name": "c", "image": {"b": [1, "x"]}}]},
            '.spec.containers[name="c"].image: expected string, got &value.valueUnstructured'
            '{Value:map[string]interface {}{"b":[]interface {}{1, "x"}}}',
        ),
        ({"containers": {"a": 1}}, ".spec.containers: expected list, got &{map[a:1]}"),
        ({"free": 5}, ".spec.free: expected map, got &{5}"),
        (
            {"containers": [{"name": "c"}, {"name": "c"}]},
            '.spec.containers: duplicate entries for key [name="c"]',
        ),
        (
            {"containers": [{"name": "c", "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}]},
            '.spec.containers[name="c"].ports: duplicate entries for key [containerPort=1,protocol="TCP"]',
        ),
        ({"zones": ["a", "a"]}, '.spec.zones: duplicate entries for key [="a"]'),
        (
            {"containers": [5]},
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            {"replicas": "x", "zonk": 1},
            "errors:\n  .spec.replicas: expected numeric (int or float), got string"
            "\n  .spec.zonk: field not declared in schema",
        ),
    ],
    ids=[
        "unknown",
        "number",
        "boolean",
        "string",
        "list",
        "map",
        "duplicate",
        "duplicate by default",
        "set",
        "item",
        "several",
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_as_by_the_real_server(spec: Object, why: str) -> None:
    with pytest.raises(ApiError) as refused:
        applied(None, workload(spec))
    assert refused.value.code == 500
    assert refused.value.message == f"failed to create typed patch object (n/w; apps/v1, Kind=Workload): {why}"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"apiVersion": "v2"}, "/v2, Kind=Workload"),
        ({"apiVersion": None}, "/, Kind=Workload"),
        ({"kind": "Other"}, "apps/v1, Kind=Other"),
    ],
    ids=["version", "no version", "kind"],
)
def test_a_configuration_of_another_type_is_a_bad_request(change: Object, found: str) -> None:
    with pytest.raises(ApiError) as refused:
        applied(None, {**workload(), **change})
    assert (refused.value.code, refused.value.message) == (400, f"invalid object type: {found}")


def test_a_configuration_may_not_bring_managed_fields() -> None:
    with pytest.raises(ApiError) as refused:
        applied(None, workload({}, managedFields=[]))
    assert (refused.value.code, refused.value.message) == (400, "metadata.managedFields must be nil")


def test_neither_the_live_object_nor_the_configuration_is_changed_or_shared() -> None:
    live, config = (
        owned_by_hand({"containers": [{"name": "a"}]}),
        workload({"containers": [{"name": "b", "args": ["1"]}]}),
    )
    before = copy.deepcopy((live, config))
    after = applied(live, config)
    for container in after["spec"]["containers"]:
        container["image"] = "changed"
    assert (live, config) == before


def _with_last_applied(spec: Object) -> Object:
    note = json.dumps(workload(spec))
    obj = stored(spec, annotations={"kubectl.kubernetes.io/last-applied-configuration": note})
    obj["metadata"]["managedFields"] = created(MAIN, obj, "kubectl-client-side-apply", NOW)
    return obj


def test_kubectl_takes_over_what_it_applied_client_side() -> None:
    after = applied(_with_last_applied({"replicas": 1}), workload({"replicas": 2}), "kubectl")
    assert after["spec"]["replicas"] == 2
    note = json.loads(after["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert note["spec"] == {"replicas": 2}


def test_kubectl_does_not_take_over_what_changed_since() -> None:
    live = _with_last_applied({"replicas": 1})
    scaled = copy.deepcopy(live)
    scaled["spec"]["replicas"] = 5
    scaled["metadata"]["managedFields"] = track_update(MAIN, live, scaled, "hpa", LATER)
    with pytest.raises(ApiError, match=r'conflict with "hpa" using apps/v1: \.spec\.replicas'):
        applied(scaled, workload({"replicas": 2}), "kubectl")


def test_another_manager_does_not_take_over_what_kubectl_applied() -> None:
    with pytest.raises(ApiError, match="kubectl-client-side-apply"):
        applied(_with_last_applied({"replicas": 1}), workload({"replicas": 2}), "argo")


NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.sampled_from(["1", "2"])


def by_name(item: st.SearchStrategy[Object]) -> st.SearchStrategy[list[Object]]:
    return st.lists(item, max_size=3, unique_by=lambda found: found["name"])


CONTAINERS = by_name(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "image": WORDS,
            "args": st.lists(WORDS, max_size=2),
            "env": by_name(st.fixed_dictionaries({"name": NAMES}, optional={"value": WORDS})),
        },
    )
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(1, 3),
        "containers": CONTAINERS,
        "zones": st.lists(NAMES, max_size=3, unique=True),
        "nodeSelector": st.dictionaries(NAMES, WORDS, max_size=2),
        "limits": st.dictionaries(NAMES, st.fixed_dictionaries({}, optional={"soft": st.just(1)}), max_size=2),
        "free": st.dictionaries(NAMES, st.recursive(WORDS, lambda below: st.dictionaries(NAMES, below, max_size=2))),
    },
)


@given(SPECS, SPECS, SPECS)
def test_applying_the_same_twice_changes_nothing(first: Object, second: Object, mine: Object) -> None:
    live: Object | None = None
    for manager, spec in (("one", first), ("two", second), ("me", mine)):
        live, _ = apply(CUSTOM, live, workload(spec), manager, NOW, force=True)
        live["metadata"]["uid"] = "u-1"
    assert live is not None
    again, entries = apply(CUSTOM, live, workload(mine), "me", LATER)
    assert again == live
    assert entries == live["metadata"]["managedFields"]


@given(SPECS, SPECS)
def test_after_a_forced_apply_the_object_says_what_was_applied(first: Object, mine: Object) -> None:
    live, _ = apply(CUSTOM, None, workload(first), "one", NOW)
    after, _ = apply(CUSTOM, live, workload(mine), "me", LATER, force=True)
    for name, value in mine.items():
        found = after["spec"].get(name)
        if name in ("replicas", "nodeSelector"):
            assert found == value
        if name == "zones":
            assert set(value) <= set(found or [])


@given(SPECS)
def test_a_sole_manager_that_applies_nothing_leaves_nothing(spec: Object) -> None:
    live, _ = apply(CUSTOM, None, workload(spec, labels={"a": "1"}), "one", NOW)
    live["metadata"]["uid"] = "u-1"
    after, entries = apply(CUSTOM, live, workload(), "one", LATER)
    assert entries == []
    assert "labels" not in after["metadata"]
    assert not any(after.get("spec", {}).values())
