"""Ownership after create, update and patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_embedded.apply import created, keep_times, scope_of, track_update
from kube_embedded.schema.model import Compiler
from unit.serve.apply.apply_kinds import CUSTOM, LATER, MAIN, NOW, STATUS, stored, workload

CONTAINER = {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]}


def entry(fields: Any, manager: str = "me", time: str | None = NOW, **more: str) -> dict[str, Any]:
    wanted = {"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "time": time, **more}
    return {
        **{name: value for name, value in wanted.items() if value is not None},
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def tracked(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A stored object whose fields belong to `me`."""
    obj = stored(spec, **metadata)
    obj["metadata"]["managedFields"] = created(MAIN, obj, "me", NOW)
    return obj


def changed(old: dict[str, Any], **spec: Any) -> dict[str, Any]:
    new = copy.deepcopy(old)
    new["spec"].update(spec)
    return new


def test_a_creator_owns_every_field_but_what_the_server_sets() -> None:
    obj = stored(
        {"replicas": 2, "containers": [CONTAINER]},
        labels={"b": "2", "a": "1"},
        finalizers=["z.io/x", "a.io/x"],
        ownerReferences=[{"uid": "u", "name": "n", "kind": "K", "apiVersion": "v1"}],
        creationTimestamp=NOW,
        generation=1,
    )
    assert created(MAIN, obj, "me", NOW) == [
        entry(
            {
                "f:metadata": {
                    "f:finalizers": {".": {}, 'v:"a.io/x"': {}, 'v:"z.io/x"': {}},
                    "f:labels": {".": {}, "f:a": {}, "f:b": {}},
                    "f:ownerReferences": {".": {}, 'k:{"uid":"u"}': {}},
                },
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"c"}': {
                            ".": {},
                            "f:env": {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
                            "f:image": {},
                            "f:name": {},
                            "f:ports": {
                                ".": {},
                                'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
                            },
                        }
                    },
                    "f:replicas": {},
                },
            }
        )
    ]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"nodeSelector": {"a": "b"}}, {"f:nodeSelector": {}}),
        ({"zones": ["b", "a"]}, {"f:zones": {".": {}, 'v:"a"': {}, 'v:"b"': {}}}),
        ({"zones": []}, {"f:zones": {}}),
        ({"limits": {"x": {"soft": 1}}}, {"f:limits": {".": {}, "f:x": {".": {}, "f:soft": {}}}}),
        ({"free": {"a": {"b": [1, {"c": 2}]}}}, {"f:free": {".": {}, "f:a": {".": {}, "f:b": {}}}}),
        (
            {"containers": [{"name": "c", "args": ["x"]}, {"name": "c"}]},
            {"f:containers": {'k:{"name":"c"}': {}}},
        ),
    ],
    ids=["atomic map", "set", "empty set", "map of structs", "unknown fields", "duplicate items"],
)
def test_how_a_new_value_is_owned(spec: dict[str, Any], fields: Any) -> None:
    assert created(MAIN, workload(spec), "me", NOW) == [entry({"f:spec": fields})]


def test_a_struct_of_a_custom_resource_is_owned_itself() -> None:
    found = created(CUSTOM, workload({"replicas": 1}, labels={"a": "1"}), "me", NOW)[0]["fieldsV1"]
    assert found == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {".": {}, "f:replicas": {}}}


def test_metadata_inside_an_embedded_object_is_divided_as_metadata() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    scope = scope_of(
        Compiler().compile({"type": "object", "properties": {"spec": embedded}}), "ex.io/v1", builtin=False
    )
    obj = {"metadata": {"name": "x"}, "spec": {"metadata": {"finalizers": ["a"]}}}
    assert created(scope, obj, "me", NOW)[0]["fieldsV1"]["f:spec"]["f:metadata"]["f:finalizers"] == {
        ".": {},
        'v:"a"': {},
    }


def test_an_empty_object_has_no_entries() -> None:
    assert created(MAIN, workload(), "me", NOW) == []


def test_what_an_endpoint_resets_is_not_owned() -> None:
    obj = workload({"replicas": 1})
    obj["status"] = {"ready": 1}
    assert created(MAIN, obj, "me", NOW) == [entry({"f:spec": {"f:replicas": {}}})]


def test_a_change_belongs_to_its_author() -> None:
    old = tracked({"replicas": 1, "paused": True})
    assert track_update(MAIN, old, changed(old, replicas=2), "other", LATER) == [
        entry({"f:spec": {"f:paused": {}}}),
        entry({"f:spec": {"f:replicas": {}}}, "other", LATER),
    ]


def test_an_owner_that_lost_everything_is_dropped() -> None:
    old = tracked({"replicas": 1})
    assert track_update(MAIN, old, changed(old, replicas=2), "other", LATER) == [
        entry({"f:spec": {"f:replicas": {}}}, "other", LATER)
    ]


def test_a_removed_field_is_owned_by_nobody() -> None:
    old = tracked({"replicas": 1, "paused": True})
    new = copy.deepcopy(old)
    del new["spec"]["paused"]
    assert track_update(MAIN, old, new, "other", LATER) == [entry({"f:spec": {"f:replicas": {}}})]


def test_an_update_without_change_keeps_times_and_owners() -> None:
    old = tracked({"replicas": 1})
    assert track_update(MAIN, old, copy.deepcopy(old), "other", LATER) == old["metadata"]["managedFields"]


def test_more_fields_of_the_same_author_join_one_entry() -> None:
    old = tracked({"replicas": 1})
    assert track_update(MAIN, old, changed(old, paused=True), "me", LATER) == [
        entry({"f:spec": {"f:paused": {}, "f:replicas": {}}}, "me", LATER)
    ]


def test_reordering_a_keyed_list_changes_no_owner() -> None:
    old = tracked({"containers": [{"name": "a"}, {"name": "b"}]})
    new = changed(old, containers=[{"name": "b"}, {"name": "a"}])
    assert track_update(MAIN, old, new, "other", LATER) == old["metadata"]["managedFields"]


def test_reordering_an_atomic_list_changes_its_owner() -> None:
    old = tracked({"containers": [{"name": "a", "args": ["1", "2"]}]})
    new = changed(old, containers=[{"name": "a", "args": ["2", "1"]}])
    found = track_update(MAIN, old, new, "other", LATER)
    assert found[1] == entry({"f:spec": {"f:containers": {'k:{"name":"a"}': {"f:args": {}}}}}, "other", LATER)


def test_a_removed_item_is_taken_from_its_owner_with_all_its_fields() -> None:
    old = tracked({"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]})
    found = track_update(MAIN, old, changed(old, containers=[{"name": "b", "image": "i"}]), "other", LATER)
    kept: dict[str, Any] = {'k:{"name":"b"}': {".": {}, "f:image": {}, "f:name": {}}}
    assert found == [entry({"f:spec": {"f:containers": kept}})]


def test_status_is_owned_through_its_endpoint_only() -> None:
    old = tracked({"replicas": 1})
    new = changed(old, replicas=9)
    new["status"] = {"ready": 1}
    assert track_update(STATUS, old, new, "ctl", LATER) == [
        entry({"f:spec": {"f:replicas": {}}}),
        entry({"f:status": {".": {}, "f:ready": {}}}, "ctl", LATER, subresource="status"),
    ]


def test_a_change_through_scale_has_no_time() -> None:
    old = tracked({"replicas": 1, "paused": True})
    scale = scope_of(MAIN.schema, "apps/v1", "scale")
    found = track_update(scale, old, changed(old, replicas=3), "hpa", LATER)
    assert found == [
        entry({"f:spec": {"f:replicas": {}}}, "hpa", None, subresource="scale"),
        entry({"f:spec": {"f:paused": {}}}),
    ]


@pytest.mark.parametrize("given", [[], [{}]], ids=["empty list", "one empty entry"])
def test_a_client_may_reset_the_entries(given: list[Any]) -> None:
    old = tracked({"replicas": 1})
    new = changed(old, replicas=2)
    new["metadata"]["managedFields"] = given
    assert track_update(MAIN, old, new, "other", LATER) == []


def test_an_object_that_is_not_tracked_stays_so_until_it_is_applied() -> None:
    old = stored({"replicas": 1})
    assert track_update(MAIN, old, changed(old, replicas=2), "other", LATER) == []


def test_a_client_that_omits_the_entries_does_not_lose_them() -> None:
    old = tracked({"replicas": 1})
    new = copy.deepcopy(old)
    del new["metadata"]["managedFields"]
    assert track_update(MAIN, old, new, "other", LATER) == old["metadata"]["managedFields"]


@pytest.mark.parametrize(
    "given",
    [
        {
            "manager": "x",
            "operation": "Zonk",
            "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:a": {}},
        },
        {"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}},
        {"manager": "x", "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": {"f:a": {}}},
        {"manager": "x", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "V9", "fieldsV1": {"f:a": {}}},
        {
            "manager": "x",
            "operation": "Update",
            "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"a": {}},
        },
    ],
    ids=["operation", "version", "no type", "unknown type", "malformed fields"],
)
def test_entries_that_cannot_be_read_are_replaced_by_those_of_the_object(given: dict[str, Any]) -> None:
    old = tracked({"replicas": 1})
    new = copy.deepcopy(old)
    new["metadata"]["managedFields"] = [given]
    assert track_update(MAIN, old, new, "other", LATER) == old["metadata"]["managedFields"]


def test_a_client_may_edit_the_entries_but_not_through_a_subresource() -> None:
    old = tracked({"replicas": 1})
    new = copy.deepcopy(old)
    new["metadata"]["managedFields"] = [entry({"f:spec": {"f:paused": {}}}, "edited", None)]
    assert track_update(MAIN, old, new, "x", LATER) == [entry({"f:spec": {"f:paused": {}}}, "edited", None)]
    assert track_update(STATUS, old, new, "x", LATER) == old["metadata"]["managedFields"]


def test_an_item_without_its_key_stops_the_tracking() -> None:
    old = tracked({"replicas": 1})
    assert track_update(MAIN, old, changed(old, containers=[{"image": "i"}]), "other", LATER) == []


def test_the_oldest_of_more_than_ten_updaters_become_ancient_changes() -> None:
    obj = tracked({"replicas": 1})
    for number in range(12):
        new = copy.deepcopy(obj)
        new["metadata"].setdefault("labels", {})[f"l{number:02}"] = "x"
        new["metadata"]["managedFields"] = track_update(
            MAIN, obj, new, f"m{number:02}", f"2030-01-01T00:01:{number:02}Z"
        )
        obj = new
    entries = obj["metadata"]["managedFields"]
    assert [found["manager"] for found in entries] == ["ancient-changes"] + [f"m{n:02}" for n in range(3, 12)]
    assert entries[0]["time"] == "2030-01-01T00:01:02Z"
    assert entries[0]["fieldsV1"]["f:spec"] == {"f:replicas": {}}
    assert list(entries[0]["fieldsV1"]["f:metadata"]["f:labels"]) == [".", "f:l00", "f:l01", "f:l02"]


def test_times_are_taken_back_where_nothing_else_changed() -> None:
    old = tracked({"replicas": 1})
    new = copy.deepcopy(old)
    new["metadata"]["managedFields"][0]["time"] = LATER
    keep_times(old, new)
    assert new == old


def test_times_stay_where_the_object_changed() -> None:
    old = tracked({"replicas": 1})
    new = changed(old, replicas=2)
    new["metadata"]["managedFields"][0]["time"] = LATER
    keep_times(old, new)
    assert new["metadata"]["managedFields"][0]["time"] == LATER


def test_tracking_changes_neither_object() -> None:
    old = tracked({"replicas": 1, "containers": [CONTAINER]}, labels={"a": "1"})
    new = changed(old, replicas=2, containers=[])
    before = copy.deepcopy((old, new))
    track_update(MAIN, old, new, "other", LATER)
    assert (old, new) == before
