"""How far a gang is: its phase and its conditions, from its pods alone (S3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podgang import PodGang
from spinney.core.expansion.backends.default_scheduler import DefaultScheduler
from spinney.core.expansion.podclique.pod_state import Pod
from spinney.core.expansion.podgang import Observed, expand

CLIQUE = msgspec.convert({"metadata": {"name": "w", "uid": "c"}, "spec": {"podSpec": {}, "replicas": 2}}, PodClique)


def pod(name: str, **more: Any) -> Pod:
    conditions = [{"type": kind, "status": "True"} for kind in more.get("holds", ())]
    metadata = {"name": name, "labels": {"grove.io/podgang": "d-0"}}
    spec = {"nodeName": "n"} if more.get("bound", True) else {}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}, Pod)


def gang(listed: int = 2, **status: Any) -> PodGang:
    references = [{"namespace": "default", "name": f"p{number}"} for number in range(listed)]
    spec = {"podgroups": [{"name": "w", "podReferences": references, "minReplicas": 2}]}
    body = {"metadata": {"name": "d-0", "namespace": "default", "uid": "g", "generation": 3}, "spec": spec}
    return msgspec.convert({**body, "status": status}, PodGang)


def seen(found: PodGang, *pods: Pod) -> tuple[str, dict[str, str]]:
    """Phase, and status of each condition, as they are after a look."""
    observed = Observed({"w": CLIQUE}, {"c": pods}, DefaultScheduler(), lambda *where: None, 1000.0)
    changes = expand(found, observed).changes
    (change,) = changes
    status: Any = change.status  # type: ignore[union-attr]
    return status.get("phase", found.status.phase), {each["type"]: each["status"] for each in status["conditions"]}


@pytest.mark.parametrize(
    ("pods", "phase", "scheduled", "ready"),
    [
        ([], "Pending", "False", "False"),
        ([pod("a", bound=False), pod("b", bound=False)], "Pending", "False", "False"),
        ([pod("a"), pod("b", bound=False)], "Pending", "False", "False"),
        ([pod("a"), pod("b")], "Starting", "True", "False"),
        ([pod("a", holds=["Ready"]), pod("b")], "Starting", "True", "False"),
        ([pod("a", holds=["Ready"]), pod("b", holds=["Ready"])], "Running", "True", "True"),
    ],
    ids=["no pods", "unbound", "one bound", "all bound", "one ready", "all ready"],
)
def test_s3_the_phase_follows_the_minimum_of_every_group(
    pods: list[Pod], phase: str, scheduled: str, ready: str
) -> None:
    found, conditions = seen(gang(), *pods)
    assert (found, conditions["Scheduled"], conditions["Ready"]) == (phase, scheduled, ready)
    assert (conditions["Unhealthy"], conditions["DisruptionTarget"]) == ("False", "False")


def test_s3_initialized_needs_every_pod_of_every_member_to_be_listed() -> None:
    assert seen(gang(1), pod("a"), pod("b"))[1]["Initialized"] == "False"
    assert seen(gang(2), pod("a"), pod("b"))[1]["Initialized"] == "True"


def _was(kind: str) -> dict[str, Any]:
    held = {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "r", "message": ""}
    return {"phase": "Running", "conditions": [held]}


def test_s3_a_gang_that_was_ready_and_is_no_more_is_unhealthy_until_it_is_again() -> None:
    ready = [pod("a", holds=["Ready"]), pod("b", holds=["Ready"])]
    assert seen(gang(2, **_was("Ready")), ready[0], pod("b"))[1]["Unhealthy"] == "True"
    assert seen(gang(2, **_was("Unhealthy")), ready[0], pod("b", bound=False))[1]["Unhealthy"] == "True"
    assert seen(gang(2, **_was("Unhealthy")), *ready)[1]["Unhealthy"] == "False"


def test_s3_a_pod_about_to_be_taken_away_makes_its_gang_a_disruption_target() -> None:
    pods = [pod("a", holds=["Ready", "DisruptionTarget"]), pod("b", holds=["Ready"])]
    assert seen(gang(), *pods)[1]["DisruptionTarget"] == "True"


def test_s3_conditions_tell_the_generation_they_are_about() -> None:
    observed = Observed({"w": CLIQUE}, {"c": [pod("a")]}, DefaultScheduler(), lambda *where: None, 1000.0)
    (change,) = expand(gang(), observed).changes
    assert {each["observedGeneration"] for each in change.status["conditions"]} == {3}  # type: ignore[union-attr]
