"""Turns: binds first, tidying and telling in a lull, and nobody waits for ever."""

from __future__ import annotations

import asyncio

from spinney.drive.loop.scheduler.turns import TIDYING_S, Turns
from spinney.sim.loop import Sim, run


def in_time(scenario: object) -> object:
    return run(lambda sim: scenario(sim), seed=0, limit_s=1_000)  # type: ignore[operator]


def test_only_so_many_have_a_turn_at_a_time() -> None:
    async def scenario(sim: Sim) -> None:
        turns = Turns(1)
        first = await turns.take()
        second = asyncio.create_task(turns.take())
        await asyncio.sleep(1.0)
        assert not second.done()
        first.end()
        (await second).end()

    in_time(scenario)


def test_whoever_steps_back_lets_others_go_first_and_comes_in_the_lull() -> None:
    async def scenario(sim: Sim) -> None:
        turns = Turns(2)
        tidying, binding = await turns.take(), await turns.take()
        back = asyncio.create_task(tidying.step_back())
        await asyncio.sleep(0.5)
        next_in_line = await turns.take()
        assert not back.done()
        binding.end()
        next_in_line.end()
        await back

    in_time(scenario)


def test_nobody_steps_back_for_ever() -> None:
    async def scenario(sim: Sim) -> float:
        turns = Turns(2)
        tidying, _binding = await turns.take(), await turns.take()
        began_s = sim.clock.monotonic()
        await tidying.step_back()
        return sim.clock.monotonic() - began_s

    assert in_time(scenario) == TIDYING_S


def test_a_turn_that_ended_early_is_not_given_back_twice() -> None:
    async def scenario(sim: Sim) -> None:
        turns = Turns(1)
        turn = await turns.take()
        await turn.step_back()
        turn.end()
        await turns.take()
        third = asyncio.create_task(turns.take())
        await asyncio.sleep(1.0)
        assert not third.done()
        third.cancel()

    in_time(scenario)
