"""A workload whose mistake keeps it from becoming a gang is in the list of gangs, and can be explained by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unit.cli.canned_cluster import run_on

Json = dict[str, Any]
WHY = 'Job ns/train: metadata.annotations[kai.scheduler/topology]: found "nett", expected the name of a Topology'


def mistaken(name: str, owner: str = "train", namespace: str = "ns") -> Json:
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": "u", "controller": True}
    metadata = {"name": name, "namespace": namespace, "ownerReferences": [reference]}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    said = {"type": "PodScheduled", "status": "False", "reason": "PodGrouperWarning", "message": WHY}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"conditions": [said]}}


CLUSTER = {"podgroups": [], "pods": [mistaken("train-0"), mistaken("train-1"), mistaken("other-0", "other", "else")]}


def test_k2_a_workload_that_is_no_gang_by_mistake_is_in_the_list_of_gangs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(run_on(monkeypatch, CLUSTER, "gangs", "-o", "json").stdout)
    assert [(one["namespace"], one["name"], one["state"], one["pods"]) for one in found] == [
        ("else", "other", "Mistake", 1),
        ("ns", "train", "Mistake", 2),
    ]
    assert found[1] | {"workload": "Job train", "waits": True, "reason": WHY} == found[1]


@pytest.mark.parametrize("name", ["ns/train", "ns/train-1"])
def test_k2_explain_says_the_mistake_by_the_name_of_the_workload_and_of_its_pods(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found = run_on(monkeypatch, CLUSTER, "explain", name, "-o", "json")
    assert found.exit_code == 0, found.output
    [gang] = json.loads(found.stdout)["gangs"]
    assert (gang["waits"], gang["lines"]) == (True, [WHY])


def test_k2_a_pod_whose_mistake_is_mended_is_no_mistake_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = mistaken("train-0")
    bound["spec"]["nodeName"] = "n0"
    ending = mistaken("train-1") | {"status": {"phase": "Failed", **mistaken("train-1")["status"]}}
    grouped = mistaken("train-2")
    grouped["metadata"]["annotations"] = {"pod-group-name": "pg"}
    found = run_on(monkeypatch, {"podgroups": [], "pods": [bound, ending, grouped]}, "gangs", "-o", "json")
    assert json.loads(found.stdout) == []
