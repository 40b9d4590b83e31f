"""Whole sets (G12): the domain of a base gang is chosen for the scaled gangs that follow it as well."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

import pytest

from spinney.api.documents import PAGE
from spinney.sim.faults import CrashPoint, When
from spinney.sim.world import World
from spinney.whatif.inputs.manifests import parse_manifests
from spinney.whatif.inputs.operator_settings import read_configuration
from spinney.whatif.inputs.snapshot import read_snapshot
from spinney.whatif.request import PlanRequest, prepare_plan
from unit.operator.operator_world import clique, group, podcliqueset
from unit.operator.topologies import BLOCK, LEVELS, packed, settings
from unit.scheduler.crashing import Crashing
from unit.scheduler.scheduler_world import bound, domains, in_world, pod, podgroup, pods, said

Json = dict[str, Any]

CONFIGURATION = f"""
scheduler:
  profiles:
  - {{name: kai-scheduler, default: true}}
topologyAwareScheduling:
  enabled: true
  autoPreferred: Never
  levels: {json.dumps([{"domain": domain, "key": key} for domain, key in LEVELS.items()])}
"""
"""Of the operator of `settings`."""


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


def test_g12_b1_a_plan_names_the_domains_that_a_set_then_has() -> None:
    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("there", [clique("w", 3, podSpec=gpus(3))], topologyConstraint=packed("block")))
        await world.settle()
        whole = disaggregated()
        manifests = parse_manifests(json.dumps(whole), "a set", PAGE)
        question = PlanRequest(manifests, configuration=read_configuration(None, CONFIGURATION))
        forecast = (await prepare_plan(question, await read_snapshot(world.client), world.client)).answer()
        await world.apply(whole)
        await world.settle()
        assert forecast.fits
        told = {gang.name: {one.node[:2] for one in gang.explained.members} for gang in forecast.gangs}
        found: dict[str, set[str]] = {}
        for each in await world.list("Pod", labels="app.kubernetes.io/part-of=llm"):
            name = each["metadata"]["annotations"]["pod-group-name"]
            found.setdefault(f"default/{name}", set()).add(each["spec"]["nodeName"][:2])
        assert told == found

    in_world(scenario, operator=settings(), nodes=blocks(14, 2, 14, gpus=3))


ONE_PER_HOST: Json = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"kai.scheduler/subgroup-name": "w"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}


def base_gang(name: str = "base", minimum: int = 2, scaled: int = 1, **more: Any) -> list[Json]:
    """A base gang of one leaf, which says that its set asks for so many gangs of the same leaf."""
    asked = [{"name": f"{name}-more", "count": scaled, "level": BLOCK, "podGroups": ["w"], "required": BLOCK}]
    notes = {"spinney.dev/scaled-gangs": json.dumps(asked)}
    leaves = [{"name": "w", "minMember": minimum}]
    whole = podgroup(name, minimum, required=BLOCK, annotations=notes, subGroups=leaves, **more)
    return [whole, *pods(name, minimum, subgroup="w")]


def scaled_gang(number: int, base: str = "base", minimum: int = 2) -> list[Json]:
    name = f"{base}-more-{number}"
    tied = {"spinney.dev/tied-to": f"{base},{BLOCK}"}
    leaves = [{"name": "w", "minMember": minimum}]
    whole = podgroup(name, minimum, required=BLOCK, annotations=tied, subGroups=leaves)
    return [whole, *pods(name, minimum, subgroup="w")]


def test_g12_room_is_kept_for_scaled_gangs_that_are_on_their_way() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*base_gang(), podgroup("later", 2), *pods("later", 2)])
        await asyncio.sleep(1.0)
        assert len(await bound(world, "base")) == 2
        assert await bound(world, "later") == {}
        await world.apply(scaled_gang(0))
        await asyncio.sleep(1.0)
        assert len(await bound(world, "base")) == 4
        assert await bound(world, "later") == {}

    in_world(scenario, nodes=blocks(4))


def test_g12_room_for_scaled_gangs_that_do_not_come_is_not_kept_for_ever() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*base_gang(), podgroup("later", 2), *pods("later", 2)])
        await asyncio.sleep(20.0)
        assert await bound(world, "later") == {}
        await asyncio.sleep(15.0)
        assert len(await bound(world, "later")) == 2

    in_world(scenario, nodes=blocks(4))


@pytest.mark.parametrize("write", [None, 1, 2, 3, 4])
def test_g12_room_for_scaled_gangs_outlives_the_scheduler_that_kept_it(write: int | None) -> None:
    """It ends once all is bound, or while the base gang is; another gang waits for the room."""
    schedulers = Crashing(None if write is None else CrashPoint(write, When.AFTER))

    async def scenario(world: World) -> None:
        schedulers.arm()
        await world.apply([*base_gang(scaled=2), podgroup("later", 2), *pods("later", 2)])
        await asyncio.sleep(1.0)
        assert await bound(world, "later") == {}
        await schedulers.restart(world)
        await asyncio.sleep(20.0)
        assert (len(await bound(world, "base")), await bound(world, "later")) == (2, {})
        await world.apply([*scaled_gang(0), *scaled_gang(1)])
        await asyncio.sleep(1.0)
        assert (len(await bound(world, "base")), await bound(world, "later")) == (6, {})

    in_world(scenario, nodes=blocks(6), wrap=schedulers.wrapping)


def test_g12_a_new_scheduler_keeps_room_no_longer_than_the_one_before_it() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*base_gang(), podgroup("later", 2), *pods("later", 2)])
        await asyncio.sleep(20.0)
        await world.restart()
        await asyncio.sleep(5.0)
        assert await bound(world, "later") == {}
        await asyncio.sleep(10.0)
        assert len(await bound(world, "later")) == 2

    in_world(scenario, nodes=blocks(4))


def test_g12_more_important_gangs_get_the_room_that_is_kept() -> None:
    async def scenario(world: World) -> None:
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        await world.apply([{**high, "value": 1000}, *base_gang()])
        await asyncio.sleep(1.0)
        await world.apply([podgroup("urgent", 2, priorityClassName="high"), *pods("urgent", 2)])
        await asyncio.sleep(1.0)
        assert len(await bound(world, "urgent")) == 2
        await world.apply(scaled_gang(0))
        await asyncio.sleep(1.0)
        assert len(await bound(world, "base")) == 2

    in_world(scenario, nodes=blocks(4))


def test_g12_room_goes_with_the_base_gang_that_it_is_kept_for() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*base_gang(), podgroup("later", 4), *pods("later", 4)])
        await asyncio.sleep(1.0)
        for name in ("base-0", "base-1"):
            await world.delete("Pod", name)
        await world.delete("PodGroup", "base")
        await asyncio.sleep(1.0)
        assert len(await bound(world, "later")) == 4

    in_world(scenario, nodes=blocks(4))


def test_g12_pods_above_the_minimum_of_the_base_gang_do_not_take_the_room_of_its_scaled_gangs() -> None:
    async def scenario(world: World) -> None:
        more = [pod(f"base-extra-{at}", "base", subgroup="w") for at in range(2)]
        await world.apply([*base_gang(), *more])
        await asyncio.sleep(1.0)
        await world.apply(scaled_gang(0))
        await asyncio.sleep(1.0)
        assert len(await bound(world, "base-more-0-")) == 2

    in_world(scenario, nodes=blocks(4))


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_g12_the_order_in_which_a_sets_objects_are_seen_does_not_matter(first: int) -> None:
    found = set()
    for seed in range(first, first + 20):
        objects = [*base_gang(scaled=3), *(each for number in range(3) for each in scaled_gang(number))]
        objects += [podgroup("other", 1, required=BLOCK), *pods("other", 1)]
        Random(seed).shuffle(objects)

        async def scenario(world: World, objects: list[Json] = objects) -> tuple[tuple[str, str], ...]:
            for each in objects:
                await world.apply(each)
                await asyncio.sleep(0.05)
            await asyncio.sleep(5.0)
            nodes = await bound(world)
            return tuple(sorted({(name.split("-")[0], node.split("-")[0]) for name, node in nodes.items()}))

        found.add(in_world(scenario, nodes=blocks(2, 9, 8, 12)))
    assert found == {(("base", "b2"), ("other", "b0"))}


def test_g12_k17_scaled_gangs_whose_pods_keep_off_the_hosts_of_the_base_gang_are_counted_so() -> None:
    async def scenario(world: World) -> None:
        objects = [*base_gang(), *scaled_gang(0)]
        for each in objects:
            if each["kind"] == "Pod":
                each["spec"] |= {"containers": gpus(1)["containers"], "affinity": ONE_PER_HOST}
        await world.apply(objects)
        await world.settle()
        nodes = await bound(world)
        assert len(set(nodes.values())) == 4
        assert {path[-1] for path in await domains(world, nodes.values(), BLOCK)} == {"b1"}

    in_world(scenario, nodes=blocks(2, 4, 6))


def test_g12_k15_a_scaled_gang_that_has_no_room_waits_and_is_told_where_the_whole_set_would_fit() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*base_gang(scaled=0), *scaled_gang(0)])
        await world.settle()
        assert {node[:2] for node in (await bound(world)).values()} == {"b0"}
        await world.apply(scaled_gang(1))
        await world.settle()
        assert len(await bound(world, "base-more-1")) == 0
        assert "not enough resources in z/b0" in await said(world, "base-more-1")
        waiting = await world.get("PodGroup", "base-more-1")
        assert waiting is not None
        told = json.loads(waiting["metadata"]["annotations"]["spinney.dev/explanation"])
        assert {"wholeSet": {"gang": "default/base", "path": ["z", "b1"]}} in told["fitsIf"]

    in_world(scenario, nodes=blocks(5, 6))
