"""What queues held lately: an average over time in which use counts half after each half-life.

In millionths of what the cluster offered at the time, for each resource; so it stays comparable when nodes come and go.
Pure: the clock is the caller's, and a record is no larger than the queues that held something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kube_apimachinery import quantity
from spinney.api.labels import GPU_RESOURCE
from spinney.core.scheduling.queues.fair_share import MILLION
from spinney.core.scheduling.queues.tree import NOTHING, Shares

_THOUSAND = 1000
_MOST_STEP_S = 60.0
_STEPS = 64
"""In a half-life."""
_NAMES = (GPU_RESOURCE, "cpu", "memory")


class PastUse(NamedTuple):
    """That shares remember it, and how. `weight`: how much it counts (KAI's k), in millionths."""

    half_life_s: float
    weight: int = MILLION

    @property
    def step_s(self) -> float:
        """How often what is held is looked at."""
        return min(_MOST_STEP_S, self.half_life_s / _STEPS)

    def fading(self, passed_s: float) -> int:
        """How much of what was held before still counts after a time, in millionths."""
        return int(MILLION * 2.0 ** -(max(passed_s, 0.0) / self.half_life_s))


def remembered(before: Mapping[str, Shares], held: Mapping[str, Shares], fading: int) -> dict[str, Shares]:
    """The averages of queues that held so much since; both in millionths. Queues that held nothing are left out."""
    found = {}
    for name in sorted(before.keys() | held.keys()):
        old, new = before.get(name, NOTHING), held.get(name, NOTHING)
        average = Shares(*[(a * fading + b * (MILLION - fading)) // MILLION for a, b in zip(old, new, strict=True)])
        if any(average):
            found[name] = average
    return found


def part_of(used: Shares, capacity: Shares) -> Shares:
    """In millionths; nothing of what the cluster does not have."""
    return Shares(*[min(MILLION, a * MILLION // most) if most else 0 for a, most in zip(used, capacity, strict=True)])


def recorded(average: Shares) -> dict[str, str]:
    """For a status, where it survives the scheduler."""
    return {name: quantity.format_milli(one // _THOUSAND) for name, one in zip(_NAMES, average, strict=True)}


def read(record: Mapping[str, str | int]) -> Shares:
    """What was recorded; each a part of the cluster, whatever somebody else wrote."""
    return Shares(*[min(max(0, quantity.milli(record.get(name, 0))), _THOUSAND) * _THOUSAND for name in _NAMES])
