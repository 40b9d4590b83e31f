"""Commands go by ClusterTopologyBindings as by ClusterTopologies (T8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from spinney.api.kinds.clustertopology import ClusterTopologyBinding
from spinney.api.labels import HOSTNAME
from spinney.cli.main import cli
from spinney.core.view.lint import lint
from unit.cli.canned_cluster import run_on
from unit.cli.topology_golden import run
from unit.operator.test_topology_bindings import binding
from unit.view.clusters import BLOCK, RACK, hall, kai_topology

LEVELS = {"block": BLOCK, "rack": RACK, "host": HOSTNAME}
NODES = f"""
levels:
- {{name: block, label: {BLOCK}, count: 2}}
- {{name: rack, label: {RACK}, count: 2}}
- {{name: host, count: 2}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}
"""


def node(name: str, block: str, rack: str) -> dict[str, Any]:
    labels = {BLOCK: block, RACK: rack, HOSTNAME: name}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}


def written(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    return str(path)


def test_t8_show_draws_the_tree_of_a_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"nodes": [node("x", "b0", "r0")], "clustertopologybindings": [binding("bound", LEVELS)]}
    found = run_on(monkeypatch, cluster, "topology", "show", "bound", "-o", "yaml")
    assert found.exit_code == 0, found.output
    (shown,) = yaml.safe_load(found.output)
    assert (shown["topology"], shown["kinds"]) == ("bound", ["ClusterTopologyBinding"])
    assert [level["domain"] for level in shown["levels"]] == ["block", "rack", "host"]


def test_t8_lint_reads_bindings_of_files(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(NODES, encoding="utf-8")
    made = written(tmp_path / "binding.yaml", binding("bound", {**LEVELS, "zone": "example.com/none"}))
    found = run("lint", "--nodes", str(tmp_path / "nodes.yaml"), "-f", made)
    assert found.exit_code == 1
    assert "bound" in found.output


def test_t8_lint_compares_a_bound_topology_and_no_other() -> None:

    bound = msgspec.convert(binding("a", LEVELS, kai_scheduler="theirs"), ClusterTopologyBinding, strict=False)
    assert lint(hall(), [bound], [kai_topology("theirs", BLOCK, RACK, HOSTNAME)]).problems == ()
    (drift,) = [each for each in lint(hall(), [bound], [kai_topology("theirs", RACK)]).problems if each.code == "drift"]
    assert drift.text == "KAI Topology levels differ from ClusterTopologyBinding levels"


def test_t8_plan_goes_by_a_binding_that_is_planned_with(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(NODES, encoding="utf-8")
    resources = {"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8"}}
    spec = {"containers": [{"name": "main", "image": "serve", "resources": resources}]}
    cliques = [{"name": "w", "spec": {"roleName": "w", "replicas": 2, "minAvailable": 2, "podSpec": spec}}]
    template = {"clusterTopologyName": "bound", "topologyConstraint": {"packDomain": "rack"}, "cliques": cliques}
    workload = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"replicas": 1, "template": template},
    }
    made = written(tmp_path / "all.yaml", binding("bound", LEVELS), workload)
    found = CliRunner().invoke(cli, ["plan", "--nodes", str(tmp_path / "nodes.yaml"), "-f", made, "-o", "json"])
    assert found.exit_code == 0, found.output
    (workload,) = json.loads(found.output)["workloads"]
    (gang,) = workload["gangs"]
    assert (gang["verdict"], gang["topology"], gang["groups"][0]["required"]) == ("fits", "bound", RACK)
    assert {tuple(pod["domain"][:2]) for pod in gang["pods"]} == {("b0", "b0-r0")}
