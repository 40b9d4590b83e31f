"""Definitions that kube-apiserver 1.36.3 accepts or refuses, and where (recorded in checked_definitions.json).

Parts that all versions have in common are called here by the version that they stand in.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kube_embedded.base.resource import Context
from kube_embedded.customresources.definition import DefinitionStrategy

RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("checked_definitions.json").read_text())
ACCEPTED = next(row["definition"] for row in RECORDED if row["name"] == "ok")
STRATEGY, NOW = DefinitionStrategy(), Context(0)


def _created(definition: dict[str, Any]) -> dict[str, Any]:
    crd = copy.deepcopy(definition)
    STRATEGY.prepare_create(crd, NOW)
    STRATEGY.default(crd)
    return crd


@pytest.mark.parametrize("row", RECORDED, ids=[row["name"] for row in RECORDED])
def test_a_definition_is_judged_and_completed_as_kubernetes_does_it(row: dict[str, Any]) -> None:
    crd = _created(row["definition"])
    refused = {error.path for error in STRATEGY.validate_create(crd)}
    assert bool(refused) == bool(row["refused"])
    assert refused <= set(row["refused"])
    if not row["refused"]:
        assert crd["spec"] == row["spec"]
        assert crd["status"] == row["status"]


def _established() -> dict[str, Any]:
    crd = _created(ACCEPTED)
    crd["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    return crd


@pytest.mark.parametrize(
    ("keys", "value", "error"),
    [
        (("group",), "other.io", 'spec.group: Invalid value: "other.io": field is immutable'),
        (("names", "plural"), "others", 'spec.names.plural: Invalid value: "others": field is immutable'),
        (("names", "kind"), "Other", 'spec.names.kind: Invalid value: "Other": field is immutable'),
        (("scope",), "Cluster", 'spec.scope: Invalid value: "Cluster": field is immutable'),
    ],
    ids=str,
)
def test_what_decides_where_objects_are_stored_never_changes(keys: tuple[str, ...], value: str, error: str) -> None:
    old, new = _established(), _established()
    place = new["spec"] if len(keys) == 1 else new["spec"][keys[0]]
    place[keys[-1]] = value
    assert error in map(str, STRATEGY.validate_update(new, old))


def test_a_kind_may_change_while_nothing_is_served() -> None:
    old, new = _created(ACCEPTED), _created(ACCEPTED)
    new["spec"]["names"]["kind"] = "Other"
    assert STRATEGY.validate_update(new, old) == []


def test_a_new_storage_version_is_remembered() -> None:
    old, new = _established(), _established()
    second = copy.deepcopy(new["spec"]["versions"][0])
    second["name"] = "v2"
    new["spec"]["versions"][0]["storage"] = False
    new["spec"]["versions"].append(second)
    STRATEGY.prepare_update(new, old, NOW)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert STRATEGY.validate_update(new, old) == []


def test_a_version_that_was_stored_may_not_go() -> None:
    old = _established()
    old["status"]["storedVersions"] = ["v0", "v1"]
    new = copy.deepcopy(old)
    errors = list(map(str, STRATEGY.validate_update(new, old)))
    assert len(errors) == 1
    assert errors[0].startswith('status.storedVersions[0]: Invalid value: "v0": missing from spec.versions; v0 was')


def test_a_status_update_changes_nothing_else() -> None:
    old = _established()
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    new["status"]["storedVersions"] = ["v1"]
    STRATEGY.prepare_status_update(new, old, NOW)
    assert new["spec"] == old["spec"]


def test_the_generation_follows_the_spec() -> None:
    old, new = _established(), _established()
    new["metadata"]["labels"] = {"a": "b"}
    assert not STRATEGY.generation_changes(new, old)
    new["spec"]["names"]["shortNames"] = ["th"]
    assert STRATEGY.generation_changes(new, old)


def test_the_table_shows_name_and_time() -> None:
    crd = _established()
    crd["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert STRATEGY.row(crd, NOW) == ["things.p3.io", "2026-01-01T00:00:00Z"]
