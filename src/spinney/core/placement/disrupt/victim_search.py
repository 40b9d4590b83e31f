"""The cheapest victims in one domain: an exact search over gangs and pods in the order of their names.

Sets are compared by gangs evicted whole, then pods, then names. Walking in the order of names, the first set found at a
price is the smallest of that price, so whatever comes later must be cheaper. Never proposes a set that leaves a gang
below its minimum.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import accumulate
from typing import NamedTuple

from spinney.api.placement.result import Victim
from spinney.core.placement.budget import StepBudget
from spinney.core.placement.disrupt.eviction_trial import CapacityRow, EvictionTrial
from spinney.core.placement.gang.running_gangs import RunningGang, RunningPods

UNLIMITED = 1 << 30
STRIDE = 16
"""Bounds are kept for every so many gangs; those in between use the one before."""
LONGEST = 512
"""Sums of single pods are kept up to so many."""


class VictimCost(NamedTuple):
    """What a lawful set of victims costs; smaller is better."""

    wholes: int
    pods: int
    victims: tuple[Victim, ...]


@dataclass(slots=True)
class CheapestVictims:
    """The cheapest set so far, over all domains, and the domain it was found for."""

    cost: VictimCost | None = None
    trial: EvictionTrial | None = None

    def offer(self, cost: VictimCost, trial: EvictionTrial) -> None:
        if self.cost is None or cost < self.cost:
            self.cost, self.trial = cost, trial


class _Stop(NamedTuple):
    """One thing to decide on the walk: all of a gang (no `held`), or its pods above the minimum on one node."""

    at: int  # position of the holder
    held: RunningPods | None
    first: Victim


class _Tops(NamedTuple):
    """Per condition, for the gangs from a position on: the largest gains added up, and what elastic pods give."""

    wholes: list[list[int]]
    pods: list[list[int]]
    elastic: list[int]


@dataclass(slots=True)
class _Chosen:
    """The victims so far, in the order of names; of gangs that lose only some pods, how many of what."""

    victims: list[Victim] = field(default_factory=list)
    wholes: int = 0
    gone: dict[int, Counter[str]] = field(default_factory=dict)
    lifted: Counter[int] = field(default_factory=Counter)


class VictimSearch:
    """The search in one ground among some of its holders; of gangs in `kept` something must stay."""

    def __init__(
        self, trial: EvictionTrial, running_gangs: Sequence[RunningGang], kept: frozenset[str], best: CheapestVictims
    ) -> None:
        self.trial = trial
        self.running_gangs = running_gangs
        self.best = best
        self.stops = list(self._stops(kept))
        self.starts = [0] * (len(running_gangs) + 1)
        for stop in self.stops:
            self.starts[stop.at + 1] += 1
        self.starts = list(accumulate(self.starts))
        self._tops: dict[int, _Tops] = {}
        self._chosen = _Chosen()
        self._most = 0

    def search(self, wholes: int, budget: StepBudget) -> None:
        """Offer everything better than the best so far that evicts at most so many gangs whole."""
        self._most = wholes
        self._walk(0, budget)

    def least(self) -> tuple[int, int]:
        """By counting: at least so many gangs evicted whole, and at least so many pods."""
        tops, wholes, pods = self._tops_from(0), 0, 1
        for at, row in enumerate(self.trial.rows):
            lack = row.want - row.hope
            wholes = max(wholes, bisect_left([0, *tops.wholes[at]], lack - tops.elastic[at]))
            pods = max(pods, bisect_left(tops.pods[at], lack) + 1)
        return wholes, pods

    def _stops(self, kept: frozenset[str]) -> Iterator[_Stop]:
        for at, running_gang in enumerate(self.running_gangs):
            if running_gang.can_be_evicted and running_gang.gang.name not in kept:
                yield _Stop(at, None, running_gang.victims[0])
            for held in self.trial.held[id(running_gang)]:
                if running_gang.can_lose({held.path: 1}):
                    yield _Stop(at, held, running_gang.victim(held))

    def _walk(self, start: int, budget: StepBudget) -> None:
        if self.trial.fits(budget):
            chosen = self._chosen
            self.best.offer(VictimCost(chosen.wholes, len(chosen.victims), tuple(chosen.victims)), self.trial)
            return
        if start == len(self.stops) or not self._can_reach(self.stops[start], self._pods_left(self.stops[start])):
            return
        if not self.trial.plain and not self._would_fit(self.stops[start].at, budget):
            return
        for position in range(start, len(self.stops)):
            budget.spend()
            stop = self.stops[position]
            left = self._pods_left(stop)
            if not self._can_reach(stop, left):
                return
            if stop.held is None:
                self._try_whole(stop.at, left, budget)
            else:
                self._try_pods(position, stop.at, stop.held, left, budget)

    def _try_whole(self, at: int, left: int, budget: StepBudget) -> None:
        running_gang, chosen = self.running_gangs[at], self._chosen
        if chosen.wholes == self._most or running_gang.size > left:
            return
        before = len(chosen.victims)
        chosen.victims.extend(running_gang.victims)
        chosen.wholes += 1
        self.trial.lift_all([running_gang])
        try:
            self._walk(self.starts[at + 1], budget)
        finally:
            self.trial.lift_all([running_gang], -1)
            chosen.wholes -= 1
            del chosen.victims[before:]

    def _try_pods(self, position: int, at: int, held: RunningPods, left: int, budget: StepBudget) -> None:
        """Pods above the minimum on one node, more of them first."""
        chosen = self._chosen
        gone = chosen.gone.setdefault(at, Counter())
        before, already = len(chosen.victims), gone[held.path]
        victim = self.running_gangs[at].victim(held)
        for count in range(min(held.count, left), 0, -1):
            gone[held.path] = already + count
            if not self.running_gangs[at].can_lose(gone):
                continue
            chosen.victims.extend([victim] * count)
            chosen.lifted[id(held)] = count
            self.trial.lift(held.slot, held.pods, count)
            try:
                self._walk(position + 1, budget)
            finally:
                self.trial.lift(held.slot, held.pods, -count)
                del chosen.lifted[id(held)]
                del chosen.victims[before:]
        gone[held.path] = already

    # --- what cannot lead anywhere ---

    def _pods_left(self, stop: _Stop) -> int:
        """How many more victims a set may have that goes on with this stop and is better than the best."""
        best, chosen = self.best.cost, self._chosen
        if best is None or best.wholes > self._most:
            return UNLIMITED
        if best.wholes < self._most:
            return 0
        names = [*chosen.victims, stop.first]
        is_later = names > list(best.victims[: len(names)])
        return best.pods - is_later - len(chosen.victims)

    def _can_reach(self, stop: _Stop, pods: int) -> bool:
        """Whether counting leaves hope with the gangs from a stop on and so many pods."""
        if pods <= 0:
            return False
        tops = self._tops_from(stop.at - stop.at % STRIDE)
        wholes = self._most - self._chosen.wholes
        for at, row in enumerate(self.trial.rows):
            lack = row.want - row.hope
            if lack > _top(tops.wholes[at], wholes) + tops.elastic[at]:
                return False
            if pods < LONGEST and lack > _top(tops.pods[at], pods):
                return False
        return True

    def _would_fit(self, at: int, budget: StepBudget) -> bool:
        """Whether everybody from a position on would be enough."""
        lifted = self._chosen.lifted
        rest = [
            (held, held.count - lifted[id(held)])
            for running_gang in self.running_gangs[at:]
            for held in self.trial.held[id(running_gang)]
        ]
        budget.spend(1 + len(rest) // 4)
        for held, count in rest:
            self.trial.lift(held.slot, held.pods, count)
        try:
            return self.trial.fits(budget)
        finally:
            for held, count in rest:
                self.trial.lift(held.slot, held.pods, -count)

    def _tops_from(self, at: int) -> _Tops:
        known = self._tops.get(at)
        if known is None:
            tops = [self._gains(row, self.running_gangs[at:]) for row in self.trial.rows]
            known = _Tops([wholes for wholes, _, _ in tops], [pods for _, pods, _ in tops], [last for *_, last in tops])
            self._tops[at] = known
        return known

    def _gains(self, row: CapacityRow, running_gangs: Sequence[RunningGang]) -> tuple[list[int], list[int], int]:
        trial = self.trial
        wholes = sorted((trial.gain(row, trial.held[id(running_gang)]) for running_gang in running_gangs), reverse=True)
        every: list[int] = []
        elastic = 0
        for running_gang in running_gangs:
            losable: dict[str, list[int]] = {}
            for held in trial.held[id(running_gang)]:
                gains = [trial.gain_of_one(row, held)] * held.count
                every += gains
                losable.setdefault(held.path, []).extend(gains)
            elastic += sum(sum(nlargest(_most_losable(running_gang, path), gains)) for path, gains in losable.items())
        return list(accumulate(wholes)), list(accumulate(nlargest(LONGEST, every))), elastic


def _most_losable(running_gang: RunningGang, path: str) -> int:
    """How many pods of a pod set may go while everything else stays."""
    count = running_gang.live[path]
    while count and not running_gang.can_lose({path: count}):
        count -= 1
    return count


def _top(sums: list[int], count: int) -> int:
    return sums[min(count, len(sums)) - 1] if count and sums else 0
