"""The operator with its role on servers that enforce it: enough as shipped, and visibly not enough with less (C8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster_kit.admission import SETS, TOPOLOGIES
from cluster_kit.loops import running
from cluster_kit.recording import Record, RecordingTransport
from cluster_kit.server import Server, eventually
from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from contract.role_stages import ELECTION, configured, take_the_lease_away
from kube_apimachinery.system_clock import SystemClock
from spinney.api.roles import ROLES
from spinney.api.roles.catalog import OPERATOR_LEASE
from spinney.cli.wiring.roles.controllers import ControllerRole, operator_role
from spinney.cli.wiring.roles.registry import RoleConfig
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.drive.operator.startup import StartupFailed
from stack_kit.bare import bare_server, kubeconfig_of_role
from stack_kit.stage import install_rights
from unit.operator.operator_world import clique, podcliqueset

Json = dict[str, Any]
ROLE = "spinney-operator"
CONFIGURATION = configured(**ELECTION)
Start = Callable[[], ControllerRole]


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with bare_server(request.param, tmp_path_factory.mktemp("roles")) as found:
        yield found


class Runs:
    """One operator of a test, and what became of it."""

    def __init__(self, role: ControllerRole) -> None:
        self.role = role
        self.failure: BaseException | None = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self.role.run()
        except Exception as error:
            self.failure = error


@pytest.fixture
def record() -> Record:
    return Record()


@pytest.fixture
def start(server: Server, tmp_path: Path, record: Record) -> Iterator[Callable[[], Runs]]:
    """An operator of its own; afterwards its rights are whole again and its objects gone."""
    with ExitStack() as held:

        def begin() -> Runs:
            connection = find_connection(SystemClock(), kubeconfig=kubeconfig_of_role(server, "operator", tmp_path))
            transport = RecordingTransport(connect(connection), record)
            lease = RecordingTransport(connect(connection), record)
            runs = Runs(operator_role(RoleConfig(CONFIGURATION, connection), transport, lease))
            held.enter_context(running(runs.held()))
            return runs

        yield begin
    install_rights(server)


def without(server: Server, verb: str, group: str, resource: str) -> None:
    """Take one right from the operator."""
    cluster = Space(server, "")
    rules = cluster.get("clusterroles", ROLE).ok(200)["rules"]
    left: list[Json] = []
    for rule in rules:
        if group in rule["apiGroups"] and resource in rule["resources"]:
            others = [each for each in rule["resources"] if each != resource]
            verbs = [each for each in rule["verbs"] if each != verb]
            left += [{**rule, "resources": others}] if others else []
            left += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
        else:
            left.append(rule)
    cluster.patch("clusterroles", ROLE, {"rules": left}).ok(200)


def test_c8_with_its_role_the_operator_leads_and_works(
    server: Server, start: Callable[[], Runs], record: Record
) -> None:
    runs = start()
    eventually(lambda: runs.role.figures()["leading"] and not runs.role.trouble(), "it leads and is ready", 60)
    take_the_lease_away(server, OPERATOR_LEASE)
    eventually(lambda: runs.role.figures()["leading"] and not runs.role.trouble(), "it leads and is ready again", 60)
    assert runs.role.figures()['leadership_changes_total{to="standby"}'] == 1
    space = Space(server, "default")
    space.create(SETS, podcliqueset("p", [clique("a", 2)])).ok(201)
    eventually(lambda: len(space.list("pods", labelSelector="app.kubernetes.io/part-of=p")["items"]) == 2, "pods", 60)
    assert Space(server, "").exists(TOPOLOGIES, "grove-topology")
    space.delete(SETS, "p").ok(200)
    eventually(lambda: not space.exists(SETS, "p"), "the set is gone", 60)
    lease = {use for use in record.used if use.resource == "leases"}
    own = Record(used=lease)
    assert own.differences(*ROLES["operator"].own_namespace) == {"used and not granted": [], "granted and not used": []}
    assert record.forbidden == []


def test_c8_a_missing_right_to_create_is_told_on_the_set(server: Server, start: Callable[[], Runs]) -> None:
    without(server, "create", "grove.io", "podcliques")
    runs = start()
    eventually(lambda: runs.role.figures()["leading"] and not runs.role.trouble(), "it leads and is ready", 60)
    space = Space(server, "default")
    space.create(SETS, podcliqueset("q", [clique("a")])).ok(201)

    def is_explained() -> bool:
        told = [each["message"] for each in space.list("events")["items"] if each["involvedObject"]["name"] == "q"]
        return any('cannot create resource "podcliques"' in message for message in told)

    eventually(is_explained, "an event tells it", 60)
    space.delete(SETS, "q").ok(200)
    eventually(lambda: not space.exists(SETS, "q"), "the set is gone", 60)


def test_c8_a_missing_right_to_watch_keeps_it_from_being_ready(server: Server, start: Callable[[], Runs]) -> None:
    without(server, "list", "", "nodes")
    runs = start()
    eventually(lambda: 'cannot list resource "nodes"' in runs.role.trouble(), "it says what is wrong", 60)


def test_c8_a_missing_right_to_its_topology_ends_it(server: Server, start: Callable[[], Runs]) -> None:
    without(server, "get", "grove.io", "clustertopologies")
    runs = start()
    eventually(lambda: runs.failure is not None, "it ends", 60)
    failures = getattr(runs.failure, "exceptions", [runs.failure])
    (failure,) = (each for each in failures if isinstance(each, StartupFailed))
    assert failure.status == 3
    assert 'cannot get resource "clustertopologies"' in str(failure)
