"""Operator and admission together: what one writes the other admits, and neither undoes the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from kube_embedded.server.api_server import ApiServer
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.expansion.settings import Settings
from spinney.sim.event_loop import Sim, run
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.operator_world import CRDS, NODES, clique, podcliqueset, writes_at_rest
from unit.operator.topologies import LEVELS, packed, restarted, settings, topology

IMPLICIT = podcliqueset("d", [clique("a")], topologyConstraint=packed("block"))


def _in_world(
    scenario: Callable[[World], Awaitable[Any]], told: Settings, rules: AdmissionSettings, binds: bool = True
) -> Any:
    async def main(sim: Sim) -> Any:
        server = ApiServer(sim.clock, sim.dice, plugins=(OperatorAdmission(rules),))
        parts = Parts(
            nodes=load_nodes(NODES),
            behaviour=NodeBehaviour(heartbeat_s=0),
            controllers=(),
            binds=(lambda scheduler_name: True) if binds else None,
            operator=told,
        )
        async with World(sim.clock, sim.dice, parts, server=server) as world:
            await world.apply(CRDS)
            await world.settle()
            return await scenario(world)

    return run(main, limit_s=100_000)


async def _label(world: World) -> str:
    found = await world.get("PodCliqueSet", "d") or {}
    return found["metadata"].get("labels", {}).get("grove.io/topology-name", "")


def test_p8_live1_label_and_finalizer_are_admitted_and_then_nobody_writes() -> None:
    async def scenario(world: World) -> list[str]:
        await world.apply(IMPLICIT)
        await world.settle()
        assert await _label(world) == "grove-topology"
        assert (await world.get("PodCliqueSet", "d") or {})["status"]["availableReplicas"] == 1
        return await writes_at_rest(world)

    assert _in_world(scenario, settings(), AdmissionSettings()) == []


def test_p8_a_new_default_applies_to_pending_sets_and_comes_to_rest() -> None:
    rules = AdmissionSettings(default_topology="mine", writes_default=False)
    mine = replace(settings(), levels=(), default_topology="mine")

    async def scenario(world: World) -> None:
        await world.apply([topology("grove-topology", LEVELS), topology("mine", LEVELS)])
        await world.apply(IMPLICIT)
        await restarted(world, mine)
        assert await _label(world) == "mine"
        gang = await world.get("PodGang", "d-0") or {}
        assert gang["metadata"]["annotations"]["grove.io/topology-name"] == "mine"
        assert await writes_at_rest(world) == []

    _in_world(scenario, settings(None), rules, binds=False)
