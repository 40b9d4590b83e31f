"""The placement engine: speed, size, growth, what it finds, and a simulated cluster, beside a greedy baseline.

`python -m benchmarks.engine [PART ...]` prints the figures of some parts; `spinney bench engine` those of all.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

Say = Callable[[str], None]
Row = tuple[str, dict[str, Any], str]

PARTS = ("speed", "large", "limits", "growth", "memory", "finding", "lingjun")
"""Modules, imported when they run: the process that measures memory must hold nothing else."""


def run(say: Say, parts: Sequence[str] = PARTS) -> list[Row]:
    """Every figure with the goal that stands beside it; the last row adds up the broken rules."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    machine: Row = (
        "machine",
        {"cores": os.cpu_count(), "load_average": load},
        "goals are for 2 cores and nothing else running; what counts is the ratio to greedy",
    )
    rows = [machine, *(row for name in parts for row in _part(name)(say))]
    broken = sum(_broken(figures.get("violations", 0)) for _, figures, _ in rows)
    return [*rows, ("rules broken, all placements of all rows", {"violations": broken}, "0")]


def _part(name: str) -> Callable[[Say], list[Row]]:
    part: Callable[[Say], list[Row]] = importlib.import_module(f"{__name__}.{name}").run
    return part


def _broken(violations: int | str) -> int:
    """Rows that show two sides as one text name both numbers."""
    if isinstance(violations, int):
        return violations
    return sum(int(word) for word in violations.replace("(greedy", "").replace(")", "").split())
