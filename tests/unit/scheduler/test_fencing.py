"""Two leaders: what the old one still has in hand does not land after the new one has begun."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from spinney.core.scheduling.plan_records import Term
from spinney.core.scheduling.settings import Settings
from spinney.drive.scheduler.scheduler import Scheduler
from spinney.sim.event_loop import Sim, run
from spinney.sim.invariants.watchdog import Watchdog
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.operator_world import CRDS
from unit.operator.topologies import RACK
from unit.scheduler.delayed_watch import DelayedWatch
from unit.scheduler.preemption_world import CLASSES, ONE_RACK, gang
from unit.scheduler.scheduler_world import NODES, QUEUES, TOPOLOGY, bound, plan_of, podgroup, pods


class LateNews:
    """A process whose fence of the gang `a` goes out last, after something else, and is heard of late."""

    def __init__(self, inner: Any, before_fence: Callable[[], Awaitable[None]] | None = None) -> None:
        self._inner = inner
        self.close = inner.close
        self._before_fence = before_fence

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        if path.endswith("/podgroups/a") and b"spinney.dev/fenced" in (rest.get("body") or b""):
            await asyncio.sleep(0.1)
            if self._before_fence is not None:
                await self._before_fence()
        return await self._inner.request(method, path, **rest)

    @asynccontextmanager
    async def stream(self, path: str, **rest: Any) -> AsyncIterator[Any]:
        async with self._inner.stream(path, **rest) as inner:
            yield DelayedWatch(inner, b'"kind":"PodGroup"', b'"name":"a"')


class Paused:
    """A process that stops right before its first plan goes out, and goes on later; `dies`: it never hears of it."""

    def __init__(self, inner: Any, *, dies: bool = False) -> None:
        self._inner = inner
        self._dies = dies
        self.landed = asyncio.Event()
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
            self.landed.set()
        if is_plan and self._dies:
            await asyncio.Event().wait()
        return answer


async def _two_leaders(sim: Sim, second_epoch: int) -> tuple[list[int], str | None, int]:
    """Answers to the old leader's plan, what the gang has then, and how many are bound in the end."""
    parts = Parts(nodes=load_nodes(NODES), behaviour=NodeBehaviour(heartbeat_s=0), controllers=())
    async with World(sim.clock, sim.dice, parts) as world:
        await world.apply([*CRDS, TOPOLOGY, *QUEUES, podgroup("a", 2, required=RACK), *pods("a", 2)])
        old = Paused(world.transport("old"))
        first = Scheduler(old, sim.clock, sim.dice, Settings(), record_keys=world.record_keys, leads=Term(epoch=1))
        second = Scheduler(
            world.transport("new"),
            sim.clock,
            sim.dice,
            Settings(gather_s=60.0),
            record_keys=world.record_keys,
            leads=Term(epoch=second_epoch),
        )
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
        parts = Parts(
            nodes=load_nodes(NODES), behaviour=NodeBehaviour(heartbeat_s=0), controllers=(), scheduler=Settings()
        )
        async with World(sim.clock, sim.dice, parts) as world:
            await world.apply([*CRDS, TOPOLOGY, podgroup("a", 2, required=RACK), *pods("a", 2)])
            await world.settle()
            assert len(await bound(world)) == 2
            before = world.writes
            keys = world.record_keys
            fresh = Scheduler(
                world.transport("new"), sim.clock, sim.dice, Settings(), record_keys=keys, leads=Term(epoch=3)
            )
            task = asyncio.create_task(fresh.run())
            await world.settle()
            task.cancel()
            await asyncio.wait([task])
            assert world.writes == before

    run(main, limit_s=10_000)


async def _found_by_a_successor(sim: Sim, *, lands_in_time: bool) -> list[str]:
    """What is broken when a successor comes who has the plan of its predecessor in its list, or not yet."""
    parts = Parts(nodes=load_nodes(ONE_RACK), behaviour=NodeBehaviour(heartbeat_s=0), controllers=())
    async with World(sim.clock, sim.dice, parts) as world:
        await world.apply([*CRDS, TOPOLOGY, *QUEUES, *CLASSES, gang("a", 2, "low", required=RACK), *pods("a", 2)])
        old = Paused(world.transport("old"), dies=True)
        first = asyncio.create_task(
            Scheduler(old, sim.clock, sim.dice, Settings(), record_keys=world.record_keys, leads=Term(epoch=1)).run()
        )
        await old.stopped.wait()

        async def land() -> None:
            old.goes_on.set()
            await old.landed.wait()
            first.cancel()

        dog = Watchdog.over(world, late_s=0.0)
        if lands_in_time:
            await land()
        await world.apply([gang("b", 2, "high", required=RACK), *pods("b", 2)])
        new = LateNews(world.transport("new"), None if lands_in_time else land)
        second = asyncio.create_task(
            Scheduler(new, sim.clock, sim.dice, Settings(), record_keys=world.record_keys, leads=Term(epoch=2)).run()
        )
        await world.settle(quiet_s=90)
        second.cancel()
        await asyncio.wait([first, second])
        assert old.answers == [200]
        assert set(await bound(world)) == {"b-0", "b-1"}
        return dog.check_at_rest()


def test_inv1_the_seats_of_a_plan_that_was_found_are_kept_while_the_fence_on_it_is_not_seen() -> None:
    async def main(sim: Sim) -> None:
        assert [text for text in await _found_by_a_successor(sim, lands_in_time=True) if "INV1" in text] == []

    run(main, limit_s=10_000)


def test_inv1_a_plan_that_made_the_fence_conflict_is_seen_before_anything_is_planned() -> None:
    async def main(sim: Sim) -> None:
        assert [text for text in await _found_by_a_successor(sim, lands_in_time=False) if "INV1" in text] == []

    run(main, limit_s=10_000)
