"""Figures as Markdown tables, and their place in the README.

Rows with the same figures in a row share a table. Never touches what stands before its mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.engine.clocks import Row

README = Path(__file__).resolve().parents[1] / "README.md"
MARK = "<!-- figures of the engine, written by python -m benchmarks.engine --readme -->"


def markdown(rows: Sequence[Row]) -> str:
    return "\n\n".join(_table(list(alike)) for _, alike in groupby(rows, key=lambda row: tuple(row[1])))


def write(rows: Sequence[Row], readme: Path = README) -> None:
    """Put the tables behind the mark, instead of those that are there."""
    kept, mark, _ = readme.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise ValueError(f"{readme} has no line {MARK!r}")
    readme.write_text(f"{kept}{mark}\n\n{markdown(rows)}\n", encoding="utf-8")


def _table(rows: Sequence[Row]) -> str:
    names = [name for name in rows[0][1] if name != "plot"]
    lines = [_line(["case", *names, "goal"]), _line(["---"] * (len(names) + 2))]
    lines += [_line([case, *(figures[name] for name in names), goal]) for case, figures, goal in rows]
    plots = [f"\n{case} (CPU time)\n\n```text{figures['plot']}\n```" for case, figures, _ in rows if "plot" in figures]
    return "\n".join([*lines, *plots])


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
