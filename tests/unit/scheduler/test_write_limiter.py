"""Turns: binds first, tidying and telling in a lull, and nobody waits for ever."""

from __future__ import annotations

import asyncio

from spinney.drive.scheduler.execution.api_writer import CLEANUP_WAIT_S, WriteLimiter
from spinney.sim.event_loop import Sim, run


def in_time(scenario: object) -> object:
    return run(lambda sim: scenario(sim), seed=0, limit_s=1_000)  # type: ignore[operator]


def test_only_so_many_have_a_turn_at_a_time() -> None:
    async def scenario(sim: Sim) -> None:
        write_slots = WriteLimiter(1)
        first = await write_slots.take()
        second = asyncio.create_task(write_slots.take())
        await asyncio.sleep(1.0)
        assert not second.done()
        first.end()
        (await second).end()

    in_time(scenario)


def test_whoever_steps_back_lets_others_go_first_and_comes_in_the_lull() -> None:
    async def scenario(sim: Sim) -> None:
        write_slots = WriteLimiter(2)
        tidying, binding = await write_slots.take(), await write_slots.take()
        back = asyncio.create_task(tidying.yield_slot())
        await asyncio.sleep(0.5)
        next_in_line = await write_slots.take()
        assert not back.done()
        binding.end()
        next_in_line.end()
        await back

    in_time(scenario)


def test_nobody_steps_back_for_ever() -> None:
    async def scenario(sim: Sim) -> float:
        write_slots = WriteLimiter(2)
        tidying, _binding = await write_slots.take(), await write_slots.take()
        began_s = sim.clock.monotonic()
        await tidying.yield_slot()
        return sim.clock.monotonic() - began_s

    assert in_time(scenario) == CLEANUP_WAIT_S


def test_a_turn_that_ended_early_is_not_given_back_twice() -> None:
    async def scenario(sim: Sim) -> None:
        write_slots = WriteLimiter(1)
        write_slot = await write_slots.take()
        await write_slot.yield_slot()
        write_slot.end()
        await write_slots.take()
        third = asyncio.create_task(write_slots.take())
        await asyncio.sleep(1.0)
        assert not third.done()
        third.cancel()

    in_time(scenario)
