"""What happened in the last hours: samples of use, waiting gangs and fragmentation, taken while pages are served.

Kept in memory and bounded; a restart of the process begins anew.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from spinney.serve.dashboard.first_page import capacity, occupancies
from spinney.serve.dashboard.model import Model

PERIOD_S = 60
HOURS = (1, 6, 24)
_MOST = HOURS[-1] * 3600 // PERIOD_S
_GAP_S = 5 * PERIOD_S
WIDTH, HEIGHT = 720, 120
_POINTS = 240


@dataclass(frozen=True, slots=True)
class Sample:
    """`fragmented`: the share of what is free, in percent, that is on nodes of which only a part is."""

    at_s: int
    unit: str
    total: int
    used: int
    free: int
    fragmented: int
    waiting: int


class History:
    """The samples of one day."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_MOST)

    def add(self, one: Sample) -> None:
        self._samples.append(one)

    def last(self, hours: int) -> list[Sample]:
        """Those of the hours before the newest one."""
        since_s = self._samples[-1].at_s - hours * 3600 if self._samples else 0
        return [one for one in self._samples if one.at_s >= since_s]


def sample_of(model: Model, at_s: int) -> Sample:
    """Of the accelerator that there is most of."""
    seen = capacity(occupancies(model.cluster.inventory)[0])
    waiting = sum(row.waits for row in model.rows())
    return Sample(at_s, seen.unit.word, seen.total, seen.used, seen.free, seen.scattered, waiting)


async def sample(history: History, model: Model, refresh: Callable[[], Awaitable[object]]) -> None:
    """Until cancelled."""
    while True:
        await refresh()
        history.add(sample_of(model, int(time.time())))
        await asyncio.sleep(PERIOD_S)


@dataclass(frozen=True, slots=True)
class Point:
    """A part of the curve that is as wide as one pointer can hit, and what stands there. Times are UTC."""

    x: float
    width: float
    at: str
    value: int


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure over time. `lines`: paths of an SVG, broken where samples are missing; `top`: the value at its top."""

    title: str
    unit: str
    top: int
    now: int
    least: int
    most: int
    lines: tuple[str, ...]
    points: tuple[Point, ...]


def charts(samples: Sequence[Sample], hours: int) -> tuple[Chart, ...]:
    """None without samples."""
    if not samples:
        return ()
    last, since_s = samples[-1], samples[-1].at_s - hours * 3600
    runs = _runs(samples)
    return (
        _chart(f"{last.unit}s used", f"of {last.total}", runs, since_s, lambda one: one.used, last.total),
        _chart("Gangs waiting", "", runs, since_s, lambda one: one.waiting, 0),
        _chart("Fragmentation", "% of the free ones are on nodes in partial use", runs, since_s, _fragmented, 100),
    )


def _fragmented(one: Sample) -> int:
    return one.fragmented


def _runs(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Samples that follow each other; a pause begins another run."""
    found = [[samples[0]]]
    for one in samples[1:]:
        if one.at_s - found[-1][-1].at_s > _GAP_S:
            found.append([])
        found[-1].append(one)
    return found


def _chart(
    title: str, unit: str, runs: Sequence[Sequence[Sample]], since_s: int, of: Callable[[Sample], int], least_top: int
) -> Chart:
    every = [one for run in runs for one in run]
    values = [of(one) for one in every]
    top, span = max(*values, least_top, 1), max(1, every[-1].at_s - since_s)

    def x(at_s: int) -> float:
        return WIDTH * (at_s - since_s) / span

    def step(one: Sample) -> str:
        return f"{x(one.at_s):.1f},{HEIGHT - HEIGHT * of(one) / top:.1f}"

    lines = tuple("M" + " L".join(map(step, run)) for run in runs)
    width = WIDTH / _POINTS
    spots = {int(x(one.at_s) / width): one for one in every}
    points = tuple(Point(at * width, width, _clock(one.at_s), of(one)) for at, one in spots.items())
    return Chart(title, unit, top, values[-1], min(values), max(values), lines, points)


def _clock(at_s: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at_s))
