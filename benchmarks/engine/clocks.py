"""Taking time: wall and CPU of every decision, and what a series of them comes to.

The interpreter's collector is told to leave the cluster alone, as a long-running process does.
"""

from __future__ import annotations

import gc
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.engine.checked import Book
from benchmarks.engine.contenders import Contender, Members
from spinney.api.placement.problem import Gang

Figures = dict[str, Any]
Row = tuple[str, Figures, str]
"""Case, figures, goal."""


@dataclass(slots=True)
class Series:
    """Decisions of one contender, in order: seconds each, how many were placed, and how many rules they broke."""

    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    placed: int = 0
    violations: int = 0

    @property
    def decided(self) -> int:
        return len(self.cpu_s)

    def timed(self, contender: Contender, gang: Gang) -> Any:
        cpu, wall = time.process_time(), time.perf_counter()
        answer = contender.decide(gang)
        self.wall_s.append(time.perf_counter() - wall)
        self.cpu_s.append(time.process_time() - cpu)
        return answer

    def step(self, contender: Contender, book: Book, gang: Gang) -> Members | None:
        """Decide a gang, check and book it."""
        members = contender.members(self.timed(contender, gang))
        if members is not None:
            self.placed += 1
            self.violations += book.enter(gang, members)
        return members


def stream(contender: Contender, book: Book, gangs: Iterable[Gang], window: int = 40) -> Series:
    """Gangs come one after the other; of those that are there the oldest leaves when there are more than `window`."""
    series = Series()
    there: deque[tuple[Gang, Members]] = deque()
    for gang in gangs:
        members = series.step(contender, book, gang)
        if members is not None:
            there.append((gang, members))
        if len(there) > window:
            _leave(contender, book, *there.popleft())
    while there:
        _leave(contender, book, *there.popleft())
    return series


def _leave(contender: Contender, book: Book, gang: Gang, members: Members) -> None:
    contender.leave(gang, members)
    book.leave(gang, members)


@contextmanager
def settled() -> Iterator[None]:
    """What exists now is not looked at by the collector."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def milliseconds(runs: Sequence[Series], baseline: Sequence[Series]) -> Figures:
    """Milliseconds per gang: the median over repetitions and the best of them."""
    mine, theirs = [median(run.cpu_s) * 1e3 for run in runs], [median(run.cpu_s) * 1e3 for run in baseline]
    wall = [median(run.wall_s) * 1e3 for run in runs]
    return {
        "cpu_ms": round(median(mine), 3),
        "best_cpu_ms": round(min(mine), 3),
        "wall_ms": round(median(wall), 3),
        "best_wall_ms": round(min(wall), 3),
        "greedy_cpu_ms": round(median(theirs), 3),
        "greedy_wall_ms": round(median([median(run.wall_s) * 1e3 for run in baseline]), 3),
        "greedy_by_ours": round(median(theirs) / median(mine), 2),
        **outcome(runs, baseline),
    }


def rates(runs: Sequence[Series], baseline: Sequence[Series]) -> Figures:
    """Gangs per second over a whole run: the median over repetitions and the best of them."""
    mine, theirs = [run.decided / sum(run.cpu_s) for run in runs], [run.decided / sum(run.cpu_s) for run in baseline]
    wall = [run.decided / sum(run.wall_s) for run in runs]
    return {
        "per_cpu_s": round(median(mine)),
        "best_per_cpu_s": round(max(mine)),
        "per_wall_s": round(median(wall)),
        "best_per_wall_s": round(max(wall)),
        "greedy_per_cpu_s": round(median(theirs)),
        "greedy_per_wall_s": round(median([run.decided / sum(run.wall_s) for run in baseline])),
        "ours_by_greedy": round(median(mine) / median(theirs), 2),
        **outcome(runs, baseline),
    }


def outcome(runs: Sequence[Series], baseline: Sequence[Series]) -> Figures:
    decided = sum(run.decided for run in runs)
    return {
        "placed": f"{sum(run.placed for run in runs)}/{decided}",
        "greedy_placed": f"{sum(run.placed for run in baseline)}/{decided}",
        "violations": sum(run.violations for run in (*runs, *baseline)),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
