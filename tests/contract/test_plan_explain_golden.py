"""`spinney explain` as people see it in a pipe, on servers of both kinds; what goes wrong is one sentence (K15)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from cluster_kit.server import Server
from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from contract.plan_stages import account
from spinney.cli.main import cli
from stack_kit.bare import bare_server

Json = dict[str, Any]
GOLDEN = Path(__file__).parents[1] / "golden" / "cli" / "explain"
GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
LINES = [
    "topology net, requirement example.com/rack couldn't be satisfied for job default/graph-0.",
    "The gang needs 3 pods in one example.com/rack; the best of 2, b0/r0, holds 2, short of 8 nvidia.com/gpu.",
    "It would fit in one example.com/block or with 2 pods.",
]
TOLD = {
    "version": 1,
    "state": "Unschedulable",
    "lines": LINES,
    "reason": LINES[1],
    "level": "example.com/rack",
    "considered": 2,
    "best": [{"path": ["b0", "r0"], "holds": 2, "of": 3, "short": {"nvidia.com/gpu": 8}}],
    "blocked": {"insufficient nvidia.com/gpu": 1},
    "fitsIf": [{"level": "example.com/block"}, {"count": 2}],
}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with bare_server(request.param, tmp_path_factory.mktemp("explain")) as found:
        space = Space(found, "default")
        space.create(GROUPS, podgroup("graph-0", {"spinney.dev/explanation": json.dumps(TOLD)})).ok(201)
        space.create(GROUPS, podgroup("graph-1", {"spinney.dev/placement-score": "1.0000"})).ok(201)
        for number in range(3):
            space.create("pods", pod(f"graph-0-{number}", "graph-0", "")).ok(201)
        space.create("pods", pod("graph-1-0", "graph-1", "n0")).ok(201)
        yield found


def podgroup(name: str, notes: dict[str, str]) -> Json:
    labels = {"nvidia.com/dynamo-graph-deployment-name": "graph"}
    kind = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
    metadata = {"name": name, "labels": labels, "annotations": notes}
    return {**kind, "metadata": metadata, "spec": {"minMember": 1, "queue": "default-queue"}}


def pod(name: str, group: str, node: str) -> Json:
    spec = {"containers": [{"name": "main", "image": "work"}], **({"nodeName": node} if node else {})}
    metadata = {"name": name, "annotations": {"pod-group-name": group}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def explain(kubeconfig: Path, *arguments: str) -> Result:
    env = {"COLUMNS": None, "NO_COLOR": None}
    return CliRunner().invoke(cli, ["explain", *arguments, "--kubeconfig", str(kubeconfig)], env=env)


def check(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("SPINNEY_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_k15_a_deployment_is_explained_by_its_gangs(server: Server) -> None:
    found = explain(server.kubeconfig, "default/graph")
    assert (found.exit_code, found.stderr) == (0, "")
    assert max(map(len, found.stdout.splitlines())) <= 80
    check("deployment.txt", found.stdout)
    assert explain(server.kubeconfig, "default/graph", "--kind", "dgd").stdout == found.stdout


def test_k15_programs_get_the_same_as_json_and_yaml(server: Server) -> None:
    found = [explain(server.kubeconfig, "default/graph", "-o", output).stdout for output in ("json", "yaml")]
    check("deployment.json", found[0])
    assert json.loads(found[0]) == yaml.safe_load(found[1])


def test_nobody_of_that_name_is_exit_status_1(server: Server) -> None:
    found = explain(server.kubeconfig, "default/nobody")
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr == "spinney explain: there is no workload or pod default/nobody\n"


def test_missing_rights_are_one_sentence_and_exit_status_2(server: Server, tmp_path: Path) -> None:
    found = explain(account(server, "stranger", [], tmp_path), "default/graph")
    assert (found.exit_code, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert "403" in found.stderr
