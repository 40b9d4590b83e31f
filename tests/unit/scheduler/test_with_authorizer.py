"""The scheduler where managed objects are protected: what it has to do to pods of sets it may do."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kube_embedded.base.identity import AUTHENTICATED, MASTERS, Identity
from kube_embedded.server.api_server import ApiServer
from spinney.api.roles import user_of
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.scheduling.plan import decode
from spinney.core.scheduling.settings import Settings
from spinney.drive.client.http.transport import Response
from spinney.sim.event_loop import Sim, run
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.transport import InProcessTransport
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.operator_world import CRDS, clique, podcliqueset
from unit.scheduler.scheduler_world import NODES, TOPOLOGY, bound, plan_of, podgroup, pods
from unit.scheduler.watched_world import lose_node

Json = dict[str, Any]
SCHEDULER = Identity(user_of("scheduler"), groups=(MASTERS, AUTHENTICATED))
"""With every right: what is refused is refused by admission."""
PROTECTED = AdmissionSettings(protects_managed=True, scheduler_users=frozenset({SCHEDULER.name}))
MANAGED = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "p"}


class HoldsBinds:
    """No bind is answered while they are held."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.held = True
        self.refusals: list[str] = []
        self.stream, self.close = inner.stream, inner.close

    async def request(self, method: str, path: str, **rest: Any) -> Response:
        if path.endswith("/binding") and self.held:
            status = {"kind": "Status", "status": "Failure", "code": 503, "reason": "ServiceUnavailable"}
            return Response(503, {}, msgspec.json.encode(status))
        reply: Response = await self._inner.request(method, path, **rest)
        if reply.status == 403:
            self.refusals.append(reply.body.decode())
        return reply


def managed(group: str, count: int) -> list[Json]:
    found = pods(group, count)
    for each in found:
        each["metadata"]["labels"] = dict(MANAGED)
    return found


def test_a_recorded_plan_on_a_lost_node_is_released_with_the_authorizer_on() -> None:
    async def main(sim: Sim) -> None:
        server = ApiServer(sim.clock, sim.dice, plugins=(OperatorAdmission(PROTECTED),))
        line = HoldsBinds(InProcessTransport(server, SCHEDULER))
        parts = Parts(
            nodes=load_nodes(NODES), behaviour=NodeBehaviour(heartbeat_s=0), controllers=(), scheduler=Settings()
        )
        async with World(sim.clock, sim.dice, parts, server=server, wrap=lambda _: line) as world:
            await world.apply([*CRDS, TOPOLOGY, podcliqueset("p", [clique("w")])])
            await world.stack.roles.scheduling.wait()
            await world.apply([podgroup("a", 2), *managed("a", 2)])
            for _ in range(100):
                await asyncio.sleep(0.1)
                if plan := await plan_of(world, "a"):
                    break
            assert plan is not None
            lost = decode(plan).assignments[0].node
            await lose_node(world, lost)
            await asyncio.sleep(60)
            line.held = False
            await world.settle()
            assert line.refusals == []
            assert len(await bound(world)) == 2
            assert lost not in (await bound(world)).values()
            assert await plan_of(world, "a") is None
            found = await world.get("Pod", "a-0")
            assert found is not None and "spinney.dev/released" in found["metadata"]["annotations"]

    run(main, limit_s=200_000)
