"""Queues as a table for a terminal or a pipe.

Names come from servers: a terminal must not obey them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spinney.cli.render.columns import columns, plain
from spinney.core.scheduling.queues.fair_share import UNLIMITED
from spinney.core.scheduling.queues.tree import UNITS, amount_number
from spinney.core.view.queue_list import QueueRow

_HEAD = ("NAME", "PARENT", "PRIORITY", "WEIGHT", "RESOURCE", "QUOTA", "LIMIT", "SHARE", "USED", "ASKED", "BORROWED")
_ALL, _NONE, _UNKNOWN = "all", "-", "?"


def table(rows: Sequence[QueueRow], *, wide: bool = False) -> str:
    """A line for the GPUs of each queue; `wide`: one for each resource. Children stand below their parent, indented."""
    if not rows:
        return "no queues\n"
    kinds = range(len(UNITS)) if wide else range(1)
    return columns([_HEAD, *(tuple(_cells(row, kind)) for row in rows for kind in kinds)])


def _cells(row: QueueRow, kind: int) -> Iterator[str]:
    yield "  " * row.depth + plain(row.name)
    yield plain(row.parent) or _NONE
    yield str(row.priority)
    yield f"{row.weights[kind] / 1000:g}"
    yield UNITS[kind]
    yield _ALL if row.quota[kind] == UNLIMITED else amount_number(kind, row.quota[kind])
    yield _NONE if row.limit[kind] == UNLIMITED else amount_number(kind, row.limit[kind])
    yield amount_number(kind, row.share[kind]) if row.is_told else _UNKNOWN
    yield amount_number(kind, row.used[kind])
    yield amount_number(kind, row.asked[kind]) if row.is_told else _UNKNOWN
    yield amount_number(kind, row.borrowed[kind]) if row.is_told else _UNKNOWN
