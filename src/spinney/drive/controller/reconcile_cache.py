"""Remembers the inputs of reconciles that found nothing to do, so that the same inputs are not expanded again.

All inputs are compared, never a hash or a version of the object alone, and a requested requeue time still applies.
"""

from __future__ import annotations

from collections.abc import Callable

from spinney.api.changes import ChangeSet
from spinney.drive.client.paths import Key

Inputs = tuple[object, ...]
"""Everything but the time that the expansion of an object depends on; empty if it cannot be listed (no caching)."""

ReadInputs = Callable[[Key], Inputs]


def no_inputs(key: Key) -> Inputs:
    return ()


class ReconcileCache:
    """Inputs and results of the objects that need no changes, by key."""

    def __init__(self, read_inputs: ReadInputs) -> None:
        self._read_inputs = read_inputs
        self._known: dict[Key, tuple[Inputs, ChangeSet]] = {}

    def expansion(self, key: Key, now_s: float) -> ChangeSet | None:
        """The cached expansion; None if there is none, the inputs differ or its requeue time has come."""
        known = self._known.get(key)
        if known is None:
            return None
        inputs, expansion = known
        if inputs != self._read_inputs(key) or (expansion.requeue_at_s is not None and expansion.requeue_at_s <= now_s):
            del self._known[key]
            return None
        return expansion

    def note(self, key: Key, expansion: ChangeSet) -> None:
        """Store the expansion with its current inputs, if it holds no changes."""
        if not expansion.changes and (inputs := self._read_inputs(key)):
            self._known[key] = (inputs, expansion)
