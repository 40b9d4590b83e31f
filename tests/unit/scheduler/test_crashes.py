"""A scheduler that crashes at any of its writes: whoever comes after it ends where it would have ended."""

from __future__ import annotations

import pytest

from spinney.sim.faults import CrashPoint, When
from spinney.sim.world import World
from unit.operator.topologies import BLOCK, RACK
from unit.scheduler.crashing import Crashing
from unit.scheduler.scheduler_world import bound, constraint, domains, in_world, plan_of, pod, podgroup, pods, said


async def _asked(world: World) -> None:
    """Two gangs that fit and one that does not."""
    leaves = [{"name": name, "minMember": 2, **constraint(RACK)} for name in ("one", "two")]
    members = [pod(f"a-{leaf}-{each}", "a", subgroup=leaf) for leaf in ("one", "two") for each in range(2)]
    await world.apply([podgroup("a", 4, required=BLOCK, subGroups=leaves), *members])
    await world.apply([podgroup("b", 2, required=RACK), *pods("b", 2), podgroup("c", 3, required=RACK), *pods("c", 3)])


def _outcome(point: CrashPoint | None) -> tuple[int, int]:
    """Crashes and writes of the first scheduler, once everything is as it has to be."""
    schedulers = Crashing(point)

    async def scenario(world: World) -> int:
        schedulers.arm()
        await _asked(world)
        crashes = await schedulers.settle(world)
        a, b = await bound(world, "a"), await bound(world, "b")
        assert (len(a), len(b), len(await bound(world, "c"))) == (4, 2, 0)
        assert len(await domains(world, a.values(), BLOCK)) == 1
        for leaf in ("a-one", "a-two", "b"):
            assert len(await domains(world, (await bound(world, leaf)).values(), RACK)) == 1
        assert len(set(a.values()) | set(b.values())) == 6
        assert [await plan_of(world, each) for each in ("a", "b", "c")] == [None] * 3
        assert [await said(world, "a"), await said(world, "b")] == ["", ""]
        assert "can allocate only 2 of 3" in await said(world, "c")
        return crashes

    return in_world(scenario, wrap=schedulers.wrapping), schedulers.writes


@pytest.mark.parametrize("when", list(When))
def test_r5_a_crash_at_any_write_changes_nothing_in_the_end(when: When) -> None:
    """At each write in one of the three ways; the simulation does it in all of them."""
    crashes, writes = _outcome(None)
    assert crashes == 0
    assert writes > 10
    for number in range(1 + list(When).index(when), writes + 1, 3):
        assert _outcome(CrashPoint(number, when))[0] == 1, f"write {number}"
