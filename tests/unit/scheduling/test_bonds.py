"""What a pod says about other pods, read from its terms."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.core.scheduling.bonds import Bond, read_bonds
from unit.scheduling.reading_kit import pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def bond(labels: dict[str, str] | None = None, **term: Any) -> Bond:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, **term}
    one = pod("p", {"affinity": {"podAffinity": {REQUIRED: [term]}}}, labels=labels or {})
    (found,) = read_bonds(one).near
    return found


def test_a_term_is_about_the_namespace_of_its_pod() -> None:
    choice = bond().choice
    assert choice.selects("ns", {"app": "web", "more": "x"})
    assert not choice.selects("ns", {"app": "db"})
    assert not choice.selects("other", {"app": "web"})


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
    choice = bond(**term).choice
    assert {each for each in ("a", "b", "c", "ns") if choice.selects(each, {"app": "web"})} == namespaces


def test_a_term_without_a_selector_selects_nobody_and_an_empty_one_everybody() -> None:
    assert not bond(labelSelector=None).choice.selects("ns", {"app": "web"})
    assert bond(labelSelector={}).choice.selects("ns", {})


def test_k8_label_keys_stand_for_the_values_of_the_pod_itself() -> None:
    same = bond({"app": "web", "rev": "2"}, matchLabelKeys=["rev", "absent"]).choice
    assert same.selects("ns", {"app": "web", "rev": "2"})
    assert not same.selects("ns", {"app": "web", "rev": "1"})
    others = bond({"app": "web", "rev": "2"}, mismatchLabelKeys=["rev"]).choice
    assert others.selects("ns", {"app": "web", "rev": "1"})
    assert not others.selects("ns", {"app": "web", "rev": "2"})


def test_a_bond_knows_whether_it_is_about_the_pod_itself() -> None:
    assert bond({"app": "web"}).own
    assert not bond({"app": "db"}).own


def test_k8_of_namespaces_by_other_labels_any_is_kept_off_and_that_is_said() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    found = read_bonds(pod("p", {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}))
    assert found.apart[0].choice.selects("anywhere", {})
    assert found.complaints == (
        f"affinity.podAntiAffinity.{REQUIRED}[0] can not be honoured: of namespaces only the label "
        "kubernetes.io/metadata.name is looked at",
    )
