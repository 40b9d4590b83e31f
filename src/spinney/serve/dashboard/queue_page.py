"""The page of queues as values: the tree with bars of what each is promised, should have, holds and asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spinney.core.scheduling.queues.fair_share import UNLIMITED
from spinney.core.scheduling.queues.tree import NAMES, UNITS, amount_number
from spinney.core.view.gang_list import GangRow
from spinney.core.view.queue_list import RESOURCES, QueueRow, queue_rows
from spinney.serve.dashboard.model import Model

_DEEPEST_SHOWN = 8
_LONGEST_LIMIT = 2
"""A limit is drawn if it is at most so many times as much as everything else that is drawn."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Widths and places in percent of the scale; None: there is no such mark."""

    used: float
    borrowed: float
    asked: float
    share: float | None
    quota: float | None
    limit: float | None


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue and one resource, as text. `waiting`: gangs that wait in it and below it; empty: not known or none."""

    name: str
    display_name: str
    depth: int
    priority: int
    weight: str
    quota: str
    limit: str
    share: str
    used: str
    asked: str
    borrowed: str
    waiting: int
    bar: Bar


@dataclass(frozen=True, slots=True)
class QueuesPage:
    """`resources`: name and word of those that can be chosen."""

    resource: str
    resources: tuple[tuple[str, str], ...]
    unit: str
    is_told: bool
    lines: tuple[QueueLine, ...]


def queues_page(model: Model, resource: str) -> QueuesPage:
    """Of GPUs, unless it is told otherwise."""
    kind = RESOURCES.index(resource) if resource in RESOURCES else 0
    rows = queue_rows(model.views.queues)
    scales, waiting = _scales(rows, kind), _waiting(rows, model.rows())
    lines = [_line(row, kind, scales[row.parent], waiting[row.name]) for row in rows]
    is_told = all(row.is_told for row in rows)
    return QueuesPage(RESOURCES[kind], tuple(zip(RESOURCES, NAMES, strict=True)), UNITS[kind], is_told, tuple(lines))


def _line(row: QueueRow, kind: int, scale: int, waiting: int) -> QueueLine:
    def told(amount: int) -> str:
        return amount_number(kind, amount) if row.is_told else "?"

    quota, limit = row.quota[kind], row.limit[kind]
    return QueueLine(
        name=row.name,
        display_name=row.display_name,
        depth=min(row.depth, _DEEPEST_SHOWN),
        priority=row.priority,
        weight=f"{row.weights[kind] / 1000:g}",
        quota="all" if quota == UNLIMITED else amount_number(kind, quota),
        limit="none" if limit == UNLIMITED else amount_number(kind, limit),
        share=told(row.share[kind]),
        used=amount_number(kind, row.used[kind]),
        asked=told(row.asked[kind]),
        borrowed=told(row.borrowed[kind]),
        waiting=waiting,
        bar=_bar(row, kind, scale),
    )


def _bar(row: QueueRow, kind: int, scale: int) -> Bar:
    def part(amount: int) -> float:
        return round(100 * amount / scale, 2) if scale else 0.0

    used, quota, limit = row.used[kind], row.quota[kind], row.limit[kind]
    borrowed = min(row.borrowed[kind], used)
    return Bar(
        used=part(used - borrowed),
        borrowed=part(borrowed),
        asked=part(max(row.asked[kind] - used, 0)),
        share=part(row.share[kind]) if row.is_told else None,
        quota=None if quota == UNLIMITED else part(quota),
        limit=None if limit == UNLIMITED or limit > scale else part(limit),
    )


def _scales(rows: Iterable[QueueRow], kind: int) -> Mapping[str, int]:
    """What a whole bar stands for, by parent: those who divide something can be compared."""
    scales: Counter[str] = Counter()
    for row in rows:
        amounts = [amounts[kind] for amounts in (row.quota, row.share, row.used, row.asked)]
        scales[row.parent] = max(scales[row.parent], *amounts)
    most = {parent: scale * _LONGEST_LIMIT for parent, scale in scales.items()}
    for row in rows:
        if row.limit[kind] <= most[row.parent]:
            scales[row.parent] = max(scales[row.parent], row.limit[kind])
    return scales


def _waiting(rows: Iterable[QueueRow], gangs: Iterable[GangRow]) -> Counter[str]:
    """How many gangs wait in each queue and below it."""
    found = Counter(gang.queue for gang in gangs if gang.waits)
    for row in reversed(list(rows)):  # children come after their parents
        if row.depth:
            found[row.parent] += found[row.name]
    return found
