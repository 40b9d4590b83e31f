"""One role by itself on a server of its own; everything else is done by the administrator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.operator_configuration import OperatorConfiguration, load_configuration
from spinney.api.roles import NAMESPACE
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.sim.stack import Parts, Stack
from spinney.sim.world import RECORD_KEYS
from spinney.whatif.inputs.nodes import load_nodes

ELECTION = {
    "leaderElection": {
        "enabled": True,
        "leaseDuration": "8s",
        "renewDeadline": "6s",
        "retryPeriod": "100ms",
        "resourceNamespace": NAMESPACE,
    }
}
NODES = load_nodes(
    """
levels:
- {name: zone, label: example.com/zone, count: 2}
- {name: host, count: 2}
capacity: {cpu: 8, memory: 64Gi, pods: 110}
"""
)
DEADLINE_S = 150.0


def configured(**more: Any) -> OperatorConfiguration:
    """With topologies of one level, that of the nodes."""
    levels = [{"domain": "zone", "key": "example.com/zone"}]
    whole = {
        "scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]},
        "topologyAwareScheduling": {"enabled": True, "levels": levels},
        **more,
    }
    return load_configuration(json.dumps(whole))


def take_the_lease_away(server: Server, lease: str) -> None:
    """Somebody else leads for two seconds; then whoever stood by leads again, in a later epoch."""
    space, path = Space(server, NAMESPACE), "coordination.k8s.io/v1/leases"
    eventually(lambda: space.get(path, lease).ok(200)["spec"]["holderIdentity"], "it leads", DEADLINE_S)
    epoch = space.get(path, lease).ok(200)["spec"]["leaseTransitions"] + 1
    taken = {"holderIdentity": "somebody", "leaseTransitions": epoch, "leaseDurationSeconds": 2}
    space.patch(path, lease, {"spec": taken}).ok(200)

    def leads_again() -> bool:
        spec = space.get(path, lease).ok(200)["spec"]
        return spec["holderIdentity"] not in ("", "somebody") and spec["leaseTransitions"] > epoch

    eventually(leads_again, "it leads again", DEADLINE_S)


@asynccontextmanager
async def attended(server: Server, parts: Parts, *roles: Awaitable[None]) -> AsyncIterator[None]:
    """The parts are at work in the name of the administrator, and beside them the roles in their own."""
    admin = connect(find_connection(SystemClock(), kubeconfig=server.kubeconfig))
    stack = Stack(admin, SystemClock(), system_dice(), replace(parts, record_keys=RECORD_KEYS))
    tasks = [asyncio.ensure_future(each) for each in (stack.run(), *roles)]
    await stack.registered.wait()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await admin.close()
