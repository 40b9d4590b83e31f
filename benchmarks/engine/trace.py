"""A real network and a real mix of jobs: the Lingjun topology and the Philly jobs as nodes and gangs.

Reads `benchmarks/data`; arrivals and durations are drawn from a seed, never from a clock.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random

from spinney.api.placement.problem import Gang, Group, Node, PodSet, Topology

DATA = Path(__file__).resolve().parents[1] / "data"
GPU = "nvidia.com/gpu"
RESOURCES = ("pods", GPU)
CORE, AGGREGATION, TOR, HOST = (
    "example.com/core",
    "example.com/aggregation",
    "example.com/tor",
    "kubernetes.io/hostname",
)
TOPOLOGY = Topology("lingjun", (CORE, AGGREGATION, TOR, HOST))
GPUS_PER_HOST = 8


@dataclass(frozen=True, slots=True)
class Job:
    """A gang that comes at a moment and, where it is placed, stays for a while."""

    arrival_s: float
    duration_s: float
    gpus: int
    gang: Gang


@dataclass(frozen=True, slots=True)
class Workload:
    """`residents` are there at the start, in this order; `arrivals` come later."""

    residents: list[Job]
    arrivals: list[Job]


def lingjun() -> list[Node]:
    """847 hosts; tor names repeat under different aggregation groups."""
    return [
        Node(
            name=row["host"],
            labels={CORE: row["core"], AGGREGATION: row["aggregation"], TOR: row["tor"], HOST: row["host"]},
            allocatable=(110, GPUS_PER_HOST),
            used=(0, 0),
            releasing=(0, 0),
        )
        for row in _rows("lingjun-topology.csv")
    ]


def philly(times: int = 1) -> list[tuple[int, int]]:
    """GPUs and steps of every job; `times` as many GPUs each."""
    return [(int(row["gpus"]) * times, int(row["steps"])) for row in _rows("philly-gangs.csv")]


def gang(name: str, gpus: int) -> Gang:
    """One pod below a host, else pods of a whole host; broader levels for larger gangs."""
    number, size = (1, gpus) if gpus < GPUS_PER_HOST else (-(-gpus // GPUS_PER_HOST), GPUS_PER_HOST)
    required, preferred = HOST, None
    if gpus > 64:
        required, preferred = AGGREGATION, TOR
    elif gpus > GPUS_PER_HOST:
        required = TOR
    pods = PodSet("worker", (1, size), number, number)
    return Gang(name, Group("", pods=(pods,), topology=TOPOLOGY.name, required=required, preferred=preferred))


def workload(mix: list[tuple[int, int]], capacity: int, load: float, seed: int, number: int | None = None) -> Workload:
    """The jobs of the mix in random order, one a second on average, their steps scaled so that they ask for the load.

    The residents are what such a stream leaves behind: a job is met as likely as it is long, somewhere in its life.
    """
    random = Random(seed)
    asked = sum(gpus * steps for gpus, steps in mix) / len(mix)
    second = load * capacity / asked
    by_length = list(accumulate(steps for _, steps in mix))
    residents: list[Job] = []
    there = 0
    while there < load * capacity:
        gpus, steps = random.choices(mix, cum_weights=by_length)[0]
        residents.append(Job(0.0, random.random() * steps * second, gpus, gang(f"resident-{len(residents)}", gpus)))
        there += gpus
    arrivals: list[Job] = []
    now = 0.0
    for at, (gpus, steps) in enumerate(random.sample(mix, number or len(mix))):
        now += random.expovariate(1.0)
        arrivals.append(Job(now, steps * second, gpus, gang(f"job-{at}", gpus)))
    return Workload(residents, arrivals)


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))
