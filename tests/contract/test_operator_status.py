"""What users read on both servers: events about what came, and the last errors of what could not be made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster_kit.servers import SERVERS
from contract.operator_stages import staged
from stack_kit.stage import Stage
from unit.operator.operator_world import clique, podcliqueset


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(request.param, tmp_path_factory.mktemp("telling")) as found:
        yield found


def _reasons(stage: Stage, kind: str, name: str) -> set[str]:
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    return {each["reason"] for each in stage.find("Event", fieldSelector=selector)}


def _errors(stage: Stage, kind: str, name: str) -> dict[str, str]:
    found = (stage.get(kind, name).get("status") or {}).get("lastErrors") or []
    return {each["code"]: each["description"] for each in found}


def test_g1_s3_a_refusal_is_told_and_forgotten_when_it_is_put_right(stage: Stage) -> None:
    def whole(**container: Any) -> dict[str, Any]:
        return podcliqueset("told", [clique("w", podSpec={"containers": [{"name": "main", **container}]})])

    stage.create(whole()).ok(201)
    stage.eventually(lambda: stage.exists("PodClique", "told-0-w"), "a PodClique")
    found = stage.eventually(lambda: _errors(stage, "PodClique", "told-0-w"), "the refusal in the status")
    assert list(found) == ["ERR_CREATE_POD"]
    assert "spec.containers[0].image: Required value" in found["ERR_CREATE_POD"]
    assert "PodCreateFailed" in _reasons(stage, "PodClique", "told-0-w")
    stage.apply(whole(image="serve"))
    stage.available("told")
    stage.eventually(lambda: not _errors(stage, "PodClique", "told-0-w"), "the refusal is forgotten")
    on_set = {"PodCliqueCreateSuccessful", "PodGangCreateOrUpdateSuccessful"}
    stage.eventually(lambda: on_set <= _reasons(stage, "PodCliqueSet", "told"), "events on the set")
    stage.eventually(
        lambda: "PodCreateSuccessful" in _reasons(stage, "PodClique", "told-0-w"), "an event on the clique"
    )
