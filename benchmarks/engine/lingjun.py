"""The Philly jobs on the Lingjun network, in simulated time: the engine and the baseline on the same arrivals.

A job that is not placed when it comes is lost. Free GPUs are *stranded* when their host cannot take a pod of eight, and
*scattered* when their tor has no room for four such pods that they could belong to.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.engine.checked import Book
from benchmarks.engine.clocks import Row, Series, settled
from benchmarks.engine.contenders import Contender, Members, both
from benchmarks.engine.trace import GPUS_PER_HOST, RESOURCES, TOPOLOGY, Job, Workload, lingjun, philly, workload
from spinney.api.placement.problem import Node

Say = Callable[[str], None]

LOADS = (0.60, 0.80, 0.90, 0.95)
SEEDS = (1, 2, 3)
MIXES = {"Philly": 1, "Philly x 8": 8}
GOAL = "at least as many gangs placed, and as near, as greedy on the same arrivals; no rule broken"
SAMPLES = 40
FOUR = 4


@dataclass(slots=True)
class Diary:
    """What one contender made of one workload."""

    series: Series = field(default_factory=Series)
    gpus_asked: int = 0
    gpus_placed: int = 0
    levels: Counter[str] = field(default_factory=Counter)
    hosts: int = 0
    tors: int = 0
    wide: int = 0
    wide_tors: int = 0
    used: list[float] = field(default_factory=list)
    stranded: list[float] = field(default_factory=list)
    scattered: list[float] = field(default_factory=list)
    largest: list[int] = field(default_factory=list)


class World:
    """The hosts as the simulation sees them: free GPUs by host and by tor."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.paths = {node.name: tuple(node.labels[level] for level in TOPOLOGY.levels) for node in nodes}
        self.free = {node.name: GPUS_PER_HOST for node in nodes}
        self.capacity = GPUS_PER_HOST * len(nodes)

    def add(self, job: Job, members: Members, sign: int) -> None:
        each = job.gang.root.pods[0].request[-1]
        for _, host in members:
            self.free[host] += sign * each

    def observe(self, diary: Diary) -> None:
        whole: dict[tuple[str, ...], int] = defaultdict(int)
        for host, free in self.free.items():
            whole[self.paths[host][:-1]] += free == GPUS_PER_HOST
        free = sum(self.free.values())
        diary.used.append(1 - free / self.capacity)
        diary.stranded.append(1 - GPUS_PER_HOST * sum(whole.values()) / free if free else 0.0)
        fours = sum(hosts // FOUR for hosts in whole.values())
        diary.scattered.append(1 - GPUS_PER_HOST * FOUR * fours / free if free else 0.0)
        diary.largest.append(GPUS_PER_HOST * max(whole.values()))

    def note(self, diary: Diary, job: Job, members: Members) -> None:
        """Where a placed gang came to lie."""
        paths = [self.paths[host] for _, host in members]
        tors = len({path[:-1] for path in paths})
        depth = max(depth for depth in range(len(TOPOLOGY.levels) + 1) if len({path[:depth] for path in paths}) == 1)
        diary.levels[TOPOLOGY.levels[depth - 1].rpartition("/")[2] if depth else "cluster"] += 1
        diary.gpus_placed += job.gpus
        diary.hosts += len(set(paths))
        diary.tors += tors
        if job.gang.root.preferred:
            diary.wide += 1
            diary.wide_tors += tors


def run(say: Say, loads: Sequence[float] = LOADS, seeds: Sequence[int] = SEEDS, number: int | None = None) -> list[Row]:
    nodes = lingjun()
    rows = []
    for title, times in MIXES.items():
        mix = philly(times)
        for load in loads:
            say(f"Lingjun, {title}, {load:.0%} load, seeds {', '.join(map(str, seeds))} ...")
            diaries: tuple[list[Diary], list[Diary]] = ([], [])
            for seed in seeds:
                work = workload(mix, GPUS_PER_HOST * len(nodes), load, seed, number)
                for contender, mine in zip(both(nodes, {TOPOLOGY.name: TOPOLOGY}, RESOURCES), diaries, strict=True):
                    mine.append(simulate(contender, nodes, work))
            figures = {"spinney": _figures(diaries[0]), "greedy": _figures(diaries[1])}
            rows.append((f"Lingjun, {title}, {load:.0%} load", _side_by_side(figures), GOAL))
    return rows


def simulate(contender: Contender, nodes: Sequence[Node], work: Workload) -> Diary:
    """Departures and arrivals in the order of time."""
    diary, warm, world = Diary(), Diary(), World(nodes)
    book = Book(nodes, {TOPOLOGY.name: TOPOLOGY})
    leaving: list[tuple[float, int, Job, Members]] = []
    every = max(1, len(work.arrivals) // SAMPLES)
    with settled():
        for at, job in enumerate([*work.residents, *work.arrivals]):
            while leaving and leaving[0][0] <= job.arrival_s:
                _, _, gone, members = heapq.heappop(leaving)
                contender.leave(gone.gang, members)
                book.leave(gone.gang, members)
                world.add(gone, members, 1)
            mine = warm if at < len(work.residents) else diary
            placed = mine.series.step(contender, book, job.gang)
            mine.gpus_asked += job.gpus
            if placed is not None:
                world.add(job, placed, -1)
                world.note(mine, job, placed)
                heapq.heappush(leaving, (job.arrival_s + job.duration_s, at, job, placed))
            if mine is diary and at % every == 0:
                world.observe(diary)
    diary.series.violations += warm.series.violations
    return diary


def _figures(diaries: Sequence[Diary]) -> dict[str, Any]:
    decided = sum(diary.series.decided for diary in diaries)
    placed = max(1, sum(diary.series.placed for diary in diaries))
    levels = sum((diary.levels for diary in diaries), Counter[str]())
    wide = sum(diary.wide for diary in diaries)
    return {
        "placed": f"{placed / decided:.2%}",
        "gpus_placed": f"{sum(d.gpus_placed for d in diaries) / sum(d.gpus_asked for d in diaries):.2%}",
        "load": f"{_mean([used for diary in diaries for used in diary.used]):.1%}",
        "levels": " ".join(f"{name} {number / placed:.1%}" for name, number in sorted(levels.items())),
        "hosts_per_gang": round(sum(diary.hosts for diary in diaries) / placed, 3),
        "tors_per_gang": round(sum(diary.tors for diary in diaries) / placed, 3),
        "tors_per_wide_gang": round(sum(diary.wide_tors for diary in diaries) / wide, 2) if wide else "-",
        "stranded": f"{_mean([share for diary in diaries for share in diary.stranded]):.1%}",
        "stranded_by_quarter": _quarters([diary.stranded for diary in diaries]),
        "scattered": f"{_mean([share for diary in diaries for share in diary.scattered]):.1%}",
        "scattered_by_quarter": _quarters([diary.scattered for diary in diaries]),
        "largest_gang_in_a_tor": round(_mean([float(gpus) for diary in diaries for gpus in diary.largest]), 1),
        "per_cpu_s": round(decided / sum(sum(diary.series.cpu_s) for diary in diaries)),
        "per_wall_s": round(decided / sum(sum(diary.series.wall_s) for diary in diaries)),
        "violations": sum(diary.series.violations for diary in diaries),
    }


def _side_by_side(figures: dict[str, dict[str, Any]]) -> dict[str, Any]:
    mine, theirs = figures["spinney"], figures["greedy"]
    return {key: f"{mine[key]} (greedy {theirs[key]})" for key in mine}


def _quarters(series: Sequence[Sequence[float]]) -> str:
    """The mean of each quarter of the run."""
    parts: list[list[float]] = [[], [], [], []]
    for values in series:
        for at, value in enumerate(values):
            parts[at * 4 // len(values)].append(value)
    return " ".join(f"{_mean(part):.0%}" for part in parts)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
