"""Preemption, domain first: the cheapest lawful victims that let a gang in which otherwise fits nowhere.

Cheapest is the lowest highest priority of a victim, then the fewest gangs evicted whole, then the fewest pods, then
names. Never evicts a pod unless the gang fits afterwards, never one of equal or higher priority, never below a minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from spinney.api.placement.problem import Running
from spinney.api.placement.result import Victim
from spinney.core.placement.budget import Budget, Exhausted
from spinney.core.placement.cheapest import Best, Hunt, Price
from spinney.core.placement.ground import Ground, grounds
from spinney.core.placement.holders import Holder, forget, holders, pod_sets, release
from spinney.core.placement.parts import Parts
from spinney.core.placement.sparing import guesses, losses, thin_out

if TYPE_CHECKING:
    from spinney.core.placement.counting import Profile
    from spinney.core.placement.engine import Attempt, Engine

GUESSES = 3
"""So many domains are asked for a first set before the exact search."""


@dataclass(frozen=True, slots=True)
class Prey:
    """Victims, sorted, and whether nothing cheaper would do."""

    victims: tuple[Victim, ...]
    proved: bool


@dataclass(frozen=True, slots=True)
class Preemption:
    """A placement on the room of victims, which are gone from inventory and standings."""

    attempt: Attempt
    victims: tuple[Victim, ...]
    proved: bool


def preempt(engine: Engine, parts: Parts, asked: Profile, scope: list[int] | None) -> Preemption | None:
    """Evict the cheapest victims and find the placement; None: it is proved that no lawful eviction helps.

    Raises Exhausted, everything as it was, when the budget ends before that is known.
    """
    prey = cheapest_victims(engine, parts, scope)
    if prey is None:
        return None
    inventory = engine.inventory
    mark = inventory.checkpoint()
    for victim in prey.victims:
        pods = pod_sets(engine.standings[victim.gang].gang)[victim.pods]
        release(inventory, inventory.seat(victim.node, victim.zone), pods)
    attempt = engine.attempt(parts, asked, scope, waiting=True)
    if attempt.found is None:
        inventory.rollback(mark)
        raise Exhausted
    inventory.commit(mark)
    for victim in prey.victims:
        forget(inventory, engine.standings[victim.gang], Running(victim.pods, victim.node, victim.zone))
    return Preemption(attempt, prey.victims, prey.proved and attempt.found.proved)


def cheapest_victims(
    engine: Engine, parts: Parts, scope: Sequence[int] | None, budget: int | None = None
) -> Prey | None:
    """Who would have to go; nothing is changed. None and Exhausted as for `preempt`."""
    gang = parts.gang
    standings = [standing for name, standing in engine.standings.items() if name != gang.name]
    weaker = [one for one in holders(engine.inventory, standings) if one.gang.priority < gang.priority]
    if not weaker:
        return None
    kept = frozenset([gang.tied_to.gang]) if gang.tied_to is not None else frozenset()
    with engine.inventory.trial():
        steps = engine.options.budget if budget is None else budget
        return _Chase(list(grounds(engine.inventory, parts, scope, weaker)), weaker, kept, steps).run()


class _Chase:
    """The search over all domains: first the priority, then the price."""

    def __init__(self, all_: list[Ground], weaker: list[Holder], kept: frozenset[str], budget: int) -> None:
        self.grounds = all_
        self.priorities = sorted({holder.gang.priority for holder in weaker})
        self.kept = kept
        self.best = Best()
        self.budget = budget
        self.asking = Budget(budget)
        self.proving = Budget(budget)

    def run(self) -> Prey | None:
        proved = True
        try:
            self._chase()
        except Exhausted:
            proved = False
        proved = proved and all(ground.sure for ground in self.grounds)
        if self.best.price is not None and self.best.ground is not None:
            return Prey(self._thinned(self.best.price, self.best.ground, proved), proved)
        if not proved:
            raise Exhausted
        return None

    def _chase(self) -> None:
        """Some gangs cannot go whole: everybody up to a priority may be more than is lawful, then the next is tried."""
        helped = self._helped(self.grounds, self.priorities[-1])
        for priority in self.priorities[self._lowest(helped) :]:
            hunts = [
                Hunt(ground, _up_to(ground, priority), self.kept, self.best)
                for ground in self._helped(helped, priority)
            ]
            hunts.sort(key=Hunt.least)
            self._guess(hunts[:GUESSES])
            self._prove(hunts)
            if self.best.price is not None:
                return

    def _lowest(self, helped: list[Ground]) -> int:
        """The position of the lowest priority up to which evicting everybody would help."""
        if not helped:
            return len(self.priorities)
        low, high = 0, len(self.priorities) - 1
        while low < high:
            middle = (low + high) // 2
            if self._helped(helped, self.priorities[middle], enough=1):
                high = middle
            else:
                low = middle + 1
        return low

    def _helped(self, some: list[Ground], priority: int, enough: int | None = None) -> list[Ground]:
        """The domains, or enough of them, in which the gang would fit without everybody up to a priority."""
        fitting = (ground for ground in some if ground.fits_without(_up_to(ground, priority), self.asking))
        return list(islice(fitting, enough))

    def _guess(self, hunts: list[Hunt]) -> None:
        """A good set to start from; what comes of it need not be the cheapest."""
        for hunt in hunts:
            try:
                for lost in guesses(hunt.ground, hunt.holders, self.kept, self.asking):
                    price = thin_out(hunt.ground, lost, self.asking)
                    if price is not None:
                        self.best.offer(price, hunt.ground)
            except Exhausted:
                return

    def _prove(self, hunts: list[Hunt]) -> None:
        """More and more whole gangs, until what is found cannot be beaten."""
        most = max((len(hunt.holders) for hunt in hunts), default=-1)
        for wholes in range(min((hunt.least()[0] for hunt in hunts), default=0), most + 1):
            for hunt in hunts:
                hunt.search(wholes, self.proving)
            if self.best.price is not None and self.best.price.wholes <= wholes:
                return

    def _thinned(self, price: Price, ground: Ground, proved: bool) -> tuple[Victim, ...]:
        if proved:
            return price.victims
        try:
            thinner = thin_out(ground, losses(ground, price.victims), Budget(self.budget))
        except Exhausted:
            return price.victims
        return thinner.victims if thinner is not None else price.victims


def _up_to(ground: Ground, priority: int) -> list[Holder]:
    return [holder for holder in ground.holders if holder.gang.priority <= priority]
