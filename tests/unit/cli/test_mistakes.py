"""A workload whose mistake keeps it from becoming a gang is in the list of gangs, and can be explained by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from spinney.cli import options
from spinney.cli.commands import explain as explain_command
from spinney.cli.main import cli
from spinney.drive.client.config import kubeconfig
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


@pytest.mark.parametrize(
    "words",
    [
        ("job/train", "-n", "ns"),
        ("jobs.batch/train", "-n", "ns"),
        ("train", "-n", "ns"),
        ("train", "--kind", "Job", "-n", "ns"),
        ("job/train",),
        ("train",),
    ],
    ids=" ".join,
)
def test_c8_a_workload_is_named_as_kubectl_names_objects(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Without -n the namespace is that of the context."""
    monkeypatch.setattr(options, "namespace_of_context", lambda *_: "ns")
    monkeypatch.setattr(explain_command, "namespace_of_context", lambda *_: "ns")
    found = run_on(monkeypatch, CLUSTER, "explain", *words)
    assert found.exit_code == 0, found.output
    assert found.output.startswith("Job ns/train waits")


def test_c8_a_name_of_two_kinds_and_a_kind_that_is_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_on(monkeypatch, CLUSTER, "explain", "pod/train", "--kind", "Job", "-n", "ns")
    assert (found.exit_code, "name two kinds" in found.stderr) == (2, True)
    assert run_on(monkeypatch, CLUSTER, "explain", "deployment/train", "-n", "ns").exit_code == 1


@pytest.mark.parametrize("words", [("gangs",), ("explain", "ns/train"), ("topology", "usage"), ("consolidate",)])
def test_c8_a_context_is_chosen_as_with_kubectl(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    asked: list[object] = []
    run_on(monkeypatch, CLUSTER, "gangs")
    monkeypatch.setattr(kubeconfig, "find_connection", lambda *_, **named: asked.append(named.get("context")))
    CliRunner().invoke(cli, [*words, "--context", "other"])
    CliRunner().invoke(cli, [*words])
    assert asked == ["other", None]


def test_k10_moves_for_a_gang_that_is_not_there_are_refused_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_on(monkeypatch, {"podgroups": [], "pods": [], "nodes": []}, "consolidate", "ns/nope")
    assert (found.exit_code, found.stderr) == (1, "spinney consolidate: there is no PodGroup ns/nope\n")


def test_k2_a_pod_whose_mistake_is_mended_is_no_mistake_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = mistaken("train-0")
    bound["spec"]["nodeName"] = "n0"
    ending = mistaken("train-1") | {"status": {"phase": "Failed", **mistaken("train-1")["status"]}}
    grouped = mistaken("train-2")
    grouped["metadata"]["annotations"] = {"pod-group-name": "pg"}
    found = run_on(monkeypatch, {"podgroups": [], "pods": [bound, ending, grouped]}, "gangs", "-o", "json")
    assert json.loads(found.stdout) == []
