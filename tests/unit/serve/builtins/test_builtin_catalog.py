"""The catalogue of built-in kinds says what a real kube-apiserver's discovery and tables say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kube_embedded.base.resource import Resource
from kube_embedded.builtins import builtin_resources, components_for, snapshot

HERE = Path(__file__).parent
DISCOVERY = json.loads((HERE / "discovery.json").read_text())
COLUMNS = json.loads((HERE / "columns.json").read_text())
RESOURCES = builtin_resources()
UNSERVED = {"attach", "ephemeralcontainers", "exec", "portforward", "proxy", "resize"}


def path(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def reported(resource: Resource) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in DISCOVERY[path(resource)] if one["name"] == resource.plural)
    return found


def named(resource: Resource) -> str:
    return f"{resource.group_version} {resource.plural}"


@pytest.mark.parametrize("resource", RESOURCES, ids=named)
def test_a_kind_has_the_names_and_verbs_that_kubernetes_reports(resource: Resource) -> None:
    expected = reported(resource)
    assert resource.kind == expected["kind"]
    assert resource.singular == expected["singularName"]
    assert resource.namespaced == expected["namespaced"]
    assert sorted(resource.verbs) == sorted(expected["verbs"])
    assert list(resource.short_names) == expected.get("shortNames", [])
    assert list(resource.categories) == expected.get("categories", [])


@pytest.mark.parametrize("resource", RESOURCES, ids=named)
def test_a_kind_has_the_subresources_that_kubernetes_reports(resource: Resource) -> None:
    prefix = f"{resource.plural}/"
    names = (one["name"].removeprefix(prefix) for one in DISCOVERY[path(resource)] if one["name"].startswith(prefix))
    assert set(resource.subresources) == set(names) - UNSERVED


@pytest.mark.parametrize("resource", [one for one in RESOURCES if "list" in one.verbs], ids=named)
def test_a_table_has_the_columns_that_kubernetes_sends(resource: Resource) -> None:
    shown = [[one.name, one.type, one.format, one.priority] for one in resource.strategy.columns]
    assert shown == COLUMNS[path(resource)][resource.plural]


def test_no_two_resources_share_a_path() -> None:
    assert len({(one.group, one.version, one.plural) for one in RESOURCES}) == len(RESOURCES)


def test_a_scaled_kind_says_where_its_numbers_are() -> None:
    scaled = {one.kind for one in RESOURCES if one.scale is not None}
    assert scaled == {one.kind for one in RESOURCES if "scale" in one.subresources}


def test_the_components_of_a_kind_include_all_that_they_refer_to() -> None:
    found = components_for(["io.k8s.api.core.v1.Pod"])
    assert "io.k8s.api.core.v1.Container" in found
    assert "io.k8s.apimachinery.pkg.api.resource.Quantity" in found
    assert "io.k8s.api.apps.v1.Deployment" not in found


def test_a_kind_is_found_by_group_version_and_kind() -> None:
    assert snapshot.component_of("policy", "v1", "Eviction") == "io.k8s.api.policy.v1.Eviction"
    assert snapshot.component_of("policy", "v1", "Nothing") is None
