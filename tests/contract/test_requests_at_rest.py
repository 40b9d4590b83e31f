"""What the roles ask an API server for while nothing happens: at most one request a second each."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Unpack

import pytest

from cluster_kit.loops import running
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from contract.role_stages import configured
from kube_apimachinery.system_clock import SystemClock
from spinney.api.roles import NAMESPACE
from spinney.api.roles.catalog import DYNAMO_LEASE, OPERATOR_LEASE, SCHEDULER_LEASE
from spinney.cli.wiring.install_manifests import SERVICE, webhook_objects
from spinney.cli.wiring.roles.controllers import dynamo_role, operator_role
from spinney.cli.wiring.roles.dashboard import DashboardRole
from spinney.cli.wiring.roles.registry import DashboardOptions, Role, RoleConfig, WebhookOptions
from spinney.cli.wiring.roles.scheduler import SchedulerRole
from spinney.cli.wiring.roles.webhook import WebhookRole
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.drive.client.http.transport import RequestOptions, Response, Stream, StreamOptions, Transport
from stack_kit.bare import bare_server, kubeconfig_of_role

CONFIGURATION = configured(leaderElection={"enabled": True, "resourceNamespace": NAMESPACE})
REST_S = 10.0
LEASES = {"operator": OPERATOR_LEASE, "scheduler": SCHEDULER_LEASE, "dynamo": DYNAMO_LEASE}
PATH = "coordination.k8s.io/v1/leases"
ROUNDS = 6
"""A role may still be busy with its start in the first of them; one that polls is busy in all."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with bare_server("embedded", tmp_path_factory.mktemp("leases")) as found:
        yield found


class Counting:
    """Another transport, with what was asked for by its path."""

    def __init__(self, inner: Transport, asked: Counter[str]) -> None:
        self._inner = inner
        self._asked = asked

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        self._asked[f"{method} {path}"] += 1
        return await self._inner.request(method, path, **options)

    def stream(self, path: str, **options: Unpack[StreamOptions]) -> AbstractAsyncContextManager[Stream]:
        self._asked[f"WATCH {path}"] += 1
        return self._inner.stream(path, **options)

    async def close(self) -> None:
        await self._inner.close()


Connect = Callable[[], Transport]
ROLES: Mapping[str, Callable[[RoleConfig, Connect], Role]] = {
    "operator": lambda told, connected: operator_role(told, connected(), connected()),
    "scheduler": lambda told, connected: SchedulerRole(told, connected(), connected()),
    "dynamo": lambda told, connected: dynamo_role(told, connected(), connected()),
    "webhook": lambda told, connected: WebhookRole(told, connected()),
    "dashboard": lambda told, connected: DashboardRole(told, connected()),
}


@asynccontextmanager
async def at_rest(server: Server, name: str, directory: Path, asked: Counter[str]) -> AsyncIterator[Role]:
    """The role at work by itself, with the rights of its service account and nothing to do."""
    connection = find_connection(SystemClock(), kubeconfig=kubeconfig_of_role(server, name, directory))
    webhook = WebhookOptions(port=0, service=f"{NAMESPACE}/{SERVICE}")
    told = RoleConfig(CONFIGURATION, connection, webhook, dashboard=DashboardOptions(port=0))
    role = ROLES[name](told, lambda: Counting(connect(connection), asked))
    task = asyncio.create_task(role.run())
    try:
        yield role
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("name", ROLES)
def test_r14_a_role_at_rest_sends_at_most_a_request_a_second(role_server: Server, name: str, tmp_path: Path) -> None:
    """Also while kinds of others, such as NodeResourceTopology, are not served."""
    for obj in webhook_objects(NAMESPACE, CONFIGURATION) if name == "webhook" else ():
        space = Space(role_server, obj["metadata"].get("namespace", ""))
        space.apply(f"{obj['kind'].lower()}s", obj, force="true").ok(200, 201)
    asked: Counter[str] = Counter()
    found = []
    with running(at_rest(role_server, name, tmp_path, asked)) as role:
        eventually(lambda: not role.trouble(), "it is ready", 60)
        for _ in range(ROUNDS):
            asked.clear()
            time.sleep(REST_S)
            found.append(asked.copy())
            if asked.total() <= REST_S:
                return
    raise AssertionError(f"more than {REST_S:g} requests in every {REST_S:g} s: {found}")


@pytest.mark.parametrize(("name", "lease"), LEASES.items())
def test_r14_the_lease_of_a_killed_role_is_over_within_five_seconds(
    server: Server, name: str, lease: str, tmp_path: Path
) -> None:
    """By what is promised to those who stand by; that they keep to it is tested where leaders are elected."""
    space = Space(server, NAMESPACE)
    with running(at_rest(server, name, tmp_path, Counter())):
        eventually(lambda: space.exists(PATH, lease), "it is elected", 60)
        assert space.get(PATH, lease).ok(200)["spec"]["leaseDurationSeconds"] == 5
