from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_embedded.base.resource import Context, Resource, ScalePaths
from kube_embedded.customresources import established, resources

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}, "host": {"type": "string"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    },
}
VERSION: dict[str, Any] = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": SCHEMA},
    "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    "selectableFields": [{"jsonPath": ".spec.host"}, {"jsonPath": ".spec.replicas"}],
}
NAMES = {
    "plural": "things",
    "singular": "thing",
    "kind": "Thing",
    "listKind": "ThingList",
    "shortNames": ["th"],
    "categories": ["all"],
}
LATER = {**VERSION, "name": "v2", "storage": False}


def _crd(*versions: dict[str, Any], **names: Any) -> dict[str, Any]:
    spec = {
        "group": "t.io",
        "scope": "Namespaced",
        "names": {**NAMES, **names},
        "versions": list(versions or (VERSION,)),
    }
    return {"metadata": {"name": "things.t.io"}, "spec": spec}


def test_every_served_version_is_a_resource() -> None:
    hidden = {**VERSION, "name": "v0", "served": False, "storage": False}
    found = resources(_crd(hidden, VERSION, LATER))
    assert [(one.version, one.storage_version) for one in found] == [("v1", "v1"), ("v2", "v1")]


def test_a_resource_carries_what_the_definition_says() -> None:
    found = resources(_crd())[0]
    assert found.kind == "Thing"
    assert found.list_kind == "ThingList"
    assert found.namespaced
    assert found.short_names == ("th",)
    assert found.categories == ("all",)
    assert found.subresources == ("status", "scale")
    assert found.scale == ScalePaths(("spec", "replicas"), ("status", "replicas"), ("status", "selector"))
    assert found.schema_name == "io.t.v1.Thing"
    assert not found.builtin


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        ({}, ""),
        ({"deprecated": True}, "t.io/v1 Thing is deprecated"),
        ({"deprecated": True, "deprecationWarning": "use v2"}, "use v2"),
    ],
)
def test_a_deprecated_version_warns(given: dict[str, Any], warning: str) -> None:
    assert resources(_crd({**VERSION, **given}))[0].deprecated == warning


def test_selectable_fields_are_text() -> None:
    strategy = resources(_crd())[0].strategy
    assert strategy.selectable({"spec": {"host": "h", "replicas": 3}}) == {"spec.host": "h", "spec.replicas": "3"}
    assert strategy.selectable({}) == {"spec.host": "", "spec.replicas": ""}


def test_the_wrong_kind_is_the_only_complaint() -> None:
    strategy = resources(_crd())[0].strategy
    errors = strategy.validate_create({"apiVersion": "t.io/v1", "kind": "Thong", "spec": 5})
    assert [str(error) for error in errors] == ['kind: Invalid value: "Thong": must be Thing']


def test_a_status_update_keeps_who_manages_what() -> None:
    strategy = resources(_crd())[0].strategy
    old = {"metadata": {"name": "x", "managedFields": [1]}, "spec": {"replicas": 1}, "status": {"replicas": 1}}
    new = {"metadata": {"name": "x", "labels": {"a": "b"}, "managedFields": [2]}, "spec": {}, "status": {"replicas": 2}}
    strategy.prepare_status_update(new, old, Context(0))
    assert new == {
        "metadata": {"name": "x", "managedFields": [2]},
        "spec": {"replicas": 1},
        "status": {"replicas": 2},
    }


def test_a_definition_without_conflicts_is_established() -> None:
    assert established(_crd(), resources(_crd()), "2026-01-01T00:00:00Z") == {
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "NoConflicts",
                "message": "no conflicts found",
            },
            {
                "type": "Established",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ],
        "acceptedNames": NAMES,
        "storedVersions": ["v1"],
    }


def test_the_time_of_a_condition_stays_while_it_holds() -> None:
    crd = _crd()
    crd["status"] = established(crd, (), "2026-01-01T00:00:00Z")
    again = established(crd, (), "2026-02-02T00:00:00Z")
    assert again == crd["status"]


def _other(**names: Any) -> list[Resource]:
    other = copy.deepcopy(_crd())
    other["spec"]["names"] = {
        "plural": "others",
        "singular": "other",
        "kind": "Other",
        "listKind": "OtherList",
        **names,
    }
    return resources(other)


@pytest.mark.parametrize(
    ("theirs", "reason", "message"),
    [
        ({"singular": "things"}, "PluralConflict", '"things" is already in use'),
        ({"shortNames": ["thing"]}, "SingularConflict", '"thing" is already in use'),
        ({"shortNames": ["th"]}, "ShortNamesConflict", '"th" is already in use'),
        ({"kind": "Thing"}, "KindConflict", '"Thing" is already in use'),
        ({"listKind": "ThingList"}, "ListKindConflict", '"ThingList" is already in use'),
    ],
)
def test_a_name_that_another_resource_has_is_not_accepted(theirs: dict[str, Any], reason: str, message: str) -> None:
    status = established(_crd(), _other(**theirs), "2026-01-01T00:00:00Z")
    names, served = status["conditions"]
    assert (names["status"], names["reason"], names["message"]) == ("False", reason, message)
    assert (served["status"], served["reason"]) == ("False", "NotAccepted")


def test_the_same_names_in_another_group_do_not_matter() -> None:
    other = _crd(plural="others", singular="things")
    other["spec"]["group"] = "other.io"
    status = established(_crd(), resources(other), "2026-01-01T00:00:00Z")
    assert status["conditions"][0]["status"] == "True"


def test_equal_definitions_are_compiled_once_and_what_is_changed_counts() -> None:
    (one,), (other,) = resources(copy.deepcopy(_crd())), resources(copy.deepcopy(_crd()))
    assert one.strategy is other.strategy
    changed = copy.deepcopy(_crd())
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] = ["host"]
    (third,) = resources(changed)
    empty = {"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}}
    assert not one.strategy.validate_create(empty)
    assert [error.path for error in third.strategy.validate_create(empty)] == ["spec.host"]


def test_a_definition_that_is_changed_in_place_is_compiled_anew() -> None:
    crd = copy.deepcopy(_crd())
    (one,) = resources(crd)
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] = ["host"]
    (other,) = resources(crd)
    empty = {"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}}
    assert not one.strategy.validate_create(empty)
    assert other.strategy.validate_create(empty)
