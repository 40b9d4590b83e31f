"""The cheapest victims in one domain: an exact branch-and-bound search over gangs and pods in the order of their names.

Sets are compared by the number of gangs evicted completely, then pods, then names. Because the search goes in the order
of names, the first set found at a cost has the smallest names at that cost, so any later set must be cheaper. A
sufficient set found otherwise is reduced until no victim can be spared. Never proposes a set that leaves a gang with
pods but below its minimum.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import accumulate
from typing import NamedTuple

from spinney.api.placement.result import Victim
from spinney.core.placement.budget import StepBudget
from spinney.core.placement.disrupt.eviction_trial import CapacityRow, EvictionTrial
from spinney.core.placement.disrupt.victim_rules import IsAllowed, anything
from spinney.core.placement.gang.running_gangs import RunningGang, RunningPods

UNLIMITED = 1 << 30
STRIDE = 16
"""Bounds are kept for every STRIDE-th gang; those in between use the bound of the gang before."""
LONGEST = 512
"""Largest number of pods for which sums of single-pod gains are kept."""


class VictimCost(NamedTuple):
    """The cost of an eligible victim set; smaller is better."""

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


class _Choice(NamedTuple):
    """One decision of the search: evict a whole gang (no `held`), or its pods above the minimum on one node."""

    at: int  # position of the running gang
    held: RunningPods | None
    first: Victim


class _GainBounds(NamedTuple):
    """Per condition, for the gangs from a position on: sums of the largest gains, and the gain of elastic pods."""

    wholes: list[list[int]]
    pods: list[list[int]]
    elastic: list[int]


@dataclass(slots=True)
class _Chosen:
    """The victims so far, in the order of names; for partly evicted gangs the number of victims per pod set."""

    victims: list[Victim] = field(default_factory=list)
    wholes: int = 0
    gone: dict[int, Counter[str]] = field(default_factory=dict)
    lifted: Counter[int] = field(default_factory=Counter)


class VictimSearch:
    """The search in one trial domain among some of its running gangs; gangs in `kept` are never evicted completely."""

    def __init__(
        self,
        trial: EvictionTrial,
        running_gangs: Sequence[RunningGang],
        kept: frozenset[str],
        best: CheapestVictims,
        is_allowed: IsAllowed = anything,
    ) -> None:
        self.trial = trial
        self.running_gangs = running_gangs
        self.best = best
        self.is_allowed = is_allowed
        self.stops = list(self._stops(kept))
        self.starts = [0] * (len(running_gangs) + 1)
        for stop in self.stops:
            self.starts[stop.at + 1] += 1
        self.starts = list(accumulate(self.starts))
        self._tops: dict[int, _GainBounds] = {}
        self._chosen = _Chosen()
        self._most = 0

    def search(self, wholes: int, budget: StepBudget) -> None:
        """Offer every set better than the best so far that evicts at most `wholes` gangs completely."""
        self._most = wholes
        self._walk(0, budget)

    def least(self) -> tuple[int, int]:
        """Lower bounds by counting: the number of gangs evicted completely, and the number of pods."""
        tops, wholes, pods = self._tops_from(0), 0, 1
        for at, row in enumerate(self.trial.rows):
            lack = row.want - row.hope
            wholes = max(wholes, bisect_left([0, *tops.wholes[at]], lack - tops.elastic[at]))
            pods = max(pods, bisect_left(tops.pods[at], lack) + 1)
        return wholes, pods

    def _stops(self, kept: frozenset[str]) -> Iterator[_Choice]:
        for at, running_gang in enumerate(self.running_gangs):
            if running_gang.can_be_evicted and running_gang.gang.name not in kept:
                yield _Choice(at, None, running_gang.victims[0])
            for held in self.trial.held[id(running_gang)]:
                if running_gang.can_lose({held.path: 1}):
                    yield _Choice(at, held, running_gang.victim(held))

    def _walk(self, start: int, budget: StepBudget) -> None:
        if self.is_allowed is not anything and self._chosen.victims:
            budget.spend(len(self._chosen.victims))
            if not self.is_allowed(self._chosen.victims):
                return  # and no superset is
        if self.trial.fits(budget):
            chosen = self._chosen
            self.best.offer(VictimCost(chosen.wholes, len(chosen.victims), tuple(chosen.victims)), self.trial)
            return  # any superset costs more
        if start == len(self.stops) or not self._can_reach(self.stops[start], self._pods_left(self.stops[start])):
            return
        # Counting is inexact here: ask first whether evicting all that remain would suffice.
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
        """Evict pods above the minimum on one node, larger numbers first."""
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

    # --- bounds that cut the search ---

    def _pods_left(self, stop: _Choice) -> int:
        """How many more victims a set that continues with this stop may have and still be better than the best."""
        best, chosen = self.best.cost, self._chosen
        # Every set of this round evicts fewer gangs completely than the best and is therefore cheaper.
        if best is None or best.wholes > self._most:
            return UNLIMITED
        if best.wholes < self._most:
            return 0
        names = [*chosen.victims, stop.first]
        is_later = names > list(best.victims[: len(names)])
        return best.pods - is_later - len(chosen.victims)

    def _can_reach(self, stop: _Choice, pods: int) -> bool:
        """Whether, by counting, `pods` more victims among the gangs from a stop on can still cover the shortage."""
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
        """Whether evicting all remaining pods of the gangs from a position on would suffice."""
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

    def _tops_from(self, at: int) -> _GainBounds:
        known = self._tops.get(at)
        if known is None:
            tops = [self._gains(row, self.running_gangs[at:]) for row in self.trial.rows]
            known = _GainBounds(
                [wholes for wholes, _, _ in tops], [pods for _, pods, _ in tops], [last for *_, last in tops]
            )
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
    """How many pods of a pod set may be evicted while all other pods stay."""
    count = running_gang.live[path]
    while count and not running_gang.can_lose({path: count}):
        count -= 1
    return count


def _top(sums: list[int], count: int) -> int:
    return sums[min(count, len(sums)) - 1] if count and sums else 0


@dataclass(slots=True, eq=False)
class GangLoss:
    """What one gang loses: all its pods, or a number of each of its running pods in the trial domain (by position)."""

    running_gang: RunningGang
    whole: bool
    counts: list[int] = field(default_factory=list)


def guesses(
    trial: EvictionTrial, running_gangs: Sequence[RunningGang], kept: frozenset[str], budget: StepBudget
) -> Iterator[list[GangLoss]]:
    """Victim sets that are likely to suffice: every eligible pod; the gangs that free most, plus all elastic pods."""
    wholes = [GangLoss(one, True) for one in running_gangs if one.can_be_evicted and one.gang.name not in kept]
    elastic = [GangLoss(one, False, _elastic(trial, one)) for one in running_gangs]
    elastic = [loss for loss in elastic if any(loss.counts)]
    yield _joined(wholes, elastic)
    wholes.sort(key=lambda loss: _weight(trial, loss), reverse=True)
    low, high = 0, len(wholes)
    while low < high:
        middle = (low + high) // 2
        if _is_enough(trial, _joined(wholes[:middle], elastic), budget):
            high = middle
        else:
            low = middle + 1
    yield _joined(wholes[:low], elastic)


def allowed_guess(
    trial: EvictionTrial,
    running_gangs: Sequence[RunningGang],
    kept: frozenset[str],
    is_allowed: IsAllowed,
    budget: StepBudget,
) -> list[GangLoss]:
    """Elastic pods first, then whole gangs, in order and as far as allowed, until the gang fits."""
    taken: dict[int, GangLoss] = {}
    try:
        _take_allowed(trial, running_gangs, kept, is_allowed, budget, taken)
    finally:
        for loss in taken.values():
            _lift(trial, loss, -1)
    return list(taken.values())


def _take_allowed(
    trial: EvictionTrial,
    running_gangs: Sequence[RunningGang],
    kept: frozenset[str],
    is_allowed: IsAllowed,
    budget: StepBudget,
    taken: dict[int, GangLoss],
) -> None:
    """What is `taken` is removed from the trial."""
    elastic = [GangLoss(one, False, _elastic(trial, one)) for one in running_gangs]
    wholes = [GangLoss(one, True) for one in running_gangs if one.can_be_evicted and one.gang.name not in kept]
    for loss in (*(one for one in elastic if any(one.counts)), *wholes):
        before = taken.get(id(loss.running_gang))
        budget.spend(1 + len(taken))
        if not is_allowed(_victims(trial, (taken | {id(loss.running_gang): loss}).values())):
            continue
        if before is not None:
            _lift(trial, before, -1)
        taken[id(loss.running_gang)] = loss
        _lift(trial, loss, 1)
        if trial.fits(budget):
            return


def _victims(trial: EvictionTrial, lost: Iterable[GangLoss]) -> list[Victim]:
    victims: list[Victim] = []
    for loss in lost:
        if loss.whole:
            victims += loss.running_gang.victims
        else:
            victims += [loss.running_gang.victim(at) for at, n in _lifted(trial, loss) for _ in range(n)]
    return victims


def _joined(wholes: Sequence[GangLoss], elastic: Sequence[GangLoss]) -> list[GangLoss]:
    gone = {id(loss.running_gang) for loss in wholes}
    return [
        *wholes,
        *(
            GangLoss(loss.running_gang, False, list(loss.counts))
            for loss in elastic
            if id(loss.running_gang) not in gone
        ),
    ]


def _is_enough(trial: EvictionTrial, lost: Sequence[GangLoss], budget: StepBudget) -> bool:
    for loss in lost:
        _lift(trial, loss, 1)
    try:
        return trial.fits(budget)
    finally:
        for loss in lost:
            _lift(trial, loss, -1)


def _weight(trial: EvictionTrial, loss: GangLoss) -> tuple[int, int]:
    """How much of the shortage a gang's pods cover; of equal gangs the smaller one weighs more."""
    held = trial.held[id(loss.running_gang)]
    shares = (min(row.want - row.have, trial.gain(row, held)) * 1000 // row.want for row in trial.rows)
    return sum(shares), -loss.running_gang.size


def losses(trial: EvictionTrial, victims: Sequence[Victim]) -> list[GangLoss]:
    """A set of victims, grouped by gang."""
    by_gang: dict[str, Counter[Victim]] = {}
    for victim in victims:
        by_gang.setdefault(victim.gang, Counter())[victim] += 1
    found = []
    for running_gang in trial.running_gangs:
        mine = by_gang.get(running_gang.gang.name)
        if mine:
            whole = mine.total() == running_gang.live.total()
            counts = [mine[running_gang.victim(held)] for held in trial.held[id(running_gang)]]
            found.append(GangLoss(running_gang, whole, [] if whole else counts))
    return found


def minimize_victims(trial: EvictionTrial, lost: Sequence[GangLoss], budget: StepBudget) -> VictimCost | None:
    """An eligible subset of the given victims of which none can be reprieved; None if even all do not suffice."""
    minimization = _Minimization(trial, budget)
    try:
        return minimization.run(sorted(lost, key=lambda loss: (not loss.whole, _weight(trial, loss))))
    finally:
        minimization.put_back_all()


class _Minimization:
    """The victims that are still needed, by id, removed from the trial.

    Completely evicted gangs are reprieved first, beginning with those that free least.
    """

    def __init__(self, trial: EvictionTrial, budget: StepBudget) -> None:
        self.trial = trial
        self.budget = budget
        self.lost: dict[int, GangLoss] = {}

    def run(self, lost: Sequence[GangLoss]) -> VictimCost | None:
        for loss in lost:
            self._lift(loss)
        if not self._is_enough():
            return None
        for loss in lost:
            if id(loss) in self.lost and loss.whole:
                self._keep_gang(loss)
        for loss in lost:
            if id(loss) in self.lost and not loss.whole:
                self._keep_pods(loss)
        return self._cost()

    def _is_enough(self) -> bool:
        """Test whether the gang fits, and reprieve at once every victim that the found placement does not need."""
        if not self.trial.fits(self.budget):
            return False
        crowded = self.trial.crowded()
        for loss in list(self.lost.values()):
            held = self.trial.held[id(loss.running_gang)]
            if not any(at.slot in crowded for at in held):
                self._put_back(loss)
            elif not loss.whole:
                self._put_back(loss)
                loss.counts = [n if at.slot in crowded else 0 for at, n in zip(held, loss.counts, strict=True)]
                self._lift(loss)
        return True

    def _keep_gang(self, loss: GangLoss) -> None:
        """Try to reprieve the whole gang, then all but its elastic pods."""
        self._put_back(loss)
        if self._is_enough():
            return
        less = GangLoss(loss.running_gang, False, _elastic(self.trial, loss.running_gang))
        if any(less.counts):
            self._lift(less)
            if self._is_enough():
                if id(less) in self.lost:
                    self._keep_pods(less)
                return
            self._put_back(less)
        self._lift(loss)

    def _keep_pods(self, loss: GangLoss) -> None:
        for at in range(len(loss.counts)):
            while id(loss) in self.lost and loss.counts[at]:
                self._put_back(loss)
                loss.counts[at] -= 1
                self._lift(loss)
                if not self._is_enough():
                    self._put_back(loss)
                    loss.counts[at] += 1
                    self._lift(loss)
                    break

    def _lift(self, loss: GangLoss) -> None:
        _lift(self.trial, loss, 1)
        self.lost[id(loss)] = loss

    def _put_back(self, loss: GangLoss) -> None:
        _lift(self.trial, loss, -1)
        del self.lost[id(loss)]

    def put_back_all(self) -> None:
        for loss in list(self.lost.values()):
            self._put_back(loss)

    def _cost(self) -> VictimCost:
        victims = _victims(self.trial, self.lost.values())
        return VictimCost(sum(loss.whole for loss in self.lost.values()), len(victims), tuple(sorted(victims)))


def _lift(trial: EvictionTrial, loss: GangLoss, sign: int) -> None:
    for held, count in _lifted(trial, loss):
        trial.lift(held.slot, held.pods, sign * count)


def _lifted(trial: EvictionTrial, loss: GangLoss) -> list[tuple[RunningPods, int]]:
    held = trial.held[id(loss.running_gang)]
    return [(at, at.count) for at in held] if loss.whole else list(zip(held, loss.counts, strict=True))


def _elastic(trial: EvictionTrial, running_gang: RunningGang) -> list[int]:
    """Per position, as many pods as a gang can lose in the trial domain above its minimum, taken in order."""
    gone: Counter[str] = Counter()
    counts = []
    for held in trial.held[id(running_gang)]:
        count = held.count
        while count and not running_gang.can_lose(gone + Counter({held.path: count})):
            count -= 1
        gone[held.path] += count
        counts.append(count)
    return counts
