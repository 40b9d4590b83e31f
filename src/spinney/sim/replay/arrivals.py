"""When gangs come and how long they run, in whole seconds of simulated time.

The *load* of a trace is the mean share of a cluster's GPUs that would be in use between the first and the last arrival
if nobody ever had to wait. Lengths are stretched until it is what was asked for. Dice are given, never taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from spinney.sim.replay.csv_rows import InputError
from spinney.sim.replay.trace import Job, Timing, Trace

MEAN_GAP_S = 60
DEFAULT_LOAD = 0.7
_UNIT = 1_000_000  # what a drawn length is measured in before it is stretched
_SHORTEST, _LONGEST = 1e-12, 1e12
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job with its times."""

    job: Job
    at_s: int
    runs_s: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Who comes when and for how long; `stretch` is the seconds of one unit of length, `load` what it comes to."""

    arrivals: tuple[Arrival, ...]
    timing: Timing
    stretch: float
    load: float

    @property
    def gpus(self) -> int:
        """Of all gangs together."""
        return sum(arrival.job.gpus for arrival in self.arrivals)

    @property
    def first_s(self) -> int:
        return self.arrivals[0].at_s

    @property
    def last_s(self) -> int:
        return self.arrivals[-1].at_s


def schedule(
    trace: Trace, capacity: int, *, load: float | None = None, stretch: float | None = None, seed: int = 0
) -> Schedule:
    """Times for every job on a cluster of so many GPUs.

    `stretch`, seconds for each unit of length, and `load` exclude each other; given neither, seconds are taken as they
    are and everything else is stretched to the default load.
    """
    jobs = _drawn(trace.jobs, Random(seed)) if trace.timing is Timing.NONE else trace.jobs
    if stretch is None and load is None:
        stretch, load = (1.0, None) if trace.timing is Timing.SECONDS else (None, DEFAULT_LOAD)
    if stretch is None:
        assert load is not None
        stretch = _stretch(trace.where, jobs, capacity, load)
    arrivals = tuple(Arrival(job, job.arrival_s, max(1, round(job.length * stretch))) for job in jobs)
    return Schedule(arrivals, trace.timing, stretch, _load(jobs, capacity, stretch))


def _drawn(jobs: Sequence[Job], dice: Random) -> tuple[Job, ...]:
    """An order, and then gaps between arrivals and lengths, both exponential, for a trace that has none."""
    now, found = 0.0, []
    for job in dice.sample(jobs, len(jobs)):
        found.append(replace(job, arrival_s=round(now), length=max(1, round(dice.expovariate(1 / _UNIT)))))
        now += dice.expovariate(1 / MEAN_GAP_S)
    return tuple(found)


def _stretch(where: str, jobs: Sequence[Job], capacity: int, load: float) -> float:
    """By halving on a scale of powers: the load grows with the stretch."""
    if jobs[0].arrival_s == jobs[-1].arrival_s:
        raise InputError(
            f"{where}: all gangs arrive at once, so there is no load: say how long they run with --seconds-per-step"
        )
    low, high = _SHORTEST, _LONGEST
    most = _load(jobs, capacity, high)
    if most < load:
        raise InputError(
            f"{where}: --load {load:g} is more than these gangs can ask for, even endless ones: {most:.2f}"
        )
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _load(jobs, capacity, middle) < load else (low, middle)
    return float(f"{high:.6g}")


def _load(jobs: Sequence[Job], capacity: int, stretch: float) -> float:
    first, last = jobs[0].arrival_s, jobs[-1].arrival_s
    if first == last:
        return 0.0
    asked = sum(job.gpus * min(max(1.0, job.length * stretch), last - job.arrival_s) for job in jobs)
    return asked / (capacity * (last - first))
