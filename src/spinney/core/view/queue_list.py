"""Queues as rows of a list: what command line and pages show of each, those with one parent beside each other.

Shares are what the scheduler has written into statuses: nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spinney.api.kinds.queue import Queue
from spinney.core.scheduling.queues.fair_share import UNLIMITED
from spinney.core.scheduling.queues.tree import NAMES, Shares, limits, priority, quotas, stated, weight
from spinney.core.view.tree import natural

RESOURCES = ("gpu", "cpu", "memory")
"""As they are named in `spec.resources` of a queue, in the order of `Shares`."""
_PER_UNIT = (1000, 1000, 1)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue. `depth`: how many are above it. `is_told`: whether a scheduler says shares here, and not used alone.

    Amounts are GPUs and cores in thousandths, and bytes; -1 is no limit, or as quota all that the parent has.
    """

    name: str
    display_name: str
    parent: str
    depth: int
    priority: int
    weights: tuple[int, ...]
    quota: Shares
    limit: Shares
    share: Shares
    used: Shares
    asked: Shares
    borrowed: Shares
    is_told: bool

    @property
    def is_bounded(self) -> bool:
        """Whether it has a quota of its own or a limit of anything."""
        return any(amount != UNLIMITED for amount in (*self.quota, *self.limit))

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.name, "parent": self.parent, "priority": self.priority}
        return {**shown, "resources": {name: self._amounts(kind) for kind, name in enumerate(RESOURCES)}}

    def _amounts(self, kind: int) -> dict[str, Any]:
        told = {"fairShare": self.share, "used": self.used, "asked": self.asked, "borrowed": self.borrowed}
        return {
            "quota": _number(kind, self.quota[kind]),
            "limit": _number(kind, self.limit[kind]),
            "overQuotaWeight": self.weights[kind] / 1000,
            **{
                name: _number(kind, amounts[kind]) if self.is_told or name == "used" else None
                for name, amounts in told.items()
            },
        }


def queue_rows(queues: Iterable[Queue]) -> list[QueueRow]:
    """From the roots down; queues that have no root, because a parent is missing or parents form a circle, last."""
    found = list(queues)
    is_told = any(queue.status.asked for queue in found) or not any(any(_used(queue)) for queue in found)
    below: dict[str, list[Queue]] = {}
    for queue in sorted(found, key=lambda queue: natural(queue.metadata.name)):
        below.setdefault(queue.spec.parent_queue, []).append(queue)
    rows = [_row(queue, depth, is_told) for queue, depth in _walk(below)]
    rooted = {row.name for row in rows}
    return rows + [
        _row(queue, 0, is_told) for each in below.values() for queue in each if queue.metadata.name not in rooted
    ]


def with_those_below(rows: Sequence[QueueRow], names: Iterable[str]) -> list[QueueRow]:
    """These queues, and all below them."""
    chosen = set(names)
    for row in rows:  # parents come before their children
        if row.parent in chosen:
            chosen.add(row.name)
    return [row for row in rows if row.name in chosen]


def with_those_above(rows: Sequence[QueueRow], names: Iterable[str]) -> list[QueueRow]:
    """These queues, and all above them."""
    chosen = set(names)
    for row in reversed(rows):  # children come after their parents
        if row.name in chosen:
            chosen.add(row.parent)
    return [row for row in rows if row.name in chosen]


def _walk(below: dict[str, list[Queue]]) -> Iterator[tuple[Queue, int]]:
    """Each with its depth, parents first; without recursion: a tree is as deep as its author likes."""
    left = [(queue, 0) for queue in reversed(below.get("", []))]
    while left:
        queue, depth = left.pop()
        yield queue, depth
        left += [(child, depth + 1) for child in reversed(below.get(queue.metadata.name, []))]


def _row(queue: Queue, depth: int, is_told: bool) -> QueueRow:
    status = queue.status
    return QueueRow(
        name=queue.metadata.name,
        display_name=queue.spec.display_name,
        parent=queue.spec.parent_queue,
        depth=depth,
        priority=priority(queue),
        weights=tuple([weight(queue, kind) for kind in range(len(NAMES))]),
        quota=quotas(queue),
        limit=limits(queue),
        share=stated(status.fair_share),
        used=_used(queue),
        asked=stated(status.asked),
        borrowed=stated(status.borrowed),
        is_told=is_told,
    )


def _used(queue: Queue) -> Shares:
    return stated(queue.status.allocated)


def _number(kind: int, amount: int) -> int | float:
    """GPUs and cores, whole where they are; bytes."""
    whole, rest = divmod(amount, _PER_UNIT[kind])
    return amount if amount == UNLIMITED else amount / _PER_UNIT[kind] if rest else whole
