"""Whole sets (G12): the domain of a base gang is chosen for the scaled gangs that follow it as well."""

from __future__ import annotations

import json
from typing import Any

from spinney.sim.world import World
from unit.operator.operator_world import clique, group, podcliqueset
from unit.operator.topologies import BLOCK, packed, settings
from unit.scheduler.scheduler_world import bound, domains, in_world, podgroup, pods

Json = dict[str, Any]


def blocks(*sizes: int, gpus: int = 8) -> str:
    """Nodes in blocks of these sizes, a few to a rack."""
    nodes = []
    for at, size in enumerate(sizes):
        for number in range(size):
            name = f"b{at}-{number}"
            labels = {
                "topology.kubernetes.io/zone": "z",
                BLOCK: f"b{at}",
                "example.com/rack": f"b{at}-r{number // 7}",
                "kubernetes.io/hostname": name,
            }
            amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
            status = {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            metadata = {"name": name, "labels": labels}
            nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status})
    return "\n---\n".join(map(json.dumps, nodes))


def gpus(number: int) -> Json:
    amounts = {"nvidia.com/gpu": str(number)}
    return {"containers": [{"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}]}


def disaggregated(name: str = "llm", replicas: int = 2, scaled: int = 1) -> Json:
    """Two scaling groups of a leader and a worker, each with one replica in the base gang, and two routers."""
    names = ("dworker", "dleader", "pworker", "pleader")
    cliques = [clique(each, 1, podSpec=gpus(1)) for each in names] + [clique("router", 2, podSpec=gpus(1))]
    rack = packed("rack")
    groups = [
        group("decoder", ["dworker", "dleader"], 1 + scaled, 1, topologyConstraint=rack),
        group("prefill", ["pworker", "pleader"], 1 + scaled, 1, topologyConstraint=rack),
    ]
    return podcliqueset(name, cliques, groups, replicas, topologyConstraint=packed("block"))


def test_g12_every_pod_of_a_set_with_many_groups_and_replicas_runs_on_thirty_idle_nodes() -> None:
    async def scenario(world: World) -> None:
        await world.apply(disaggregated())
        await world.settle()
        assert len(await bound(world, "llm")) == 20
        for replica in range(2):
            nodes = await bound(world, f"llm-{replica}-")
            assert len(nodes) == 10
            assert len(await domains(world, nodes.values(), BLOCK)) == 1

    in_world(scenario, operator=settings(), nodes=blocks(14, 2, 14, gpus=3))


def test_g12_a_base_gang_is_placed_for_scaled_gangs_that_are_tied_to_it_by_hand() -> None:
    async def scenario(world: World) -> None:
        tied = {"spinney.dev/tied-to": f"z-base,{BLOCK}"}
        scaled = podgroup("a-scaled", 2, required=BLOCK, annotations=tied)
        await world.apply([scaled, podgroup("z-base", 2, required=BLOCK), *pods("a-scaled", 2), *pods("z-base", 2)])
        await world.settle()
        nodes = await bound(world)
        assert len(nodes) == 4
        assert {path[-1] for path in await domains(world, nodes.values(), BLOCK)} == {"b1"}

    in_world(scenario, nodes=blocks(2, 4, 6))
