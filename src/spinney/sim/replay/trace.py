"""Traces: who comes when, with how many GPUs, for how long; and the arrivals that a replay makes of them.

Three forms of CSV, told apart by their header; the order of rows does not matter, only the time of arrival does:

    arrival_s, gpus, duration_s        gangs that say how long they run
    arrival_s, gpus, steps             gangs that say how much work they have (Philly)
    name, cpu_milli, memory_mib, num_gpu, gpu_milli      single pods without any time (openb)

The first two may also have `name`, `virtual_cluster` and `priority`; other columns are refused. A cell that cannot be
used is refused with its file, line, row and column. The *load* of a trace is the mean share of a cluster's GPUs that
would be in use between the first and the last arrival if nobody ever had to wait; lengths are stretched until it is
what was asked for.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from spinney.api.labels import DEFAULT_QUEUE


class InputError(ValueError):
    """An input that cannot be used; the message names its file, and line, row and column where it has them."""


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One row; `number` counts from 1 without the header, `line` is where it ends in the file."""

    where: str
    number: int
    line: int
    cells: Mapping[str, str]

    def wrong(self, column: str, allowed: str) -> InputError:
        found = self.cells[column]
        shown = repr(found if len(found) <= 60 else found[:57] + "...") if found else "nothing"
        return InputError(
            f"{self.where}:{self.line}: row {self.number}, column {column}: found {shown}, allowed: {allowed}"
        )

    def whole(self, column: str, least: int, most: int = 10**12) -> int:
        """A whole number; `1e3` and `7.0` are not written like one."""
        text = self.cells[column]
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18 and least <= int(text) <= most):
            raise self.wrong(column, f"a whole number from {least} to {most}")
        return int(text)

    def seconds(self, column: str, most: int = 10**12) -> int:
        """A time in seconds, rounded to whole ones."""
        try:
            found = float(self.cells[column])
        except ValueError:
            found = math.nan
        if not 0 <= found <= most:
            raise self.wrong(column, f"seconds, a number from 0 to {most}")
        return round(found)


@dataclass(frozen=True, slots=True)
class CsvTable:
    where: str
    header: tuple[str, ...]
    rows: tuple[CsvRow, ...]


def header_of(text: str) -> tuple[str, ...]:
    """The names in the first line, if it is one of a sheet."""
    first = text.removeprefix("\ufeff").lstrip("\r\n").split("\n", 1)[0]
    return tuple(name.strip() for name in first.rstrip("\r").split(","))


def read_csv(text: str, where: str) -> CsvTable:
    """Every row under its header; empty lines do not count."""
    reader = csv.reader(text.removeprefix("\ufeff").splitlines(keepends=True), strict=True)
    header: tuple[str, ...] = ()
    rows: list[CsvRow] = []
    try:
        for cells in reader:
            stripped = tuple(cell.strip() for cell in cells)
            if not any(stripped):
                continue
            if not header:
                header = _header(stripped, where)
                continue
            rows.append(_row(stripped, header, where, len(rows) + 1, reader.line_num))
    except csv.Error as error:
        raise InputError(f"{where}:{reader.line_num}: not CSV: {error}") from None
    return CsvTable(where, header, tuple(rows))


def _header(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}:1: header: column {name!r} is there twice")
    return names


def _row(cells: tuple[str, ...], header: tuple[str, ...], where: str, number: int, line: int) -> CsvRow:
    if len(cells) != len(header):
        raise InputError(
            f"{where}:{line}: row {number}: found {len(cells)} cells, expected {len(header)} as in the header"
        )
    return CsvRow(where, number, line, dict(zip(header, cells, strict=True)))


MIB = 1024**2
MOST_GPUS = 1_000_000
_TIMED = ("arrival_s", "gpus")
_MORE = ("name", "virtual_cluster", "priority")
_PODS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_FORMS = (
    "arrival_s,gpus,duration_s or arrival_s,gpus,steps, each optionally with name, virtual_cluster and priority, "
    f"or {','.join(_PODS)}"
)


class Timing(Enum):
    """What a trace knows about time."""

    SECONDS = "duration_s"
    STEPS = "steps"
    NONE = "none"  # neither arrivals nor lengths


@dataclass(frozen=True, slots=True)
class Job:
    """A gang before it has a shape. `length` is in seconds or in steps, as the trace has it.

    `single`: it is one pod, whatever its size; `cpu_m` and `memory` (bytes) are asked for by that pod. `queue`: its
    virtual cluster, or the default queue.
    """

    name: str
    arrival_s: int
    length: int
    gpus: int
    priority: int = 0
    cpu_m: int = 0
    memory: int = 0
    single: bool = False
    queue: str = DEFAULT_QUEUE


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the order of their arrival; those that come together, in the order of the file."""

    where: str
    timing: Timing
    jobs: tuple[Job, ...]


def read_trace(text: str, where: str) -> Trace:
    table = read_csv(text, where)
    timing = _timing(table)
    read = _pod if timing is Timing.NONE else _gang
    jobs = [read(row, timing) for row in table.rows]
    if not jobs:
        raise InputError(f"{where}: found no rows under the header, expected at least one gang")
    _refuse_doubles(table, jobs)
    return Trace(where, timing, tuple(sorted(jobs, key=lambda job: job.arrival_s)))


def part_of(trace: Trace, limit: int | None, times: int) -> Trace:
    """The first so many gangs, each with so many times the GPUs."""
    jobs = tuple(replace(job, gpus=job.gpus * times) for job in trace.jobs[:limit])
    return replace(trace, jobs=jobs)


def _timing(table: CsvTable) -> Timing:
    if not table.header:
        raise InputError(f"{table.where}: is empty, expected a header: {_FORMS}")
    if set(table.header) == set(_PODS):
        return Timing.NONE
    lengths = [timing for timing in (Timing.SECONDS, Timing.STEPS) if timing.value in table.header]
    if len(lengths) == 1 and set(_TIMED) <= set(table.header) <= {*_TIMED, *_MORE, lengths[0].value}:
        return lengths[0]
    found = ",".join(table.header)
    raise InputError(f"{table.where}:1: header: found {found[:120]!r}, allowed: {_FORMS}")


def _gang(row: CsvRow, timing: Timing) -> Job:
    steps = timing is Timing.STEPS
    return Job(
        name=row.cells.get("name") or f"gang-{row.number}",
        arrival_s=row.seconds("arrival_s"),
        length=row.whole("steps", 0) if steps else row.seconds("duration_s"),
        gpus=row.whole("gpus", 1, MOST_GPUS),
        priority=row.whole("priority", -(2**31), 2**31 - 1) if row.cells.get("priority") else 0,
        queue=row.cells.get("virtual_cluster") or DEFAULT_QUEUE,
    )


def _pod(row: CsvRow, _: Timing) -> Job:
    """A share of a GPU counts as a whole one."""
    row.whole("gpu_milli", 0, 1000)
    return Job(
        name=row.cells["name"] or f"pod-{row.number}",
        arrival_s=0,
        length=0,
        gpus=row.whole("num_gpu", 0, MOST_GPUS),
        cpu_m=row.whole("cpu_milli", 0),
        memory=row.whole("memory_mib", 0, 10**10) * MIB,
        single=True,
    )


def _refuse_doubles(table: CsvTable, jobs: list[Job]) -> None:
    rows: dict[str, int] = {}
    for row, job in zip(table.rows, jobs, strict=True):
        if job.name in rows:
            raise row.wrong("name", f"a name of its own: row {rows[job.name]} has it already")
        rows[job.name] = row.number


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
