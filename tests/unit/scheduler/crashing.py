"""A scheduler that crashes at one of its writes, and whoever comes after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spinney.sim.event_loop import Sim
from spinney.sim.faults import Crash, CrashPoint, FaultyTransport, Schedule
from spinney.sim.world import World
from unit.one_writer import OneWriter, writes_as


def _is_the_schedulers(method: str, rest: Mapping[str, Any]) -> bool:
    return writes_as("spinney-scheduler", rest)


class Crashing:
    """The schedulers of one world, of which the first crashes at a write counted from `arm`; None: it does not."""

    def __init__(self, point: CrashPoint | None) -> None:
        self._point = point
        self._made: list[FaultyTransport] = []
        self._begun = 0
        self._wrap: Callable[[Any], OneWriter]

    def wrapping(self, sim: Sim) -> Callable[[Any], OneWriter]:
        def wrap(inner: Any) -> OneWriter:
            self._made.append(FaultyTransport(inner, sim.dice))
            return OneWriter(inner, self._made[-1], _is_the_schedulers)

        self._wrap = wrap
        return wrap

    def arm(self) -> None:
        first = self._made[0]
        self._begun = first.writes
        if self._point is not None:
            first.schedule = Schedule(crash=CrashPoint(self._begun + self._point.write, self._point.when))

    @property
    def writes(self) -> int:
        """Of the first scheduler, from `arm` on."""
        return self._made[0].writes - self._begun

    async def settle(self, world: World, quiet_s: float = 60) -> int:
        """How many crashes there were until the world was at rest."""
        happened = 0
        while True:
            try:
                await world.settle(quiet_s=quiet_s)
                return happened
            except BaseExceptionGroup as group:
                assert group.split(Crash)[1] is None
                happened += 1
                await self.restart(world)

    async def restart(self, world: World) -> None:
        """End the scheduler, crashed or not, and begin another one that does not crash."""
        await world.restart(self._wrap)
