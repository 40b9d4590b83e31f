"""Whom reclaim takes (Q6): who goes first, who stays, and what a crash or a change of mind leaves behind."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from random import Random
from typing import Any

import pytest

from kube_apimachinery.times import seconds
from spinney.sim.faults import CrashPoint, When
from spinney.sim.world import World
from unit.scheduler.crashing import Crashing
from unit.scheduler.preemption_world import CLASSES, budget, events, guarded, hold, priority_class, recorded
from unit.scheduler.scheduler_world import GPU, bound, in_world, pod, podgroup, pods, said
from unit.scheduler.test_queue_shares import later, queue
from unit.scheduler.test_reclaim import FOUR_HOSTS, gangs, of_gangs, one_by_one
from unit.scheduler.watched_world import patch

Json = dict[str, Any]


async def judged(world: World, asks: list[Json]) -> None:
    dog = guarded(world, late_s=0.5)
    await world.apply(asks)
    await world.settle()
    assert dog.check_at_rest() == []


def test_q6_the_most_over_served_queue_loses_first_whatever_the_ages() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 8), queue("b", 0, weight=0), queue("c", 8)])
        await one_by_one(world, ["b1", "a1", "a2", "a3"], "a")
        await patch(world, "PodGroup", "b1", {"spec": {"queue": "b"}})
        await later(world)
        await judged(world, gangs(["c1"], "c"))
        assert await of_gangs(world) == Counter(a1=1, a2=1, a3=1, c1=1), "b has no share"

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q6_inside_a_queue_the_lowest_priority_goes_first_and_of_equal_ones_the_youngest() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, queue("a", 16), queue("b", 16)])
        for name, priority in (("a1", "mid"), ("a2", "low"), ("a3", "mid"), ("a4", "mid")):
            await one_by_one(world, [name], "a", priorityClassName=priority)
        await judged(world, gangs(["b1"], "b", priorityClassName="low"))
        assert await of_gangs(world) == Counter(a1=1, a3=1, a4=1, b1=1)
        await judged(world, gangs(["b2"], "b", priorityClassName="low"))
        assert await of_gangs(world) == Counter(a1=1, a3=1, b1=1, b2=1)

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q6_extras_of_several_gangs_go_before_the_minimum_of_one() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        for name in ("a1", "a2"):
            await world.apply([podgroup(name, 1, queue="a"), *pods(name, 2)])
            await later(world)
        await judged(world, gangs(["b1"], "b", 2))
        assert await of_gangs(world) == Counter(a1=1, a2=1, b1=2)

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q6_what_a_disruption_budget_protects_stays() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16), budget("kept", {"app": "kept"}, minAvailable=1)])
        await one_by_one(world, ["a1", "a2", "a3"], "a")
        last = gangs(["a4"], "a")
        last[1]["metadata"]["labels"] = {"app": "kept"}
        await world.apply(last)
        await later(world)
        await judged(world, gangs(["b1"], "b"))
        assert await of_gangs(world) == Counter(a1=1, a2=1, a4=1, b1=1)

    in_world(scenario, nodes=FOUR_HOSTS, controllers=("disruption",))


@pytest.mark.parametrize(
    ("leaf", "top", "is_protected"),
    [("10m", "", True), ("", "10m", True), ("0s", "10m", False), ("10m", "0s", True)],
    ids=["its own", "that of the queue above", "its own rather than that above", "whatever that above"],
)
def test_q6_siblings_wait_for_the_minimum_runtime_of_the_queue_or_of_the_nearest_above(
    leaf: str, top: str, is_protected: bool
) -> None:
    async def scenario(world: World) -> None:
        runs: dict[str, Any] = {
            name: {"reclaimMinRuntime": text} if text else {} for name, text in (("top", top), ("a", leaf))
        }
        await world.apply([queue("top", 32, **runs["top"]), queue("a", 16, parentQueue="top", **runs["a"])])
        await world.apply([queue("b", 16, parentQueue="top"), *gangs(["a1"], "a", 4)])
        await world.settle()
        await world.apply(gangs(["b1"], "b", 2))
        await asyncio.sleep(300)
        await world.settle()
        assert set(await of_gangs(world)) == ({"a1"} if is_protected else {"b1"})
        await asyncio.sleep(400)
        await world.settle()
        assert set(await of_gangs(world)) == {"b1"}

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q6_between_distant_queues_the_minimum_runtime_counts_where_their_paths_part() -> None:
    """As with KAI's `lca`: that of queue `a` itself does not."""

    async def scenario(world: World) -> None:
        await world.apply([queue("left", 16), queue("right", 16)])
        await world.apply([queue("a", 16, parentQueue="left", reclaimMinRuntime="24h")])
        await world.apply([queue("b", 16, parentQueue="right"), *gangs(["a1"], "a", 4)])
        await world.settle()
        await judged(world, gangs(["b1"], "b", 2))
        assert set(await of_gangs(world)) == {"b1"}

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q5_a_gang_whose_class_never_preempts_takes_from_nobody() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16), priority_class("patient", 50, preemptionPolicy="Never")])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
        await world.settle()
        await judged(world, gangs(["b1"], "b", priorityClassName="patient"))
        assert set(await of_gangs(world)) == {"a1", "a2", "a3", "a4"}

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q5_a_queue_does_not_get_above_its_share_by_a_gang_that_is_too_large() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
        await world.settle()
        await judged(world, gangs(["b1"], "b", 3))
        assert set(await of_gangs(world)) == {"a1", "a2", "a3", "a4"}
        assert await events(world, "Evict") == []

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q5_what_was_lent_to_one_large_gang_comes_back_too() -> None:
    """Before it goes its queue is above its quota; afterwards it is below by less than its size."""

    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        await world.apply(gangs(["a1"], "a", 4))
        await world.settle()
        await judged(world, gangs(["b1"], "b"))
        assert await of_gangs(world) == Counter(b1=1)

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q5_a_gang_that_waits_is_decided_again_when_another_queue_begins_to_borrow() -> None:
    """The change is one of quotas and usage: no room became free."""

    async def scenario(world: World) -> None:
        await world.apply([queue("a", 32), queue("b", 0)])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
        await later(world)
        await world.apply(gangs(["b1"], "b"))
        await world.settle()
        assert await bound(world, "b") == {}
        await world.apply([queue("a", 16), queue("b", 16)])
        await world.settle()
        assert set(await bound(world, "b")) == {"b1-0"}

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q5_a_gang_that_waits_is_decided_again_when_another_one_does_not_ask_any_more() -> None:
    """No room became free, but the share of its queue grew."""

    async def scenario(world: World) -> None:
        await world.apply([queue("a", 0), queue("b", 0), queue("c", 16)])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
        await world.settle()
        await world.apply([podgroup("c1", 2, queue="c"), *pods("c1", 2, nodeSelector={"is": "nowhere"})])
        await world.apply(gangs(["b1"], "b", 2))
        await world.settle()
        assert set(await of_gangs(world)) == {"a1", "a2", "a3", "a4"}
        assert "it would hold 16 GPUs of a fair share of 8 GPUs" in await said(world, "b1")
        for kind, name in (("PodGroup", "c1"), ("Pod", "c1-0"), ("Pod", "c1-1")):
            await world.delete(kind, name)
        await world.settle()
        assert await of_gangs(world) == Counter(a1=1, a2=1, b1=2)

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q5_the_event_of_an_eviction_tells_who_takes_and_what_both_queues_have_then() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        await one_by_one(world, ["a1", "a2", "a3", "a4"], "a")
        await world.apply(gangs(["b1"], "b"))
        await world.settle()
        (told,) = [each for each in await events(world, "Evict") if each["involvedObject"]["kind"] == "PodGroup"]
        assert told["involvedObject"]["name"] == "a4"
        assert told["message"] == (
            "Pod default/a4-0 was preempted by workload b1. "
            "Queue b gets 8 GPUs of a fair share of 8 GPUs and a quota of 16 GPUs; "
            "queue a keeps 24 GPUs of a fair share of 24 GPUs and a quota of 16 GPUs"
        )
        assert told["metadata"]["annotations"]["evictor-action-type"] == "reclaim"

    in_world(scenario, nodes=FOUR_HOSTS)


def whole_host(name: str, queue: str) -> list[Json]:
    """A gang of one pod that asks for GPUs, cores and memory, as real ones do."""
    amounts = {GPU: "8", "cpu": "40", "memory": "32Gi"}
    container = {"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}
    return [podgroup(name, 1, queue=queue), pod(f"{name}-0", name, containers=[container])]


def test_q5_cores_and_memory_of_which_nobody_has_a_quota_do_not_keep_gpus_from_coming_back() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        for name in ("a1", "a2", "a3", "a4", "a5"):
            await world.apply(whole_host(name, "a"))
            await later(world)
        await hold(world, "a3-0", "a4-0")
        await world.apply([*whole_host("b1", "b"), *whole_host("b2", "b")])
        await world.settle()
        await world.restart()
        await world.settle()
        assert [len((await recorded(world, each)).victims) for each in ("b1", "b2")] == [1, 1]  # type: ignore[union-attr]
        await hold(world, "a3-0", "a4-0", let_go=True)
        await world.settle()
        assert await of_gangs(world) == Counter(a1=1, a2=1, b1=1, b2=1)

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q5_a_scheduler_that_comes_after_the_first_goes_on_with_its_plan() -> None:

    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16), queue("b", 16)])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
        await world.settle()
        await hold(world, "a1-0", "a2-0", "a3-0", "a4-0")
        await world.apply(gangs(["b1"], "b"))
        await world.settle()
        plan = await recorded(world, "b1")
        assert plan is not None and plan.state == "wait" and len(plan.victims) == 1
        await world.restart()
        await world.settle()
        again = await recorded(world, "b1")
        assert again is not None and again.assignments == plan.assignments
        await hold(world, "a1-0", "a2-0", "a3-0", "a4-0", let_go=True)
        await world.settle()
        assert set(await bound(world, "b")) == {"b1-0"}

    in_world(scenario, nodes=FOUR_HOSTS)


def _outcome(point: CrashPoint | None) -> tuple[int, int]:
    """Crashes, and writes of the scheduler that the story began with."""
    schedulers = Crashing(point)

    async def scenario(world: World) -> int:
        await world.apply([queue("a", 16), queue("b", 16)])
        await world.apply([podgroup("a1", 1, queue="a"), *pods("a1", 2), *gangs(["a2"], "a", 2)])
        await world.settle()
        schedulers.arm()
        dog = guarded(world, late_s=0.5)
        await world.apply(gangs(["b1"], "b", 2))
        crashes = await schedulers.settle(world)
        assert len(await bound(world, "b1")) == 2
        assert await of_gangs(world) in (Counter(a1=2, b1=2), Counter(a1=1, b1=2))
        assert [await recorded(world, each) for each in ("a1", "a2", "b1")] == [None] * 3
        assert dog.check_at_rest() == []
        return crashes

    return in_world(scenario, wrap=schedulers.wrapping, nodes=FOUR_HOSTS), schedulers.writes


@pytest.mark.parametrize("when", list(When))
def test_r5_a_crash_at_any_write_of_a_reclaim_changes_nothing_in_the_end(when: When) -> None:
    crashes, writes = _outcome(None)
    assert crashes == 0
    assert writes > 8
    for number in range(1, writes + 1):
        assert _outcome(CrashPoint(number, when))[0] == 1, f"write {number}"


@pytest.mark.parametrize("seed", range(6))
def test_q5_whatever_the_order_of_arrival_everybody_comes_to_rest_after_few_evictions(seed: int) -> None:
    dice = Random(seed)
    asks = [(name, dice.choice((1, 1, 2)), dice.choice((4, 8))) for name in ["a", "b", "c"] for _ in range(4)]
    dice.shuffle(asks)

    async def scenario(world: World) -> None:
        await world.apply([queue("a", 8), queue("b", 8, weight=3), queue("c", 16, weight=2)])
        dog = guarded(world, late_s=0.5)
        for number, (name, count, gpus) in enumerate(asks):
            await world.apply(gangs([f"{name}{number}"], name, count, gpus))
            await later(world)
        before, evicted = await bound(world), await events(world, "Evict")
        assert len([each for each in evicted if each["involvedObject"]["kind"] == "Pod"]) <= len(asks)
        await world.restart()
        await world.settle()
        assert (await bound(world), await events(world, "Evict")) == (before, evicted), "it is at rest"
        assert dog.check_at_rest() == []

    in_world(scenario, nodes=FOUR_HOSTS)


@pytest.mark.parametrize(
    ("asks", "quota", "line"),
    [
        (
            3,
            16,
            "Queue b takes nothing from other queues: it would hold 24 GPUs of a fair share of 16 GPUs "
            "and a quota of 16 GPUs.",
        ),
        (
            2,
            16,
            "Queue b may take from a (32 GPUs of a fair share of 16 GPUs and a quota of 16 GPUs), "
            "but what may leave there does not make it fit.",
        ),
        (2, 32, ""),
    ],
    ids=["above its own share", "all are protected", "nobody is above"],
)
def test_q8_who_waits_is_told_which_rule_holds_it_with_figures(asks: int, quota: int, line: str) -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", quota, reclaimMinRuntime="24h"), queue("b", 48 - 32 if quota == 16 else 0)])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
        await world.settle()
        await world.apply(gangs(["b1"], "b", asks))
        await world.settle()
        lines = (await said(world, "b1")).splitlines()
        assert lines[-1].startswith(line) if line else not any("takes" in each for each in lines)

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q8_who_may_take_and_finds_nobody_above_its_share_is_told_so() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 15), queue("b", 17)])
        await world.apply([*gangs(["a1"], "a", 3, gpus=5), *gangs(["b1"], "b", gpus=5)])
        await world.settle()
        await world.apply(gangs(["b2"], "b", gpus=8))
        await world.settle()
        told = (await said(world, "b2")).splitlines()[-1]
        assert told == "No other queue is above its fair share: queue b takes nothing."

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q8_who_waits_for_gangs_that_run_too_short_is_told_for_how_long() -> None:
    async def scenario(world: World) -> None:
        began_s = world.clock.now()
        await world.apply([*CLASSES, queue("a", 16, reclaimMinRuntime="1h"), queue("b", 16)])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
        await world.settle()
        await world.apply(gangs(["b1"], "b"))
        await world.settle()
        told = (await said(world, "b1")).splitlines()[-1]
        found = re.search(r"Gang default/a\d \(and 3 more\) keeps its place until (\S+) by the reclaimMinRuntime", told)
        assert found is not None, told
        assert began_s + 3600 <= seconds(found[1]) <= world.clock.now() + 3600
        assert told.startswith("Queue b may take from a (32 GPUs of a fair share of 24 GPUs")
        assert told.endswith("that queue a has.")

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q8_a_higher_priority_that_has_to_wait_for_the_minimum_runtime_of_its_queue_is_told_so() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, queue("a", 32, preemptMinRuntime="1h")])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a", priorityClassName="low"))
        await world.settle()
        await world.apply(gangs(["a5"], "a", priorityClassName="high"))
        await world.settle()
        told = (await said(world, "a5")).splitlines()[-1]
        assert re.search(r"Gang default/a\d \(and 3 more\) keeps its place until \S+ by the preemptMinRuntime", told)
        await world.apply(gangs(["a6"], "a", priorityClassName="low"))
        await world.settle()
        assert "keeps its place" not in await said(world, "a6"), "they are not less important"

    in_world(scenario, nodes=FOUR_HOSTS)


def test_q8_who_waits_behind_queues_that_are_under_their_share_is_told_which_one() -> None:
    async def scenario(world: World) -> None:
        await world.apply([queue("a", 16, reclaimMinRuntime="24h"), queue("b", 16)])
        await world.apply(gangs(["a1", "a2", "a3", "a4"], "a"))
        await world.settle()
        await world.apply(gangs(["b1"], "b"))
        await world.settle()
        await world.apply(gangs(["a5"], "a"))
        await world.settle()
        assert (
            (await said(world, "a5"))
            .splitlines()[-1]
            .endswith(
                "Gangs of queue b come first: queue b holds 0 GPUs of a fair share of 8 GPUs and a quota of 16 GPUs."
            )
        )
        assert "come first" not in await said(world, "b1")

    in_world(scenario, nodes=FOUR_HOSTS)
