"""Members that come late by design, or are replaced: nobody waits for them in vain, and they keep their numbers."""

from __future__ import annotations

import asyncio
from typing import Any

from spinney.sim.world import World
from unit.operator.topologies import RACK
from unit.scheduler.preemption_world import events
from unit.scheduler.scheduler_world import bound, domains, in_world, pod, podgroup, pods
from unit.scheduler.watched_world import patch

Json = dict[str, Any]


def _ray(workers: int) -> Json:
    parts = [{"name": "headgroup", "minMember": 1}, {"name": "pool", "minMember": workers}]
    found = podgroup("a", required=RACK, subGroups=parts)
    del found["spec"]["minMember"]
    return found


def test_k14_a_part_that_may_be_empty_is_not_waited_for_and_joins_later() -> None:
    async def scenario(world: World) -> None:
        await world.apply([_ray(0), pod("a-head", "a", subgroup="headgroup")])
        await world.settle()
        assert set(await bound(world)) == {"a-head"}
        await world.apply(pod("a-pool", "a", subgroup="pool"))
        await world.settle()
        placed = await bound(world)
        assert set(placed) == {"a-head", "a-pool"}
        assert len(await domains(world, placed.values())) == 1

    in_world(scenario)


def test_k14_a_gang_does_not_wait_for_room_for_a_part_that_may_be_empty() -> None:
    async def scenario(world: World) -> None:
        giant = pod("a-pool", "a", gpus=16, subgroup="pool")
        await world.apply([_ray(0), pod("a-head", "a", subgroup="headgroup"), giant])
        await world.settle()
        assert set(await bound(world)) == {"a-head"}

    in_world(scenario)


async def _grown(world: World, **spec: Any) -> None:
    """A gang of one that is asked to become larger."""
    leader = [{"name": "leader", "minMember": 1}]
    await world.apply([podgroup("a", 1, subGroups=leader), pod("a-0", "a", subgroup="leader")])
    await world.settle()
    await patch(world, "PodGroup", "a", {"spec": {"minMember": 3, "subGroups": [*leader, spec]}})


def test_k14_a_gang_that_is_asked_to_grow_has_lost_nobody_and_goes_on() -> None:
    """Such as a leader whose workers are not made before it is ready."""

    async def scenario(world: World) -> None:
        await _grown(world, name="workers", minMember=2)
        await world.settle(quiet_s=120)
        assert set(await bound(world)) == {"a-0"}
        assert await events(world, "StaleJob") == []

    in_world(scenario)


def test_k14_a_gang_that_has_grown_and_loses_what_it_had_is_stale() -> None:
    async def scenario(world: World) -> None:
        await _grown(world, name="workers", minMember=2)
        await world.apply([pod(f"a-{number}", "a", subgroup="workers") for number in (1, 2)])
        await world.settle()
        assert len(await bound(world)) == 3
        await world.delete("Pod", "a-1")
        await world.settle(quiet_s=120)
        assert await bound(world) == {}

    in_world(scenario)


def test_k14_a_job_that_is_made_larger_than_its_rack_keeps_what_runs() -> None:
    async def scenario(world: World) -> None:
        await world.apply([podgroup("a", 2, required=RACK), *pods("a", 2)])
        await world.settle()
        await patch(world, "PodGroup", "a", {"spec": {"minMember": 4}})
        await world.apply(pods("a", 4)[2:])
        await world.settle(quiet_s=120)
        assert set(await bound(world)) == {"a-0", "a-1"}

    in_world(scenario)


async def _ranks(world: World) -> dict[str, str]:
    found = await world.list("Pod")
    return {each["metadata"]["name"]: each["metadata"]["annotations"].get("spinney.dev/rank", "") for each in found}


def test_k11_a_replacement_takes_the_rank_of_a_pod_that_is_leaving() -> None:
    async def scenario(world: World) -> None:
        leaving = pod("a-0", "a", gpus=1, terminationGracePeriodSeconds=600)
        leaving["metadata"]["finalizers"] = ["example.com/slow"]
        await world.apply([podgroup("a", 3), leaving, *pods("a", 3, gpus=1)[1:]])
        await world.settle()
        lost = (await _ranks(world))["a-0"]
        await world.delete("Pod", "a-0")
        await asyncio.sleep(1)
        await world.apply(pod("a-3", "a", gpus=1))
        await asyncio.sleep(5)
        assert (await _ranks(world))["a-3"] == lost

    in_world(scenario)


def test_k11_a_replacement_takes_the_rank_of_a_pod_that_failed() -> None:
    async def scenario(world: World) -> None:
        failing = pod("a-0", "a", gpus=1, restartPolicy="Never")
        failing["metadata"]["annotations"] |= {"spinney.dev/sim-run-seconds": "1", "spinney.dev/sim-exit-code": "1"}
        await world.apply([podgroup("a", 3), failing, *pods("a", 3, gpus=1)[1:]])
        await asyncio.sleep(5)
        await world.apply(pod("a-3", "a", gpus=1))
        await asyncio.sleep(5)
        ranks = await _ranks(world)
        assert ranks["a-3"] == ranks["a-0"] != ""

    in_world(scenario)


def test_k14_a_gang_all_of_whose_pods_are_gated_is_told_that_it_is_not_ready_and_starts_without_gates() -> None:
    async def scenario(world: World) -> None:
        gates = [{"name": "example.com/later"}]
        await world.apply([podgroup("a", 2), *pods("a", 2, schedulingGates=gates)])
        await world.settle()
        told = [each["message"] for each in await events(world, "NotReady")]
        assert told == ["Job is not ready for scheduling. Waiting for 2 pods, currently 2 exist, 2 are gated"]
        for name in ("a-0", "a-1"):
            await patch(world, "Pod", name, {"spec": {"schedulingGates": []}})
        await world.settle()
        assert set(await bound(world)) == {"a-0", "a-1"}
        group = await world.get("PodGroup", "a")
        assert group is not None
        assert "spinney.dev/explanation" not in group["metadata"]["annotations"]

    in_world(scenario)


def test_k14_a_podgroup_says_when_its_gang_started() -> None:
    async def scenario(world: World) -> None:
        async def started() -> str:
            found = await world.get("PodGroup", "a")
            assert found is not None
            told: str = found["metadata"]["annotations"]["kai.scheduler/last-start-timestamp"]
            return told

        await world.apply([podgroup("a", 1), *pods("a", 1)])
        await world.settle()
        first = await started()
        assert first.endswith("Z")
        await asyncio.sleep(5)
        await world.apply(pod("a-1", "a"))
        await world.settle()
        assert len(await bound(world)) == 2
        assert await started() == first

    in_world(scenario)
