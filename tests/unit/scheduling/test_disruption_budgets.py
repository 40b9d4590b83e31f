"""Disruption budgets: who must stay, counted as the server counts (INV7)."""

from __future__ import annotations

from typing import Any

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.builtin.surroundings import PodDisruptionBudget
from spinney.core.scheduling.cycle.preemption import Budgets


def pod(name: str, *, app: str = "a", ready: bool = True, phase: str = "Running") -> Pod:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    metadata = {"name": name, "namespace": "ns", "uid": name, "labels": {"app": app}}
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase, "conditions": conditions}}, Pod)


def budget(name: str = "b", allowed: int = 0, app: str = "a", generation: int = 1, **spec: Any) -> PodDisruptionBudget:
    obj = {
        "metadata": {"name": name, "namespace": "ns", "generation": generation},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1, "desiredHealthy": 2, "currentHealthy": 1},
    }
    return msgspec.convert(obj, PodDisruptionBudget)


def test_inv7_as_many_may_go_as_the_budget_allows_the_first_ones_first() -> None:
    assert Budgets([budget(allowed=1)]).protected([pod("x"), pod("y"), pod("z")]) == {"y", "z"}


def test_inv7_evictions_that_are_decided_already_count() -> None:
    assert Budgets([budget(allowed=1)], [pod("w")]).protected([pod("x")]) == {"x"}


def test_inv7_a_budget_that_is_behind_its_spec_allows_nothing() -> None:
    assert Budgets([budget(allowed=5, generation=2)]).protected([pod("x")]) == {"x"}


def test_inv7_a_pod_of_two_budgets_cannot_be_evicted() -> None:
    assert Budgets([budget("b", 5), budget("c", 5)]).protected([pod("x")]) == {"x"}


def test_inv7_pods_that_have_not_started_and_those_of_others_are_free_to_go() -> None:
    found = Budgets([budget()])
    assert found.protected([pod("x", phase="Pending"), pod("y", app="other")]) == frozenset()
    assert not found.guards(pod("x", phase="Pending"))
    assert found.guards(pod("x"))


def test_inv7_pods_that_are_not_ready_go_where_the_policy_says_so() -> None:
    sick = pod("x", ready=False)
    assert Budgets([budget()]).protected([sick]) == {"x"}
    assert Budgets([budget(unhealthyPodEvictionPolicy="AlwaysAllow")]).protected([sick]) == frozenset()


def test_without_budgets_nobody_is_protected() -> None:
    assert not Budgets([])
    assert Budgets([]).protected([pod("x")]) == frozenset()
