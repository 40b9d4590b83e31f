"""A crash at any write of a preemption or a move: the same gangs run in the end, and nobody left in vain."""

from __future__ import annotations

from collections import Counter

import pytest

from spinney.sim.faults import CrashPoint, When
from spinney.sim.world import World
from unit.operator.topologies import RACK
from unit.scheduler.crashing import Crashing
from unit.scheduler.preemption_world import CLASSES, TWO_RACKS, gang, guarded
from unit.scheduler.scheduler_world import bound, domains, in_world, plan_of, pods
from unit.scheduler.test_consolidation import CONTROLLERS, ON, scattered


def _outcome(point: CrashPoint | None) -> tuple[int, int]:
    """Crashes, and writes of the scheduler that the story began with."""
    schedulers = Crashing(point)

    async def scenario(world: World) -> int:
        await world.apply([*CLASSES, gang("low", 2, "low", required=RACK), *pods("low", 2), gang("mid", 2, "mid")])
        await world.apply(pods("mid", 2))
        await world.settle()
        schedulers.arm()
        dog = guarded(world)
        await world.apply([gang("high", 2, "high", required=RACK), *pods("high", 2)])
        crashes = await schedulers.settle(world)
        nodes = await bound(world)
        assert set(nodes) == {"high-0", "high-1", "mid-0", "mid-1"}
        assert len(await domains(world, (await bound(world, "high")).values(), RACK)) == 1
        assert [await plan_of(world, each) for each in ("high", "mid", "low")] == [None] * 3
        assert dog.check_at_rest() == []
        return crashes

    return in_world(scenario, nodes=TWO_RACKS, wrap=schedulers.wrapping), schedulers.writes


@pytest.mark.parametrize("when", list(When))
def test_r5_a_crash_at_any_write_of_a_preemption_changes_nothing_in_the_end(when: When) -> None:
    crashes, writes = _outcome(None)
    assert crashes == 0
    assert writes > 8
    for number in range(1, writes + 1):
        assert _outcome(CrashPoint(number, when))[0] == 1, f"write {number}"


def _moved(point: CrashPoint | None) -> tuple[int, int]:
    """The same for a move: crashes, and writes of the scheduler that it began with."""
    schedulers = Crashing(point)

    async def scenario(world: World) -> int:
        stayed = await scattered(world)
        schedulers.arm()
        dog = guarded(world)
        await world.apply([gang("big", 2, "mid", required=RACK), *pods("big", 2)])
        crashes = await schedulers.settle(world)
        after = await bound(world)
        assert (len(await bound(world, "big")), len(after)) == (2, 4)
        assert len(set(stayed) & set(after)) == 1
        assert [await plan_of(world, each) for each in ("big", "one", "two")] == [None] * 3
        assert dog.check_at_rest() == []
        return crashes

    crashes = in_world(scenario, nodes=TWO_RACKS, wrap=schedulers.wrapping, settings=ON, controllers=CONTROLLERS)
    return crashes, schedulers.writes


@pytest.mark.parametrize("when", list(When))
def test_r5_a_crash_at_any_write_of_a_move_changes_nothing_in_the_end(when: When) -> None:
    crashes, writes = _moved(None)
    assert crashes == 0
    assert writes > 8
    for number in range(1, writes + 1):
        assert _moved(CrashPoint(number, when))[0] == 1, f"write {number}"


def _grown(point: CrashPoint | None) -> tuple[int, int]:
    """The same for pods beyond a minimum, which take one after the other."""
    schedulers = Crashing(point)

    async def scenario(world: World) -> int:
        await world.apply([*CLASSES, gang("low", 1, "low"), *pods("low", 4)])
        await world.settle()
        schedulers.arm()
        dog = guarded(world)
        await world.apply([gang("high", 1, "high"), *pods("high", 3)])
        crashes = await schedulers.settle(world)
        assert Counter(name.partition("-")[0] for name in await bound(world)) == Counter(low=1, high=3)
        assert [await plan_of(world, each) for each in ("high", "low")] == [None] * 2
        assert dog.check_at_rest() == []
        return crashes

    return in_world(scenario, nodes=TWO_RACKS, wrap=schedulers.wrapping), schedulers.writes


@pytest.mark.parametrize("when", list(When))
def test_r5_a_crash_at_any_write_of_growing_at_the_cost_of_others_changes_nothing_in_the_end(when: When) -> None:
    crashes, writes = _grown(None)
    assert crashes == 0
    assert writes > 12
    for number in range(1, writes + 1):
        assert _grown(CrashPoint(number, when))[0] == 1, f"write {number}"
