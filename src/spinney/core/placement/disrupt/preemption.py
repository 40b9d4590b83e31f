"""Preemption, domain by domain: the cheapest eligible victims without which a gang fits that otherwise fits nowhere.

Cost is compared by the highest priority among the victims, then the number of gangs evicted completely, then the number
of pods, then names. Never evicts a pod unless the gang fits afterwards, never one of equal or higher priority (where
there are rules for victims: none that they do not allow), and never leaves a gang with pods but below its minimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from spinney.api.placement.problem import Running
from spinney.api.placement.result import Victim
from spinney.core.placement.attempt import PlacementState, SearchResult
from spinney.core.placement.budget import Exhausted, StepBudget
from spinney.core.placement.disrupt.eviction_trial import EvictionTrial, eviction_trials
from spinney.core.placement.disrupt.victim_rules import IsAllowed, anything
from spinney.core.placement.disrupt.victim_search import (
    CheapestVictims,
    GangLoss,
    VictimCost,
    VictimSearch,
    allowed_guess,
    guesses,
    losses,
    minimize_victims,
)
from spinney.core.placement.fit.counting import Profile
from spinney.core.placement.gang.gang_tree import GangTree
from spinney.core.placement.gang.running_gangs import RunningGang, forget, pod_sets, release, running_gangs

GUESSES = 3
"""Number of domains in which a first victim set is looked for before the exact search."""

RULED = 4
"""A search with rules has so much less of the budget: each step asks them."""


@dataclass(frozen=True, slots=True)
class VictimSet:
    """Victims, sorted, and whether it is proved that no cheaper set suffices."""

    victims: tuple[Victim, ...]
    proved: bool


@dataclass(frozen=True, slots=True)
class Preemption:
    """A placement on the capacity of victims, which are already removed from the inventory and placed gangs."""

    attempt: SearchResult
    victims: tuple[Victim, ...]
    proved: bool


def preempt(engine: PlacementState, parts: GangTree, asked: Profile, scope: list[int] | None) -> Preemption | None:
    """Evict the cheapest victims and find the placement; None: it is proved that no eligible eviction helps.

    Raises Exhausted, with nothing changed, when the budget ends before that is known.
    """
    victim_set = cheapest_victims(engine, parts, scope)
    if victim_set is None:
        return None
    inventory = engine.inventory
    mark = inventory.checkpoint()
    for victim in victim_set.victims:
        pods = pod_sets(engine.placed_gangs[victim.gang].gang)[victim.pods]
        release(inventory, inventory.slot_for(victim.node, victim.zone), pods)
    attempt = engine.attempt(parts, asked, scope, waiting=True)
    # The trial found a placement for these victims, so this search can only have run out of budget.
    if attempt.found is None:
        inventory.rollback(mark)
        raise Exhausted
    inventory.commit(mark)
    for victim in victim_set.victims:
        forget(inventory, engine.placed_gangs[victim.gang], Running(victim.pods, victim.node, victim.zone))
    return Preemption(attempt, victim_set.victims, victim_set.proved and attempt.found.proved)


def cheapest_victims(
    engine: PlacementState, parts: GangTree, scope: Sequence[int] | None, budget: int | None = None
) -> VictimSet | None:
    """The cheapest victims; nothing is changed. Returns None and raises Exhausted as `preempt` does."""
    gang, rules = parts.gang, engine.victim_rules
    placed_gangs = [placed_gang for name, placed_gang in engine.placed_gangs.items() if name != gang.name]
    others = running_gangs(engine.inventory, placed_gangs)
    kept = frozenset([gang.tied_to.gang]) if gang.tied_to is not None else frozenset()
    if rules is None:
        weaker = [one for one in others if one.gang.priority < gang.priority]
    else:
        weaker, kept = rules.candidates(others), rules.kept(kept)
    if not weaker:
        return None
    is_allowed = anything if rules is None or rules.is_allowed is anything else rules.allows
    with engine.inventory.trial():
        steps = engine.options.budget if budget is None else budget
        steps = steps if is_allowed is anything else max(1, steps // RULED)
        trials = list(eviction_trials(engine.inventory, parts, scope, weaker))
        found = _VictimSelection(trials, weaker, kept, is_allowed, steps).run()
    if found is None or rules is None:
        return found
    return VictimSet(tuple(sorted(rules.named(found.victims))), found.proved)


class _VictimSelection:
    """The search over all domains: first the lowest sufficient priority, then the lowest cost."""

    def __init__(
        self,
        all_: list[EvictionTrial],
        weaker: list[RunningGang],
        kept: frozenset[str],
        is_allowed: IsAllowed,
        budget: int,
    ) -> None:
        self.eviction_trials = all_
        self.priorities = sorted({running_gang.gang.priority for running_gang in weaker})
        self.kept = kept
        self.is_allowed = is_allowed
        self.best = CheapestVictims()
        self.budget = budget
        self.asking = StepBudget(budget)
        self.proving = StepBudget(budget)

    def run(self) -> VictimSet | None:
        proved = True
        try:
            self._select()
        except Exhausted:
            proved = False
        proved = proved and all(trial.sure for trial in self.eviction_trials)
        if self.best.cost is not None and self.best.trial is not None:
            return VictimSet(self._minimized(self.best.cost, self.best.trial, proved), proved)
        if not proved:
            raise Exhausted
        return None

    def _select(self) -> None:
        """Raise the priority limit until a set of victims is found.

        The lowest limit at which evicting everything helps may still have no eligible set, because some gangs cannot be
        evicted completely; then the next priority is tried.
        """
        helped = self._helped(self.eviction_trials, self.priorities[-1])
        for priority in self.priorities[self._lowest(helped) :]:
            victim_searches = [
                VictimSearch(trial, _up_to(trial, priority), self.kept, self.best, self.is_allowed)
                for trial in self._helped(helped, priority)
            ]
            victim_searches.sort(key=VictimSearch.least)
            self._guess(victim_searches[:GUESSES])
            self._prove(victim_searches)
            if self.best.cost is not None:
                return

    def _lowest(self, helped: list[EvictionTrial]) -> int:
        """The position of the lowest priority such that the gang fits once every pod up to it is evicted."""
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

    def _helped(self, some: list[EvictionTrial], priority: int, enough: int | None = None) -> list[EvictionTrial]:
        """The domains (at most `enough`) in which the gang fits once every pod up to a priority is evicted."""
        fitting = (trial for trial in some if trial.fits_without(_up_to(trial, priority), self.asking))
        return list(islice(fitting, enough))

    def _guess(self, victim_searches: list[VictimSearch]) -> None:
        """Find good first victim sets as a bound for the exact search; they need not be the cheapest."""
        for victim_search in victim_searches:
            try:
                for lost in self._guesses(victim_search):
                    cost = minimize_victims(victim_search.trial, lost, self.asking)
                    if cost is not None and self.is_allowed(cost.victims):
                        self.best.offer(cost, victim_search.trial)
            except Exhausted:
                return

    def _guesses(self, victim_search: VictimSearch) -> Iterator[list[GangLoss]]:
        trial, running_gangs = victim_search.trial, victim_search.running_gangs
        yield from guesses(trial, running_gangs, self.kept, self.asking)
        if self.is_allowed is not anything:
            yield allowed_guess(trial, running_gangs, self.kept, self.is_allowed, self.asking)

    def _prove(self, victim_searches: list[VictimSearch]) -> None:
        """Allow one more completely evicted gang per round until the best set found cannot be improved."""
        most = max((len(victim_search.running_gangs) for victim_search in victim_searches), default=-1)
        for wholes in range(min((victim_search.least()[0] for victim_search in victim_searches), default=0), most + 1):
            for victim_search in victim_searches:
                victim_search.search(wholes, self.proving)
            if self.best.cost is not None and self.best.cost.wholes <= wholes:
                return

    def _minimized(self, cost: VictimCost, trial: EvictionTrial, proved: bool) -> tuple[Victim, ...]:
        if proved:
            return cost.victims
        try:
            smaller = minimize_victims(trial, losses(trial, cost.victims), StepBudget(self.budget))
        except Exhausted:
            return cost.victims
        return smaller.victims if smaller is not None else cost.victims


def _up_to(trial: EvictionTrial, priority: int) -> list[RunningGang]:
    return [running_gang for running_gang in trial.running_gangs if running_gang.gang.priority <= priority]
