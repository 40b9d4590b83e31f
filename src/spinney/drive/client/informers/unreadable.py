"""A register of objects that cannot be decoded: they never end a role or command and never hide other objects.

Each version of an object is reported once: to the log or another writer, in the metrics of the role and to listeners.
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
    """One version of one object that cannot be decoded."""

    resource: ResourcePath
    thing: Broken

    def __str__(self) -> str:
        shown = "/".join(filter(None, self.thing.key))
        return f"{self.resource} {shown} can not be read: {self.thing.problem[:_LONGEST]}"


Writer = Callable[[Complaint, Exception | None], None]


def log_complaint(complaint: Complaint, error: Exception | None) -> None:
    """The writer of roles: one log line."""
    _log.error(
        "an object can not be read",
        resource=str(complaint.resource),
        object="/".join(filter(None, complaint.thing.key)),
        problem=complaint.thing.problem[:_LONGEST],
        exc_info=error,
    )


class Unreadable:
    """Shared by all caches and lists of a role or command. `write` reports a complaint to users."""

    def __init__(self, write: Writer = log_complaint) -> None:
        self._write = write
        self.totals: Counter[str] = Counter()
        self._present: dict[tuple[str, Key], Broken] = {}
        self._reported: dict[tuple[str, Key], tuple[str, str]] = {}
        self._listeners: list[Callable[[Complaint], None]] = []

    @property
    def has_any(self) -> bool:
        return bool(self._present)

    def listen(self, listener: Callable[[Complaint], None]) -> None:
        """Call the listener with every new complaint."""
        self._listeners.append(listener)

    def add(self, resource: ResourcePath, thing: Broken, error: Exception | None = None) -> None:
        """Report the object and count it as present until it is removed."""
        self._present[str(resource), thing.key] = thing
        self.report(resource, thing, error)

    def report(self, resource: ResourcePath, thing: Broken, error: Exception | None = None) -> None:
        """Report an object found in a one-time list; not counted as present, since its removal would go unnoticed."""
        if not self._is_new(str(resource), thing):
            return
        self.totals[str(resource)] += 1
        complaint = Complaint(resource, thing)
        self._write(complaint, error)
        for listener in self._listeners:
            listener(complaint)

    def remove(self, resource: ResourcePath, key: Key) -> None:
        """The object is deleted or can be decoded again."""
        self._present.pop((str(resource), key), None)

    @property
    def present(self) -> Counter[str]:
        """The number of unreadable objects at present, by resource."""
        return Counter(name for name, _ in self._present)

    def _is_new(self, name: str, thing: Broken) -> bool:
        state = (thing.uid, thing.version)
        if self._reported.get((name, thing.key)) == state:
            return False
        self._reported.pop((name, thing.key), None)
        self._reported[name, thing.key] = state
        if len(self._reported) > _REMEMBERED:
            del self._reported[next(iter(self._reported))]
        return True


def figures(*registers: Unreadable) -> dict[str, float]:
    """Metrics of a role: unreadable objects at present and in total, by kind (a bounded label)."""
    totals = sum((each.totals for each in registers), Counter[str]())
    now = sum((each.present for each in registers), Counter[str]())
    return {
        **{f'unreadable_objects{{kind="{name}"}}': float(now[name]) for name in sorted(totals)},
        **{f'unreadable_objects_total{{kind="{name}"}}': float(totals[name]) for name in sorted(totals)},
    }
