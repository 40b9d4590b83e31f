"""Sparing victims: from a set that is enough to one of which nobody can be spared.

Never lets a gang stay below its minimum, and never spares a pod without having asked whether the rest is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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


def everything(ground: Ground, holders: Iterable[Holder], kept: frozenset[str]) -> list[Loss]:
    """The most that these gangs may lose."""
    return [
        Loss(holder, True)
        if holder.may_go and holder.gang.name not in kept
        else Loss(holder, False, _elastic(ground, holder))
        for holder in holders
    ]


def losses(ground: Ground, victims: Sequence[Victim]) -> list[Loss]:
    """A set of victims, gang by gang."""
    by_gang: dict[str, Counter[tuple[str, str]]] = {}
    for victim in victims:
        by_gang.setdefault(victim.gang, Counter())[victim.pods, victim.node] += 1
    found = []
    for holder in ground.holders:
        mine = by_gang.get(holder.gang.name)
        if mine:
            whole = mine.total() == holder.live.total()
            counts = [mine[held.path, held.node] for held in ground.held[id(holder)]]
            found.append(Loss(holder, whole, [] if whole else counts))
    return found


def thin_out(ground: Ground, lost: Sequence[Loss], budget: Budget) -> Price | None:
    """A lawful set within the given one of which nobody can be spared; None if even that is not enough."""
    thinning = _Thinning(ground, budget)
    try:
        return thinning.run(sorted(lost, key=thinning.weight))
    finally:
        thinning.put_back_all()


class _Thinning:
    def __init__(self, ground: Ground, budget: Budget) -> None:
        self.ground = ground
        self.budget = budget
        self.lost: dict[int, Loss] = {}

    def run(self, lost: Sequence[Loss]) -> Price | None:
        for loss in lost:
            self._lift(loss)
        if not self.ground.fits(self.budget):
            return None
        self._spare_block(lost)
        for loss in list(self.lost.values()):
            if loss.whole:
                self._spare_minimum(loss)
        for loss in list(self.lost.values()):
            if not loss.whole:
                self._spare_pods(loss)
        return self._price()

    def weight(self, loss: Loss) -> tuple[int, list[int], int]:
        """Gangs that give little are spared first."""
        held = self.ground.held[id(loss.holder)]
        return loss.whole, [self.ground.gain(row, held) for row in self.ground.rows], -loss.holder.size

    def _spare_block(self, lost: Sequence[Loss]) -> None:
        """Put back many at once where that does no harm."""
        if not lost:
            return
        for loss in lost:
            self._put_back(loss)
        if self.ground.fits(self.budget):
            return
        for loss in lost:
            self._lift(loss)
        if len(lost) > 1:
            half = len(lost) // 2
            self._spare_block(lost[:half])
            self._spare_block(lost[half:])

    def _spare_minimum(self, loss: Loss) -> None:
        """Perhaps it is enough when the gang loses what is above its minimum."""
        less = Loss(loss.holder, False, _elastic(self.ground, loss.holder))
        if not any(less.counts):
            return
        self._put_back(loss)
        self._lift(less)
        if not self.ground.fits(self.budget):
            self._put_back(less)
            self._lift(loss)

    def _spare_pods(self, loss: Loss) -> None:
        for at, held in enumerate(self.ground.held[id(loss.holder)]):
            while loss.counts[at]:
                self.ground.lift(held.slot, held.pods, -1)
                loss.counts[at] -= 1
                if not self.ground.fits(self.budget):
                    self.ground.lift(held.slot, held.pods, 1)
                    loss.counts[at] += 1
                    break

    def _lift(self, loss: Loss, sign: int = 1) -> None:
        for held, count in self._lifted(loss):
            self.ground.lift(held.slot, held.pods, sign * count)
        self.lost[id(loss)] = loss

    def _put_back(self, loss: Loss) -> None:
        self._lift(loss, -1)
        del self.lost[id(loss)]

    def put_back_all(self) -> None:
        for loss in list(self.lost.values()):
            self._put_back(loss)

    def _lifted(self, loss: Loss) -> list[tuple[Held, int]]:
        held = self.ground.held[id(loss.holder)]
        return [(at, at.count) for at in held] if loss.whole else list(zip(held, loss.counts, strict=True))

    def _price(self) -> Price:
        victims: list[Victim] = []
        for loss in self.lost.values():
            if loss.whole:
                victims += loss.holder.victims
            else:
                name = loss.holder.gang.name
                victims += [Victim(name, held.path, held.node) for held, n in self._lifted(loss) for _ in range(n)]
        return Price(sum(loss.whole for loss in self.lost.values()), len(victims), tuple(sorted(victims)))


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
