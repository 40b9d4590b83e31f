"""What was probably meant by a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from functools import lru_cache

_MOST_NAMES = 256


def did_you_mean(word: str, known: Collection[str]) -> str:
    """`; did you mean rack?`, to end a message with; empty if no name is near, or there are too many to compare."""
    near = _nearest(word, frozenset(known)) if len(known) <= _MOST_NAMES else ""
    return f"; did you mean {near}?" if near else ""


@lru_cache(maxsize=1024)
def _nearest(word: str, known: frozenset[str]) -> str:
    return next(iter(difflib.get_close_matches(word, sorted(known), n=1)), "")
