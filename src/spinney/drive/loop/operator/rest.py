"""What was seen when nothing was left to do: where the same is seen again, nothing is to be done again.

Never takes a word for it: every part of the sight is compared, and a time that was named is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from spinney.api.changes import Expansion
from spinney.drive.client.paths import Key

Sight = tuple[object, ...]
"""All that the expansion of an object follows from, but for the time; empty where that cannot be said."""

See = Callable[[Key], Sight]


def unseen(key: Key) -> Sight:
    return ()


class Rest:
    """The objects at rest, by key."""

    def __init__(self, see: See) -> None:
        self._see = see
        self._known: dict[Key, tuple[Sight, Expansion]] = {}

    def expansion(self, key: Key, now_s: float) -> Expansion | None:
        """The expansion of an object that is at rest; None if it may not be."""
        known = self._known.get(key)
        if known is None:
            return None
        sight, expansion = known
        if sight != self._see(key) or (expansion.again_s is not None and expansion.again_s <= now_s):
            del self._known[key]
            return None
        return expansion

    def note(self, key: Key, expansion: Expansion) -> None:
        """What followed from what is seen now."""
        if not expansion.changes and (sight := self._see(key)):
            self._known[key] = (sight, expansion)
