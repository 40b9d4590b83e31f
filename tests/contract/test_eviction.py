"""pods/eviction: a deletion that asks the budgets first."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import budget, eviction, merged, pod
from cluster_kit.server import Reply, eventually
from cluster_kit.space import Space


def evict(space: Space, name: str = "p", **options: Any) -> Reply:
    return space.create("pods", eviction(name, **options), name=name, sub="eviction")


def allowed(space: Space, name: str, count: int) -> None:
    def told() -> bool:
        status = space.get("poddisruptionbudgets", name).ok().get("status", {})
        return status.get("disruptionsAllowed") == count and status.get("observedGeneration") == 1

    eventually(told, f"budget {name} allows {count}")


def test_a_pod_without_a_budget_is_evicted(space: Space, running: Any) -> None:
    running("p")
    answer = evict(space).ok(201)
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert space.get("pods", "p").ok()["metadata"]["deletionGracePeriodSeconds"] == 30


def test_an_unbound_pod_is_evicted_at_once(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    evict(space).ok(201)
    assert not space.exists("pods", "p")


def test_eviction_options_are_those_of_deletion(space: Space, running: Any) -> None:
    running("p")
    evict(space, gracePeriodSeconds=3).ok(201)
    assert space.get("pods", "p").ok()["metadata"]["deletionGracePeriodSeconds"] == 3


def test_a_failed_precondition_evicts_nobody(space: Space, running: Any) -> None:
    running("p")
    refused = evict(space, preconditions={"uid": "11111111-2222-3333-4444-555555555555"})
    refused.refused(409, "Conflict")
    assert "deletionTimestamp" not in space.get("pods", "p").ok()["metadata"]


def test_a_budget_with_room_lets_one_go(space: Space, running: Any) -> None:
    running("p", "q")
    space.create("poddisruptionbudgets", budget("b", minAvailable=1)).ok(201)
    allowed(space, "b", 1)
    evict(space, "p").ok(201)
    assert "deletionTimestamp" in space.get("pods", "p").ok()["metadata"]
    evict(space, "q").refused(429, "TooManyRequests")


def test_a_budget_without_room_refuses(space: Space, running: Any) -> None:
    running("p")
    space.create("poddisruptionbudgets", budget("b", minAvailable=1)).ok(201)
    allowed(space, "b", 0)
    refused = evict(space)
    refused.refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
    (cause,) = refused.body["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"].startswith("The disruption budget b needs 1 healthy pods and has 1 currently")
    assert "deletionTimestamp" not in space.get("pods", "p").ok()["metadata"]


def test_an_eviction_is_written_into_the_budget(space: Space, running: Any) -> None:
    running("p", "q", "r")
    space.create("poddisruptionbudgets", budget("b", minAvailable=1)).ok(201)
    allowed(space, "b", 2)
    evict(space, "p").ok(201)
    status = space.get("poddisruptionbudgets", "b").ok()["status"]
    assert status["disruptionsAllowed"] <= 1
    assert "p" in status.get("disruptedPods", {}) or "deletionTimestamp" in space.get("pods", "p").ok()["metadata"]


def test_two_budgets_over_one_pod_are_a_mistake(space: Space, running: Any) -> None:
    running("p")
    for name in ("b", "c"):
        space.create("poddisruptionbudgets", budget(name, minAvailable=0)).ok(201)
        allowed(space, name, 1)
    refused = evict(space)
    refused.refused(
        500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )
    assert "deletionTimestamp" not in space.get("pods", "p").ok()["metadata"]


def test_a_finished_pod_is_evicted_past_its_budget(space: Space, running: Any) -> None:
    running("p")
    space.create("poddisruptionbudgets", budget("b", minAvailable=1)).ok(201)
    allowed(space, "b", 0)
    space.patch("pods", "p", {"status": {"phase": "Failed"}}, sub="status").ok(200)
    evict(space).ok(201)


def test_a_pending_pod_is_evicted_past_its_budget(space: Space) -> None:
    space.create("pods", pod("p", labels={"app": "a"})).ok(201)
    space.create("poddisruptionbudgets", budget("b", minAvailable=1)).ok(201)
    allowed(space, "b", 0)
    evict(space).ok(201)
    assert not space.exists("pods", "p")


def test_a_dry_run_asks_the_budget_too(space: Space, running: Any) -> None:
    running("p")
    space.create("poddisruptionbudgets", budget("b", minAvailable=1)).ok(201)
    allowed(space, "b", 0)
    evict(space, dryRun=["All"]).refused(429, "TooManyRequests")


def test_a_budget_of_another_selector_does_not_count(space: Space, running: Any) -> None:
    running("p")
    other = merged(budget("b", minAvailable=1), {"spec": {"selector": {"matchLabels": {"app": "other"}}}})
    space.create("poddisruptionbudgets", other).ok(201)
    evict(space).ok(201)


def test_an_absent_pod_cannot_be_evicted(space: Space) -> None:
    evict(space, "absent").refused(404, "NotFound")


def test_names_must_agree(space: Space, running: Any) -> None:
    running("p")
    refused = space.create("pods", eviction("q"), name="p", sub="eviction")
    refused.refused(400, "BadRequest", "name in URL does not match name in Eviction object")


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
def test_versions_of_an_eviction(version: str, space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    space.create("pods", {**eviction("p"), "apiVersion": version}, name="p", sub="eviction").ok(201)


def test_a_percentage_is_rounded_up(space: Space, running: Any) -> None:
    running("p", "q", "r")
    space.create("poddisruptionbudgets", budget("b", minAvailable="50%")).ok(201)

    def told() -> Any:
        status = space.get("poddisruptionbudgets", "b").ok().get("status", {})
        return status.get("conditions")

    conditions = eventually(told)
    assert {each["type"] for each in conditions} == {"DisruptionAllowed"}
