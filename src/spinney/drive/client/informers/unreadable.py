"""Objects that can not be read: what the API server accepts ends no role and no command, and hides nobody else.

Each version of an object is told once: in the log or wherever the register was told to write, in the figures of the
role, and to whoever listens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import structlog

from spinney.drive.client.codec import Broken
from spinney.drive.client.paths import Key, ResourcePath

_LONGEST = 500
_REMEMBERED = 10_000

_log = structlog.get_logger(__name__)


class Complaint(NamedTuple):
    """One version of one object that can not be read."""

    resource: ResourcePath
    thing: Broken

    def __str__(self) -> str:
        shown = "/".join(filter(None, self.thing.key))
        return f"{self.resource} {shown} can not be read: {self.thing.problem[:_LONGEST]}"


Writer = Callable[[Complaint, Exception | None], None]


def log_complaint(complaint: Complaint, error: Exception | None) -> None:
    """As a role says it: one line of its log."""
    _log.error(
        "an object can not be read",
        resource=str(complaint.resource),
        object="/".join(filter(None, complaint.thing.key)),
        problem=complaint.thing.problem[:_LONGEST],
        exc_info=error,
    )


class Unreadable:
    """Shared by all caches and lists of a role or command. `write` says a complaint to people."""

    def __init__(self, write: Writer = log_complaint) -> None:
        self._write = write
        self.totals: Counter[str] = Counter()
        self._present: dict[tuple[str, Key], Broken] = {}
        self._told: dict[tuple[str, Key], tuple[str, str]] = {}
        self._listeners: list[Callable[[Complaint], None]] = []

    @property
    def has_any(self) -> bool:
        return bool(self._present)

    def listen(self, listener: Callable[[Complaint], None]) -> None:
        """Hear of every new complaint."""
        self._listeners.append(listener)

    def add(self, resource: ResourcePath, thing: Broken, error: Exception | None = None) -> None:
        """It is there, until it is removed."""
        self._present[str(resource), thing.key] = thing
        self.report(resource, thing, error)

    def report(self, resource: ResourcePath, thing: Broken, error: Exception | None = None) -> None:
        """It was met once, in a list: nobody will say when it is gone, so that it does not count as present."""
        if not self._is_news(str(resource), thing):
            return
        self.totals[str(resource)] += 1
        complaint = Complaint(resource, thing)
        self._write(complaint, error)
        for listener in self._listeners:
            listener(complaint)

    def remove(self, resource: ResourcePath, key: Key) -> None:
        """It is gone, or can be read."""
        self._present.pop((str(resource), key), None)

    @property
    def present(self) -> Counter[str]:
        """How many there are at present, by resource."""
        return Counter(name for name, _ in self._present)

    def _is_news(self, name: str, thing: Broken) -> bool:
        state = (thing.uid, thing.version)
        if self._told.get((name, thing.key)) == state:
            return False
        self._told.pop((name, thing.key), None)
        self._told[name, thing.key] = state
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        return True


def figures(*registers: Unreadable) -> dict[str, float]:
    """For the metrics of a role: how many there are at present and how many there were, by kind, which are few."""
    totals = sum((each.totals for each in registers), Counter[str]())
    now = sum((each.present for each in registers), Counter[str]())
    return {
        **{f'unreadable_objects{{kind="{name}"}}': float(now[name]) for name in sorted(totals)},
        **{f'unreadable_objects_total{{kind="{name}"}}': float(totals[name]) for name in sorted(totals)},
    }
