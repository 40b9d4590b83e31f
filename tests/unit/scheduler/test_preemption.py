"""Room that less important gangs make for more important ones: lawfully, recorded first, and never in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from spinney.drive.client.http.transport import Response
from spinney.sim.event_loop import Sim
from spinney.sim.world import World
from unit.operator.operator_world import writes_at_rest
from unit.operator.topologies import HOST, RACK
from unit.scheduler.delayed_watch import DelayedWatch
from unit.scheduler.preemption_world import (
    CLASSES,
    ONE_RACK,
    TWO_RACKS,
    RefusesEvictions,
    budget,
    events,
    gang,
    guarded,
    hold,
    priority_class,
    recorded,
)
from unit.scheduler.scheduler_world import bound, domains, in_world, pod, pods, said
from unit.scheduler.watched_world import patch


def test_k10_a_more_important_gang_gets_the_room_of_a_less_important_one() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        dog = guarded(world)
        await world.apply([gang("high", 2, "high", required=RACK), *pods("high", 2)])
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert await recorded(world, "high") is None
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


def test_k10_only_the_cheapest_rack_is_cleared() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("one", 1, "low"), gang("two", 2, "low"), gang("mid", 1, "mid")])
        await world.apply([*pods("one", 1), *pods("two", 2), *pods("mid", 1)])
        await world.settle()
        assert len(await bound(world)) == 4
        dog = guarded(world)
        await world.apply([gang("high", 2, "high", required=RACK), *pods("high", 2)])
        await world.settle()
        nodes = await bound(world, "high")
        assert len(await domains(world, nodes.values(), RACK)) == 1
        assert len(await bound(world)) == 4
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=TWO_RACKS)


def test_k10_elastic_pods_above_the_minimum_go_and_the_gang_stays() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 1, "low"), *pods("low", 2)])
        await world.settle()
        dog = guarded(world)
        await world.apply([gang("high", 1, "high"), *pods("high", 1)])
        await world.settle()
        assert (len(await bound(world, "low")), len(await bound(world, "high"))) == (1, 1)
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


def test_live4_room_that_comes_while_victims_linger_is_taken() -> None:
    """The victims may never go; nodes that are free meanwhile are as good, and nobody has to leave for them."""

    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        for node in nodes[2:]:
            await patch(world, "Node", node, {"spec": {"unschedulable": True}})
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        await hold(world, "low-0", "low-1")
        dog = guarded(world)
        await world.apply([gang("high", 2, "high", required=RACK), *pods("high", 2)])
        await world.settle()
        plan = await recorded(world, "high")
        assert plan is not None and plan.state == "wait"
        await patch(world, "Node", nodes[2], {"spec": {"unschedulable": False}})
        await world.settle()
        assert await bound(world, "high") == {}, "one node is not enough"
        await patch(world, "Node", nodes[3], {"spec": {"unschedulable": False}})
        await world.settle()
        assert sorted((await bound(world, "high")).values()) == nodes[2:]
        assert await recorded(world, "high") is None
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=TWO_RACKS)


def test_inv2_a_plan_that_waits_is_given_up_when_it_is_less_than_a_minimum_that_was_raised() -> None:
    """Neither are its nodes taken once they are free, nor others (seed 212058745)."""

    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        for node in nodes[2:]:
            await patch(world, "Node", node, {"spec": {"unschedulable": True}})
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        await hold(world, "low-0", "low-1")
        dog = guarded(world)
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        plan = await recorded(world, "high")
        assert plan is not None and plan.state == "wait"
        await patch(world, "PodGroup", "high", {"spec": {"minMember": 3}})
        await world.settle()
        assert await recorded(world, "high") is None
        await patch(world, "Node", nodes[2], {"spec": {"unschedulable": False}})
        await hold(world, "low-0", "low-1", let_go=True)
        await world.settle(quiet_s=200)
        assert await bound(world, "high") == {}
        await world.apply(pods("high", 3)[2])
        await world.settle(quiet_s=200)
        assert len(await bound(world, "high")) == 3
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=TWO_RACKS)


def test_inv2_a_plan_that_waits_is_given_up_where_only_its_other_pods_would_make_the_minimum() -> None:
    """The minimum is raised to what is there; the plan is for fewer, and its room is free (seed 666610168)."""

    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        for node in nodes[1:]:
            await patch(world, "Node", node, {"spec": {"unschedulable": True}})
        await world.apply([*CLASSES, gang("low", 1, "low"), *pods("low", 1)])
        await world.settle()
        await hold(world, "low-0")
        dog = guarded(world)
        await world.apply([gang("high", 1, "high"), *pods("high", 3)])
        await world.settle()
        plan = await recorded(world, "high")
        assert plan is not None and (plan.state, len(plan.assignments)) == ("wait", 1)
        await patch(world, "PodGroup", "high", {"spec": {"minMember": 3}})
        await hold(world, "low-0", let_go=True)
        await world.settle(quiet_s=200)
        assert await bound(world, "high") == {}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=TWO_RACKS)


def test_g12_a_base_that_waits_for_victims_does_not_leave_the_domain_of_its_scaled_gangs() -> None:
    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        for node in nodes[2:]:
            await patch(world, "Node", node, {"spec": {"unschedulable": True}})
        tied = {"spinney.dev/tied-to": f"base,{RACK}"}
        scaled = gang("scaled", 1, "high", required=RACK, annotations=tied)
        await world.apply([*CLASSES, gang("base", 1, "high", required=RACK), *pods("base", 1), scaled])
        await world.apply(pods("scaled", 1))
        await world.settle()
        await world.delete("Pod", "base-0")
        await world.apply([gang("low", 1, "low"), *pods("low", 1)])
        await world.settle()
        await hold(world, "low-0")
        await world.apply([pod("base-1", "base")])
        await world.settle()
        for node in nodes[2:]:
            await patch(world, "Node", node, {"spec": {"unschedulable": False}})
        await world.settle()
        assert await bound(world, "base") == {}
        await hold(world, "low-0", let_go=True)
        await world.settle()
        assert len(await domains(world, (await bound(world)).values(), RACK)) == 1
        assert set(await bound(world)) == {"base-1", "scaled-0"}

    in_world(scenario, nodes=TWO_RACKS)


def test_g12_inv3_a_scaled_gang_that_waits_for_victims_follows_its_base_elsewhere() -> None:
    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        for node in nodes[2:]:
            await patch(world, "Node", node, {"spec": {"unschedulable": True}})
        await world.apply([*CLASSES, gang("base", 1, "high", required=RACK), *pods("base", 1)])
        await world.apply([gang("low", 1, "low"), *pods("low", 1)])
        await world.settle()
        await hold(world, "low-0")
        dog = guarded(world)
        tied = {"spinney.dev/tied-to": f"base,{RACK}"}
        await world.apply([gang("scaled", 1, "high", required=RACK, annotations=tied), *pods("scaled", 1)])
        await world.settle()
        plan = await recorded(world, "scaled")
        assert plan is not None and plan.state == "wait"
        home = (await bound(world))["base-0"]
        await patch(world, "Node", home, {"spec": {"unschedulable": True}})
        await patch(world, "Node", nodes[2], {"spec": {"unschedulable": False}})
        await world.delete("Pod", "base-0")
        await world.apply([pod("base-1", "base")])
        await world.settle()
        await hold(world, "low-0", let_go=True)
        await world.settle()
        assert await bound(world) == {"base-1": nodes[2]}, "it goes nowhere without its base"
        await patch(world, "Node", nodes[3], {"spec": {"unschedulable": False}})
        await world.settle()
        assert await bound(world) == {"base-1": nodes[2], "scaled-0": nodes[3]}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=TWO_RACKS)


def test_g12_a_scaled_gang_that_waits_for_victims_stays_beside_a_base_that_grows_elsewhere() -> None:
    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        for node in nodes[2:]:
            await patch(world, "Node", node, {"spec": {"unschedulable": True}})
        await world.apply([*CLASSES, gang("base", 1, "high", preferred=RACK), *pods("base", 1)])
        await world.apply([gang("low", 1, "low"), *pods("low", 1)])
        await world.settle()
        await hold(world, "low-0")
        dog = guarded(world)
        tied = {"spinney.dev/tied-to": f"base,{RACK}"}
        await world.apply([gang("scaled", 1, "high", required=RACK, annotations=tied), *pods("scaled", 1)])
        await world.settle()
        for node in nodes[2:]:
            await patch(world, "Node", node, {"spec": {"unschedulable": False}})
        await world.apply([pod("base-1", "base")])
        await world.settle()
        assert len(await domains(world, (await bound(world, "base")).values(), RACK)) == 2
        await hold(world, "low-0", let_go=True)
        await world.settle()
        assert (await bound(world))["scaled-0"] in nodes[:2]
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=TWO_RACKS)


def _stays(low: dict[str, Any], high: dict[str, Any], more: list[dict[str, Any]], labels: dict[str, str]) -> str:
    """What a gang of two is told that finds the room taken by one that may not be a victim."""

    async def scenario(world: World) -> str:
        members = pods("low", 2)
        for each in members:
            each["metadata"]["labels"] = labels
        await world.apply([*CLASSES, *more, low, *members])
        await world.settle()
        dog = guarded(world)
        await world.apply([high, *pods("high", 2)])
        await world.settle()
        assert set(await bound(world)) == {"low-0", "low-1"}
        assert await recorded(world, "high") is None
        assert dog.check_at_rest() == []
        return await said(world, "high")

    return in_world(scenario, nodes=ONE_RACK, controllers=("disruption",))


def test_inv7_a_gang_of_the_same_priority_is_no_victim() -> None:
    assert _stays(gang("low", 2, "mid"), gang("high", 2, "mid"), [], {})


def test_inv7_a_gang_that_is_not_preemptible_is_no_victim() -> None:
    assert _stays(gang("low", 2, "low", preemptibility="non-preemptible"), gang("high", 2, "high"), [], {})


def test_k10_a_gang_whose_class_never_preempts_waits() -> None:
    never = priority_class("patient", 30, preemptionPolicy="Never")
    assert _stays(gang("low", 2, "low"), gang("high", 2, "patient"), [never], {})


def test_inv7_a_gang_that_a_disruption_budget_protects_is_no_victim() -> None:
    kept = budget("kept", {"app": "low"}, minAvailable=1)
    assert _stays(gang("low", 2, "low"), gang("high", 2, "high"), [kept], {"app": "low"})


def test_inv7_a_budget_that_becomes_laxer_lets_the_gang_in() -> None:
    async def scenario(world: World) -> None:
        members = pods("low", 2)
        for each in members:
            each["metadata"]["labels"] = {"app": "low"}
        kept = budget("kept", {"app": "low"}, minAvailable=1)
        await world.apply([*CLASSES, kept, gang("low", 2, "low"), *members])
        await world.settle()
        dog = guarded(world)
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        await world.apply(budget("kept", {"app": "low"}, minAvailable=0))
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK, controllers=("disruption",))


def test_inv7_a_budget_over_two_gangs_is_counted_once() -> None:
    async def scenario(world: World) -> None:
        members = [*pods("one", 1), *pods("two", 1)]
        for each in members:
            each["metadata"]["labels"] = {"app": "low"}
        kept = budget("kept", {"app": "low"}, maxUnavailable=1)
        await world.apply([*CLASSES, kept, gang("one", 1, "low"), gang("two", 1, "low"), *members])
        await world.settle()
        dog = guarded(world)
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        assert set(await bound(world)) == {"one-0", "two-0"}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK, controllers=("disruption",))


def test_k10_the_plan_is_recorded_and_its_room_kept_while_victims_leave() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        dog = guarded(world)
        await hold(world, "low-0", "low-1")
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        plan = await recorded(world, "high")
        assert plan is not None and plan.state == "wait"
        assert len(plan.victims) == 2
        await world.apply([gang("rival", 1, "high"), *pods("rival", 1)])
        await world.restart()
        await world.settle()
        again = await recorded(world, "high")
        assert again is not None and again.assignments == plan.assignments
        await hold(world, "low-0", "low-1", let_go=True)
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


def test_k10_victims_and_preemptor_are_told() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        told = await events(world, "Evict")
        assert [each["involvedObject"]["kind"] for each in told] == ["Pod", "Pod", "PodGroup", "PodGroup"]
        assert told[2]["message"] == "Pod default/low-0 was preempted by higher priority workload high"
        assert told[2]["metadata"]["annotations"] == {
            "num-evicted-pods": "2",
            "evictor-action-type": "preempt",
            "evictor-pod-group-name": "high",
            "evictor-pod-group-namespace": "default",
        }
        piped = [each["message"] for each in await events(world, "Pipelined")]
        assert len(piped) == 2 and piped[0].startswith("Pod default/high-0 was pipelined to node ")

    in_world(scenario, nodes=ONE_RACK)


def test_k10_a_plan_that_loses_its_node_is_given_up_and_decided_anew() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 1, "low"), *pods("low", 1), gang("mid", 1, "mid"), *pods("mid", 1)])
        await world.settle()
        held = await bound(world)
        dog = guarded(world)
        await hold(world, "low-0")
        await world.apply([gang("high", 1, "high"), *pods("high", 1)])
        await world.settle()
        plan = await recorded(world, "high")
        assert plan is not None and plan.assignments[0].node == held["low-0"]
        await world.delete("Node", held["low-0"])
        await world.settle()
        assert (await bound(world, "high")) == {"high-0": held["mid-0"]}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_k10_an_eviction_that_the_server_refuses_gives_the_plan_up_and_it_is_decided_anew(times: int) -> None:
    transports: list[RefusesEvictions] = []

    def wrapping(sim: Sim) -> Any:
        def wrap(inner: Any) -> RefusesEvictions:
            transports.append(RefusesEvictions(inner, times))
            return transports[-1]

        return wrap

    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        dog = guarded(world)
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle(quiet_s=120)
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert transports[0].left == 0
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK, wrap=wrapping)


def test_k10_a_plan_whose_gang_goes_away_spares_its_victims() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 1, "low"), *pods("low", 1), gang("mid", 1, "mid"), *pods("mid", 1)])
        await world.settle()
        dog = guarded(world)
        await hold(world, "low-0")
        await world.apply([gang("high", 1, "high"), *pods("high", 1)])
        await world.settle()
        await world.delete("Pod", "high-0")
        await world.delete("PodGroup", "high")
        await world.settle()
        await world.apply([gang("other", 1, "low"), *pods("other", 1)])
        await hold(world, "low-0", let_go=True)
        await world.settle()
        assert set(await bound(world)) == {"mid-0", "other-0"}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


def test_live2_two_gangs_that_each_fit_alone_do_not_evict_each_other() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("a", 2, "mid"), gang("b", 2, "mid"), *pods("a", 2), *pods("b", 2)])
        await world.settle()
        dog = guarded(world)
        first = await bound(world)
        assert len(first) == 2
        for name in first:
            await world.delete("Pod", name)
        await world.settle()
        assert len(await bound(world)) == 2
        assert await events(world, "Evict") == []
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


def test_live2_a_victim_that_is_made_anew_waits_and_is_told_why() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        dog = guarded(world)
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        await world.apply(pods("low", 2))
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert await said(world, "low")
        for name in ("high-0", "high-1"):
            await world.delete("Pod", name)
        await world.settle()
        assert set(await bound(world)) == {"low-0", "low-1"}
        assert len(await events(world, "Evict")) == 4
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


def test_live4_who_came_while_the_weaker_were_being_bound_takes_their_room_afterwards() -> None:
    async def scenario(world: World) -> None:
        dog = guarded(world)
        await world.apply([*CLASSES, gang("low", 2, "low"), gang("high", 2, "high"), *pods("low", 2), *pods("high", 2)])
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


def test_k5_a_less_important_gang_goes_for_a_pod_beyond_the_minimum() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 1, "low"), *pods("low", 1)])
        await world.settle()
        dog = guarded(world)
        await world.apply([gang("high", 1, "high"), *pods("high", 1), pod("high-extra", "high")])
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-extra"}
        assert {each["involvedObject"]["name"] for each in await events(world, "Evict")} == {"low", "low-0"}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


def test_live1_a_world_after_a_preemption_is_at_rest() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        assert await writes_at_rest(world) == []

    in_world(scenario, nodes=ONE_RACK)


def test_inv7_a_gang_that_has_its_minimum_by_one_part_does_not_lose_that_part_alone() -> None:
    """Of the other part too few are left to stand alone: it goes with the first (seed 70071)."""

    async def scenario(world: World) -> None:
        parts = [{"name": "one", "minMember": 1}, {"name": "two", "minMember": 2}]
        members = [pod("low-0", "low", subgroup="one"), *(pod(f"low-{at}", "low", subgroup="two") for at in (1, 2))]
        low = gang("low", 1, "low", subGroups=parts, minSubGroup=1)
        del low["spec"]["minMember"]
        await world.apply([*CLASSES, low, *members])
        await world.settle()
        node = (await bound(world))["low-0"]
        await world.delete("Pod", "low-1", grace_s=0)
        dog = guarded(world, late_s=0.0)
        await world.apply([gang("high", 1, "high"), pod("high-0", "high", nodeSelector={HOST: node})])
        await world.settle()
        assert await bound(world) == {"high-0": node}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=TWO_RACKS)


class HoldsBack:
    """Records of one gang's plans do not go out."""

    def __init__(self, inner: Any, gang: str) -> None:
        self._inner = inner
        self._path = f"/podgroups/{gang}"
        self.stream, self.close = inner.stream, inner.close

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        if path.endswith(self._path) and b"spinney.dev/plan" in (rest.get("body") or b""):
            await asyncio.sleep(100.0)
        return await self._inner.request(method, path, **rest)


def test_inv7_a_plan_does_not_count_on_the_victims_of_a_plan_that_is_not_recorded() -> None:
    """Who takes the rest of a gang takes all of it, or one that somebody else gives up is left alone (seed 123041)."""

    async def scenario(world: World) -> None:
        dog = guarded(world, late_s=0.0)
        await world.apply([*CLASSES, gang("low", 3, "low"), *pods("low", 4)])
        await world.settle()
        await world.apply([gang("mid", 1, "mid"), *pods("mid", 1)])
        await asyncio.sleep(5.0)
        assert await recorded(world, "mid") is None
        await world.apply([gang("high", 2, "high", required=RACK), *pods("high", 2)])
        await asyncio.sleep(5.0)
        assert len(await bound(world, "high")) == 2
        assert await bound(world, "low") == {}
        await world.settle(quiet_s=200)
        assert len(await bound(world, "mid")) == 1
        assert dog.check_at_rest() == []

    def wrapping(sim: Sim) -> Any:
        return lambda inner: HoldsBack(inner, "mid")

    in_world(scenario, nodes=TWO_RACKS, wrap=wrapping)


def test_inv3_a_gang_that_gives_way_is_not_continued_elsewhere_before_its_members_are_on_their_way() -> None:
    """The plan that they have to go for may come to nothing (seed 210036)."""

    async def scenario(world: World) -> None:
        dog = guarded(world, late_s=0.0)
        await world.apply([*CLASSES, gang("low", 1, "low", required=RACK), *pods("low", 1)])
        await world.settle()
        node = (await bound(world))["low-0"]
        (other,) = [each for each in await _nodes_of_its_rack(world, node) if each != node]
        await patch(world, "Node", other, {"spec": {"unschedulable": True}})
        await world.apply([gang("high", 1, "high"), pod("high-0", "high", nodeSelector={HOST: node})])
        await asyncio.sleep(5.0)
        await world.apply(pod("low-1", "low"))
        await asyncio.sleep(5.0)
        assert await recorded(world, "high") is None
        assert await bound(world) == {"low-0": node}
        await world.settle(quiet_s=200)
        assert set(await bound(world)) == {"high-0", "low-1"}
        assert dog.check_at_rest() == []

    def wrapping(sim: Sim) -> Any:
        return lambda inner: HoldsBack(inner, "high")

    in_world(scenario, nodes=TWO_RACKS, wrap=wrapping)


class Conflicts:
    """The first record of a gang's plan conflicts after some time, and what is written to its PodGroup is seen late."""

    def __init__(self, inner: Any, gang: str, after_s: float = 0.0, late_s: float = 0.0) -> None:
        self._inner = inner
        self._path = f"/podgroups/{gang}"
        self._name = f'"name":"{gang}"'.encode()
        self._after_s, self._late_s = after_s, late_s
        self._left = 1
        self.close = inner.close

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        if self._left and path.endswith(self._path) and b"spinney.dev/plan" in (rest.get("body") or b""):
            self._left = 0
            await asyncio.sleep(self._after_s)
            status = {"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"}
            return Response(409, {}, msgspec.json.encode(status))
        return await self._inner.request(method, path, **rest)

    @asynccontextmanager
    async def stream(self, path: str, **rest: Any) -> AsyncIterator[Any]:
        async with self._inner.stream(path, **rest) as inner:
            yield DelayedWatch(inner, b'"kind":"PodGroup"', self._name, late_s=self._late_s)


def test_inv3_a_gang_that_is_spared_is_read_again_before_it_is_decided() -> None:
    async def scenario(world: World) -> None:
        dog = guarded(world, late_s=0.0)
        await world.apply([*CLASSES, gang("low", 1, "low", required=RACK), *pods("low", 1)])
        await world.settle()
        node = (await bound(world))["low-0"]
        (other,) = [each for each in await _nodes_of_its_rack(world, node) if each != node]
        await patch(world, "Node", other, {"spec": {"unschedulable": True}})
        await world.apply(pod("low-1", "low"))
        await world.settle()
        await world.apply([gang("top", 1, "high"), pod("top-0", "top", nodeSelector={HOST: node})])
        await world.settle()
        assert set(await bound(world)) == {"top-0", "low-1"}
        assert dog.check_at_rest() == []

    def wrapping(sim: Sim) -> Any:
        return lambda inner: Conflicts(inner, "top")

    in_world(scenario, nodes=TWO_RACKS, wrap=wrapping)


def test_inv7_members_that_are_spared_count_for_whoever_is_decided_next() -> None:
    """A plan that took what a gang has beyond its minimum was not recorded: the next one finds it (seed 116521195)."""

    async def scenario(world: World) -> None:
        dog = guarded(world, late_s=0.0)
        await world.apply([*CLASSES, gang("low", 3, "low"), *pods("low", 4)])
        await world.settle()
        await world.apply([gang("top", 1, "high"), *pods("top", 1)])
        await world.settle()
        assert (len(await bound(world, "low")), len(await bound(world, "top"))) == (3, 1)
        assert dog.check_at_rest() == []

    def wrapping(sim: Sim) -> Any:
        return lambda inner: Conflicts(inner, "top", after_s=0.5, late_s=1.0)

    in_world(scenario, nodes=TWO_RACKS, wrap=wrapping)


def test_inv7_who_takes_the_rest_of_a_gang_names_its_pods_on_nodes_that_are_not_there() -> None:
    """Such a node may have come back already, and its pods would be left below the minimum (seed 96107324)."""

    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "low"), *pods("low", 3)])
        await world.settle()
        dog = guarded(world)
        node = (await bound(world))["low-0"]
        there = await world.get("Node", node)
        assert there is not None
        found = [await world.get("Pod", f"low-{each}") for each in range(3)]
        await world.delete("Node", node)
        await hold(world, "low-1")
        await world.apply([gang("high", 3, "high"), *pods("high", 3)])
        await asyncio.sleep(2.0)
        plan = await recorded(world, "high")
        assert plan is not None
        assert set(plan.victims) == {each["metadata"]["uid"] for each in found if each is not None}
        new = {"labels": there["metadata"]["labels"], "name": node}
        await world.apply({"apiVersion": "v1", "kind": "Node", "metadata": new, "status": there["status"]})
        await hold(world, "low-1", let_go=True)
        await world.settle()
        assert await bound(world, "low") == {}
        assert len(await bound(world, "high")) == 3
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=TWO_RACKS)


async def _nodes_of_its_rack(world: World, name: str) -> list[str]:
    racks = {each["metadata"]["name"]: each["metadata"]["labels"][RACK] for each in await world.list("Node")}
    return [each for each, rack in racks.items() if rack == racks[name]]
