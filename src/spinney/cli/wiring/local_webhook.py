"""The webhook beside a real API server of ours: started with it, known to it, and gone with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from spinney.api.kinds.dynamographdeployment_v1alpha1 import DynamoGraphDeploymentV1Alpha1 as ALPHA
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.cli.wiring.roles.registry import RoleConfig, WebhookOptions
from spinney.cli.wiring.roles.webhook import WebhookRole
from spinney.drive.apply.door import Door
from spinney.drive.client.config.connection import Connection
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.paths import ResourcePath
from spinney.drive.clock import system_dice
from spinney.serve.webhook.handler import CONVERT, MUTATE, VALIDATE
from spinney.sim.kubernetes.assets import StartFailed

_SETS = ResourcePath(PodCliqueSet.GROUP, PodCliqueSet.VERSION, PodCliqueSet.PLURAL)
_ASKED_WITHIN_S = 30.0
_POLL_S = 0.02
_GRAPHS = ResourcePath(ALPHA.GROUP, ALPHA.VERSION, ALPHA.PLURAL)
_ANYTHING: dict[str, Any] = {
    "apiVersion": f"{PodCliqueSet.GROUP}/{PodCliqueSet.VERSION}",
    "kind": PodCliqueSet.KIND,
    "spec": {"template": {"cliques": [{"name": "a", "spec": {"podSpec": {"containers": [{"name": "c"}]}}}]}},
}

_ANY_GRAPH: dict[str, Any] = {
    "apiVersion": f"{ALPHA.GROUP}/{ALPHA.VERSION}",
    "kind": ALPHA.KIND,
    "spec": {"services": {"a": {"extraPodSpec": {"mainContainer": {"image": "i"}}}}},
}


@contextlib.asynccontextmanager
async def running_webhook(
    configuration: OperatorConfiguration, connection: Connection, admin: Transport, webhook: Transport
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """The webhook runs while the block does; gives what waits until the API server asks it about everything."""
    told = RoleConfig(configuration, connection, WebhookOptions(bind_address="127.0.0.1", port=0))
    role = WebhookRole(told, webhook, registrar=admin)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(role.run(), name="webhook")
        try:
            yield lambda: _asked(role, admin)
        finally:
            serving.cancel()


async def _asked(role: WebhookRole, admin: Transport) -> None:
    """An API server takes a moment to notice a configuration: it is asked, without effect, until it asks us."""
    door = Door(admin, system_dice(), field_manager="spinney-up")
    deadline = asyncio.get_running_loop().time() + _ASKED_WITHIN_S
    while not role.has_answered(MUTATE, VALIDATE, CONVERT):
        if asyncio.get_running_loop().time() > deadline:
            raise StartFailed(f"kube-apiserver does not ask the webhook: {role.trouble() or 'no call has come'}")
        if not role.trouble():
            await door.create(_SETS.ref("probe", "default"), _ANYTHING, dry_run=True)
            await door.create(_GRAPHS.ref("probe", "default"), _ANY_GRAPH, dry_run=True)
        await asyncio.sleep(_POLL_S)
