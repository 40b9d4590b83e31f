"""The Dynamo part has the rights that it needs and no others: recorded while it works, also when answers are lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cluster_kit.loops import running
from cluster_kit.recording import LosesAnswers, Record, RecordingTransport
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from contract.dynamo_stages import component, deployment
from contract.role_stages import DEADLINE_S, ELECTION, NODES, attended, configured, take_the_lease_away
from kube_apimachinery.system_clock import SystemClock
from spinney.api.roles import ROLES
from spinney.api.roles.catalog import DYNAMO_LEASE
from spinney.cli.wiring.roles.controllers import dynamo_role
from spinney.cli.wiring.roles.registry import RoleConfig
from spinney.core.scheduling.settings import Settings
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.drive.operator.settings_from_config import settings_of
from spinney.sim.stack import Parts
from stack_kit.bare import kubeconfig_of_role

Json = dict[str, Any]
GRAPHS = "nvidia.com/v1beta1/dynamographdeployments"
CONFIGURATION = configured(**ELECTION)


@asynccontextmanager
async def at_work(server: Server, dynamo: Path, record: Record) -> AsyncIterator[None]:
    """The Dynamo part by itself."""
    connection = find_connection(SystemClock(), kubeconfig=dynamo)
    transport, lease = (LosesAnswers(RecordingTransport(connect(connection), record)) for _ in range(2))
    role = dynamo_role(RoleConfig(CONFIGURATION, connection), transport, lease)
    parts = Parts(NODES, operator=settings_of(CONFIGURATION), scheduler=Settings())
    async with attended(server, parts, role.run()):
        yield


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


def test_r14_c8_the_dynamo_part_uses_every_right_of_its_role_and_no_other(role_server: Server, tmp_path: Path) -> None:
    record = Record()
    space = Space(role_server, "default")
    with running(at_work(role_server, kubeconfig_of_role(role_server, "dynamo", tmp_path), record)):
        take_the_lease_away(role_server, DYNAMO_LEASE)
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
