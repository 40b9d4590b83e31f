"""Sparing victims: from a set that is enough to one of which nobody can be spared.

Never lets a gang stay below its minimum, and never spares a pod without having asked whether the rest is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from spinney.api.placement.result import Victim
from spinney.core.placement.budget import Budget
from spinney.core.placement.cheapest import Price
from spinney.core.placement.ground import Ground
from spinney.core.placement.holders import Held, Holder


@dataclass(slots=True, eq=False)
class Loss:
    """What one gang loses: everything, or so many of what it holds in the ground (by position)."""

    holder: Holder
    whole: bool
    counts: list[int] = field(default_factory=list)


def guesses(ground: Ground, holders: Sequence[Holder], kept: frozenset[str], budget: Budget) -> Iterator[list[Loss]]:
    """Sets that are likely to be enough: everybody; the gangs that give most, and elastic pods of all others."""
    wholes = [Loss(one, True) for one in holders if one.may_go and one.gang.name not in kept]
    elastic = [Loss(one, False, _elastic(ground, one)) for one in holders]
    elastic = [loss for loss in elastic if any(loss.counts)]
    yield _joined(wholes, elastic)
    wholes.sort(key=lambda loss: _weight(ground, loss), reverse=True)
    low, high = 0, len(wholes)
    while low < high:
        middle = (low + high) // 2
        if _is_enough(ground, _joined(wholes[:middle], elastic), budget):
            high = middle
        else:
            low = middle + 1
    yield _joined(wholes[:low], elastic)


def _joined(wholes: Sequence[Loss], elastic: Sequence[Loss]) -> list[Loss]:
    gone = {id(loss.holder) for loss in wholes}
    return [*wholes, *(Loss(loss.holder, False, list(loss.counts)) for loss in elastic if id(loss.holder) not in gone)]


def _is_enough(ground: Ground, lost: Sequence[Loss], budget: Budget) -> bool:
    for loss in lost:
        _lift(ground, loss, 1)
    try:
        return ground.fits(budget)
    finally:
        for loss in lost:
            _lift(ground, loss, -1)


def _weight(ground: Ground, loss: Loss) -> tuple[int, int]:
    """How much of what is lacking a gang gives; of equal ones the smaller gang is worth more."""
    held = ground.held[id(loss.holder)]
    shares = (min(row.want - row.have, ground.gain(row, held)) * 1000 // row.want for row in ground.rows)
    return sum(shares), -loss.holder.size


def losses(ground: Ground, victims: Sequence[Victim]) -> list[Loss]:
    """A set of victims, gang by gang."""
    by_gang: dict[str, Counter[Victim]] = {}
    for victim in victims:
        by_gang.setdefault(victim.gang, Counter())[victim] += 1
    found = []
    for holder in ground.holders:
        mine = by_gang.get(holder.gang.name)
        if mine:
            whole = mine.total() == holder.live.total()
            counts = [mine[holder.victim(held)] for held in ground.held[id(holder)]]
            found.append(Loss(holder, whole, [] if whole else counts))
    return found


def thin_out(ground: Ground, lost: Sequence[Loss], budget: Budget) -> Price | None:
    """A lawful set within the given one of which nobody can be spared; None if even that is not enough."""
    thinning = _Thinning(ground, budget)
    try:
        return thinning.run(sorted(lost, key=lambda loss: (not loss.whole, _weight(ground, loss))))
    finally:
        thinning.put_back_all()


class _Thinning:
    """What is lifted and still needed, by id. Whole gangs are spared first, and of these the ones that give little."""

    def __init__(self, ground: Ground, budget: Budget) -> None:
        self.ground = ground
        self.budget = budget
        self.lost: dict[int, Loss] = {}

    def run(self, lost: Sequence[Loss]) -> Price | None:
        for loss in lost:
            self._lift(loss)
        if not self._is_enough():
            return None
        for loss in lost:
            if id(loss) in self.lost and loss.whole:
                self._spare(loss)
        for loss in lost:
            if id(loss) in self.lost and not loss.whole:
                self._spare_pods(loss)
        return self._price()

    def _is_enough(self) -> bool:
        """Ask, and put back at once whatever the solution does not need."""
        if not self.ground.fits(self.budget):
            return False
        crowded = self.ground.crowded()
        for loss in list(self.lost.values()):
            held = self.ground.held[id(loss.holder)]
            if not any(at.slot in crowded for at in held):
                self._put_back(loss)
            elif not loss.whole:
                self._put_back(loss)
                loss.counts = [n if at.slot in crowded else 0 for at, n in zip(held, loss.counts, strict=True)]
                self._lift(loss)
        return True

    def _spare(self, loss: Loss) -> None:
        """Perhaps it is enough when the gang loses nothing, or what is above its minimum."""
        self._put_back(loss)
        if self._is_enough():
            return
        less = Loss(loss.holder, False, _elastic(self.ground, loss.holder))
        if any(less.counts):
            self._lift(less)
            if self._is_enough():
                if id(less) in self.lost:
                    self._spare_pods(less)
                return
            self._put_back(less)
        self._lift(loss)

    def _spare_pods(self, loss: Loss) -> None:
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

    def _lift(self, loss: Loss) -> None:
        _lift(self.ground, loss, 1)
        self.lost[id(loss)] = loss

    def _put_back(self, loss: Loss) -> None:
        _lift(self.ground, loss, -1)
        del self.lost[id(loss)]

    def put_back_all(self) -> None:
        for loss in list(self.lost.values()):
            self._put_back(loss)

    def _price(self) -> Price:
        victims: list[Victim] = []
        for loss in self.lost.values():
            if loss.whole:
                victims += loss.holder.victims
            else:
                victims += [loss.holder.victim(at) for at, n in _lifted(self.ground, loss) for _ in range(n)]
        return Price(sum(loss.whole for loss in self.lost.values()), len(victims), tuple(sorted(victims)))


def _lift(ground: Ground, loss: Loss, sign: int) -> None:
    for held, count in _lifted(ground, loss):
        ground.lift(held.slot, held.pods, sign * count)


def _lifted(ground: Ground, loss: Loss) -> list[tuple[Held, int]]:
    held = ground.held[id(loss.holder)]
    return [(at, at.count) for at in held] if loss.whole else list(zip(held, loss.counts, strict=True))


def _elastic(ground: Ground, holder: Holder) -> list[int]:
    """As many pods as a gang can spare in the ground, taken in order."""
    gone: Counter[str] = Counter()
    counts = []
    for held in ground.held[id(holder)]:
        count = held.count
        while count and not holder.spares(gone + Counter({held.path: count})):
            count -= 1
        gone[held.path] += count
        counts.append(count)
    return counts
