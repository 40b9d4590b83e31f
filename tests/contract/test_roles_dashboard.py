"""The pages have the rights that they need and no others: recorded while people look at everything and plan."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster_kit.loops import running
from cluster_kit.recording import Record, RecordingTransport
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from contract.dynamo_stages import component, deployment
from spinney.api.operator_configuration import load_configuration
from spinney.api.roles import ROLES
from spinney.cli.dashboard import dashboard
from spinney.cli.dashboard_options import DashboardOptions
from spinney.drive.client.connect import connect, find_connection
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.operator.configured import settings_of
from spinney.drive.loop.scheduler.settings import Settings
from spinney.sim.nodes.describe import load_nodes
from spinney.sim.stack import Parts, Stack
from stack_kit.bare import bare_server, kubeconfig_of_role

Json = dict[str, Any]
LEVELS = [{"domain": "zone", "key": "example.com/zone"}]
CONFIGURATION = load_configuration(
    json.dumps(
        {
            "scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]},
            "topologyAwareScheduling": {"enabled": True, "levels": LEVELS},
        }
    )
)
NODES = """
levels:
- {name: zone, label: example.com/zone, count: 2}
- {name: host, count: 2}
capacity: {cpu: 8, memory: 64Gi, pods: 110}
"""
KINDS = [
    pytest.param("embedded", marks=pytest.mark.xdist_group("roles-embedded")),
    pytest.param("real", marks=[pytest.mark.real, pytest.mark.xdist_group("roles-real")]),
]
SETS = "grove.io/v1alpha1/podcliquesets"
DEADLINE_S = 60.0


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with bare_server(request.param, tmp_path) as found:
        yield found


@asynccontextmanager
async def at_work(server: Server, looker: Path, record: Record) -> AsyncIterator[str]:
    """Everything by the administrator but the pages, which go in by themselves; gives their address."""
    admin = connect(find_connection(SystemClock(), kubeconfig=server.kubeconfig))
    parts = Parts(load_nodes(NODES), operator=settings_of(CONFIGURATION), scheduler=Settings())
    stack = Stack(admin, SystemClock(), system_dice(), parts)
    transport = RecordingTransport(connect(find_connection(SystemClock(), kubeconfig=looker)), record)
    task = asyncio.create_task(stack.run())
    await stack.registered.wait()
    try:
        async with dashboard(transport, DashboardOptions(port=0), CONFIGURATION) as address:
            yield address
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await transport.close()
        await admin.close()


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


def test_b5_c8_the_pages_use_every_right_of_their_role_and_no_other(server: Server, tmp_path: Path) -> None:
    record = Record()
    space = Space(server, "default")
    with running(at_work(server, kubeconfig_of_role(server, "dashboard", tmp_path), record)) as address:
        space.create(SETS, podcliqueset()).ok(201)
        with httpx.Client(base_url=address, timeout=30.0) as client:
            eventually(lambda: _is_placed(client), "the gang is placed", DEADLINE_S)
            for page in ("/", "/tree", "/gangs", "/gangs/default/set-0", "/topologies", "/plan"):
                assert client.get(page).status_code == 200, page
            for manifest in manifests():
                answer = client.post("/plan", data={"manifest": json.dumps(manifest)})
                assert "It fits" in answer.text, answer.text
    assert record.differences(*ROLES["dashboard"].cluster) == {"used and not granted": [], "granted and not used": []}
    assert record.forbidden == []


def _is_placed(client: httpx.Client) -> bool:
    answer = client.get("/gangs?state=Scheduled")
    return "default/set-0" in answer.text
