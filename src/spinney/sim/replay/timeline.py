"""What the gauges showed, as a function of time that changes in steps, and its means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spinney.sim.replay.gauge import Moment


@dataclass(frozen=True, slots=True)
class Averages:
    """Means over time."""

    used: float
    waiting: float
    stranded: float
    fragmentation: tuple[float, ...]


class Timeline:
    """Each moment lasts until the next one, the last until `to_s`."""

    def __init__(self, moments: Sequence[Moment], from_s: int, to_s: int) -> None:
        self._from_s, self._to_s = from_s, to_s
        self._starts = np.array([moment.at_s for moment in moments], np.int64)
        self._ends = np.append(self._starts[1:], to_s)
        self._values = np.array([(one.used, one.waiting, one.stranded, *one.fragmentation) for one in moments])

    @property
    def mean(self) -> Averages:
        return self._mean(self._from_s, self._to_s)

    def sampled(self, number: int) -> list[tuple[float, Averages]]:
        """The time cut into so many equal parts: the middle of each and its means."""
        edges = np.linspace(self._from_s, self._to_s, number + 1).tolist()
        return [((start + end) / 2, self._mean(start, end)) for start, end in pairwise(edges)]

    def _mean(self, from_s: float, to_s: float) -> Averages:
        """Of no time at all: the last moment."""
        lasts = np.maximum(0.0, np.minimum(self._ends, to_s) - np.maximum(self._starts, from_s))
        values = np.average(self._values, axis=0, weights=lasts) if lasts.any() else self._values[-1]
        used, waiting, stranded, *fragmentation = values.tolist()
        return Averages(used, waiting, stranded, tuple(fragmentation))
