"""Who may read the metrics of a role, by the word of a real API server and with the rights that are shipped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.roles import NAMESPACE, ROLES, metrics_roles
from spinney.cli.wiring.roles.metrics_server import MetricsGuard
from spinney.drive.apply.door import Door
from spinney.drive.client.config.kubeconfig import connect, find_connection
from stack_kit.bare import kubeconfig_of_role

BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "scraper"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "spinney-metrics-reader"},
    "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}],
}


def token_of(server: Server, namespace: str, account: str) -> str:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    found: str = server.http("POST", path, asked).ok(201)["status"]["token"]
    return found


def answer(server: Server, directory: Path, role: str, token: str) -> str:
    """Of a role that has never been asked; empty: come in."""

    async def asked() -> str:
        transport = connect(find_connection(SystemClock(), kubeconfig=kubeconfig_of_role(server, role, directory)))
        try:
            return await MetricsGuard(Door(transport, system_dice(), field_manager="m"), SystemClock()).refusal(token)
        finally:
            await transport.close()

    return asyncio.run(asked())


@pytest.mark.real
@pytest.mark.parametrize("role_server", ["real"], indirect=True)
def test_r14_metrics_of_every_role_are_read_by_whom_the_api_server_lets(role_server: Server, tmp_path: Path) -> None:
    cluster = Space(role_server, "")
    for obj in metrics_roles():
        cluster.apply(f"{obj['kind'].lower()}s", obj, force="true").ok(200, 201)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scraper"}}
    Space(role_server, "default").create("serviceaccounts", account).ok(201)
    token = token_of(role_server, "default", "scraper")
    for role in ROLES:
        assert answer(role_server, tmp_path, role, token)[:3] == "403", role
        assert answer(role_server, tmp_path, role, "nonsense")[:3] == "401", role
    cluster.create("clusterrolebindings", BINDING).ok(201)
    for role in ROLES:
        eventually(lambda role=role: not answer(role_server, tmp_path, role, token), f"{role} lets it in", 60)  # type: ignore[misc]
    assert answer(role_server, tmp_path, "operator", token_of(role_server, NAMESPACE, "operator"))[:3] == "403"
