"""A scheduler that crashes at one of its writes, and whoever comes after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spinney.sim.faults import Crash, CrashPoint, FaultyTransport, Schedule
from spinney.sim.loop import Sim
from spinney.sim.world import World


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


class Crashing:
    """The schedulers of one world, of which the first crashes at a write counted from `arm`; None: it does not."""

    def __init__(self, point: CrashPoint | None) -> None:
        self._point = point
        self._made: list[FaultyTransport] = []
        self._begun = 0
        self._wrap: Callable[[Any], SchedulerOnly]

    def wrapping(self, sim: Sim) -> Callable[[Any], SchedulerOnly]:
        def wrap(inner: Any) -> SchedulerOnly:
            self._made.append(FaultyTransport(inner, sim.dice))
            return SchedulerOnly(inner, self._made[-1])

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
                await world.restart(self._wrap)
