"""Nodes that go, shrink, close and come back; members that come late; gangs that have to be placed anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from spinney.api.labels import PLAN
from spinney.core.scheduling.plan import Assignment, Plan, encode
from spinney.core.scheduling.settings import Settings
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.world import World
from unit.operator.topologies import BLOCK, RACK, ZONE
from unit.scheduler.delayed_watch import DelayedWatch
from unit.scheduler.scheduler_world import (
    TOPOLOGY,
    bound,
    constraint,
    domains,
    in_world,
    plan_of,
    pod,
    podgroup,
    pods,
    said,
)
from unit.scheduler.watched_world import lose_node, patch, watched

Json = dict[str, Any]
PATIENT = Settings(staleness_grace_s=-1)
ONE_RACK = """
levels:
- {name: zone, label: topology.kubernetes.io/zone, count: 1}
- {name: block, label: example.com/block, count: 1}
- {name: rack, label: example.com/rack, count: 1}
- {name: host, count: 2}
capacity: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}
"""
BIG_RACKS = ONE_RACK.replace("rack, count: 1", "rack, count: 2").replace("host, count: 2", "host, count: 6")


async def racks(world: World, prefix: str = "") -> set[tuple[str, ...]]:
    return set(await domains(world, (await bound(world, prefix)).values(), RACK))


async def remake(world: World, group: str, count: int, gpus: int = 8) -> None:
    """What their owner does: pods that are gone are made again, under other names."""
    there = [each for each in await world.list("Pod") if each["metadata"]["name"].startswith(f"{group}-")]
    await world.apply([pod(f"{group}-new-{each}", group, gpus) for each in range(count - len(there))])


class LateBinds:
    """A client that hears of the node of a pod five seconds late."""

    def __init__(self, inner: Any, pod: str) -> None:
        self._inner = inner
        self._name = f'"name":"{pod}"'.encode()
        self.request, self.close = inner.request, inner.close

    @asynccontextmanager
    async def stream(self, path: str, **rest: Any) -> AsyncIterator[Any]:
        async with self._inner.stream(path, **rest) as inner:
            yield DelayedWatch(inner, self._name, b'"nodeName"')


def test_inv1_the_capacity_of_pods_that_were_just_bound_outlives_their_podgroup() -> None:
    """The PodGroup is deleted before the scheduler has seen its own binds (seed 573155749)."""

    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        await patch(world, "Node", nodes[1], {"spec": {"unschedulable": True}})
        dog = Watchdog.over(world)
        await world.apply([podgroup("a"), pod("a-0", "a"), pod("b-0", "b")])
        await asyncio.sleep(2.0)
        assert set(await bound(world)) == {"a-0"}
        await world.delete("PodGroup", "a")
        await world.apply(podgroup("b"))
        await asyncio.sleep(20.0)
        assert set(await bound(world)) == {"a-0"}
        await world.delete("Pod", "a-0")
        await world.settle()
        assert set(await bound(world)) == {"b-0"}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK, wrap=lambda sim: lambda inner: LateBinds(inner, "a-0"))


def test_inv3_members_of_a_lost_node_are_replaced_in_the_domain_of_the_gang() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3, required=RACK), *pods("a", 3)])
        await world.settle()
        before = await racks(world)
        await lose_node(world, (await bound(world))["a-0"])
        await remake(world, "a", 3)
        await world.settle()
        assert len(await bound(world)) == 3
        assert await racks(world) == before

    watched(scenario, nodes=BIG_RACKS)


def test_inv3_several_nodes_lost_at_once_and_the_rest_of_the_gang_is_kept() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 4, required=RACK), *pods("a", 4)])
        await world.settle()
        before, kept = await racks(world), (await bound(world))["a-3"]
        for name in ("a-0", "a-1", "a-2"):
            await lose_node(world, (await bound(world))[name])
        await remake(world, "a", 4)
        await world.settle()
        assert len(await bound(world)) == 4
        assert (await racks(world), (await bound(world))["a-3"]) == (before, kept)

    watched(scenario, nodes=BIG_RACKS.replace("count: 6", "count: 8"))


def test_g12_replacements_wait_with_a_reason_while_their_domain_has_no_room() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        lost = (await bound(world))["a-0"]
        node = await world.get("Node", lost)
        assert node is not None
        await lose_node(world, lost)
        await remake(world, "a", 2)
        await world.settle()
        assert set(await bound(world)) == {"a-1"}
        waiting = await world.get("Pod", "a-new-0")
        assert waiting is not None and waiting["status"]["conditions"][0]["reason"] == "Unschedulable"
        metadata = {"name": lost, "labels": node["metadata"]["labels"]}
        await world.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": node["status"]})
        await world.settle()
        assert set((await bound(world)).values()) == {lost, (await bound(world))["a-1"]}

    watched(scenario, settings=PATIENT)


def test_inv2_a_gang_whose_nodes_are_all_gone_begins_anew_anywhere() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        before = await racks(world)
        for node in set((await bound(world)).values()):
            await lose_node(world, node)
        await world.apply(pod("a-new-0", "a"))
        await world.settle()
        assert await bound(world) == {}
        await world.apply(pod("a-new-1", "a"))
        await world.settle()
        assert len(await bound(world)) == 2
        assert await racks(world) != before

    watched(scenario)


def test_g12_a_base_that_is_placed_anew_goes_to_where_its_scaled_gangs_run() -> None:
    async def scenario(world: World) -> None:
        tied = {"spinney.dev/tied-to": f"base,{BLOCK}"}
        scaled = podgroup("scaled", 2, required=BLOCK, annotations=tied)
        await world.apply([podgroup("base", 2, required=BLOCK), *pods("base", 2), scaled, *pods("scaled", 2)])
        await world.settle()
        home = set(await domains(world, (await bound(world)).values(), BLOCK))
        assert len(home) == 1
        for name in ("base-0", "base-1"):
            await world.delete("Pod", name)
        await world.settle()
        far = sorted(each["metadata"]["name"] for each in await world.list("Node"))[-3:]
        full = [pod(f"x-{each}", "", schedulerName="other", nodeName=name) for each, name in enumerate(far)]
        await world.apply(full)  # what is left of that block would be packed best
        await world.settle()
        await world.apply(pods("base", 2, 4))
        await world.settle()
        assert set(await domains(world, (await bound(world, "base")).values(), BLOCK)) == home

    watched(scenario)


def test_g12_a_base_waits_when_there_is_no_room_where_its_scaled_gangs_run_and_goes_when_they_are_gone() -> None:
    async def scenario(world: World) -> None:
        tied = {"spinney.dev/tied-to": f"base,{RACK}"}
        scaled = podgroup("scaled", 1, required=RACK, annotations=tied)
        await world.apply([podgroup("base", 1, required=RACK), *pods("base", 1), scaled, *pods("scaled", 1)])
        await world.settle()
        (home,) = await racks(world)
        await world.delete("Pod", "base-0")
        await world.settle()
        free = [
            each["metadata"]["name"]
            for each in await world.list("Node")
            if each["metadata"]["labels"][RACK] == home[-1]
        ]
        taken = set((await bound(world)).values())
        await world.apply([pod("other", "", schedulerName="other", nodeName=name) for name in set(free) - taken])
        await world.apply(pods("base", 1))
        await world.settle()
        assert await bound(world, "base") == {}
        assert "beside gang default/scaled holds 0" in await said(world, "base")
        await world.delete("Pod", "scaled-0")
        await world.settle()
        assert len(await bound(world, "base")) == 1
        assert await racks(world, "base") != {home}

    watched(scenario)


def test_k14_gated_pods_wait_and_join_when_their_gates_open() -> None:
    async def scenario(world: World) -> None:
        gated = pod("a-2", "a", 4, schedulingGates=[{"name": "example.com/wait"}])
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2, 4), gated])
        await world.settle()
        assert set(await bound(world)) == {"a-0", "a-1"}
        await patch(world, "Pod", "a-2", {"spec": {"schedulingGates": None}})
        await world.settle()
        assert len(await bound(world)) == 3
        assert len(await racks(world)) == 1

    watched(scenario)


def test_k14_a_gang_is_not_begun_with_gated_pods() -> None:
    async def scenario(world: World) -> None:
        gate = [{"name": "example.com/wait"}]
        await world.apply([podgroup("a", 2), pod("a-0", "a"), pod("a-1", "a", schedulingGates=gate)])
        await world.settle()
        assert await bound(world) == {}
        found = await world.get("Pod", "a-0")
        assert found is not None
        assert "currently 2 exist, 1 are gated" in found["status"]["conditions"][0]["message"]

    watched(scenario)


def test_k14_a_gang_grows_as_room_comes_and_stays_in_its_domain() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 1, required=RACK), *pods("a", 4)])
        await world.settle()
        assert len(await bound(world)) == 2
        twin = await world.get("Node", next(iter((await bound(world)).values())))
        assert twin is not None
        labels = {**twin["metadata"]["labels"], "kubernetes.io/hostname": "late"}
        metadata = {"name": "late", "labels": labels}
        await world.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": twin["status"]})
        await world.settle()
        assert len(await bound(world)) == 3
        assert len(await racks(world)) == 1

    watched(scenario)


def holding(name: str, node: str = "", group: str = "") -> Json:
    """A pod that takes a while to go."""
    made = pod(name, group, **({"nodeName": node, "schedulerName": "other"} if node else {}))  # type: ignore[arg-type]
    made["metadata"]["finalizers"] = ["example.com/hold"]
    return made


async def let_go(world: World, name: str) -> None:
    await patch(world, "Pod", name, {"metadata": {"finalizers": None}})


def test_k6_a_rack_full_of_terminating_pods_is_waited_for_only_if_nothing_is_idle() -> None:
    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        await world.apply([holding(f"old-{each}", node) for each, node in enumerate(nodes)])
        for each in range(2):
            await world.delete("Pod", f"old-{each}", grace_s=0)
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        assert await bound(world, "a") == {}
        found = await world.get("Pod", "old-0")
        assert found is not None and found["metadata"]["deletionTimestamp"]
        for each in range(2):
            await let_go(world, f"old-{each}")
        await world.settle()
        assert sorted((await bound(world, "a")).values()) == nodes[:2]

    watched(scenario, nodes=ONE_RACK.replace("rack, count: 1", "rack, count: 2"))


def test_k6_room_that_is_free_now_is_better_than_room_that_is_being_left() -> None:
    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        await world.apply([holding(f"old-{each}", node) for each, node in enumerate(nodes[:2])])
        for each in range(2):
            await world.delete("Pod", f"old-{each}", grace_s=0)
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        assert sorted((await bound(world, "a")).values()) == nodes[2:]

    watched(scenario, nodes=ONE_RACK.replace("rack, count: 1", "rack, count: 2"))


def test_live2_room_that_is_waited_for_does_not_keep_others_from_room_that_comes_free() -> None:
    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        await world.apply([holding(f"old-{each}", node) for each, node in enumerate(nodes)])
        await world.delete("Pod", "old-0", grace_s=0)
        await world.delete("Pod", "old-1", grace_s=0)
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2), podgroup("b", 1), *pods("b", 1)])
        await world.settle()
        await world.delete("Pod", "a-0")
        await world.delete("Pod", "a-1")
        await let_go(world, "old-0")
        await world.settle()
        assert await bound(world, "b") == {"b-0": nodes[0]}

    watched(scenario, nodes=ONE_RACK)


def test_live2_two_gangs_that_each_fit_alone_do_not_block_each_other() -> None:
    async def scenario(world: World) -> None:
        both = [podgroup("a", 2), podgroup("b", 2)]
        members = [made for each in range(2) for made in (pod(f"a-{each}", "a"), pod(f"b-{each}", "b"))]
        await world.apply([*both, *members])
        await world.settle()
        (first,) = {name[0] for name in await bound(world)}
        second = {"a": "b", "b": "a"}[first]
        for each in range(2):
            await world.delete("Pod", f"{first}-{each}")
        await world.settle()
        assert set(await bound(world)) == {f"{second}-0", f"{second}-1"}

    watched(scenario, nodes=ONE_RACK)


def test_inv1_a_node_that_shrank_gets_no_new_pod_and_keeps_those_it_has() -> None:
    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        await world.apply([podgroup("a", 2), *pods("a", 2, 4)])
        await world.settle()
        (home,) = set((await bound(world)).values())
        capacity = {"status": {"allocatable": {"nvidia.com/gpu": "4"}, "capacity": {"nvidia.com/gpu": "4"}}}
        await patch(world, "Node", home, capacity, subresource="status")
        await world.apply([podgroup("b"), *pods("b", 1, 1), podgroup("c"), *pods("c", 1, 8)])
        await world.settle()
        (other,) = set(nodes) - {home}
        assert set((await bound(world, "a")).values()) == {home}
        assert set((await bound(world, "b")).values()) | set((await bound(world, "c")).values()) == {other}

    watched(scenario, nodes=ONE_RACK)


def test_live4_cordons_taints_and_labels_are_followed() -> None:
    async def scenario(world: World) -> None:
        first, second = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        taint = [{"key": "example.com/broken", "effect": "NoSchedule"}]
        await patch(world, "Node", first, {"spec": {"unschedulable": True}})
        await patch(world, "Node", second, {"spec": {"taints": taint}})
        await world.apply([podgroup("a"), *pods("a", 1)])
        await world.settle()
        assert await bound(world) == {}
        await patch(world, "Node", second, {"spec": {"taints": None}})
        await world.settle()
        assert await bound(world) == {"a-0": second}
        await world.apply([podgroup("b"), *pods("b", 1, nodeSelector={"example.com/kind": "big"})])
        await patch(world, "Node", first, {"spec": {"unschedulable": None}})
        await world.settle()
        assert await bound(world, "b") == {}
        await patch(world, "Node", first, {"metadata": {"labels": {"example.com/kind": "big"}}})
        await world.settle()
        assert await bound(world, "b") == {"b-0": first}

    watched(scenario, nodes=ONE_RACK)


async def _replace_topology(world: World, *levels: str) -> None:
    await world.delete("Topology", "tree")
    if levels:
        await world.apply({**TOPOLOGY, "spec": {"levels": [{"nodeLabel": key} for key in levels]}})


def test_live3_a_level_that_goes_and_comes_back_breaks_nobody() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 1, required=RACK), *pods("a", 1, 4)])
        await world.settle()
        before = await bound(world)
        await _replace_topology(world, ZONE, BLOCK)
        await world.apply(pod("a-late", "a", 4))
        await world.apply([podgroup("b", 2, required=RACK), *pods("b", 2)])
        await world.settle()
        assert await bound(world) == before
        assert "does not contain a level with this name" in await said(world, "b")
        await _replace_topology(world, ZONE, BLOCK, RACK)
        await world.settle()
        nodes = await bound(world)
        assert len(nodes) == 4
        assert (nodes["a-0"], len(await racks(world, "a")), len(await racks(world, "b"))) == (before["a-0"], 1, 1)
        assert await said(world, "b") == ""

    watched(scenario, judged=False)


def test_k2_a_topology_that_does_not_exist_is_a_visible_mistake_until_it_does() -> None:
    async def scenario(world: World) -> None:
        await _replace_topology(world)
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        assert await said(world, "a") == "Requested topology tree does not exist"
        found = await world.get("Pod", "a-0")
        assert found is not None
        assert found["status"]["conditions"][0]["message"] == "Requested topology tree does not exist"
        await world.apply(TOPOLOGY)
        await world.settle()
        assert len(await bound(world)) == 2
        assert await said(world, "a") == ""

    watched(scenario, judged=False)


def test_g12_scaled_gangs_stay_while_the_topology_of_their_base_is_away() -> None:
    async def scenario(world: World) -> None:
        tied = {"spinney.dev/tied-to": f"base,{BLOCK}"}
        scaled = podgroup("scaled", 1, required=BLOCK, annotations=tied)
        await world.apply([podgroup("base", 2, required=BLOCK), *pods("base", 2), scaled, *pods("scaled", 1)])
        await world.settle()
        before = await bound(world)
        await _replace_topology(world)
        await world.settle()
        await world.apply(pod("scaled-late", "scaled", 1))
        await world.settle()
        assert await bound(world) == before
        await world.apply(TOPOLOGY)
        await world.settle()
        assert len(await domains(world, (await bound(world)).values(), BLOCK)) == 1
        assert len(await bound(world)) == 4

    watched(scenario)


def test_k2_one_name_in_two_namespaces_is_replaced_and_freed_apart() -> None:
    async def scenario(world: World) -> None:
        await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        await world.apply([podgroup("a", 1, required=RACK), podgroup("a", 1, namespace="other", required=RACK)])
        await world.apply([*pods("a", 1), *pods("a", 1, namespace="other")])
        await world.settle()
        theirs = await bound(world, namespace="other")
        await world.delete("Pod", "a-0")
        await world.settle()
        assert await bound(world, namespace="other") == theirs
        await world.apply(pod("a-1", "a"))
        await world.settle()
        assert set(await bound(world, namespace="default")) == {"a-1"}

    watched(scenario)


def test_k14_sub_groups_that_lost_everybody_begin_anew_beside_those_that_run() -> None:
    async def scenario(world: World) -> None:
        leaves = [{"name": name, "minMember": 2, **constraint(RACK)} for name in ("one", "two")]
        members = [pod(f"{leaf}-{each}", "a", subgroup=leaf) for leaf in ("one", "two") for each in range(2)]
        await world.apply([podgroup("a", 4, required=BLOCK, subGroups=leaves), *members])
        await world.settle()
        home = set(await domains(world, (await bound(world)).values(), BLOCK))
        kept = await bound(world, "two")
        for name in ("one-0", "one-1"):
            await world.delete("Pod", name)
        await world.settle()
        await world.apply([pod(f"one-{each}", "a", subgroup="one") for each in range(2)])
        await world.settle()
        assert (await bound(world, "two"), len(await bound(world, "one"))) == (kept, 2)
        assert set(await domains(world, (await bound(world)).values(), BLOCK)) == home

    watched(scenario, settings=PATIENT)


def test_inv6_a_podgroup_that_is_deleted_while_its_plan_is_open_leaves_no_room_reserved() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await asyncio.sleep(0.003)
        await world.delete("PodGroup", "a")
        for each in range(2):
            await world.delete("Pod", f"a-{each}", grace_s=0)
        await world.apply([podgroup("b", 2), *pods("b", 2)])
        await world.settle()
        assert len(await bound(world, "b")) == 2

    watched(scenario, nodes=ONE_RACK, settings=Settings(gather_s=0.001))


def test_inv6_a_plan_that_nobody_can_read_is_dropped() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), pod("a-0", "a")])
        found = await world.get("PodGroup", "a")
        assert found is not None
        garbage = {"metadata": {"annotations": {"spinney.dev/plan": "{"}}}
        written(await world.door.merge_patch(world.ref(found), garbage, ANY))
        await world.settle()
        assert await plan_of(world, "a") is None

    watched(scenario)


def test_inv1_room_that_is_given_up_is_nobody_elses_before_its_record_is_gone() -> None:
    """A bind of whoever made the plan may still be on its way to it."""
    holders: set[str] = set()
    beside: list[set[str]] = []

    def look(collection: str, event: Any) -> None:
        if collection != "scheduling.run.ai/podgroups" or event.new is None:
            return
        metadata = msgspec.json.decode(event.new.body)["metadata"]
        if PLAN not in metadata.get("annotations", {}):
            holders.discard(metadata["name"])
        elif metadata["name"] not in holders:
            holders.add(metadata["name"])
            beside.append(set(holders))

    async def scenario(world: World) -> None:
        first, second = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        await patch(world, "Node", second, {"spec": {"unschedulable": True}})
        await world.apply([podgroup("one", 2), *pods("one", 2)])
        await world.settle()
        uids = [each["metadata"]["uid"] for each in await world.list("Pod")]
        found = Plan(
            1, "bind", tuple(Assignment(uid, node, 0) for uid, node in zip(uids, (first, second), strict=True))
        )
        world.on_write(look)
        await patch(world, "PodGroup", "one", {"metadata": {"annotations": {PLAN: encode(found)}}})
        await world.apply([podgroup("two", 1), *pods("two", 1)])
        await world.settle()
        assert await bound(world) == {"two-0": first}
        assert beside == [{"one"}, {"two"}]

    in_world(scenario, nodes=ONE_RACK)
