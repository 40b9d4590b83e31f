"""What was seen when nothing was left to do: where the same is seen again, nothing is to be done again.

Never takes a word for it: every part of the sight is compared, and a time that was named is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from spinney.api.changes import ChangeSet
from spinney.drive.client.paths import Key

Inputs = tuple[object, ...]
"""All that the expansion of an object follows from, but for the time; empty where that cannot be said."""

ReadInputs = Callable[[Key], Inputs]


def no_inputs(key: Key) -> Inputs:
    return ()


class ReconcileCache:
    """The objects at rest, by key."""

    def __init__(self, read_inputs: ReadInputs) -> None:
        self._read_inputs = read_inputs
        self._known: dict[Key, tuple[Inputs, ChangeSet]] = {}

    def expansion(self, key: Key, now_s: float) -> ChangeSet | None:
        """The expansion of an object that is at rest; None if it may not be."""
        known = self._known.get(key)
        if known is None:
            return None
        inputs, expansion = known
        if inputs != self._read_inputs(key) or (expansion.requeue_at_s is not None and expansion.requeue_at_s <= now_s):
            del self._known[key]
            return None
        return expansion

    def note(self, key: Key, expansion: ChangeSet) -> None:
        """What followed from what is seen now."""
        if not expansion.changes and (inputs := self._read_inputs(key)):
            self._known[key] = (inputs, expansion)
