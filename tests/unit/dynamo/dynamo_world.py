"""A world in which deployments live: rules, operator, scheduler and the Dynamo part at work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kube_embedded.server.api_server import ApiServer
from spinney.api.crds import all_crds
from spinney.api.dynamo_conversion import convert
from spinney.core.admission.dynamo.defaults import DynamoAdmissionSettings
from spinney.core.admission.dynamo.dynamo_admission import DynamoAdmission
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.settings import Settings
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.sim.event_loop import Sim, run
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.topologies import BLOCK, RACK, ZONE, settings

T = TypeVar("T")
Json = dict[str, Any]
NODES = f"""
levels:
- {{name: zone, label: {ZONE}, count: 2}}
- {{name: block, label: {BLOCK}, count: 2}}
- {{name: rack, label: {RACK}, count: 2}}
- {{name: host, count: 2}}
capacity: {{cpu: 64, memory: 256Gi, pods: 110, nvidia.com/gpu: 8}}
"""


def in_world(scenario: Callable[[World], Awaitable[T]], *, operator: Settings | None = None, seed: int = 0) -> T:
    """Run a scenario in a fresh world of simulated time."""
    told = operator or settings()

    async def main(sim: Sim) -> T:
        rules = (
            OperatorAdmission(AdmissionSettings(topology_enabled=told.topology_enabled)),
            DynamoAdmission(DynamoAdmissionSettings()),
        )
        converters = {("nvidia.com", "DynamoGraphDeployment"): convert}
        server = ApiServer(sim.clock, sim.dice, plugins=rules, converters=converters)
        parts = Parts(
            nodes=load_nodes(NODES),
            behaviour=NodeBehaviour(heartbeat_s=0),
            controllers=(),
            operator=told,
            scheduler=SchedulerSettings(),
            dynamo=DynamoSettings(),
        )
        async with World(sim.clock, sim.dice, parts, server=server) as world:
            await world.apply(_served(all_crds()))
            await world.settle()
            return await scenario(world)

    return run(main, seed=seed, limit_s=200_000)


def _served(crds: list[Json]) -> list[Json]:
    for crd in crds:
        crd["spec"]["versions"] = [{**version, "served": True} for version in crd["spec"]["versions"]]
    return crds


def manifest(deployment: Json) -> Json:
    """As a user would write it."""
    metadata = {key: value for key, value in deployment["metadata"].items() if key in ("name", "annotations")}
    return {**deployment, "metadata": {**metadata, "namespace": "default"}}


async def told(world: World, name: str, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition of a deployment."""
    found = await world.get("DynamoGraphDeployment", name)
    assert found is not None
    conditions = (found.get("status") or {}).get("conditions") or []
    return next(
        ((one["status"], one["reason"], one["message"]) for one in conditions if one["type"] == kind), ("", "", "")
    )
