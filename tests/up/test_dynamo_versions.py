"""Both versions of DynamoGraphDeployment on the embedded server, converted in process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stack_kit.spinney import Spinney, spinney

ALPHA, BETA = (f"dynamographdeployments.{version}.nvidia.com" for version in ("v1alpha1", "v1beta1"))


def alpha(name: str, replicas: int = 2) -> dict[str, Any]:
    main = {"mainContainer": {"image": "example.com/dynamo:1"}}
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": name},
        "spec": {
            "backendFramework": "vllm",
            "services": {
                "Frontend": {"componentType": "frontend", "replicas": 1, "minAvailable": 1, "extraPodSpec": main},
                "Worker": {
                    "componentType": "worker",
                    "replicas": replicas,
                    "minAvailable": 1,
                    "resources": {"limits": {"gpu": "1"}},
                    "extraPodSpec": main,
                },
            },
        },
    }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, kubectl_program: Path) -> Iterator[Spinney]:
    with spinney(tmp_path_factory.mktemp("up"), kubectl=kubectl_program) as started:
        yield started.ready()


Apply = Callable[..., str]


@pytest.fixture
def apply(running: Spinney) -> Apply:
    def run(obj: dict[str, Any], *arguments: str) -> str:
        return running.kubectl("apply", "-f", "-", *arguments, input=json.dumps(obj))

    return run


def components(obj: dict[str, Any]) -> dict[str, int]:
    return {one["name"]: one["replicas"] for one in obj["spec"]["components"]}


def test_the_old_version_is_stored_as_the_new_one_and_read_back_as_it_was(running: Spinney, apply: Apply) -> None:
    apply(alpha("there"))
    new = running.get(BETA, "there")
    assert new["apiVersion"] == "nvidia.com/v1beta1"
    assert components(new) == {"Frontend": 1, "Worker": 2}
    limits = new["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": "1"}
    old = running.get(ALPHA, "there")
    assert (old["apiVersion"], old["spec"]) == ("nvidia.com/v1alpha1", alpha("there")["spec"])
    assert old["metadata"]["uid"] == new["metadata"]["uid"]


def test_the_new_version_is_readable_as_the_old_one(running: Spinney, apply: Apply) -> None:
    apply(alpha("back"))
    stored = running.get(BETA, "back")
    fresh = {key: stored[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": "fresh"}}
    apply(fresh)
    assert running.get(ALPHA, "fresh")["spec"] == alpha("x")["spec"]


def test_applying_the_old_version_again_changes_nothing_and_then_something(running: Spinney, apply: Apply) -> None:
    assert "created" in apply(alpha("again"))
    assert "unchanged" in apply(alpha("again"))
    assert "configured" in apply(alpha("again", 3))
    assert components(running.get(BETA, "again")) == {"Frontend": 1, "Worker": 3}


def test_server_side_apply_owns_fields_in_the_version_it_was_given(running: Spinney, apply: Apply) -> None:
    apply(alpha("owned"), "--server-side", "--field-manager=a")
    apply(alpha("owned", 4), "--server-side", "--field-manager=a")
    assert components(running.get(BETA, "owned"))["Worker"] == 4
    owners = running.get(BETA, "owned", "--show-managed-fields")["metadata"]["managedFields"]
    users = [(one["manager"], one["apiVersion"]) for one in owners if one["manager"] != "dynamo-operator"]
    assert users == [("a", "nvidia.com/v1alpha1")]


def test_lists_tables_and_watches_speak_the_version_asked_for(running: Spinney, apply: Apply) -> None:
    apply(alpha("listed"))
    running.kubectl("wait", ALPHA, "listed", "--for=condition=Ready", "--timeout=150s")
    assert {one["apiVersion"] for one in running.get(ALPHA)["items"]} == {"nvidia.com/v1alpha1"}
    assert {one["apiVersion"] for one in running.get(BETA)["items"]} == {"nvidia.com/v1beta1"}
    assert "vllm" in running.kubectl("get", ALPHA, "listed")
    path = "/apis/nvidia.com/v1alpha1/namespaces/default/dynamographdeployments"
    _, raw = running.http("GET", f"{path}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dlisted")
    event = raw if isinstance(raw, dict) else json.loads(raw.splitlines()[0])
    assert (event["type"], event["object"]["apiVersion"]) == ("ADDED", "nvidia.com/v1alpha1")


def test_the_old_version_is_checked_by_its_own_schema(running: Spinney) -> None:
    bad = alpha("bad")
    bad["spec"]["backendFramework"] = "abacus"
    path = "/apis/nvidia.com/v1alpha1/namespaces/default/dynamographdeployments"
    status, answer = running.http("POST", path, bad)
    assert (status, answer["reason"]) == (422, "Invalid")
    assert "spec.backendFramework" in answer["message"]


def test_custom_objects_are_deleted_by_kubectl(running: Spinney, apply: Apply) -> None:
    apply(alpha("short-lived"))
    assert "deleted" in running.kubectl("delete", ALPHA, "short-lived")
    assert "short-lived" not in running.kubectl("get", BETA, "--ignore-not-found")
