"""The placement engine: decides gangs one after the other, each on what the ones before left.

A gang that is not placed leaves the inventory unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from spinney.api.placement.problem import Gang, Group, Options, Problem, Running, Topology
from spinney.api.placement.result import Decision, Explanation, Move, Outcome, Placement, Result, Victim
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.attempt import PlacementState, SearchResult, SetDecision, needs_releasing, take_solution
from spinney.core.placement.budget import Exhausted, StepBudget
from spinney.core.placement.disrupt.consolidation import consolidate
from spinney.core.placement.disrupt.preemption import cheapest_victims, preempt
from spinney.core.placement.disrupt.victim_rules import VictimRules
from spinney.core.placement.explain.explanation import explain
from spinney.core.placement.fit.counting import SMALL, Profile, Region, find_regions, profile
from spinney.core.placement.fit.fast_path import FastPath
from spinney.core.placement.gang.gang_tree import (
    ChosenChildren,
    GangTree,
    Invalid,
    Part,
    all_children,
    choices,
    larger_choices,
    may_need_more,
    read_gang_tree,
)
from spinney.core.placement.gang.preferred_affinity import with_preferences, without_preferences
from spinney.core.placement.gang.running_gangs import PlacedGang, UnsatisfiedTie, pod_sets, tied_slots
from spinney.core.placement.gang.tied_gangs import MOST_FOLLOWERS, later_followers
from spinney.core.placement.scoring import domains, number, score
from spinney.core.placement.search.elastic_pods import add_extras, by_size_and_share
from spinney.core.placement.search.exact_search import Search
from spinney.core.placement.search.preferences import IDEAL, RankedPlacement, best_placement
from spinney.core.placement.search.search_space import SearchSpace, Solution, minimum
from spinney.core.placement.whole_set import place_whole_set, room_elsewhere

_TEMPLATES = 256
_AFTERTHOUGHT = 2_000  # steps for what is not the minimum: more extra pods, or victims for an explanation

Choices = Callable[[GangTree, Mapping[int, int]], Iterator[ChosenChildren]]
"""The selections of children that are tried for a gang with these needs."""


class Engine:
    """Decides gangs over an inventory. `placed_gangs`: all gangs that have members, also those not decided here."""

    def __init__(self, inventory: Inventory, topologies: Mapping[str, Topology], options: Options) -> None:
        self.inventory = inventory
        self.topologies = topologies
        self.options = options
        self.placed_gangs: dict[str, PlacedGang] = {}
        self.victim_rules: VictimRules | None = None  # in place of priorities, as long as it is set
        self.fast_path = FastPath(inventory)
        self._read: dict[Group, tuple[GangTree, Profile]] = {}

    def admit_running(self, gang: Gang) -> None:
        """Take the capacity of the running members, before any decision."""
        self._admit(gang, gang.running)

    def _admit(self, gang: Gang, members: Sequence[Running | Placement]) -> None:
        placed_gang = self.placed_gangs.setdefault(gang.name, PlacedGang(gang))
        leaves = pod_sets(gang)
        for member in members:
            slot = self.inventory.slot_for(member.node, member.zone)
            pods = leaves[member.pods]
            self.inventory.take(slot, pods.request, pods.host_ports)
            placed_gang.live.append((member.pods, slot))

    def decide(self, gang: Gang, followers: Sequence[Gang] = ()) -> Decision:
        """Decide one gang: place it, or refuse it with an explanation.

        In this order: read the gang, resolve its tie, count, search on idle capacity, then on idle and releasing
        capacity; then add elastic pods and take the capacity. `followers`: gangs that are to share its domain and that
        it leaves room for where it can.
        """
        return self.decide_with_followers(gang, followers).decision

    def decide_with_followers(self, gang: Gang, followers: Sequence[Gang]) -> SetDecision:
        """As `decide`, with the places of the followers that fit beside it; no capacity is taken for them."""
        placed_gang = self.placed_gangs.get(gang.name)
        if placed_gang is not None and placed_gang.disturbed:
            gang = msgspec.structs.replace(gang, running=placed_gang.gang.running)
        try:
            parts, asked = self.read(gang)
            scope = tied_slots(parts, self.inventory, self.placed_gangs) if gang.tied_to else None
        except Invalid as error:
            return SetDecision(_unplaced(gang, "invalid", Explanation(str(error), error.group, error.level)))
        except UnsatisfiedTie as reason:
            return SetDecision(_unplaced(gang, "infeasible", Explanation(str(reason), "", reason.level)))
        if not parts.prefers_affinity:
            found = self._placed(parts, asked, scope, followers)
        else:
            parts, asked = self.read(without_preferences(gang))
            found = self._tried(scope, followers, parts.gang)
            if isinstance(found, SetDecision):
                kept, found = with_preferences(gang, found, partial(self._tried, scope, followers))
                self._admit(kept, found.decision.placements)
        return SetDecision(self._refuse(parts, asked, scope, found)) if isinstance(found, SearchResult) else found

    def _tried(self, scope: list[int] | None, followers: Sequence[Gang], gang: Gang) -> SetDecision | SearchResult:
        """As `_placed`, but leaves no trace."""
        before = self.placed_gangs.get(gang.name)
        if before is not None:
            self.placed_gangs[gang.name] = replace(before, live=list(before.live))
        try:
            with self.inventory.trial():
                return self._placed(*self.read(gang), scope, followers)
        finally:
            self.placed_gangs.pop(gang.name, None)
            if before is not None:
                self.placed_gangs[gang.name] = before

    def _placed(
        self, parts: GangTree, asked: Profile, scope: list[int] | None, followers: Sequence[Gang]
    ) -> SetDecision | SearchResult:
        """The placement with its followers in mind, else alone; what the search found out if there is none."""
        if not followers:
            decision = self._placed_alone(parts, asked, scope)
            return SetDecision(decision) if isinstance(decision, Decision) else decision
        found, is_proved = place_whole_set(self, parts, followers[:MOST_FOLLOWERS], scope)
        is_proved &= len(followers) <= MOST_FOLLOWERS
        if found is None:
            decision = self._placed_alone(parts, asked, scope)
            if not isinstance(decision, Decision):
                return decision
            return SetDecision(msgspec.structs.replace(decision, proved=decision.proved and is_proved))
        for leaf, slot in found.members:
            assert leaf.pods is not None
            self.inventory.take(slot, leaf.pods.request, leaf.pods.host_ports)
        decision = self._answer(parts, found.members, found.waits, found.proved and is_proved)
        return SetDecision(decision, found.followers)

    def _placed_alone(self, parts: GangTree, asked: Profile, scope: list[int] | None) -> Decision | SearchResult:
        # The fast path implements best fit only.
        if asked.simple and self.options.strategy == "binpack":
            taken = self.fast_path.place(parts, asked, self.options.extras)
            if taken is not None:
                return self._answer(
                    parts, [(leaf, slot) for leaf, slot, count in taken for _ in range(count)], False, True
                )
        attempt = self.attempt(parts, asked, scope, waiting=False)
        if attempt.found is None and self._could_wait(parts, asked, scope):
            attempt = self.attempt(parts, asked, scope, waiting=True)
        return attempt if attempt.found is None else self._place(parts, attempt)

    def read(self, gang: Gang) -> tuple[GangTree, Profile]:
        """The parsed gang and its profile; cached per template, except for gangs with running members or a tie."""
        known = self._read.get(gang.root) if not gang.running and not gang.tied_to else None
        if known is not None:
            return known[0].of(gang), known[1]
        parts = read_gang_tree(gang, self.topologies)
        asked = profile(parts, self.inventory.resources)
        if not gang.running and not gang.tied_to:
            if len(self._read) >= _TEMPLATES:
                self._read.clear()
            self._read[gang.root] = parts, asked
        return parts, asked

    def attempt(
        self,
        parts: GangTree,
        asked: Profile,
        scope: list[int] | None,
        waiting: bool,
        budget: StepBudget | None = None,
    ) -> SearchResult:
        """The best placement of the minimum on idle capacity, or with `waiting` on idle and releasing capacity."""
        if self.fast_path.counting.is_hopeless(parts, asked, waiting):
            return SearchResult()
        budget = budget or StepBudget(self.options.budget)
        best = self._best_of(parts, asked, scope, waiting, budget, choices)
        if best.found is None and may_need_more(parts) and budget.left > 0:
            larger = self._best_of(parts, asked, scope, waiting, budget, larger_choices)
            larger.exhausted |= best.exhausted
            best = larger
        if best.found is not None and best.exhausted:
            best.found.proved = False
        return best

    def _best_of(
        self,
        parts: GangTree,
        asked: Profile,
        scope: list[int] | None,
        waiting: bool,
        budget: StepBudget,
        offers: Choices,
    ) -> SearchResult:
        best = SearchResult()
        spread = self.options.strategy == "spread"
        for region in find_regions(self.fast_path.counting, parts, asked, scope, waiting, spread):
            attempt = self._search(parts, region, waiting, budget, offers)
            attempt.exhausted |= best.exhausted
            best.exhausted = attempt.exhausted
            if attempt.found is not None and (best.found is None or _better(parts, attempt.found, best.found)):
                best = attempt
            # Regions come in best-fit order, so no later one is better than the first ideal placement.
            if best.found is not None and _is_ideal(best.found):
                break
        return best

    def _search(
        self, parts: GangTree, region: Region, waiting: bool, budget: StepBudget, offers: Choices
    ) -> SearchResult:
        """The best placement of the minimum in one region, over all choices of children that are offered."""
        space = SearchSpace(self.inventory, parts, region.slots, waiting)
        mask = space.everything if region.usable is None else _mask(space, region.usable)
        attempt = SearchResult(space, mask)
        needs = minimum(space)
        extras = _wanted_extras(space) if self.options.extras != "skip" else {}
        for children in offers(parts, needs):
            try:
                budget.spend()
                with budget.share():
                    search = Search(space, budget, needs, children, self.options.strategy == "spread")
                    search.candidates.extras = extras
                    found = best_placement(search, mask)
            except Exhausted:
                attempt.exhausted = True
                if budget.left <= 0:
                    break
                continue
            if found is not None and (attempt.found is None or _better(parts, found, attempt.found)):
                attempt.found, attempt.children = found, children
            if attempt.found is not None and _is_ideal(attempt.found):
                break
        return attempt

    def _could_wait(self, parts: GangTree, asked: Profile, scope: list[int] | None) -> bool:
        """Whether releasing capacity could make a difference."""
        if self.fast_path.counting.is_hopeless(parts, asked, waiting=True):
            return False
        slots = self.inventory.slots() if scope is None else scope
        return any(any(self.inventory.releasing[slot]) for slot in slots)

    def _refuse(self, parts: GangTree, asked: Profile, scope: list[int] | None, attempt: SearchResult) -> Decision:
        """Try consolidation and preemption, but only for a gang proved not to fit; if they do not help, explain why."""
        outcome: Outcome = "exhausted" if attempt.exhausted else "infeasible"
        try:
            made = make_room(self, parts, asked, scope) if outcome == "infeasible" else None
        except Exhausted:
            made, outcome = None, "exhausted"
        if made is not None:
            decision = self._place(parts, made.attempt)
            return msgspec.structs.replace(
                decision,
                waits=decision.waits or bool(made.victims or made.moves),  # until those pods have terminated
                proved=decision.proved and made.proved,
                victims=made.victims,
                moves=made.moves,
            )

        def victims() -> tuple[Victim, ...]:
            try:
                victim_set = cheapest_victims(self, parts, scope, _AFTERTHOUGHT)
            except Exhausted:
                return ()
            return victim_set.victims if victim_set is not None and victim_set.proved else ()

        found = explain(self, parts, asked, scope, outcome, victims)
        elsewhere = room_elsewhere(self, parts, _AFTERTHOUGHT) if outcome == "infeasible" else None
        if elsewhere is not None:
            found = msgspec.structs.replace(found, fits_if=(*found.fits_if, elsewhere))
        return _unplaced(parts.gang, outcome, found)

    def _place(self, parts: GangTree, attempt: SearchResult) -> Decision:
        found = attempt.found
        assert found is not None
        space = attempt.space
        assert space is not None
        waits = space.waiting and needs_releasing(space, found.solution)
        return self._answer(parts, self._taken(parts, space, self.solution(attempt)), waits, found.proved)

    def solution(self, attempt: SearchResult) -> Solution:
        """The minimum that was found, with the pods above it where these are asked for."""
        found, space = attempt.found, attempt.space
        assert found is not None and space is not None
        if self.options.extras == "place":
            return self._with_extras(attempt)
        space.add_running(found.solution)
        return found.solution

    def _taken(self, parts: GangTree, space: SearchSpace, solution: Solution) -> list[tuple[Part, int]]:
        """Take the capacity of a solution from the inventory; returns the new members."""
        take_solution(space, solution)
        new = []
        for leaf in parts.leaves:
            for node, count in sorted(solution.get(leaf.index, {}).items()):
                new.extend([(leaf, space.slots[node])] * count)
        return new

    def _answer(self, parts: GangTree, new: list[tuple[Part, int]], waits: bool, proved: bool) -> Decision:
        placed_gang = self.placed_gangs.setdefault(parts.gang.name, PlacedGang(parts.gang))
        placed_gang.live.extend([(leaf.path, slot) for leaf, slot in new])
        live = new
        if len(placed_gang.live) > len(new):
            by_path = {leaf.path: leaf for leaf in parts.leaves}
            live = [(by_path[path], slot) for path, slot in placed_gang.live]
        return Decision(
            name=parts.gang.name,
            outcome="placed",
            waits=waits,
            proved=proved,
            score=score(parts, self.inventory, live),
            placements=number(parts, self.inventory, new),
            domains=domains(parts, self.inventory, live),
        )

    def _with_extras(self, attempt: SearchResult) -> Solution:
        """All pods within the bounds of the minimum if they fit, else the minimum and what fits beside it."""
        space, found = attempt.space, attempt.found
        assert found is not None and space is not None
        spread = self.options.strategy == "spread"
        wanted = {
            leaf.index: max(0, leaf.pods.count - len(space.running.get(leaf.index, ())))
            for leaf in space.parts.leaves
            if leaf.pods
        }
        if wanted == minimum(space) and attempt.children == all_children(space.parts):
            space.add_running(found.solution)
            return found.solution
        everything = Search(space, StepBudget(self.options.budget // 10), wanted, all_children(space.parts), spread)
        mask = attempt.mask
        try:
            whole = (
                everything.solve(mask, found.domain_bounds)
                if everything.vectors.could_hold(space.parts.all[0], mask)
                else None
            )
        except Exhausted:
            whole = None
        if whole is not None:
            space.add_running(whole)
            return whole
        space.add_running(found.solution)
        total = {leaf: dict(where) for leaf, where in found.solution.items()}
        for leaf, where in add_extras(space, mask, attempt.children, StepBudget(self.options.budget), spread).items():
            mine = total.setdefault(leaf, {})
            for node, count in where.items():
                mine[node] = mine.get(node, 0) + count
        return self._with_more_extras(attempt, wanted, total)

    def _with_more_extras(self, attempt: SearchResult, wanted: dict[int, int], solution: Solution) -> Solution:
        """The most pods above the minimum: where they were put could have kept others from fitting.

        Small pods first; of one size the pod set that has the least for its minimum. Without preferences only: they are
        decided by the minimum, which is not moved for pods above it.
        """
        space = attempt.space
        assert space is not None
        if space.parts.preferences or attempt.children != all_children(space.parts) or len(space.slots) > SMALL:
            return solution
        pristine = SearchSpace(self.inventory, space.parts, space.slots, space.waiting)
        spread, budget = self.options.strategy == "spread", StepBudget(_AFTERTHOUGHT)
        needs = {leaf: sum(solution.get(leaf, {}).values()) for leaf in wanted}
        full: set[int] = set()
        try:
            while open_sets := [leaf for leaf in wanted if needs[leaf] < wanted[leaf] and leaf not in full]:
                leaf = min(open_sets, key=lambda leaf: by_size_and_share(pristine, leaf, needs[leaf]))
                more = {**needs, leaf: needs[leaf] + 1}
                found = Search(pristine, budget, more, attempt.children, spread).solve(attempt.mask, {})
                if found is None:
                    full.add(leaf)
                else:
                    needs, solution = more, found
                    if pristine.near:
                        full.clear()  # others may have to be near to the pod that is added
        except Exhausted:
            pass
        return solution


def _wanted_extras(space: SearchSpace) -> dict[int, int]:
    wanted = {}
    for leaf in space.parts.leaves:
        assert leaf.pods is not None
        extra = leaf.pods.count - max(leaf.pods.min, len(space.running.get(leaf.index, ())))
        if extra > 0:
            wanted[leaf.index] = extra
    return wanted


def _better(parts: GangTree, one: RankedPlacement, other: RankedPlacement) -> bool:
    for preference in parts.preferences:
        first, second = (
            one.preference_scores.get(preference.index, IDEAL),
            other.preference_scores.get(preference.index, IDEAL),
        )
        if first != second:
            return first < second
    return False


def _is_ideal(found: RankedPlacement) -> bool:
    return all(preference_score == IDEAL for preference_score in found.preference_scores.values())


def _mask(space: SearchSpace, inside: frozenset[int]) -> int:
    return sum(1 << node for node, slot in enumerate(space.slots) if slot in inside)


def _unplaced(gang: Gang, outcome: Outcome, explanation: Explanation) -> Decision:
    return Decision(name=gang.name, outcome=outcome, explanation=explanation)


def place(problem: Problem) -> Result:
    """Decide every gang of a problem in its order."""
    inventory = Inventory.of(problem.resources, problem.topologies, problem.nodes)
    engine = Engine(inventory, {topology.name: topology for topology in problem.topologies}, problem.options)
    for gang in problem.gangs:
        engine.admit_running(gang)
    return Result(tuple(engine.decide(gang, followers) for gang, followers in later_followers(problem.gangs)))


@dataclass(frozen=True, slots=True)
class Disruption:
    """A placement on capacity freed by others; inventory and placed gangs already reflect the moves and evictions."""

    attempt: SearchResult
    victims: tuple[Victim, ...] = ()
    moves: tuple[Move, ...] = ()
    proved: bool = True


def make_room(engine: PlacementState, parts: GangTree, asked: Profile, scope: list[int] | None) -> Disruption | None:
    """None: it is proved that nothing allowed helps. Raises Exhausted when the budget ends before that is known."""
    is_open = False
    limits = engine.options.consolidate
    if limits is not None:
        try:
            moved = consolidate(engine, parts, asked, scope, limits)
        except Exhausted:
            moved, is_open = None, limits.budget is None
        if moved is not None:
            return Disruption(moved.attempt, moves=moved.moves, proved=moved.proved)
    evicted = preempt(engine, parts, asked, scope) if engine.options.preempt else None
    if evicted is not None:
        return Disruption(evicted.attempt, victims=evicted.victims, proved=evicted.proved and not is_open)
    if is_open:
        raise Exhausted
    return None
