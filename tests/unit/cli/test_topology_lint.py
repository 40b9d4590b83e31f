"""`spinney topology lint`: problems with nodes named and a hint each; the exit status says whether there are any"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml

from spinney.cli.options import Screen
from spinney.cli.render.topology_report import problems_shown
from spinney.cli.topology_sources import Needs, Sources, find
from spinney.core.view.lint import lint
from spinney.whatif.inputs.manifests import ManifestError
from unit.cli.topology_cluster import busy
from unit.cli.topology_golden import EXAMPLES, check, run
from unit.view.clusters import cluster_topology, labelled

NODES, TOPOLOGIES = EXAMPLES / "nodes", EXAMPLES / "topologies"
TROUBLED = """\
apiVersion: v1
kind: Node
metadata: {name: h100-spare, labels: {h100.example.com/block: h100-b0}}
status: {capacity: {nvidia.com/gpu: 8}}
---
apiVersion: v1
kind: Node
metadata: {name: h100-moved, labels: {h100.example.com/block: h100-b1, h100.example.com/rack: h100-b0-r0}}
status: {capacity: {nvidia.com/gpu: 8}}
---
apiVersion: v1
kind: Node
metadata: {name: lost}
status: {capacity: {nvidia.com/gpu: 8}}
---
"""


@pytest.fixture
def troubled(tmp_path: Path) -> str:
    path = tmp_path / "nodes.yaml"
    path.write_text(TROUBLED + (NODES / "two-halls.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    return str(path)


def test_b2_a_clean_cluster_is_status_0() -> None:
    done = run("lint", "--nodes", str(NODES / "two-halls.yaml"), "-f", str(TOPOLOGIES))
    assert done.exit_code == 0
    check("lint-clean.txt", done.output)


@pytest.mark.parametrize(("columns", "name"), [(0, "lint.txt"), (140, "lint-wide.txt")])
def test_b2_problems_are_status_1(troubled: str, columns: int, name: str) -> None:
    done = run("lint", "--nodes", troubled, "-f", str(TOPOLOGIES), columns=columns)
    assert done.exit_code == 1
    check(name, done.output)


def test_b2_for_programs(troubled: str) -> None:
    done = run("lint", "--nodes", troubled, "-f", str(TOPOLOGIES), "-o", "json")
    assert done.exit_code == 1
    check("lint.json", done.output)
    found = json.loads(done.output)
    assert {problem["code"] for problem in found["problems"]} == {"missing-key", "not-nested", "outside"}
    told = run("lint", "--nodes", troubled, "-f", str(TOPOLOGIES), "-o", "yaml").output
    assert yaml.safe_load(told) == found


def test_b2_notes_alone_are_status_0(tmp_path: Path) -> None:
    nodes = [one for one in yaml.safe_load_all(busy()) if one["metadata"]["name"] != "control-plane"]
    plain = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cpu"}, "status": {"allocatable": {"cpu": "4"}}}
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([*nodes, plain]))
    done = run("lint", "-f", str(path))
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "1 topology: 1 note")


def test_b2_long_keys_do_not_widen_the_table() -> None:
    key = f"a-very-long-prefix.of-a-vendor.example.com/{'rack' * 5}"
    nodes = [labelled(f"n{at}", {key: f"r{at // 2}"}) for at in range(4)]
    found = lint(nodes, [cluster_topology("t", datacenter=key, host="kubernetes.io/hostname")], None)
    assert max(map(len, problems_shown(found, (), Screen()).splitlines())) <= 80


WRONG: dict[str, tuple[str, str]] = {
    "no such file": ("", "cannot be read"),
    "no YAML": ("{", "not YAML"),
    "binary": ("\x00\x01\x02", "not YAML"),
    "empty": ("", "found no nodes"),
    "a list": ("[1, 2]", "allowed: a mapping"),
    "another kind": ("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "kind"),
    "labels that are none": ("{apiVersion: v1, kind: Node, metadata: {name: a, labels: {x: 1}}}", "labels"),
}


@pytest.mark.parametrize("case", list(WRONG))
@pytest.mark.parametrize("command", ["lint", "show", "discover"])
def test_a_nodes_file_that_cannot_be_used_is_one_line_and_status_2(tmp_path: Path, command: str, case: str) -> None:
    text, words = WRONG[case]
    path = tmp_path / "nodes.yaml"
    if case != "no such file":
        path.write_text(text, encoding="utf-8")
    done = run(command, "--nodes", str(path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"spinney topology {command}: ")
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not YAML"),
        ("kind: [", "not YAML"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "found no ClusterTopology, Topology or Node"),
        ("{apiVersion: grove.io/v1alpha1, kind: ClusterTopology, metadata: {name: a}}", "spec"),
        ("{apiVersion: grove.io/v1alpha1, kind: ClusterTopology, metadata: {name: a}, spec: {levels: 3}}", "levels"),
    ],
)
@pytest.mark.parametrize("command", ["lint", "show"])
def test_a_topology_file_that_cannot_be_used_is_one_line_and_status_2(
    tmp_path: Path, command: str, text: str, words: str
) -> None:
    path = tmp_path / "topology.yaml"
    path.write_text(text, encoding="utf-8")
    done = run(command, "-f", str(path))
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert words in done.stderr


@pytest.mark.parametrize("command", ["lint", "show", "discover"])
def test_a_directory_as_nodes_file_is_one_line_and_status_2(tmp_path: Path, command: str) -> None:
    done = run(command, "--nodes", str(tmp_path))
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize("command", ["lint", "show", "discover"])
def test_a_server_that_does_not_answer_is_one_line_and_status_2(tmp_path: Path, command: str) -> None:
    path = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
    path.write_text(yaml.safe_dump({**config, "users": [{"name": "u", "user": {}}], "current-context": "c"}))
    done = run(command, "--kubeconfig", str(path))
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("command", ["lint", "show", "discover"])
def test_nodes_are_described_or_a_clusters(command: str) -> None:
    done = run(command, "--nodes", "a", "--kubeconfig", "b")
    assert (done.exit_code, "exclude each other" in done.stderr) == (2, True)


def test_standard_input_that_is_no_text_is_one_line_and_status_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: \xff")))
    with pytest.raises(ManifestError, match="standard input: is not UTF-8 text"):
        find("topology lint", Sources(nodes_file=Path("-")), Needs())


def test_nodes_may_come_from_standard_input() -> None:
    text = (NODES / "two-halls.yaml").read_text(encoding="utf-8")
    assert run("lint", "--nodes", "-", "-f", str(TOPOLOGIES), stdin=text).exit_code == 0


@pytest.mark.parametrize("command", ["usage", "show", "lint", "discover"])
def test_help_has_examples_and_exit_statuses(command: str) -> None:
    text = run(command, "--help").output
    assert "Examples:" in text
    assert "Exit status: 0" in text
