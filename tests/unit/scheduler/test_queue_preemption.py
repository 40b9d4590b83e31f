"""A queue at its limit: its less important gangs leave for a more important one, lawfully and never in vain."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from spinney.sim.faults import CrashPoint, When
from spinney.sim.world import World
from unit.operator.operator_world import writes_at_rest
from unit.operator.topologies import RACK
from unit.scheduler.crashing import Crashing
from unit.scheduler.preemption_world import (
    CLASSES,
    ONE_RACK,
    budget,
    events,
    gang,
    guarded,
    hold,
    priority_class,
    recorded,
)
from unit.scheduler.scheduler_world import bound, in_world, pod, pods, said
from unit.scheduler.watched_world import patch

Json = dict[str, Any]
LAST_START = "kai.scheduler/last-start-timestamp"


def queue(name: str, gpus: int = -1, parent: str = "", **resources: Json) -> Json:
    """A queue with a limit of so many GPUs."""
    unlimited = {each: {"quota": -1, "limit": -1} for each in ("cpu", "memory")}
    spec: Json = {"resources": {**unlimited, "gpu": {"quota": -1, "limit": gpus}, **resources}}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def team(name: str, minimum: int, priority: str, *, of: str = "team", **spec: Any) -> Json:
    return gang(name, minimum, priority, queue=of, **spec)


async def limited(world: World, gpus: int, *objects: Json) -> None:
    """A queue for so many GPUs, and who stands in it."""
    await world.apply([*CLASSES, queue("team", gpus), *objects])
    await world.settle()


def test_k10_k16_a_more_important_gang_gets_the_place_of_a_less_important_one_in_a_full_queue() -> None:
    async def scenario(world: World) -> None:
        await limited(world, 16, team("low", 2, "low"), *pods("low", 2))
        dog = guarded(world)
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert await recorded(world, "high") is None
        assert dog.check_at_rest() == []
        assert await writes_at_rest(world) == []

    in_world(scenario)


def test_q4_k16_the_limit_of_a_parent_is_relieved_by_gangs_of_the_own_queue_and_of_no_other() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, queue("top", 16), queue("one", parent="top"), queue("two", parent="top")])
        await world.apply([queue("other"), team("afar", 1, "low", of="other"), *pods("afar", 1)])
        await world.apply([team("low", 1, "low", of="two"), *pods("low", 1)])
        await world.apply([team("mid", 1, "mid", of="one"), *pods("mid", 1)])
        await world.settle()
        dog = guarded(world)
        await world.apply([team("high", 1, "high", of="one"), *pods("high", 1)])
        await world.settle()
        assert set(await bound(world)) == {"afar-0", "low-0", "high-0"}
        assert dog.check_at_rest() == []

    in_world(scenario)


def test_k16_the_limit_of_a_leaf_is_not_relieved_by_gangs_of_another_one() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, queue("top", 16), queue("one", 8, parent="top"), queue("two", parent="top")])
        await world.apply([team("low", 1, "low", of="two"), *pods("low", 1)])
        await world.apply([team("mid", 1, "mid", of="one"), *pods("mid", 1)])
        await world.settle()
        dog = guarded(world)
        await world.apply([team("high", 1, "high", of="one"), *pods("high", 1)])
        await world.settle()
        assert set(await bound(world)) == {"low-0", "high-0"}
        assert dog.check_at_rest() == []

    in_world(scenario)


def _stays(low: Json, high: Json, *more: Json, labels: dict[str, str] | None = None, asks: int = 2) -> str:
    """What a gang is told that finds its queue full of one that may not be a victim."""

    async def scenario(world: World) -> str:
        members = pods("low", 2)
        for each in members:
            each["metadata"]["labels"] = labels or {}
        await limited(world, 16, *more, low, *members)
        dog = guarded(world)
        await world.apply([high, *pods("high", asks)])
        await world.settle()
        assert set(await bound(world)) == {"low-0", "low-1"}
        assert await recorded(world, "high") is None
        assert await events(world, "Evict") == []
        assert dog.check_at_rest() == []
        return await said(world, "high")

    return in_world(scenario, controllers=("disruption",))


FULL = "team quota has reached the allowable limit of GPUs. Limit is 16 GPUs, in use are 16 GPUs"


def test_inv7_a_gang_of_the_same_priority_does_not_leave_for_a_limit() -> None:
    assert FULL in _stays(team("low", 2, "mid"), team("high", 2, "mid"))


def test_inv7_a_more_important_gang_does_not_leave_for_a_limit() -> None:
    assert FULL in _stays(team("low", 2, "high"), team("high", 2, "mid"))


def test_inv7_a_gang_that_is_not_preemptible_does_not_leave_for_a_limit() -> None:
    assert FULL in _stays(team("low", 2, "low", preemptibility="non-preemptible"), team("high", 2, "high"))


def test_inv7_a_gang_of_a_class_that_is_not_preemptible_does_not_leave_for_a_limit() -> None:
    classes = [priority_class("serves", 120), priority_class("first", 130)]
    assert FULL in _stays(team("low", 2, "serves"), team("high", 2, "first"), *classes)


def test_k16_a_gang_whose_class_never_preempts_waits_for_its_queue() -> None:
    never = priority_class("patient", 30, preemptionPolicy="Never")
    assert FULL in _stays(team("low", 2, "low"), team("high", 2, "patient"), never)


def test_inv7_a_gang_that_a_disruption_budget_protects_does_not_leave_for_a_limit() -> None:
    kept = budget("kept", {"app": "low"}, minAvailable=1)
    assert FULL in _stays(team("low", 2, "low"), team("high", 2, "high"), kept, labels={"app": "low"})


def test_inv7_a_budget_over_two_gangs_of_a_queue_is_counted_once() -> None:
    async def scenario(world: World) -> None:
        members = [*pods("one", 1), *pods("two", 1), *pods("three", 1)]
        for each in members[:2]:
            each["metadata"]["labels"] = {"app": "low"}
        kept = budget("kept", {"app": "low"}, maxUnavailable=1)
        standing = [team("one", 1, "low"), team("two", 1, "low"), team("three", 1, "mid")]
        await limited(world, 24, kept, *standing, *members)
        dog = guarded(world)
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        assert len(await bound(world, "high")) == 2
        assert len({"one-0", "two-0"} & set(await bound(world))) == 1
        assert dog.check_at_rest() == []

    in_world(scenario, controllers=("disruption",))


def test_k16_nobody_leaves_for_a_gang_that_asks_for_more_than_the_limit() -> None:
    assert FULL in _stays(team("low", 2, "low"), team("high", 3, "high"), asks=3)


def test_k16_nobody_leaves_for_a_gang_that_would_not_fit_anyway() -> None:
    high = team("high", 2, "high", required=RACK)
    selector: dict[str, Any] = {"nodeSelector": {"example.com/none": "there"}}

    async def scenario(world: World) -> None:
        await limited(world, 16, team("low", 2, "low"), *pods("low", 2))
        await world.apply([high, *pods("high", 2, **selector)])
        await world.settle()
        assert set(await bound(world)) == {"low-0", "low-1"}
        assert FULL in await said(world, "high")
        assert await events(world, "Evict") == []

    in_world(scenario)


def test_k16_a_non_preemptible_gang_over_the_quota_does_not_make_anybody_leave() -> None:
    async def scenario(world: World) -> None:
        small = queue("team", 16, gpu={"quota": 4, "limit": 16})
        await world.apply([*CLASSES, priority_class("first", 130), small, team("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        await world.apply([team("high", 1, "first"), *pods("high", 1)])
        await world.settle()
        assert set(await bound(world)) == {"low-0", "low-1"}

    in_world(scenario)


def test_k16_pods_above_the_minimum_go_and_the_gang_stays() -> None:
    async def scenario(world: World) -> None:
        await limited(world, 24, team("low", 1, "low"), *pods("low", 3))
        dog = guarded(world)
        await world.apply([team("high", 1, "high"), *pods("high", 1)])
        await world.settle()
        assert (len(await bound(world, "low")), len(await bound(world, "high"))) == (2, 1)
        assert dog.check_at_rest() == []

    in_world(scenario)


@pytest.mark.parametrize(
    ("asks", "goes"),
    [(1, {"a"}), (2, {"c"}), (3, {"a", "c"})],
    ids=["the smallest that is enough", "one rather than two", "the least important"],
)
def test_k16_as_few_and_as_unimportant_gangs_go_as_suffice(asks: int, goes: set[str]) -> None:
    async def scenario(world: World) -> None:
        standing = [team("a", 1, "low"), team("b", 1, "mid"), team("c", 2, "low"), team("d", 3, "mid")]
        await limited(world, 56, *standing, *pods("a", 1), *pods("b", 1), *pods("c", 2), *pods("d", 3))
        before = {name.partition("-")[0] for name in await bound(world)}
        dog = guarded(world)
        await world.apply([team("high", asks, "high"), *pods("high", asks)])
        await world.settle()
        after = {name.partition("-")[0] for name in await bound(world)}
        assert (before - after, after - before) == (goes, {"high"})
        assert dog.check_at_rest() == []

    in_world(scenario)


def test_k16_where_room_is_short_as_well_the_same_gang_leaves_for_both() -> None:
    """The queue holds half of the cluster, others hold the rest and are less important than anybody in it."""

    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, queue("team", 64), gang("rest", 8, "low"), *pods("rest", 8)])
        await world.apply([team("mid", 4, "mid"), *pods("mid", 4), team("more", 4, "mid"), *pods("more", 4)])
        await world.settle()
        assert len(await bound(world)) == 16
        dog = guarded(world)
        await world.apply([team("high", 4, "high"), *pods("high", 4)])
        await world.settle()
        assert len(await bound(world, "high")) == len(await bound(world, "m")) == 4
        assert len(await bound(world, "rest")) == 8
        assert dog.check_at_rest() == []

    in_world(scenario)


def test_k16_nobody_leaves_for_the_limit_whom_the_room_of_others_makes_up_for() -> None:
    """High has to be where `near` is: that is enough for the limit as well, `far` need not go."""

    async def scenario(world: World) -> None:
        first, last = "example.com/side", {"example.com/side": "near"}
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        for name in nodes[:2]:
            await patch(world, "Node", name, {"metadata": {"labels": {first: "near"}}})
        await limited(world, 32, team("far", 2, "low"), *pods("far", 2, nodeSelector={"a": "b"}))
        for name in nodes[2:]:
            await patch(world, "Node", name, {"metadata": {"labels": {"a": "b"}}})
        await world.apply([team("near", 2, "mid"), *pods("near", 2, nodeSelector=last)])
        await world.settle()
        assert len(await bound(world)) == 4
        dog = guarded(world)
        await world.apply([team("high", 2, "high"), *pods("high", 2, nodeSelector=last)])
        await world.settle()
        assert set(await bound(world)) == {"far-0", "far-1", "high-0", "high-1"}
        assert dog.check_at_rest() == []

    in_world(scenario)


def test_k16_the_gang_is_bound_when_its_victims_are_gone_and_not_before() -> None:
    """There is room for it from the first."""

    async def scenario(world: World) -> None:
        await limited(world, 16, team("low", 2, "low"), *pods("low", 2))
        dog = guarded(world)
        await hold(world, "low-0", "low-1")
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        plan = await recorded(world, "high")
        assert plan is not None and plan.state == "wait" and len(plan.victims) == 2
        await world.apply([team("rival", 1, "high"), *pods("rival", 1)])
        await world.restart()
        await world.settle()
        again = await recorded(world, "high")
        assert again is not None and again.assignments == plan.assignments
        assert await bound(world, "high") == await bound(world, "rival") == {}
        await hold(world, "low-0", let_go=True)
        await world.settle()
        assert await bound(world, "high") == {}
        await hold(world, "low-1", let_go=True)
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert FULL in await said(world, "rival")
        assert dog.check_at_rest() == []

    in_world(scenario)


def test_live2_a_victim_on_a_node_that_is_not_ready_is_not_waited_for() -> None:
    async def scenario(world: World) -> None:
        await limited(world, 8, team("low", 1, "low"), *pods("low", 1))
        (node,) = (await bound(world)).values()
        await hold(world, "low-0")
        await world.apply([team("high", 1, "high"), *pods("high", 1)])
        await world.settle()
        assert await bound(world, "high") == {}
        await world.nodes.not_ready(node)
        await world.settle()
        assert set(await bound(world)) == {"low-0", "high-0"}

    in_world(scenario)


def test_k16_a_limit_that_is_lowered_while_victims_leave_is_kept() -> None:
    async def scenario(world: World) -> None:
        await limited(world, 16, team("low", 2, "low"), *pods("low", 2))
        dog = guarded(world)
        await hold(world, "low-0", "low-1")
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        await patch(world, "Queue", "team", {"spec": {"resources": {"gpu": {"limit": 8}}}})
        await hold(world, "low-0", "low-1", let_go=True)
        await world.settle()
        assert await bound(world) == {}
        assert "Limit is 8 GPUs" in await said(world, "high")
        assert await recorded(world, "high") is None
        assert dog.check_at_rest() == []

    in_world(scenario)


def test_live4_a_budget_that_becomes_laxer_lets_the_gang_into_its_queue() -> None:
    async def scenario(world: World) -> None:
        members = pods("low", 2)
        for each in members:
            each["metadata"]["labels"] = {"app": "low"}
        await limited(world, 16, budget("kept", {"app": "low"}, minAvailable=1), team("low", 2, "low"), *members)
        dog = guarded(world)
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        assert await bound(world, "high") == {}
        await world.apply(budget("kept", {"app": "low"}, minAvailable=0))
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert dog.check_at_rest() == []

    in_world(scenario, controllers=("disruption",))


def test_live4_who_came_while_the_weaker_were_being_bound_gets_their_place_in_the_queue_afterwards() -> None:
    async def scenario(world: World) -> None:
        dog = guarded(world)
        await world.apply([*CLASSES, queue("team", 16), team("low", 2, "low"), *pods("low", 2)])
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert dog.check_at_rest() == []

    in_world(scenario)


@pytest.mark.parametrize(
    ("spec", "change", "left"),
    [
        pytest.param({"priority": "high"}, {"priorityClassName": "low"}, 2, id="less important"),
        pytest.param(
            {"priority": "low", "preemptibility": "non-preemptible"},
            {"preemptibility": "preemptible"},
            2,
            id="preemptible",
        ),
        pytest.param({"priority": "high"}, {"queue": "other"}, 4, id="in another queue"),
    ],
)
def test_live4_a_gang_that_gives_way_lets_others_into_the_queue(spec: Json, change: Json, left: int) -> None:
    async def scenario(world: World) -> None:
        await limited(world, 16, queue("other"), team("low", 2, **spec), *pods("low", 2))
        dog = guarded(world)
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        assert await bound(world, "high") == {}
        await patch(world, "PodGroup", "low", {"spec": change})
        await world.settle()
        assert (len(await bound(world, "high")), len(await bound(world))) == (2, left)
        assert dog.check_at_rest() == []

    in_world(scenario)


def test_live4_a_gang_that_becomes_less_important_makes_room() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, gang("low", 2, "high"), *pods("low", 2)])
        await world.settle()
        await world.apply([gang("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        await patch(world, "PodGroup", "low", {"spec": {"priorityClassName": "low"}})
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}

    in_world(scenario, nodes=ONE_RACK)


def test_k15_victims_and_preemptor_are_told_as_for_room() -> None:
    async def scenario(world: World) -> None:
        await limited(world, 16, team("low", 2, "low"), *pods("low", 2))
        await hold(world, "low-0", "low-1")
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        group = await world.get("PodGroup", "high")
        assert group is not None
        explained = group["metadata"]["annotations"]["spinney.dev/explanation"]
        assert "is chosen, and it waits for 2 pods of default/low to leave" in explained
        told = {each["message"] for each in await events(world, "Evict")}
        assert told == {f"Pod default/low-{n} was preempted by higher priority workload high" for n in (0, 1)}
        assert len(await events(world, "Pipelined")) == 2

    in_world(scenario)


def test_k5_a_less_important_gang_leaves_a_queue_at_its_limit_for_a_pod_beyond_the_minimum() -> None:
    async def scenario(world: World) -> None:
        await limited(world, 16, team("low", 1, "low"), *pods("low", 1))
        await world.apply([team("high", 1, "high"), *pods("high", 1), pod("high-extra", "high")])
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-extra"}

    in_world(scenario)


def test_live2_a_victim_that_is_made_anew_waits_for_its_queue() -> None:
    async def scenario(world: World) -> None:
        await limited(world, 16, team("low", 2, "low"), *pods("low", 2))
        dog = guarded(world)
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        await world.apply(pods("low", 2))
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert FULL in await said(world, "low")
        for name in ("high-0", "high-1"):
            await world.delete("Pod", name)
        await world.settle()
        assert set(await bound(world)) == {"low-0", "low-1"}
        assert dog.check_at_rest() == []

    in_world(scenario)


def resting(name: str, runtime: str, *, gpus: int = -1, parent: str = "") -> Json:
    """A queue whose gangs run so long before they can be preempted."""
    found = queue(name, gpus, parent)
    found["spec"]["preemptMinRuntime"] = runtime
    return found


async def _age(world: World, seconds: float) -> None:
    await asyncio.sleep(seconds)
    await world.settle()


@pytest.mark.parametrize("gpus", [16, -1], ids=["for a limit", "for room"])
def test_k10_k16_a_gang_is_not_preempted_before_it_has_run_as_long_as_its_queue_says(gpus: int) -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, resting("team", "10m", gpus=gpus), team("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        dog = guarded(world)
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await _age(world, 300)
        assert set(await bound(world)) == {"low-0", "low-1"}
        assert await said(world, "high")
        await _age(world, 400)
        assert set(await bound(world)) == {"high-0", "high-1"}
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=ONE_RACK)


def test_k16_the_nearest_queue_that_says_how_long_gangs_run_counts_also_after_a_restart() -> None:
    async def scenario(world: World) -> None:
        top, low = resting("top", "1h"), team("low", 2, "low")
        await world.apply([*CLASSES, top, resting("team", "10m", parent="top"), low, *pods("low", 2)])
        await world.settle()
        await _age(world, 300)
        await world.restart()
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await world.settle()
        assert set(await bound(world)) == {"low-0", "low-1"}
        await _age(world, 400)
        assert set(await bound(world)) == {"high-0", "high-1"}

    in_world(scenario, nodes=ONE_RACK)


def test_k16_a_queue_that_says_nothing_has_the_time_of_its_parent_and_a_shorter_one_counts_at_once() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, resting("top", "1h"), queue("team", parent="top")])
        await world.apply([team("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await _age(world, 600)
        assert set(await bound(world)) == {"low-0", "low-1"}
        await patch(world, "Queue", "top", {"spec": {"preemptMinRuntime": "5m"}})
        await world.settle()
        assert set(await bound(world)) == {"high-0", "high-1"}

    in_world(scenario, nodes=ONE_RACK)


def test_k16_a_gang_that_says_it_begins_in_a_thousand_years_is_not_young_for_ever() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, resting("team", "10m"), team("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        forged = {"metadata": {"annotations": {"kai.scheduler/last-start-timestamp": "3026-01-01T00:00:00Z"}}}
        await patch(world, "PodGroup", "low", forged)
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await _age(world, 300)
        assert set(await bound(world)) == {"low-0", "low-1"}
        await _age(world, 400)
        assert set(await bound(world)) == {"high-0", "high-1"}

    in_world(scenario, nodes=ONE_RACK)


def test_k16_a_gang_whose_beginning_is_written_anew_every_minute_is_as_old_as_its_pods() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, resting("team", "10m"), team("low", 2, "low"), *pods("low", 2)])
        await world.settle()
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        for minute in range(11):
            if minute == 5:
                assert set(await bound(world)) == {"low-0", "low-1"}
            now = datetime.fromtimestamp(world.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            await patch(world, "PodGroup", "low", {"metadata": {"annotations": {LAST_START: now}}})
            await _age(world, 60)
        assert set(await bound(world)) == {"high-0", "high-1"}

    in_world(scenario, nodes=ONE_RACK, judged=False)


def test_k16_a_gang_that_lost_a_pod_is_as_old_as_before() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, resting("team", "10m"), team("low", 2, "low"), *pods("low", 2)])
        await _age(world, 300)
        await world.delete("Pod", "low-0")
        await world.apply(pod("low-2", "low"))
        await world.settle()
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        await _age(world, 100)
        assert set(await bound(world)) == {"low-1", "low-2"}
        await _age(world, 250)
        assert set(await bound(world)) == {"high-0", "high-1"}

    in_world(scenario, nodes=ONE_RACK)


def _outcome(point: CrashPoint | None) -> tuple[int, int]:
    """Crashes, and writes of the scheduler that the story began with."""
    schedulers = Crashing(point)

    async def scenario(world: World) -> int:
        await limited(world, 24, team("low", 2, "low"), *pods("low", 2), team("mid", 1, "mid"), *pods("mid", 1))
        schedulers.arm()
        dog = guarded(world)
        await world.apply([team("high", 2, "high"), *pods("high", 2)])
        crashes = await schedulers.settle(world)
        assert set(await bound(world)) == {"high-0", "high-1", "mid-0"}
        assert [await recorded(world, each) for each in ("high", "mid", "low")] == [None] * 3
        assert dog.check_at_rest() == []
        return crashes

    return in_world(scenario, wrap=schedulers.wrapping), schedulers.writes


@pytest.mark.parametrize("when", list(When))
def test_r5_a_crash_at_any_write_of_a_preemption_for_a_limit_changes_nothing_in_the_end(when: When) -> None:
    crashes, writes = _outcome(None)
    assert crashes == 0
    assert writes > 8
    for number in range(1, writes + 1):
        assert _outcome(CrashPoint(number, when))[0] == 1, f"write {number}"
