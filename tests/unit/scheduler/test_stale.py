"""Gangs that run below their minimum: told, given time, and ended when nobody repairs them (K14)."""

from __future__ import annotations

import asyncio

from spinney.core.scheduling.settings import Settings
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.world import World
from unit.operator.operator_world import writes_at_rest
from unit.operator.topologies import RACK
from unit.scheduler.preemption_world import budget, events
from unit.scheduler.scheduler_world import TOPOLOGY, bound, in_world, pod, podgroup, pods
from unit.scheduler.watched_world import patch

STALE = "kai.scheduler/stale-podgroup-timestamp"


async def _mark(world: World, name: str = "a") -> str:
    found = await world.get("PodGroup", name)
    assert found is not None
    return (found["metadata"].get("annotations") or {}).get(STALE, "")


def test_k14_a_gang_that_lost_a_member_is_told_that_it_is_stale() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3), *pods("a", 3)])
        await world.settle()
        await world.delete("Pod", "a-0")
        await asyncio.sleep(40)
        assert set(await bound(world)) == {"a-1", "a-2"}
        assert (await _mark(world)).endswith("Z")
        told = await events(world, "StaleJob")
        assert [each["message"] for each in told] == ["Job is stale. 2 pods are active, minMember is 3"]

    in_world(scenario)


def test_k14_what_is_left_of_a_stale_gang_is_ended_after_the_grace_period() -> None:
    async def scenario(world: World) -> None:
        dog = Watchdog.over(world)
        await world.apply([podgroup("a", 3), *pods("a", 3)])
        await world.settle()
        await world.delete("Pod", "a-0")
        await world.settle(quiet_s=120)
        assert await bound(world) == {}
        assert await _mark(world) == ""
        told = [each for each in await events(world, "Evict") if each["involvedObject"]["kind"] == "PodGroup"]
        start = "Workload doesn't meet the minimum required number of pods (3), evicting remaining pod: "
        assert sorted(each["message"] for each in told) == [f"{start}default/a-1", f"{start}default/a-2"]
        assert told[0]["metadata"]["annotations"]["evictor-action-type"] == "stalegangeviction"
        assert dog.check_at_rest() == []
        assert await writes_at_rest(world) == []

    in_world(scenario)


def test_k14_nobody_is_ended_while_a_mistake_keeps_a_gang_from_being_made_whole() -> None:
    """An administrator took the topology away: what runs goes on, and is made whole when it is back."""

    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3, required=RACK), *pods("a", 3, gpus=2)])
        await world.settle()
        await world.delete("Topology", "tree")
        await world.delete("Pod", "a-0")
        await world.apply([pod("a-3", "a", 2)])
        await world.settle(quiet_s=300)
        assert set(await bound(world)) == {"a-1", "a-2"}
        await world.apply(TOPOLOGY)
        await world.settle(quiet_s=300)
        assert set(await bound(world)) == {"a-1", "a-2", "a-3"}
        assert await _mark(world) == ""

    in_world(scenario)


def test_k14_a_mark_by_a_clock_that_was_ahead_does_not_keep_a_stale_gang() -> None:
    async def scenario(world: World) -> None:
        marked = podgroup("a", 3, annotations={STALE: "2999-01-01T00:00:00Z"})
        await world.apply([marked, *pods("a", 3)])
        await world.settle()
        await world.delete("Pod", "a-0")
        await patch(world, "PodGroup", "a", {"metadata": {"annotations": {STALE: "2999-01-01T00:00:00Z"}}})
        await world.settle(quiet_s=120)
        assert await bound(world) == {}

    in_world(scenario)


def test_k14_a_gang_that_is_repaired_in_time_goes_on() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3), *pods("a", 3)])
        await world.settle()
        await world.delete("Pod", "a-0")
        await asyncio.sleep(30)
        assert await _mark(world)
        await world.apply(pod("a-0", "a"))
        await world.settle(quiet_s=120)
        assert set(await bound(world)) == {"a-0", "a-1", "a-2"}
        assert await _mark(world) == ""
        assert await events(world, "Evict") == []

    in_world(scenario)


def test_k14_a_gap_that_is_closed_at_once_is_not_told() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2), *pods("a", 2)])
        await world.settle()
        await world.delete("Pod", "a-0")
        await world.apply(pod("a-new", "a"))
        await world.settle(quiet_s=120)
        assert set(await bound(world)) == {"a-1", "a-new"}
        assert await events(world, "StaleJob") == []

    in_world(scenario)


def test_k14_the_grace_period_goes_on_across_a_restart() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3), *pods("a", 3)])
        await world.settle()
        await world.delete("Pod", "a-0")
        await asyncio.sleep(40)
        await world.restart()
        await asyncio.sleep(15)
        assert len(await bound(world)) == 2
        await asyncio.sleep(15)
        assert await bound(world) == {}

    in_world(scenario)


def test_k14_with_a_negative_grace_period_stale_gangs_run_for_ever() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 3), *pods("a", 3)])
        await world.settle()
        await world.delete("Pod", "a-0")
        await world.settle(quiet_s=600)
        assert set(await bound(world)) == {"a-1", "a-2"}
        assert await _mark(world) == ""

    in_world(scenario, settings=Settings(staleness_grace_s=-1))


def test_k14_gangs_of_podgangs_are_left_to_their_operator() -> None:
    async def scenario(world: World) -> None:
        owner = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": {"name": "gang"}}
        made = (await world.apply([{**owner, "spec": {"podgroups": []}}]))[0]
        group = podgroup("a", 3)
        reference = {"apiVersion": owner["apiVersion"], "kind": "PodGang", "name": "gang"}
        group["metadata"]["ownerReferences"] = [{**reference, "uid": made["metadata"]["uid"], "controller": True}]
        await world.apply([group, *pods("a", 3)])
        await world.settle()
        await world.delete("Pod", "a-0")
        await world.settle(quiet_s=600)
        assert set(await bound(world)) == {"a-1", "a-2"}

    in_world(scenario)


def test_k14_a_stale_sub_group_is_named() -> None:
    async def scenario(world: World) -> None:
        leaves = [{"name": name, "minMember": 2} for name in ("one", "two")]
        members = [pod(f"{leaf}-{each}", "a", subgroup=leaf) for leaf in ("one", "two") for each in range(2)]
        await world.apply([podgroup("a", 4, subGroups=leaves), *members])
        await world.settle()
        await world.delete("Pod", "two-1")
        await world.settle(quiet_s=120)
        assert await bound(world) == {}
        (told,) = await events(world, "StaleJob")
        short = ", subGroup two minMember is 2 and 1 pods are active"
        assert told["message"] == f"Job is stale. 3 pods are active, minMember is 4{short}"
        evicted = {each["message"].rpartition(",")[0] for each in await events(world, "Evict")}
        assert evicted == {"Workload doesn't meet the minimum required number of pods (2) in sub-group two"}

    in_world(scenario)


def test_k14_a_stale_gang_that_a_budget_protects_goes_when_the_budget_allows() -> None:
    async def scenario(world: World) -> None:
        members = pods("a", 3)
        for each in members:
            each["metadata"]["labels"] = {"app": "a"}
        await world.apply([budget("kept", {"app": "a"}, minAvailable=2), podgroup("a", 3), *members])
        await world.settle()
        await world.delete("Pod", "a-0")
        await asyncio.sleep(300)
        assert len(await bound(world)) == 2
        await world.apply(budget("kept", {"app": "a"}, minAvailable=0))
        await asyncio.sleep(120)
        assert await bound(world) == {}

    in_world(scenario, controllers=("disruption",))
