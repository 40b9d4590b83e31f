"""Room that is not enough for all: who has the least for its minimum is next.

Knows neither nodes nor queues; whoever has the room gives it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

_TURNS = 64
"""So many turns at least are taken by those that share."""


def share_out(
    wanted: Mapping[K, int], held: Mapping[K, int], least: Mapping[K, int], give: Callable[[K, int], int]
) -> Counter[K]:
    """How many each has been given; of equals the first one is next.

    `give` is asked for at most so many and answers how many there were; who gets fewer is out.
    """
    given: Counter[K] = Counter()
    left = {key: count for key, count in wanted.items() if count > 0}
    at_once = max(1, sum(left.values()) // _TURNS)
    while left:
        key = min(left, key=lambda key: Fraction(held[key] + given[key], max(least[key], 1)))
        most = min(at_once, left[key]) if len(left) > 1 else left[key]
        found = give(key, most)
        given[key] += found
        left[key] -= found
        if found < most or left[key] <= 0:
            del left[key]
    return given
