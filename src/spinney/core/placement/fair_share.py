"""Fair sharing of scarce capacity: the claimant with the lowest share relative to its minimum is served next.

Knows neither nodes nor queues; the caller hands out the capacity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

_TURNS = 64
"""The total is handed out in at least this many turns, or one pod per turn if it is smaller."""


def share_out(
    wanted: Mapping[K, int], held: Mapping[K, int], least: Mapping[K, int], give: Callable[[K, int], int]
) -> Counter[K]:
    """Hand out capacity and return the pods each claimant received; of equal claimants the first is served next.

    `give` is called with a claimant and the most it may receive, and returns how many it received; a claimant that
    receives fewer drops out.
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
