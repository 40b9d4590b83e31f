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


_BAR_HEAD = ("QUEUE", "GPUs", "USED", "SHARE", "QUOTA", "ASKED", "LIMIT")
_BAR = 24
BAR_LEGEND = "# used, = of it borrowed, . asked for, | fair share"


def bars(rows: Sequence[QueueRow]) -> str:
    """A line with a bar for each queue, all on one scale: GPUs, or the first resource that any of them has."""
    kind = next((kind for kind in range(len(UNITS)) if any(row.used[kind] or row.asked[kind] for row in rows)), 0)
    head = (_BAR_HEAD[0], UNITS[kind], *_BAR_HEAD[2:])
    scale = max(max(row.used[kind], row.asked[kind], row.share[kind], row.quota[kind]) for row in rows)
    top = min(row.depth for row in rows)
    return columns([head, *(_bar_cells(row, kind, scale, row.depth - top) for row in rows)])


def _bar_cells(row: QueueRow, kind: int, scale: int, depth: int) -> tuple[str, ...]:
    _, _, _, _, _, quota, limit, share, used, asked, _ = _cells(row, kind)
    return "  " * depth + plain(row.name), _bar(row, kind, scale), used, share, quota, asked, limit


def _bar(row: QueueRow, kind: int, scale: int) -> str:
    def part(amount: int) -> int:
        return -(-_BAR * amount // scale) if scale else 0

    used, owned = part(row.used[kind]), part(row.used[kind] - row.borrowed[kind])
    text = ("#" * owned + "=" * (used - owned) + "." * (part(row.asked[kind]) - used)).ljust(_BAR)
    at = max(part(row.share[kind]) - 1, 0)
    return f"[{text[:at]}|{text[at + 1 :]}]" if row.is_told and row.share[kind] else f"[{text}]"


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
