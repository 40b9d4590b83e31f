"""The placement engine: speed, size, growth, what it finds, and a simulated cluster, beside a greedy baseline.

`python -m benchmarks.engine [PART ...]` prints the figures of some parts; `spinney bench engine` those of all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from benchmarks.engine import finding, growth, large, limits, lingjun, memory, speed
from benchmarks.engine.clocks import Row

Say = Callable[[str], None]

PARTS: dict[str, Callable[[Say], list[Row]]] = {
    "speed": speed.run,
    "large": large.run,
    "limits": limits.run,
    "growth": growth.run,
    "memory": memory.run,
    "finding": finding.run,
    "lingjun": lingjun.run,
}


def run(say: Say, parts: Sequence[str] = tuple(PARTS)) -> list[Row]:
    """Every figure with the goal that stands beside it; the last row adds up the broken rules."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    machine: Row = (
        "machine",
        {"cores": os.cpu_count(), "load_average": load},
        "goals are for 2 cores and nothing else running; what counts is the ratio to greedy",
    )
    rows = [machine, *(row for name in parts for row in PARTS[name](say))]
    broken = sum(_broken(figures.get("violations", 0)) for _, figures, _ in rows)
    return [*rows, ("rules broken, all placements of all rows", {"violations": broken}, "0")]


def _broken(violations: int | str) -> int:
    """Rows that show two sides as one text name both numbers."""
    if isinstance(violations, int):
        return violations
    return sum(int(word) for word in violations.replace("(greedy", "").replace(")", "").split())
