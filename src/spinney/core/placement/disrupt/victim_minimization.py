"""Reprieving victims: from a sufficient set of victims to one from which no victim can be removed.

Never leaves a gang with pods but below its minimum, and never reprieves a pod without testing that the rest suffices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from spinney.api.placement.result import Victim
from spinney.core.placement.budget import StepBudget
from spinney.core.placement.disrupt.eviction_trial import EvictionTrial
from spinney.core.placement.disrupt.victim_search import VictimCost
from spinney.core.placement.gang.running_gangs import RunningGang, RunningPods


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
        victims: list[Victim] = []
        for loss in self.lost.values():
            if loss.whole:
                victims += loss.running_gang.victims
            else:
                victims += [loss.running_gang.victim(at) for at, n in _lifted(self.trial, loss) for _ in range(n)]
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
