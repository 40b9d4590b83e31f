"""A scheduler that crashes at any of its writes: whoever comes after it ends where it would have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spinney.sim.faults import Crash, CrashPoint, FaultyTransport, Schedule, When
from spinney.sim.loop import Sim
from spinney.sim.world import World
from unit.operator.topologies import BLOCK, RACK
from unit.scheduler.scheduler_world import bound, constraint, domains, in_world, plan_of, pod, podgroup, pods, said


class SchedulerOnly:
    """Faults for the scheduler; what others in the same process write passes."""

    def __init__(self, inner: Any, faulty: FaultyTransport) -> None:
        self._inner = inner
        self._faulty = faulty
        self.stream = faulty.stream
        self.close = inner.close

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        by = (rest.get("query") or {}).get("fieldManager")
        chosen = self._faulty if by == "spinney-scheduler" else self._inner
        return await chosen.request(method, path, **rest)


async def _play(world: World, wrap: Any) -> int:
    """Two gangs that fit and one that does not; how many crashes there were until the world was at rest."""
    leaves = [{"name": name, "minMember": 2, **constraint(RACK)} for name in ("one", "two")]
    members = [pod(f"a-{leaf}-{each}", "a", subgroup=leaf) for leaf in ("one", "two") for each in range(2)]
    await world.apply([podgroup("a", 4, required=BLOCK, subGroups=leaves), *members])
    await world.apply([podgroup("b", 2, required=RACK), *pods("b", 2), podgroup("c", 3, required=RACK), *pods("c", 3)])
    happened = 0
    while True:
        try:
            await world.settle(quiet_s=60)
            return happened
        except BaseExceptionGroup as group:
            assert group.split(Crash)[1] is None
            happened += 1
            await world.restart(wrap)


def _outcome(point: CrashPoint | None) -> tuple[int, int]:
    """Crashes and writes of the first scheduler, once everything is as it has to be."""
    transports: list[FaultyTransport] = []
    wraps: list[Callable[[Any], Any]] = []

    def wrapping(sim: Sim) -> Callable[[Any], Any]:
        def wrap(inner: Any) -> SchedulerOnly:
            transports.append(FaultyTransport(inner, sim.dice))
            if point is not None and len(transports) == 1:
                transports[0].schedule = Schedule(crash=point)
            return SchedulerOnly(inner, transports[-1])

        wraps.append(wrap)
        return wrap

    async def scenario(world: World) -> int:
        crashes = await _play(world, wraps[0])
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

    return in_world(scenario, wrap=wrapping), transports[0].writes


@pytest.mark.parametrize("when", list(When))
def test_r5_a_crash_at_any_write_changes_nothing_in_the_end(when: When) -> None:
    """At each write in one of the three ways; the simulation does it in all of them."""
    crashes, writes = _outcome(None)
    assert crashes == 0
    assert writes > 10
    for number in range(1 + list(When).index(when), writes + 1, 3):
        assert _outcome(CrashPoint(number, when))[0] == 1, f"write {number}"
