"""Traces: who comes when, with how many GPUs, for how long.

Three forms, told apart by their header; the order of rows does not matter, only the time of arrival does:

    arrival_s, gpus, duration_s        gangs that say how long they run
    arrival_s, gpus, steps             gangs that say how much work they have (Philly)
    name, cpu_milli, memory_mib, num_gpu, gpu_milli      single pods without any time (openb)

The first two may also have `name`, `virtual_cluster` and `priority`; other columns are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from spinney.sim.replay.csv_rows import CsvRow, CsvTable, InputError, read_csv

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

    `single`: it is one pod, whatever its size; `cpu_m` and `memory` (bytes) are asked for by that pod.
    """

    name: str
    arrival_s: int
    length: int
    gpus: int
    priority: int = 0
    cpu_m: int = 0
    memory: int = 0
    single: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the order of their arrival; those that come together, in the order of the file."""

    where: str
    timing: Timing
    jobs: tuple[Job, ...]


def read_trace(text: str, where: str) -> Trace:
    sheet = read_csv(text, where)
    timing = _timing(sheet)
    read = _pod if timing is Timing.NONE else _gang
    jobs = [read(row, timing) for row in sheet.rows]
    if not jobs:
        raise InputError(f"{where}: found no rows under the header, expected at least one gang")
    _refuse_doubles(sheet, jobs)
    return Trace(where, timing, tuple(sorted(jobs, key=lambda job: job.arrival_s)))


def part_of(trace: Trace, limit: int | None, times: int) -> Trace:
    """The first so many gangs, each with so many times the GPUs."""
    jobs = tuple(replace(job, gpus=job.gpus * times) for job in trace.jobs[:limit])
    return replace(trace, jobs=jobs)


def _timing(sheet: CsvTable) -> Timing:
    if not sheet.header:
        raise InputError(f"{sheet.where}: is empty, expected a header: {_FORMS}")
    if set(sheet.header) == set(_PODS):
        return Timing.NONE
    lengths = [timing for timing in (Timing.SECONDS, Timing.STEPS) if timing.value in sheet.header]
    if len(lengths) == 1 and set(_TIMED) <= set(sheet.header) <= {*_TIMED, *_MORE, lengths[0].value}:
        return lengths[0]
    found = ",".join(sheet.header)
    raise InputError(f"{sheet.where}:1: header: found {found[:120]!r}, allowed: {_FORMS}")


def _gang(row: CsvRow, timing: Timing) -> Job:
    steps = timing is Timing.STEPS
    return Job(
        name=row.cells.get("name") or f"gang-{row.number}",
        arrival_s=row.seconds("arrival_s"),
        length=row.whole("steps", 0) if steps else row.seconds("duration_s"),
        gpus=row.whole("gpus", 1, MOST_GPUS),
        priority=row.whole("priority", -(2**31), 2**31 - 1) if row.cells.get("priority") else 0,
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


def _refuse_doubles(sheet: CsvTable, jobs: list[Job]) -> None:
    rows: dict[str, int] = {}
    for row, job in zip(sheet.rows, jobs, strict=True):
        if job.name in rows:
            raise row.wrong("name", f"a name of its own: row {rows[job.name]} has it already")
        rows[job.name] = row.number
