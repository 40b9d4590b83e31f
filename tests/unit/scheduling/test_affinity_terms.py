"""What a pod says about other pods, read from its terms."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.core.scheduling.affinity.terms import AffinityTerm, read_affinity
from unit.scheduling.reading_kit import pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def bond(labels: dict[str, str] | None = None, **term: Any) -> AffinityTerm:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, **term}
    one = pod("p", {"affinity": {"podAffinity": {REQUIRED: [term]}}}, labels=labels or {})
    (found,) = read_affinity(one).near
    return found


def test_a_term_is_about_the_namespace_of_its_pod() -> None:
    pod_selector = bond().pod_selector
    assert pod_selector.selects("ns", {"app": "web", "more": "x"})
    assert not pod_selector.selects("ns", {"app": "db"})
    assert not pod_selector.selects("other", {"app": "web"})


@pytest.mark.parametrize(
    ("term", "namespaces"),
    [
        pytest.param({"namespaces": ["a", "b"]}, {"a", "b"}, id="named"),
        pytest.param({"namespaceSelector": {}}, {"a", "b", "c", "ns"}, id="all"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}, "namespaces": ["a"]},
            {"a", "b"},
            id="by the label of their names",
        ),
    ],
)
def test_k8_a_term_is_about_the_namespaces_it_says(term: dict[str, Any], namespaces: set[str]) -> None:
    pod_selector = bond(**term).pod_selector
    assert {each for each in ("a", "b", "c", "ns") if pod_selector.selects(each, {"app": "web"})} == namespaces


def test_a_term_without_a_selector_selects_nobody_and_an_empty_one_everybody() -> None:
    assert not bond(labelSelector=None).pod_selector.selects("ns", {"app": "web"})
    assert bond(labelSelector={}).pod_selector.selects("ns", {})


def test_k8_label_keys_stand_for_the_values_of_the_pod_itself() -> None:
    same = bond({"app": "web", "rev": "2"}, matchLabelKeys=["rev", "absent"]).pod_selector
    assert same.selects("ns", {"app": "web", "rev": "2"})
    assert not same.selects("ns", {"app": "web", "rev": "1"})
    others = bond({"app": "web", "rev": "2"}, mismatchLabelKeys=["rev"]).pod_selector
    assert others.selects("ns", {"app": "web", "rev": "1"})
    assert not others.selects("ns", {"app": "web", "rev": "2"})


def test_a_bond_knows_whether_it_is_about_the_pod_itself() -> None:
    assert bond({"app": "web"}).own
    assert not bond({"app": "db"}).own


def test_k8_of_namespaces_by_other_labels_any_is_kept_off_and_that_is_said() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    found = read_affinity(pod("p", {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}))
    assert found.apart[0].pod_selector.selects("anywhere", {})
    assert found.problems == (
        f"affinity.podAntiAffinity.{REQUIRED}[0] can not be honoured: of namespaces only the label "
        "kubernetes.io/metadata.name is looked at",
    )
