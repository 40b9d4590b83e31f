"""`spinney plan` against servers of both kinds: the same objects before and after, and rights to read are enough."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cluster_kit.server import Server
from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from contract.plan_stages import account
from spinney.cli.main import cli
from spinney.whatif.inputs.nodes import load_nodes
from stack_kit.bare import bare_server

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
LEVELS = {word: f"topology.kubernetes.io/{word}" for word in ("zone", "block", "rack")}
LEVELS["host"] = "kubernetes.io/hostname"
TOPOLOGY: Json = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopology",
    "metadata": {"name": "grove-topology"},
    "spec": {"levels": [{"domain": domain, "key": key} for domain, key in LEVELS.items()]},
}
LIST = ("list", "get")
READER = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": LIST},
    {"apiGroups": ["scheduling.run.ai"], "resources": ["podgroups", "queues"], "verbs": LIST},
    {"apiGroups": ["kai.scheduler"], "resources": ["topologies"], "verbs": LIST},
    {"apiGroups": ["grove.io"], "resources": ["*"], "verbs": LIST},
    {"apiGroups": ["nvidia.com"], "resources": ["dynamographdeployments"], "verbs": LIST},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": LIST},
]


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with bare_server(request.param, tmp_path_factory.mktemp("plan")) as found:
        cluster = Space(found, "")
        for node in load_nodes():
            cluster.create("nodes", node).ok(201)
        cluster.apply("grove.io/v1alpha1/clustertopologies", TOPOLOGY).ok(200, 201)
        queue: Json = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "default-queue"}}
        queue["spec"] = {"resources": {each: {"quota": -1, "limit": -1} for each in ("gpu", "cpu", "memory")}}
        cluster.apply("scheduling.run.ai/v2/queues", queue).ok(200, 201)
        yield found


@pytest.fixture(scope="module")
def reader(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody who may read what the help of the command names, and do nothing else."""
    return account(server, "reader", READER, tmp_path_factory.mktemp("reader"))


def everything(server: Server) -> dict[str, str]:
    """Versions of all objects by their addresses; leases are the server's own heartbeat."""
    pages = ["/api/v1"]
    groups = server.http("GET", "/apis").ok(200)["groups"]
    pages += [f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"]]
    found: dict[str, str] = {}
    for page in pages:
        for one in server.http("GET", page).ok(200)["resources"]:
            if "/" in one["name"] or "list" not in one["verbs"] or one["name"] in ("leases", "componentstatuses"):
                continue
            for item in server.http("GET", f"{page}/{one['name']}").ok(200)["items"]:
                metadata = item["metadata"]
                address = f"{page}/{one['name']}/{metadata.get('namespace', '')}/{metadata['name']}"
                found[address] = metadata.get("resourceVersion", "")
    return found


def plan(kubeconfig: Path, *arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["plan", "--kubeconfig", str(kubeconfig), *arguments], input=text)


EXAMPLES = [
    "sets/disaggregated.yaml",
    "dynamo/vllm-disaggregated.yaml",
    "dynamo/document/broad.yaml",
    "job.yaml",
]


def test_inv13_b1_a_what_if_leaves_no_trace_and_needs_rights_to_read_only(server: Server, reader: Path) -> None:
    before = everything(server)
    for example in EXAMPLES:
        answer = plan(reader, "-f", str(ROOT / "examples" / example), "--copies", "3", "-o", "json")
        assert answer.exit_code in (0, 1), answer.output + answer.stderr
        found = json.loads(answer.stdout)
        assert found["workloads"][0]["gangs"], found
        assert found["nodes"] == 16
    assert len(before) > 40
    assert everything(server) == before


def test_inv13_a_what_if_that_evicts_and_one_that_is_refused_leave_no_trace(server: Server, reader: Path) -> None:
    space = Space(server, "default")
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "weak"}}
    space.apply("scheduling.run.ai/v2alpha2/podgroups", {**group, "spec": {"minMember": 1, "queue": "default-queue"}})
    for node in load_nodes():
        space.create("pods", occupant(node["metadata"]["name"])).ok(201)
    before = everything(server)
    urgent = json.loads(plan(reader, "-f", "-", "-o", "json", text=URGENT).stdout)
    assert (urgent["fits"], len(urgent["workloads"][0]["gangs"][0]["leavers"])) == (True, 1)
    refused = plan(reader, "-f", "-", text=URGENT.replace("minMember: 1", "minMember: -1"))
    assert (refused.exit_code, "minMember" in refused.stdout) == (1, True)
    assert everything(server) == before


def occupant(node: str) -> Json:
    amounts = {"nvidia.com/gpu": "8"}
    container = {"name": "main", "image": "work", "resources": {"limits": amounts, "requests": amounts}}
    metadata = {"name": f"weak-{node}", "annotations": {"pod-group-name": "weak"}}
    spec = {"nodeName": node, "schedulerName": "kai-scheduler", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


URGENT = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 90
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: urgent}
spec: {minMember: 1, queue: default-queue, priorityClassName: urgent}
---
apiVersion: v1
kind: Pod
metadata: {name: urgent-0, annotations: {pod-group-name: urgent}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: main, image: work, resources: {limits: {nvidia.com/gpu: "8"}}}]
"""


def test_missing_rights_are_one_sentence_and_exit_status_2(server: Server, tmp_path: Path) -> None:
    nobody = account(server, "nobody", [], tmp_path)
    answer = plan(nobody, "-f", str(ROOT / "examples/job.yaml"))
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr.startswith("spinney plan: ")
    assert answer.stderr.count("\n") == 1
    assert "403" in answer.stderr


def test_what_may_not_be_read_and_can_be_done_without_is_named(server: Server, reader: Path) -> None:
    answer = plan(reader, "-f", str(ROOT / "examples/job.yaml"), "-o", "json")
    notes = json.loads(answer.stdout)["notes"]
    assert "persistentvolumes may not be read: the answer leaves them out" in notes
