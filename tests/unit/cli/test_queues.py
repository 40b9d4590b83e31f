"""`spinney queues`: the tree of queues with what each is promised, should have, holds and asks for."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml

from unit.cli.canned_cluster import run_on

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def queue(name: str, parent: str = "", status: Json | None = None, **gpu: float) -> Json:
    shares = {
        "gpu": {"quota": 0, "limit": -1, **gpu},
        "cpu": {"quota": -1, "limit": 64000},
        "memory": {"quota": 500000},
    }
    spec = {"parentQueue": parent, "resources": shares}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
        "status": status or {},
    }


def cluster() -> dict[str, list[Json]]:
    told = {
        "allocated": {GPU: "24", "cpu": "1500m", "memory": "64G"},
        "asked": {GPU: "32", "cpu": "2", "memory": "64G"},
        "fairShare": {GPU: "20", "cpu": "2", "memory": "64G"},
        "borrowed": {GPU: "8", "cpu": "0", "memory": "0"},
    }
    research = queue("research", "root", told, quota=16, overQuotaWeight=1.5)
    research["spec"]["priority"] = 200
    return {
        "queues": [
            queue("team10", "root", limit=8),
            queue("team2", "root"),
            research,
            queue("root", quota=-1),
            queue("below", "research"),
            queue("lost", "nobody"),
        ]
    }


def test_q8_queues_are_listed_as_a_tree_with_their_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_on(monkeypatch, cluster(), "queues")
    assert found.exit_code == 0, found.output
    lines = found.output.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["NAME", "PARENT", "PRIORITY", "WEIGHT", "RESOURCE", "QUOTA", "LIMIT", "SHARE", "USED", "ASKED", "BORROWED"],
        ["root", "-", "100", "0", "GPUs", "all", "-", "0", "0", "0", "0"],
        ["research", "root", "200", "1.5", "GPUs", "16", "-", "20", "24", "32", "8"],
        ["below", "research", "100", "0", "GPUs", "0", "-", "0", "0", "0", "0"],
    ]
    assert [line.split(" PARENT")[0][:10].rstrip() for line in lines[1:]] == [
        "root",
        "  research",
        "    below",
        "  team2",
        "  team10",
        "lost",
    ]
    assert lines[5].split()[6] == "8"


def test_q8_wide_has_cores_and_memory_and_a_name_restricts_to_those_below(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_on(monkeypatch, cluster(), "queues", "research", "-o", "wide")
    assert [line.split() for line in found.output.splitlines()[2:4]] == [
        ["research", "root", "200", "0", "cores", "all", "64", "2", "1.5", "2", "0"],
        ["research", "root", "200", "0", "GB", "500", "0", "64", "64", "64", "0"],
    ]
    assert {line.split()[0] for line in found.output.splitlines()[1:]} == {"research", "below"}
    missing = run_on(monkeypatch, cluster(), "queues", "reserch")
    assert (missing.exit_code, missing.output) == (
        2,
        "spinney queues: Queue reserch does not exist: did you mean research?\n",
    )


def test_q8_programs_get_figures_in_units_that_do_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(run_on(monkeypatch, cluster(), "queues", "-o", "json").stdout)
    assert yaml.safe_load(run_on(monkeypatch, cluster(), "queues", "-o", "yaml").stdout) == found
    research = found[1]
    assert (research["name"], research["parent"], research["priority"]) == ("research", "root", 200)
    assert research["resources"]["gpu"] == {
        "quota": 16,
        "limit": -1,
        "overQuotaWeight": 1.5,
        "fairShare": 20,
        "used": 24,
        "asked": 32,
        "borrowed": 8,
    }
    assert research["resources"]["cpu"]["used"] == 1.5
    assert research["resources"]["memory"] == {
        "quota": 500 * 10**9,
        "limit": 0,
        "overQuotaWeight": 0.0,
        "fairShare": 64 * 10**9,
        "used": 64 * 10**9,
        "asked": 64 * 10**9,
        "borrowed": 0,
    }


def test_q8_without_shares_the_list_says_so_and_shows_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with upstream's CRD."""
    there = {"queues": [queue("a", status={"allocated": {GPU: "8"}}), queue("b")]}
    found = run_on(monkeypatch, there, "queues")
    assert found.stdout.splitlines()[1].split() == ["a", "-", "100", "0", "GPUs", "0", "-", "?", "8", "?", "?"]
    assert "no scheduler has written shares" in found.stderr
    assert json.loads(run_on(monkeypatch, there, "queues", "-o", "json").stdout)[0]["resources"]["gpu"]["asked"] is None


def test_q8_a_circle_of_parents_and_no_queues_at_all_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_on(monkeypatch, {"queues": []}, "queues").output == "no queues\n"
    circle = {"queues": [queue("a", "b"), queue("b", "a")]}
    assert [line.split()[0] for line in run_on(monkeypatch, circle, "queues").output.splitlines()[1:]] == ["a", "b"]


def test_q8_watching_prints_tables_only(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run_on(monkeypatch, cluster(), "queues", "-w", "-o", "json")
    assert (refused.exit_code, "-w goes with" in refused.output) == (2, True)

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", stop)
    assert run_on(monkeypatch, cluster(), "queues", "-w").output.count("research") == 2


def waiting(queue: str) -> dict[str, list[Json]]:
    said = [{"type": "UnschedulableOnNodePool", "status": "True", "message": "no room", "transitionID": "1"}]
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"queue": queue},
        "status": {"schedulingConditions": said},
    }
    metadata = {"name": "g-0", "namespace": "ns", "annotations": {"pod-group-name": "g"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}]}}
    return {"podgroups": [group], "pods": [pod]}


def test_q8_a_gang_that_waits_is_explained_with_its_queues_as_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    there = cluster() | waiting("below")
    lines = run_on(monkeypatch, there, "explain", "ns/g").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  QUEUE"))
    assert [line.rstrip() for line in lines[at + 2 : at + 5]] == [
        "    research   [############==|===......]   24     20      16      32      -",
        "      below    [                        ]   0      0       0       0       -",
        "  # used, = of it borrowed, . asked for, | fair share",
    ]
    found = json.loads(run_on(monkeypatch, there, "explain", "ns/g", "-o", "json").stdout)
    assert [each["name"] for each in found["queues"]] == ["root", "research", "below"]


def test_q8_queues_that_bound_nothing_or_may_not_be_read_are_left_out_of_an_explanation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = queue("free", quota=-1)
    for resource in free["spec"]["resources"].values():
        resource.update(quota=-1, limit=-1)
    for there in (waiting("free") | {"queues": [free]}, waiting("free") | {"queues": []}):
        found = run_on(monkeypatch, there, "explain", "ns/g")
        assert (found.exit_code, "QUEUE" in found.stdout) == (0, False)
