"""Clearing nodes that few pods stand on, until a gang fits: a quick way to a small set of pods that would have to go.

Says nothing about whether a smaller set would do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spinney.core.placement.budget import Budget
from spinney.core.placement.ground import Ground
from spinney.core.placement.targets import Mover


class Clearing:
    """Lifts pods from a ground; whoever uses it puts them back."""

    def __init__(self, ground: Ground, budget: Budget) -> None:
        self.ground = ground
        self.budget = budget
        self.choices = [Mover(holder, held) for holder in ground.holders for held in ground.held[id(holder)]]
        self.lifted: Counter[int] = Counter()
        self.standing: dict[int, list[int]] = {}
        for at, mover in enumerate(self.choices):
            self.standing.setdefault(mover.held.slot, []).append(at)

    def movers(self) -> list[Mover]:
        """Pods without which the gang fits, lifted, none of which can be put back; nobody if it never fits."""
        name = self.ground.inventory.name
        slots = sorted(self.standing, key=lambda slot: (self._pods_on(slot), name(slot)))
        low, high = 1, len(slots)
        while low < high:
            middle = (low + high) // 2
            self._lift_only(set(slots[:middle]))
            if self.ground.fits(self.budget):
                high = middle
            else:
                low = middle + 1
        self._lift_only(set(slots[:low]))
        if not self.ground.fits(self.budget):
            return []
        self._spare_nodes(slots[low - 1 :: -1])
        self._spare_pods()
        return [mover for at, mover in enumerate(self.choices) for _ in range(self.lifted[at])]

    def _pods_on(self, slot: int) -> int:
        return sum(self.choices[at].held.count for at in self.standing[slot])

    def put_back(self) -> None:
        self._lift_only(set())

    def _lift_only(self, slots: set[int]) -> None:
        for at, mover in enumerate(self.choices):
            self._set(at, mover.held.count if mover.held.slot in slots else 0)

    def _set(self, at: int, count: int) -> None:
        held = self.choices[at].held
        if count != self.lifted[at]:
            self.ground.lift(held.slot, held.pods, count - self.lifted[at])
            self.lifted[at] = count

    def _spare_nodes(self, slots: Sequence[int]) -> None:
        """Put back what stands on many nodes at once where that does no harm, the fullest first."""
        if not self._lift_on(slots, 0) or self.ground.fits(self.budget):
            return
        self._lift_on(slots, 1)
        if len(slots) > 1:
            half = len(slots) // 2
            self._spare_nodes(slots[:half])
            self._spare_nodes(slots[half:])

    def _lift_on(self, slots: Sequence[int], times: int) -> bool:
        """Lift everything on these nodes, or put it back with 0; whether anything changed."""
        before = self.lifted.total()
        for slot in slots:
            for at in self.standing[slot]:
                self._set(at, times * self.choices[at].held.count)
        return before != self.lifted.total()

    def _spare_pods(self) -> None:
        for at in range(len(self.choices)):
            while self.lifted[at]:
                self._set(at, self.lifted[at] - 1)
                if not self.ground.fits(self.budget):
                    self._set(at, self.lifted[at] + 1)
                    break
