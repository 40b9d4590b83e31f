"""Two leaders: what the old one still has in hand does not land after the new one has begun."""

from __future__ import annotations

import asyncio
from typing import Any

from spinney.drive.loop.scheduler.running import Scheduler
from spinney.drive.loop.scheduler.settings import Settings
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.loop import Sim, run
from spinney.sim.nodes.describe import load_nodes
from spinney.sim.nodes.simulated import Habits
from spinney.sim.stack import Parts
from spinney.sim.world import World
from unit.operator.operator_world import CRDS
from unit.operator.topologies import RACK
from unit.scheduler.scheduler_world import NODES, TOPOLOGY, bound, plan_of, podgroup, pods

QUEUES = [
    {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {
            "parentQueue": parent,
            "resources": {each: {"quota": -1, "limit": -1} for each in ("gpu", "cpu", "memory")},
        },
    }
    for name, parent in (("default-parent-queue", ""), ("default-queue", "default-parent-queue"))
]


class Paused:
    """A process that stops right before its first plan goes out, and goes on later."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.stream = inner.stream
        self.close = inner.close
        self.stopped = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.answers: list[int] = []

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        is_plan = b"spinney.dev/plan" in (rest.get("body") or b"")
        if is_plan:
            self.stopped.set()
            await self.goes_on.wait()
        answer = await self._inner.request(method, path, **rest)
        if is_plan:
            self.answers.append(answer.status)
        return answer


async def _two_leaders(sim: Sim, second_epoch: int) -> tuple[list[int], str | None, int]:
    """Answers to the old leader's plan, what the gang has then, and how many are bound in the end."""
    parts = Parts(nodes=load_nodes(NODES), habits=Habits(heartbeat_s=0), controllers=())
    async with World(sim.clock, sim.dice, parts) as world:
        await world.apply([*CRDS, TOPOLOGY, *QUEUES, podgroup("a", 2, required=RACK), *pods("a", 2)])
        old = Paused(world.transport("old"))
        first = Scheduler(old, sim.clock, sim.dice, Settings(), epoch=1)
        second = Scheduler(world.transport("new"), sim.clock, sim.dice, Settings(gather_s=60.0), epoch=second_epoch)
        dog = Watchdog.over(world)
        tasks = [asyncio.create_task(first.run())]
        await old.stopped.wait()
        tasks.append(asyncio.create_task(second.run()))
        await second.ready.wait()
        old.goes_on.set()
        await asyncio.sleep(0.001)
        landed = await plan_of(world, "a")
        tasks[0].cancel()
        await world.settle(quiet_s=90)
        tasks[1].cancel()
        await asyncio.wait(tasks)
        assert dog.check_at_rest() == []
        return old.answers, landed, len(await bound(world))


def test_inv10_a_plan_of_an_old_leader_conflicts_once_the_new_one_has_begun() -> None:
    async def main(sim: Sim) -> None:
        answers, landed, placed = await _two_leaders(sim, 2)
        assert (answers[0], landed, placed) == (409, None, 2)

    run(main, limit_s=10_000)


def test_inv10_the_trial_is_one_it_lands_where_nobody_fences() -> None:
    async def main(sim: Sim) -> None:
        answers, _, placed = await _two_leaders(sim, 0)
        assert (answers[0], placed) == (200, 2)

    run(main, limit_s=10_000)


def test_live1_gangs_that_have_their_nodes_are_not_touched_by_a_new_leader() -> None:
    async def main(sim: Sim) -> None:
        parts = Parts(nodes=load_nodes(NODES), habits=Habits(heartbeat_s=0), controllers=(), scheduler=Settings())
        async with World(sim.clock, sim.dice, parts) as world:
            await world.apply([*CRDS, TOPOLOGY, podgroup("a", 2, required=RACK), *pods("a", 2)])
            await world.settle()
            assert len(await bound(world)) == 2
            before = world.writes
            task = asyncio.create_task(
                Scheduler(world.transport("new"), sim.clock, sim.dice, Settings(), epoch=3).run()
            )
            await world.settle()
            task.cancel()
            await asyncio.wait([task])
            assert world.writes == before

    run(main, limit_s=10_000)
