"""`spinney gangs`: the list of gangs, those that wait first; and commands that are almost right."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from click.testing import CliRunner

from spinney.cli.commands import gangs as command
from spinney.cli.main import cli
from spinney.cli.render.gangs import table
from spinney.core.view.gang_list import SORTABLE, GangRow, age
from unit.cli.canned_cluster import run_on

Json = dict[str, Any]
NOW_S = 1_767_225_600.0 + 7200
CREATED = "2026-01-01T00:00:00Z"
TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "net"},
    "spec": {"levels": [{"nodeLabel": "example.com/rack"}]},
}


def group(name: str, namespace: str = "ns", message: str = "") -> Json:
    said = [{"type": "UnschedulableOnNodePool", "status": "True", "message": message, "transitionID": "1"}]
    constraint = {"topology": "net", "requiredTopologyLevel": "example.com/rack"}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": CREATED},
        "spec": {"queue": "research", "topologyConstraint": constraint},
        "status": {"schedulingConditions": said} if message else {},
    }


def pod(name: str, of: str, node: str = "", made: str = "2026-01-01T01:00:00Z", namespace: str = "ns") -> Json:
    metadata = {"name": name, "namespace": namespace, "annotations": {"pod-group-name": of}, "creationTimestamp": made}
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def cluster() -> dict[str, list[Json]]:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", "labels": {"example.com/rack": "r7"}}}
    return {
        "podgroups": [group("a"), group("b", message="too large"), group("c", "other", message="no quota")],
        "pods": [
            pod("a-0", "a", "n0"),
            pod("b-0", "b"),
            pod("b-1", "b", made="2026-01-01T00:30:00Z"),
            pod("c-0", "c", made=CREATED, namespace="other"),
            pod("alone", ""),
        ],
        "nodes": [node],
        "topologies": [TOPOLOGY],
    }


@pytest.fixture(autouse=True)
def a_fixed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW_S)
    monkeypatch.delenv("COLUMNS", raising=False)


def test_gangs_that_wait_come_first_with_their_reason_and_the_oldest_pod_without_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = run_on(monkeypatch, cluster(), "gangs")
    assert found.exit_code == 0, found.output
    assert [line.split() for line in found.output.splitlines()] == [
        ["NAMESPACE", "NAME", "STATE", "PODS", "QUEUE", "DOMAIN", "SCORE", "WAITING", "REASON"],
        ["ns", "b", "Unschedulable", "0/2", "research", "-", "-", "1h", "too", "large"],
        ["other", "c", "Unschedulable", "0/1", "research", "-", "-", "2h", "no", "quota"],
        ["ns", "a", "Scheduled", "1/1", "research", "r7", "-", "-", "-"],
    ]


def test_a_namespace_restricts_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(run_on(monkeypatch, cluster(), "gangs", "-n", "other", "-o", "json").stdout)
    assert [(one["namespace"], one["name"], one["waits"], one["reason"]) for one in found] == [
        ("other", "c", True, "no quota")
    ]
    assert (found[0]["bound"], found[0]["pods"], found[0]["waitsSince"]) == (0, 1, CREATED)


def test_k15_the_list_says_what_would_never_fit_and_not_what_upstream_says_of_the_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [
        "The gang may use none of the 2 nodes that are large enough for a pod: 2 not ready.",
        "It would fit with 1 pod.",
    ]
    told = {"version": 1, "state": "Unschedulable", "reason": "the gang may" + lines[0][12:-1]}
    waiting = group("g")
    upstream = "Resources were not found for pod ns/g-0 due to: 2 nodes. \n3 others"
    waiting["metadata"]["annotations"] = {"spinney.dev/explanation": json.dumps(told | {"lines": [*lines, upstream]})}
    there = {"podgroups": [waiting], "pods": [pod("g-0", "g")], "nodes": [], "topologies": [TOPOLOGY]}
    [found] = json.loads(run_on(monkeypatch, there, "gangs", "-o", "json").stdout)
    assert found["reason"] == " ".join(lines)


def test_k15_a_score_below_one_stands_beside_the_best_that_empty_nodes_would_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three pods of which a rack holds two, and two pods in two racks that one rack would hold."""
    racks = {"n0": "r0", "n1": "r0", "n2": "r1"}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"example.com/rack": rack}},
            "status": {"allocatable": {"pods": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for name, rack in racks.items()
    ]
    groups = [group("three"), group("two")]
    for each in groups:
        each["metadata"]["annotations"] = {"spinney.dev/placement-score": "0.2500"}
        each["spec"]["topologyConstraint"] = {"topology": "net", "preferredTopologyLevel": "example.com/rack"}
    pods = [
        *(pod(f"three-{at}", "three", f"n{at}") for at in range(3)),
        pod("two-0", "two", "n0"),
        pod("two-1", "two", "n2"),
    ]
    there = {"podgroups": groups, "pods": pods, "nodes": nodes, "topologies": [TOPOLOGY]}
    rows = run_on(monkeypatch, there, "gangs", "--sort-by", "name").output.splitlines()[1:]
    assert [row.split()[6] for row in rows] == ["0.25/0.25", "0.25"]
    assert "score 0.25 of at most 0.25" in run_on(monkeypatch, there, "explain", "ns/three").output
    assert "at most" not in run_on(monkeypatch, there, "explain", "ns/two").output
    told = json.loads(run_on(monkeypatch, there, "gangs", "-o", "json").stdout)
    assert {one["name"]: one.get("bestScore") for one in told} == {"three": 0.25, "two": 1.0}


def test_an_empty_cluster_has_no_gangs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_on(monkeypatch, {"podgroups": [], "pods": []}, "gangs").output == "no gangs\n"


def row(name: str, **more: Any) -> GangRow:
    given: Json = {
        "namespace": "ns",
        "name": name,
        "state": "Scheduled",
        "waits": False,
        "reason": "",
        "queue": "",
        "topology": "",
        "workload": "",
        "bound": 1,
        "pods": 1,
        "score": None,
        "level": "",
        "domain": (),
        "created": CREATED,
    }
    return GangRow(**{**given, **more})


ROWS = (
    row("a", score=0.9, pods=1, queue="z", domain=("b1",)),
    row("b", score=0.5, pods=9, queue="y", domain=("b0",)),
    row("c", state="Unschedulable", waits=True, queue="x", waits_since="2026-01-01T01:00:00Z"),
    row("d", state="Unschedulable", waits=True, queue="w", waits_since="2026-01-01T00:30:00Z"),
)


@pytest.mark.parametrize(
    ("sort_by", "names"),
    [
        ("urgency", "cdab"),
        ("name", "abcd"),
        ("state", "abcd"),
        ("pods", "bcda"),
        ("queue", "dcba"),
        ("domain", "cdba"),
        ("score", "bacd"),
        ("waiting", "dcab"),
    ],
)
def test_every_order(sort_by: str, names: str) -> None:
    lines = table(ROWS, sort_by, now_s=NOW_S).splitlines()[1:]
    assert "".join(line.split()[1] for line in lines) == names


def test_every_order_that_is_offered_is_there() -> None:
    assert set(command.SORTS) == set(SORTABLE)


def test_only_the_reason_is_cut_to_a_terminal() -> None:
    rows = [row("a" * 40, waits=True, reason="word " * 40)]
    lines = table(rows, "name", now_s=NOW_S, width=140).splitlines()
    assert max(map(len, lines)) <= 140
    assert "a" * 40 in lines[1]
    assert lines[1].endswith("..")
    assert table(rows, "name", now_s=NOW_S).splitlines()[1].count("word") == 40


def test_a_terminal_does_not_obey_names() -> None:
    assert "\x1b" not in table([row("a", reason="\x1b[2J", queue="\x1b]0;")], "name", now_s=NOW_S)


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        ("2026-01-01T01:59:15Z", "45s"),
        ("2026-01-01T01:48:00Z", "12m"),
        ("2026-01-01T00:00:00Z", "2h"),
        ("2025-12-30T00:00:00Z", "2d"),
        ("2026-01-01T09:00:00Z", "0s"),
        ("", "-"),
        ("yesterday", "-"),
    ],
)
def test_ages_are_those_of_kubectl(since: str, shown: str) -> None:
    assert age(since, NOW_S) == shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gangs", "-n", "a", "-A"], "-n and -A exclude each other"),
        (["gangs", "-w", "-o", "json"], "-w goes with -o table only"),
        (["gangs", "--sort-by", "age"], "Invalid value for '--sort-by'"),
    ],
)
def test_what_cannot_be_asked_is_said(arguments: list[str], words: str) -> None:
    found = CliRunner().invoke(cli, arguments)
    assert found.exit_code == 2
    assert words in found.output


def test_watching_prints_what_changed_until_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = iter(["one\n", "one\n", "two\n"])

    def read() -> str:
        try:
            return next(texts)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(time, "sleep", lambda _: None)
    command.follow(read)
    assert capsys.readouterr().out == "one\n\ntwo\n"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(["gnags"], "gangs"), (["explian"], "explain"), (["topology", "shwo"], "show"), (["run", "operater"], "operator")],
)
def test_a_command_that_is_almost_right_is_named(arguments: list[str], meant: str) -> None:
    found = CliRunner().invoke(cli, arguments)
    assert found.exit_code == 2
    assert f"No such command '{arguments[-1]}'. Did you mean '{meant}'?" in found.output


def test_a_command_that_is_nothing_like_any_is_only_refused() -> None:
    found = CliRunner().invoke(cli, ["zzzz"])
    assert (found.exit_code, "Did you mean" in found.output) == (2, False)
