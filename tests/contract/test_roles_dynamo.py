"""The Dynamo part has the rights that it needs and no others: recorded while it works, also when answers are lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster_kit.loops import running
from cluster_kit.recording import LosesAnswers, Record, RecordingTransport
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from contract.dynamo_stages import component, deployment
from spinney.api.operator_configuration import load_configuration
from spinney.api.roles import NAMESPACE, ROLES
from spinney.cli.roles import Told
from spinney.cli.run_dynamo import DynamoRole
from spinney.drive.client.connect import connect, find_connection
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.operator.configured import settings_of
from spinney.drive.loop.scheduler.settings import Settings
from spinney.sim.nodes.describe import load_nodes
from spinney.sim.stack import Parts, Stack
from stack_kit.bare import bare_server, kubeconfig_of_role

Json = dict[str, Any]
ELECTION = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "100ms", "resourceNamespace": NAMESPACE}
CONFIGURATION = load_configuration(
    json.dumps(
        {
            "leaderElection": {"enabled": True, **ELECTION},
            "scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]},
            "topologyAwareScheduling": {"enabled": True, "levels": [{"domain": "zone", "key": "example.com/zone"}]},
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
GRAPHS = "nvidia.com/v1beta1/dynamographdeployments"
DEADLINE_S = 60.0


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with bare_server(request.param, tmp_path) as found:
        yield found


@asynccontextmanager
async def at_work(server: Server, dynamo: Path, record: Record) -> AsyncIterator[None]:
    """Nodes, operator and scheduler by the administrator; the Dynamo part by itself."""
    admin = connect(find_connection(SystemClock(), kubeconfig=server.kubeconfig))
    parts = Parts(load_nodes(NODES), operator=settings_of(CONFIGURATION), scheduler=Settings())
    stack = Stack(admin, SystemClock(), system_dice(), parts)
    connection = find_connection(SystemClock(), kubeconfig=dynamo)
    role = DynamoRole(Told(CONFIGURATION, connection), LosesAnswers(RecordingTransport(connect(connection), record)))
    tasks = [asyncio.create_task(each) for each in (stack.run(), role.run())]
    await stack.registered.wait()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await admin.close()


def is_ready(space: Space, replicas: int) -> bool:
    status = space.get(GRAPHS, "d").ok(200).get("status") or {}
    assert status.get("state") == "successful", status
    return {each["replicas"] for each in status["components"].values()} == {replicas}


def graph(replicas: int, image: str = "i:1.0.0") -> Json:
    single = component("Frontend", "frontend", replicas=replicas)
    wide = component("Decode", multinode={"nodeCount": 2}, replicas=replicas)
    for each in (single, wide):
        each["minAvailable"] = 1
        each["podTemplate"]["spec"]["containers"][0]["image"] = image
    return deployment("d", single, wide, topologyConstraint={"packDomain": "zone"})


def test_r14_c8_the_dynamo_part_uses_every_right_of_its_role_and_no_other(server: Server, tmp_path: Path) -> None:
    record = Record()
    space = Space(server, "default")
    with running(at_work(server, kubeconfig_of_role(server, "dynamo", tmp_path), record)):
        space.create(GRAPHS, graph(1)).ok(201)
        eventually(lambda: is_ready(space, 1), "it is ready", DEADLINE_S)
        space.apply(GRAPHS, graph(2), force="true").ok(200)
        eventually(lambda: is_ready(space, 2), "it is scaled", DEADLINE_S)
        space.apply(GRAPHS, graph(2, "i:2.0.0"), force="true").ok(200)
        eventually(lambda: _images(space) == {"i:2.0.0"}, "it is updated", DEADLINE_S)
    rights = ROLES["dynamo"]
    assert record.differences(*rights.cluster, *rights.own_namespace) == {
        "used and not granted": [],
        "granted and not used": [],
    }
    assert record.forbidden == []


def _images(space: Space) -> set[str]:
    return {each["spec"]["containers"][0]["image"] for each in space.list("pods")["items"]}
