"""`spinney run operator` and `spinney initc` as processes against an embedded server of their own."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from cluster_kit.server import Server, eventually
from cluster_kit.servers import embedded_server
from spinney.api.crds import all_crds
from spinney.sim.kubernetes.processes import free_ports
from stack_kit.spinney import SPINNEY
from unit.operator.operator_world import clique, podcliqueset

SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with embedded_server(tmp_path_factory.mktemp("operator-run")) as server:
        for crd in all_crds():
            server.http("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        yield server


def _operator(own: Server, directory: Path, config: dict[str, Any]) -> subprocess.Popen[str]:
    (directory / "config.yaml").write_text(json.dumps(config))
    words = ["run", "operator", "--kubeconfig", str(own.kubeconfig), "--config", str(directory / "config.yaml")]
    return subprocess.Popen([*SPINNEY, *words], stderr=subprocess.PIPE, text=True)


def _probe(port: int, path: str) -> int:
    try:
        return urllib3.request("GET", f"http://127.0.0.1:{port}{path}", retries=False, timeout=20).status
    except urllib3.exceptions.HTTPError:
        return 0


def test_c1_g1_an_elected_operator_works_is_probed_and_hands_over(own: Server, tmp_path: Path) -> None:
    [port] = free_ports(1)
    election = {"enabled": True, "resourceNamespace": "default"}
    config = {"leaderElection": election, "server": {"healthProbes": {"port": port}}}
    process = _operator(own, tmp_path, config)
    try:
        eventually(lambda: _probe(port, "/readyz") == 200, "ready")
        assert _probe(port, "/healthz") == 200
        assert _probe(port, "/other") == 404
        own.http("POST", SETS, podcliqueset("run", [clique("a", 2)])).ok(201)
        selector = {"labelSelector": "app.kubernetes.io/part-of=run"}

        def free() -> Any:
            pods = own.http("GET", PODS, query=selector).ok(200)["items"]
            return len(pods) == 2 and not any(each["spec"].get("schedulingGates") for each in pods)

        eventually(free, "two pods without gates")
        lease = own.http("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/grove-operator-leader-election")
        assert lease.ok(200)["spec"]["holderIdentity"]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    lease = own.http("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/grove-operator-leader-election")
    assert not lease.ok(200)["spec"]["holderIdentity"]


def test_c2_a_bad_configuration_exits_with_2_and_names_the_field(own: Server, tmp_path: Path) -> None:
    levels = [{"domain": "shelf", "key": "a"}]
    process = _operator(own, tmp_path, {"topologyAwareScheduling": {"enabled": True, "levels": levels}})
    _, errors = process.communicate(timeout=150)
    assert process.returncode == 2
    assert "topologyAwareScheduling.levels" in errors


def test_c6_a_missing_default_topology_exits_with_2(own: Server, tmp_path: Path) -> None:
    config = {"topology": {"enabled": True, "name": "nowhere"}, "server": {"healthProbes": {"port": free_ports(1)[0]}}}
    process = _operator(own, tmp_path, config)
    _, errors = process.communicate(timeout=150)
    assert process.returncode == 2
    assert 'ClusterTopology "nowhere" not found' in errors


def test_c3_a_foreign_topology_of_the_scheduler_exits_with_3(own: Server, tmp_path: Path) -> None:
    path = "/apis/kai.scheduler/v1alpha1/topologies"
    levels = [{"nodeLabel": "theirs"}]
    foreign = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "grove-topology"},
        "spec": {"levels": levels},
    }
    own.http("POST", path, foreign).ok(201)
    config = {
        "scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]},
        "topologyAwareScheduling": {"enabled": True, "levels": [{"domain": "rack", "key": "example.com/rack"}]},
        "server": {"healthProbes": {"port": free_ports(1)[0]}},
    }
    process = _operator(own, tmp_path, config)
    _, errors = process.communicate(timeout=150)
    assert process.returncode == 3
    assert "is not owned by ClusterTopology grove-topology" in errors
    assert own.http("GET", f"{path}/grove-topology").ok(200)["spec"]["levels"] == levels


def test_g1_initc_waits_for_ready_pods_of_its_gang_and_no_longer(own: Server, tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("default")
    (tmp_path / "podgangname").write_text("gang-0")
    words = ["initc", "--podcliques=gang-0-a:1", "--pod-info", str(tmp_path), "--kubeconfig", str(own.kubeconfig)]
    process = subprocess.Popen([*SPINNEY, *words], stderr=subprocess.PIPE, text=True)
    labels = {"grove.io/podgang": "gang-0", "grove.io/podclique": "gang-0-a"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gang-0-a-x", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "serve"}]},
    }
    own.http("POST", PODS, pod).ok(201)
    assert process.stderr is not None
    assert "gang-0-a 0/1" in process.stderr.readline()
    assert process.poll() is None
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    headers = {"Content-Type": "application/merge-patch+json"}
    own.http("PATCH", f"{PODS}/gang-0-a-x/status", status, headers=headers).ok(200)
    assert process.wait(120) == 0
