"""Gangs as a table for a terminal or a pipe.

Names and reasons come from servers: a terminal must not obey them. Nothing is cut in a pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from spinney.cli.options import screen
from spinney.cli.render.columns import columns, plain
from spinney.core.view.best_score import score_words
from spinney.core.view.gang_list import GangRow, age, in_order

_HEAD = ("NAMESPACE", "NAME", "STATE", "PODS", "QUEUE", "DOMAIN", "SCORE", "WAITING", "REASON")
_LEAST_REASON = 24
_CUT = ".."


def width_of_output() -> int | None:
    """None in a pipe that nobody gave a width: whoever reads it wants whole reasons."""
    return screen().width if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal() else None


def table(rows: Sequence[GangRow], sort_by: str, *, now_s: float, width: int | None = None) -> str:
    """A line for each gang; the last column is cut to the width."""
    if not rows:
        return "no gangs\n"
    cells = [_HEAD, *(tuple(map(plain, _cells(row, now_s))) for row in in_order(rows, sort_by))]
    lines = columns(cells).splitlines()
    if width is not None:
        least = lines[0].index(_HEAD[-1]) + _LEAST_REASON
        lines = [_cut(line, max(width, least)) for line in lines]
    return "\n".join(lines) + "\n"


def _cells(row: GangRow, now_s: float) -> tuple[str, ...]:
    return (
        row.namespace,
        row.name,
        row.state,
        f"{row.bound}/{row.pods}",
        row.queue or "-",
        "/".join(row.domain) or "-",
        "-" if row.score is None else score_words(row.score, row.best_score).replace(" of at most ", "/"),
        age(row.waits_since, now_s),
        row.reason or "-",
    )


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - len(_CUT)]}{_CUT}"
