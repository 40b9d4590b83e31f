"""`spinney topology show | lint | discover` on a live cluster, and with which rights"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from cluster_kit.admission import TOPOLOGIES, install
from cluster_kit.objects import cluster_role, cluster_role_binding, node, pod
from cluster_kit.server import Server
from cluster_kit.space import Space
from spinney.cli.main import cli

GPU = "nvidia.com/gpu"


@pytest.fixture
def hall(server: Server, space: Space, cluster: Space, unique: str) -> Iterator[str]:
    """Two racks of two nodes under keys of their own, a topology over them, and a gang of three pods in one rack."""
    install(server)
    for rack in range(2):
        for host in range(2):
            name = f"{unique}-r{rack}-h{host}"
            labels = {rack_key(unique): f"{unique}-r{rack}", "kubernetes.io/hostname": name}
            offered = {"capacity": {GPU: "8", "cpu": "8", "pods": "10"}, "allocatable": {GPU: "8", "cpu": "8"}}
            made = node(name)
            made["metadata"]["labels"] = labels
            cluster.create("nodes", made).ok(201)
            cluster.patch("nodes", name, {"status": offered}, sub="status").ok(200)
    levels = [{"domain": "rack", "key": rack_key(unique)}, {"domain": "host", "key": "kubernetes.io/hostname"}]
    body = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "metadata": {"name": unique}}
    cluster.create(TOPOLOGIES, {**body, "spec": {"levels": levels}}).ok(201)
    for number in range(3):
        container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "4"}, "requests": {GPU: "4"}}}
        spec = {"containers": [container], "nodeName": f"{unique}-r0-h{number % 2}"}
        member = pod(f"p{number}", spec)
        member["metadata"]["annotations"] = {"pod-group-name": "gang"}
        space.create("pods", member).ok(201)
    yield unique
    cluster.delete(TOPOLOGIES, unique)


def rack_key(unique: str) -> str:
    return f"{unique}.example.com/rack"


def run(server: Server, *arguments: str, user: str = "admin") -> Result:
    return CliRunner().invoke(cli, ["topology", *arguments, "--kubeconfig", str(server.kubeconfig_of(user))])


def grant(cluster: Space, name: str, user: str, *resources: tuple[str, str]) -> None:
    rules = [{"apiGroups": [group], "resources": [plural], "verbs": ["list"]} for group, plural in resources]
    cluster.create("clusterroles", cluster_role(name, *rules)).ok(201)
    cluster.create("clusterrolebindings", cluster_role_binding(name, name, user)).ok(201)


def test_b2_the_tree_of_a_live_cluster(server: Server, hall: str, space: Space) -> None:
    done = run(server, "show", hall, "-o", "json")
    assert done.exit_code == 0, done.output
    [tree] = json.loads(done.output)
    racks = {one["path"][0].rpartition("-")[2]: one for one in tree["tree"]["domains"]}
    assert racks["r0"]["resources"][GPU] == {"capacity": 16, "used": 12, "free": 4}
    assert racks["r0"]["gangs"] == {f"{space.namespace}/gang": 3}
    assert racks["r1"]["resources"][GPU] == {"capacity": 16, "used": 0, "free": 16}


def test_k15_where_a_gang_is_in_a_live_cluster(server: Server, hall: str, space: Space) -> None:
    text = run(server, "show", "--gang", f"{space.namespace}/gang").output
    assert f"{space.namespace}/gang: 3 of 3 pods placed, 3 of them in rack {hall}-r0"[:79] in text


def test_b2_a_live_cluster_is_linted(server: Server, hall: str, cluster: Space) -> None:
    extra = node(f"{hall}-lone")
    extra["metadata"]["labels"] = {rack_key(hall): f"{hall}-r9"}
    cluster.create("nodes", extra).ok(201)
    done = run(server, "lint", "-o", "json")
    assert done.exit_code == 1
    mine = {one["code"]: one for one in json.loads(done.output)["problems"] if one.get("topology") == hall}
    assert mine["missing-key"]["nodes"] == [f"{hall}-lone"]
    checked = next(one for one in json.loads(done.output)["topologies"] if one["topology"] == hall)
    assert (checked["nodes"], checked["levels"][0]["nodes"], checked["levels"][0]["domains"]) == (4, 5, 3)


def test_b2_what_is_discovered_is_admitted_as_it_is(server: Server, hall: str, cluster: Space, tmp_path: Path) -> None:
    found = json.loads(run(server, "discover", "-o", "json").output)
    mine = next(one for one in found["proposals"] if any(name.startswith(hall) for name in one["nodes"]))
    assert mine["sameAs"] == hall
    manifest: dict[str, Any] = {**mine["manifest"], "metadata": {"name": f"{hall}-found"}}
    stored = cluster.create(TOPOLOGIES, manifest).ok(201)
    assert stored["spec"] == mine["manifest"]["spec"]
    cluster.delete(TOPOLOGIES, f"{hall}-found")


def test_b2_a_proposal_can_be_linted_before_it_is_applied(server: Server, hall: str, tmp_path: Path) -> None:
    text = run(server, "discover").output
    documents = [one for one in yaml.safe_load_all(text) if one["spec"]["levels"][0]["key"] == rack_key(hall)]
    path = tmp_path / "proposal.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    found = json.loads(run(server, "lint", "-f", str(path), "-o", "json").output)
    assert [one["nodes"] for one in found["topologies"]] == [4]


@pytest.mark.parametrize("command", ["show", "lint", "discover"])
def test_without_rights_it_is_one_line_and_status_2(server: Server, hall: str, command: str) -> None:
    done = run(server, command, user="bob")
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "403" in done.stderr
    assert "nodes" in done.stderr


def test_the_right_to_list_nodes_is_enough_to_discover(server: Server, hall: str, cluster: Space) -> None:
    grant(cluster, hall, "carol", ("", "nodes"))
    done = run(server, "discover", user="carol")
    assert (done.exit_code, rack_key(hall) in done.output) == (0, True)


def test_lint_does_without_what_it_may_not_see_of_the_scheduler(server: Server, hall: str, cluster: Space) -> None:
    kinds = ("clustertopologies", "clustertopologybindings")
    grant(cluster, hall, "carol", ("", "nodes"), *(("grove.io", kind) for kind in kinds))
    done = run(server, "lint", "-o", "json", user="carol")
    assert done.exit_code in (0, 1)
    assert any(one["topology"] == hall for one in json.loads(done.output)["topologies"])
