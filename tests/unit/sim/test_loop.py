"""The simulated loop: time jumps, runs repeat, the real world is refused, and a stuck run says who is stuck."""

from __future__ import annotations

import asyncio
import time

import pytest

from spinney.sim.event_loop import START_S, NothingLeftToHappen, RealWorldRefused, Sim, TimeIsUp, run


def test_a_day_passes_without_waiting() -> None:
    async def main(sim: Sim) -> tuple[float, float]:
        await asyncio.sleep(86_400 * 3)
        return sim.clock.now(), sim.clock.monotonic()

    began = time.monotonic()
    assert run(main) == (START_S + 86_400 * 3, 86_400 * 3)
    assert time.monotonic() - began < 60


def test_a_run_starts_at_the_time_it_is_given() -> None:
    async def main(sim: Sim) -> float:
        return sim.clock.now()

    assert run(main, start_s=12.5) == 12.5


def _interleaving(seed: int) -> list[tuple[float, str]]:
    async def main(sim: Sim) -> list[tuple[float, str]]:
        seen: list[tuple[float, str]] = []

        async def walker(name: str) -> None:
            for _ in range(20):
                await asyncio.sleep(sim.dice.random() if sim.dice.random() < 0.7 else 1.0)
                seen.append((sim.clock.monotonic(), name))

        async with asyncio.TaskGroup() as group:
            for index in range(10):
                group.create_task(walker(f"w{index}"))
        return seen

    return run(main, seed=seed)


def test_the_same_seed_gives_the_same_interleaving() -> None:
    assert _interleaving(7) == _interleaving(7)


def test_another_seed_gives_another_interleaving() -> None:
    assert _interleaving(7) != _interleaving(8)


def test_tasks_of_a_cancelled_group_end_in_the_order_they_began() -> None:
    async def main(sim: Sim) -> list[int]:
        ended: list[int] = []

        async def wait(index: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(index)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise ValueError

        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for index in range(50):
                    group.create_task(wait(index))
                group.create_task(fail())
        return ended

    assert run(main) == list(range(50))


def test_a_stuck_run_names_the_task_and_the_place() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async def main(sim: Sim) -> None:
        await asyncio.create_task(never(), name="the-stuck-one")

    with pytest.raises(NothingLeftToHappen, match=r"the-stuck-one at .*never:\d+"):
        run(main)


def test_a_run_that_takes_too_long_is_ended() -> None:
    async def main(sim: Sim) -> None:
        await asyncio.sleep(101)

    with pytest.raises(TimeIsUp, match="100 simulated seconds"):
        run(main, limit_s=100)


def test_threads_are_refused() -> None:
    async def main(sim: Sim) -> None:
        await asyncio.to_thread(time.sleep, 0)

    with pytest.raises(RealWorldRefused, match="thread"):
        run(main)


def test_network_connections_are_refused() -> None:
    async def main(sim: Sim) -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    with pytest.raises(RealWorldRefused, match="connection"):
        run(main)


def test_processes_are_refused() -> None:
    async def main(sim: Sim) -> None:
        await asyncio.create_subprocess_exec("true")

    with pytest.raises(RealWorldRefused, match="process"):
        run(main)


def test_tasks_left_behind_are_cancelled() -> None:
    ended: list[bool] = []

    async def background() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append(True)

    async def main(sim: Sim) -> asyncio.Task[None]:
        task = asyncio.create_task(background())
        await asyncio.sleep(1)
        return task

    run(main)
    assert ended == [True]


def test_a_timeout_fires_in_simulated_time() -> None:
    async def main(sim: Sim) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return sim.clock.monotonic()

    assert run(main) == 30
