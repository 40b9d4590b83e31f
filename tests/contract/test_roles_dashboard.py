"""The pages have the rights that they need and no others: recorded while people look at everything and plan."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from cluster_kit.loops import running
from cluster_kit.recording import Record, RecordingTransport
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from contract.dynamo_stages import component, deployment
from contract.role_stages import DEADLINE_S, NODES, attended, configured
from kube_apimachinery.system_clock import SystemClock
from spinney.api.roles import ROLES
from spinney.cli.wiring.roles.dashboard import dashboard
from spinney.cli.wiring.roles.registry import DashboardOptions
from spinney.core.scheduling.settings import Settings
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.drive.operator.settings_from_config import settings_of
from spinney.sim.stack import Parts
from stack_kit.bare import kubeconfig_of_role

Json = dict[str, Any]
SETS = "grove.io/v1alpha1/podcliquesets"
CONFIGURATION = configured()


@asynccontextmanager
async def at_work(server: Server, looker: Path, record: Record) -> AsyncIterator[str]:
    """The pages by themselves; gives their address."""
    transport = RecordingTransport(connect(find_connection(SystemClock(), kubeconfig=looker)), record)
    parts = Parts(NODES, operator=settings_of(CONFIGURATION), scheduler=Settings())
    try:
        async with (
            attended(server, parts),
            dashboard(transport, DashboardOptions(port=0), CONFIGURATION) as address,
        ):
            yield address
    finally:
        await transport.close()


TEMPLATE: Json = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Always",
        "containers": [{"name": "main", "image": "example.com/a:1"}],
    },
}


def owner(version: str, kind: str, **spec: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "owner"}, "spec": spec}


def podcliqueset() -> Json:
    pod = {"containers": [{"name": "main", "image": "example.com/a:1"}]}
    cliques = [{"name": "worker", "spec": {"roleName": "worker", "replicas": 2, "podSpec": pod}}]
    template = {"topologyConstraint": {"packDomain": "zone"}, "cliques": cliques}
    return {**owner("grove.io/v1alpha1", "PodCliqueSet", replicas=1, template=template), "metadata": {"name": "set"}}


def manifests() -> list[Json]:
    """One of each kind whose plan looks at what there is already."""
    once = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    chosen = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
    return [
        podcliqueset(),
        deployment("d", component("Frontend", "frontend"), topologyConstraint={"packDomain": "zone"}),
        owner("batch/v1", "Job", parallelism=2, completions=2, template=once),
        owner("apps/v1", "Deployment", replicas=2, **chosen),
        owner("apps/v1", "StatefulSet", replicas=2, serviceName="a", **chosen),
    ]


def test_b5_c8_the_pages_use_every_right_of_their_role_and_no_other(role_server: Server, tmp_path: Path) -> None:
    record = Record()
    space = Space(role_server, "default")
    with running(at_work(role_server, kubeconfig_of_role(role_server, "dashboard", tmp_path), record)) as address:
        space.create(SETS, podcliqueset()).ok(201)
        with httpx.Client(base_url=address, timeout=30.0) as client:
            eventually(lambda: _is_placed(client), "the gang is placed", DEADLINE_S)
            for page in ("/", "/tree", "/gangs", "/gangs/default/set-0", "/queues", "/topologies", "/plan"):
                assert client.get(page).status_code == 200, page
            for manifest in manifests():
                answer = client.post("/plan", data={"manifest": json.dumps(manifest)})
                assert "It fits" in answer.text, answer.text
    assert record.differences(*ROLES["dashboard"].cluster) == {"used and not granted": [], "granted and not used": []}
    assert record.forbidden == []


def test_a_pod_of_5000_digits_hides_nothing_from_the_pages_nor_from_plans(role_server: Server, tmp_path: Path) -> None:
    space = Space(role_server, "default")
    amounts = {"memory": "9" * 5000}
    containers = [{"name": "main", "image": "example.com/a:1", "resources": {"requests": amounts, "limits": amounts}}]
    with running(at_work(role_server, kubeconfig_of_role(role_server, "dashboard", tmp_path), Record())) as address:
        eventually(lambda: Space(role_server, "").list("nodes")["items"], "the nodes are there", DEADLINE_S)
        first = min(each["metadata"]["name"] for each in Space(role_server, "").list("nodes")["items"])
        vast = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vast"}}
        space.create("pods", {**vast, "spec": {"nodeName": first, "containers": containers}}).ok(201)
        space.create(SETS, podcliqueset()).ok(201)
        with httpx.Client(base_url=address, timeout=30.0) as client:
            eventually(lambda: _is_placed(client), "the gang is placed", DEADLINE_S)
            for page in ("/", "/tree", "/gangs", "/gangs/default/set-0", "/queues", "/topologies", "/plan"):
                assert client.get(page).status_code == 200, page
            small = {**podcliqueset(), "metadata": {"name": "another"}}
            answer = client.post("/plan", data={"manifest": json.dumps(small)})
            assert (answer.status_code, "It fits" in answer.text) == (200, True), answer.text


def _is_placed(client: httpx.Client) -> bool:
    answer = client.get("/gangs?state=Scheduled")
    return "default/set-0" in answer.text
