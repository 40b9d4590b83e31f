"""`spinney topology usage` prints what the documented kubectl pipeline prints, and needs no more rights"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cluster_kit.admission import SETS, install, workload
from cluster_kit.server import Server
from cluster_kit.space import Space
from spinney.cli.main import cli

PIPELINE = """
  .items[]
  | {
      name: .metadata.name,
      namespace: .metadata.namespace,
      topology: (.spec.template.clusterTopologyName // "grove-topology (default)")
    }
  | [.topology, .namespace + "/" + .name]
  | @tsv
"""
CLIQUE = {"name": "a", "spec": {"roleName": "a", "replicas": 1, "podSpec": {"containers": [{"name": "c"}]}}}
RACK = {"topologyConstraint": {"packDomain": "rack"}}
SETS_HERE: dict[str, dict[str, Any]] = {
    "implicit": RACK,
    "free": {},
    "first": {**RACK, "clusterTopologyName": "gb200-topology"},
    "second": {**RACK, "clusterTopologyName": "h100"},
    "a-third": {**RACK, "clusterTopologyName": "gb200-topology"},
}


@pytest.fixture
def sets(server: Server, space: Space) -> Space:
    install(server)
    for name, template in SETS_HERE.items():
        space.create(SETS, workload(name, {"cliques": [CLIQUE], **template})).ok(201)
    return space


def usage(server: Server, *arguments: str, user: str = "admin") -> Result:
    return CliRunner().invoke(cli, ["topology", "usage", "--kubeconfig", str(server.kubeconfig_of(user)), *arguments])


def by_pipeline(server: Server) -> list[list[str]]:
    """The rows of `kubectl ... | jq ... | sort`; without jq the same is said in Python."""
    text = server.kubectl("get", "podcliquesets", "-A", "-o", "json").stdout
    if shutil.which("jq") is None:
        items = json.loads(text)["items"]
        lines = [
            f"{one['spec']['template'].get('clusterTopologyName') or 'grove-topology (default)'}"
            f"\t{one['metadata']['namespace']}/{one['metadata']['name']}"
            for one in items
        ]
    else:
        lines = subprocess.run(
            ["jq", "-r", PIPELINE], input=text, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    return [line.split("\t") for line in sorted(lines)]


def here(rows: list[list[str]], space: Space) -> list[list[str]]:
    """Those of one namespace: other tests may be making sets at the same time."""
    return [row for row in rows if row[1].startswith(f"{space.namespace}/")]


def test_s2_the_rows_are_those_of_the_pipeline(server: Server, sets: Space) -> None:
    shown = [line.split("   ") for line in usage(server, "--no-headers").output.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in shown]
    assert here([row[:2] for row in cells], sets) == here(by_pipeline(server), sets)
    assert [row[2] for row in here(cells, sets)] == ["yes", "yes", "no: no topologyConstraint", "yes", "yes"]


def test_s2_the_right_to_list_sets_is_enough(server: Server, sets: Space, cluster: Space, unique: str) -> None:
    refused = usage(server, user="bob")
    assert (refused.exit_code, "403" in refused.output) == (2, True)
    rules = [{"apiGroups": ["grove.io"], "resources": ["podcliquesets"], "verbs": ["list"]}]
    cluster.create("clusterroles", {"metadata": {"name": unique}, "rules": rules}).ok(201)
    binding = {
        "metadata": {"name": unique},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": unique},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol"}],
    }
    cluster.create("clusterrolebindings", binding).ok(201)
    found = json.loads(usage(server, "-o", "json", user="carol").output)
    ours = here([[one["topology"], one["podCliqueSet"]] for one in found], sets)
    assert len(ours) == len(SETS_HERE)
