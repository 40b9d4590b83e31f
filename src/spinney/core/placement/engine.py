"""One gang after the other: each is decided on what the ones before left.

Never leaves a trace of a gang that is not placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from spinney.api.placement.problem import Gang, Group, Options, Topology
from spinney.api.placement.result import Decision, Explanation, Outcome, Victim
from spinney.core.inventory.state import Inventory
from spinney.core.placement.board import Board, Solution, minimum
from spinney.core.placement.budget import Budget, Exhausted
from spinney.core.placement.choices import Kids, all_kids, choices
from spinney.core.placement.counting import Profile, profile
from spinney.core.placement.disruption import make_room
from spinney.core.placement.explanation import explain
from spinney.core.placement.extras import add_extras
from spinney.core.placement.fields import Field, fields
from spinney.core.placement.holders import pod_sets
from spinney.core.placement.parts import Invalid, Part, Parts, read_parts
from spinney.core.placement.preemption import cheapest_victims
from spinney.core.placement.quick import Quick
from spinney.core.placement.scoring import domains, number, score
from spinney.core.placement.search import Search
from spinney.core.placement.ties import Untied, tied_slots
from spinney.core.placement.wishes import IDEAL, Found, fulfil

_TEMPLATES = 256
_AFTERTHOUGHT = 2_000  # steps for finding out who could have made room for a gang that was refused


@dataclass(slots=True)
class Standing:
    """A gang that is there: its members by path of their pod set, each with the slot of its node.

    Once it is `disturbed`, evictions and moves of this run show in `gang.running`; `moved` are the members moved.
    `planned`: slots of members that have been given a node and are not seen there yet.
    """

    gang: Gang
    live: list[tuple[str, int]] = field(default_factory=list)
    moved: list[tuple[str, int]] = field(default_factory=list)
    planned: list[int] = field(default_factory=list)
    disturbed: bool = False


@dataclass(slots=True)
class Attempt:
    """What came of a search on one view of the cluster: a placement, a proof that there is none, or neither."""

    board: Board | None = None
    mask: int = 0
    found: Found | None = None
    kids: Kids = field(default_factory=dict)
    exhausted: bool = False


class Engine:
    """Decides gangs over an inventory. `standings` are all gangs that have members, also those not decided here."""

    def __init__(self, inventory: Inventory, topologies: Mapping[str, Topology], options: Options) -> None:
        self.inventory = inventory
        self.topologies = topologies
        self.options = options
        self.standings: dict[str, Standing] = {}
        self.quick = Quick(inventory)
        self._read: dict[Group, tuple[Parts, Profile]] = {}

    def admit_running(self, gang: Gang) -> None:
        """Members that run take their room from the start."""
        standing = self.standings.setdefault(gang.name, Standing(gang))
        leaves = pod_sets(gang)
        for member in gang.running:
            slot = self.inventory.seat(member.node, member.zone)
            pods = leaves[member.pods]
            self.inventory.take(slot, pods.request, pods.host_ports)
            standing.live.append((member.pods, slot))

    def decide(self, gang: Gang) -> Decision:
        """Read, tie, count, search on idle room, else on releasing room, then add what is optional and take it."""
        standing = self.standings.get(gang.name)
        if standing is not None and standing.disturbed:
            gang = msgspec.structs.replace(gang, running=standing.gang.running)
        try:
            parts, asked = self.read(gang)
            scope = tied_slots(parts, self.inventory, self.standings) if gang.tied_to else None
        except Invalid as mistake:
            return _unplaced(gang, "invalid", Explanation(str(mistake), mistake.group, mistake.level))
        except Untied as reason:
            return _unplaced(gang, "infeasible", Explanation(str(reason), "", reason.level))
        if asked.simple and self.options.strategy == "binpack":
            taken = self.quick.place(parts, asked, self.options.extras)
            if taken is not None:
                return self._answer(
                    parts, [(leaf, slot) for leaf, slot, count in taken for _ in range(count)], False, True
                )
        attempt = self.attempt(parts, asked, scope, waiting=False)
        if attempt.found is None and self._could_wait(parts, asked, scope):
            attempt = self.attempt(parts, asked, scope, waiting=True)
        if attempt.found is None:
            return self._refuse(parts, asked, scope, attempt)
        return self._place(parts, attempt)

    def read(self, gang: Gang) -> tuple[Parts, Profile]:
        """Gangs of one template are read once; those with running members are like no other."""
        known = self._read.get(gang.root) if not gang.running and not gang.tied_to else None
        if known is not None:
            return known[0].of(gang), known[1]
        parts = read_parts(gang, self.topologies)
        asked = profile(parts, self.inventory.resources)
        if not gang.running and not gang.tied_to:
            if len(self._read) >= _TEMPLATES:
                self._read.clear()
            self._read[gang.root] = parts, asked
        return parts, asked

    def attempt(self, parts: Parts, asked: Profile, scope: list[int] | None, waiting: bool) -> Attempt:
        """The best placement of the minimum on idle (or, waiting, idle and releasing) room."""
        best = Attempt()
        if self.quick.counting.is_hopeless(parts, asked, waiting):
            return best
        budget = Budget(self.options.budget)
        spread = self.options.strategy == "spread"
        for area in fields(self.quick.counting, parts, asked, scope, waiting, spread):
            attempt = self._search(parts, area, waiting, budget)
            attempt.exhausted |= best.exhausted
            best.exhausted = attempt.exhausted
            if attempt.found is not None and (best.found is None or _better(parts, attempt.found, best.found)):
                best = attempt
            if best.found is not None and _is_ideal(best.found):
                break
        if best.found is not None and best.exhausted:
            best.found.proved = False
        return best

    def _search(self, parts: Parts, area: Field, waiting: bool, budget: Budget) -> Attempt:
        """The best placement of the minimum in one field, over all choices of children."""
        board = Board(self.inventory, parts, area.slots, waiting)
        mask = board.everything if area.usable is None else _mask(board, area.usable)
        attempt = Attempt(board, mask)
        needs = minimum(board)
        extras = _wanted_extras(board) if self.options.extras != "skip" else {}
        for kids in choices(parts, needs):
            try:
                budget.spend()
                with budget.share():
                    search = Search(board, budget, needs, kids, self.options.strategy == "spread")
                    search.candidates.extras = extras
                    found = fulfil(search, mask)
            except Exhausted:
                attempt.exhausted = True
                if budget.left <= 0:
                    break
                continue
            if found is not None and (attempt.found is None or _better(parts, found, attempt.found)):
                attempt.found, attempt.kids = found, kids
            if attempt.found is not None and _is_ideal(attempt.found):
                break
        return attempt

    def _could_wait(self, parts: Parts, asked: Profile, scope: list[int] | None) -> bool:
        """Whether releasing room could make a difference."""
        if self.quick.counting.is_hopeless(parts, asked, waiting=True):
            return False
        slots = self.inventory.slots() if scope is None else scope
        return any(any(self.inventory.releasing[slot]) for slot in slots)

    def _refuse(self, parts: Parts, asked: Profile, scope: list[int] | None, attempt: Attempt) -> Decision:
        """Others make room, but only for a gang that is proved not to fit; where that does not help, say why."""
        outcome: Outcome = "exhausted" if attempt.exhausted else "infeasible"
        try:
            made = make_room(self, parts, asked, scope) if outcome == "infeasible" else None
        except Exhausted:
            made, outcome = None, "exhausted"
        if made is not None:
            decision = self._place(parts, made.attempt)
            return msgspec.structs.replace(
                decision,
                waits=decision.waits or bool(made.victims or made.moves),
                proved=decision.proved and made.proved,
                victims=made.victims,
                moves=made.moves,
            )

        def victims() -> tuple[Victim, ...]:
            try:
                prey = cheapest_victims(self, parts, scope, _AFTERTHOUGHT)
            except Exhausted:
                return ()
            return prey.victims if prey is not None and prey.proved else ()

        return _unplaced(parts.gang, outcome, explain(self, parts, asked, scope, outcome, victims))

    def _place(self, parts: Parts, attempt: Attempt) -> Decision:
        found = attempt.found
        assert found is not None
        board = attempt.board
        assert board is not None
        waits = board.waiting and _needs_releasing(board, found.solution)
        solution = found.solution
        if self.options.extras == "place":
            solution = self._with_extras(attempt)
        else:
            board.settle(solution)
        return self._answer(parts, self._taken(parts, board, solution), waits, found.proved)

    def _taken(self, parts: Parts, board: Board, solution: Solution) -> list[tuple[Part, int]]:
        """Take a solution from the inventory; answers the new members."""
        _take(board, solution)
        new = []
        for leaf in parts.leaves:
            for node, count in sorted(solution.get(leaf.index, {}).items()):
                new.extend([(leaf, board.slots[node])] * count)
        return new

    def _answer(self, parts: Parts, new: list[tuple[Part, int]], waits: bool, proved: bool) -> Decision:
        standing = self.standings.setdefault(parts.gang.name, Standing(parts.gang))
        standing.live.extend([(leaf.path, slot) for leaf, slot in new])
        live = new
        if len(standing.live) > len(new):
            by_path = {leaf.path: leaf for leaf in parts.leaves}
            live = [(by_path[path], slot) for path, slot in standing.live]
        return Decision(
            name=parts.gang.name,
            outcome="placed",
            waits=waits,
            proved=proved,
            score=score(parts, self.inventory, live),
            placements=number(parts, self.inventory, new),
            domains=domains(parts, self.inventory, live),
        )

    def _with_extras(self, attempt: Attempt) -> Solution:
        """All pods within the bounds of the minimum if they fit, else the minimum and what fits beside it."""
        board, found = attempt.board, attempt.found
        assert found is not None and board is not None
        spread = self.options.strategy == "spread"
        wanted = {
            leaf.index: max(0, leaf.pods.count - len(board.running.get(leaf.index, ())))
            for leaf in board.parts.leaves
            if leaf.pods
        }
        if wanted == minimum(board) and attempt.kids == all_kids(board.parts):
            board.settle(found.solution)
            return found.solution
        everything = Search(board, Budget(self.options.budget // 10), wanted, all_kids(board.parts), spread)
        mask = attempt.mask
        try:
            whole = (
                everything.solve(mask, found.caps) if everything.measures.could_hold(board.parts.all[0], mask) else None
            )
        except Exhausted:
            whole = None
        if whole is not None:
            board.settle(whole)
            return whole
        board.settle(found.solution)
        total = {leaf: dict(where) for leaf, where in found.solution.items()}
        for leaf, where in add_extras(board, mask, attempt.kids, Budget(self.options.budget), spread).items():
            mine = total.setdefault(leaf, {})
            for node, count in where.items():
                mine[node] = mine.get(node, 0) + count
        return total


def _wanted_extras(board: Board) -> dict[int, int]:
    wanted = {}
    for leaf in board.parts.leaves:
        assert leaf.pods is not None
        extra = leaf.pods.count - max(leaf.pods.min, len(board.running.get(leaf.index, ())))
        if extra > 0:
            wanted[leaf.index] = extra
    return wanted


def _better(parts: Parts, one: Found, other: Found) -> bool:
    for wish in parts.wishes:
        first, second = one.worths.get(wish.index, IDEAL), other.worths.get(wish.index, IDEAL)
        if first != second:
            return first < second
    return False


def _is_ideal(found: Found) -> bool:
    return all(worth == IDEAL for worth in found.worths.values())


def _needs_releasing(board: Board, solution: Solution) -> bool:
    """Whether a placement takes room or ports that others have not left yet."""
    asked: dict[int, set[int]] = {}
    for leaf, where in solution.items():
        resources = {resource for resource, _ in board.types[board.type_of[leaf]].request}
        for node in where:
            asked.setdefault(node, set()).update(resources)
    with board.inventory.trial():
        _take(board, solution)
        if any(board.inventory.idle[board.slots[node]][r] < 0 for node, resources in asked.items() for r in resources):
            return True
    return any(
        asked.ports & _leaving_ports(board, node)
        for asked, where in ((board.types[board.type_of[leaf]], where) for leaf, where in solution.items())
        for node in where
    )


def _take(board: Board, solution: Solution) -> None:
    """Take what a solution places from the inventory."""
    for leaf, where in solution.items():
        pods = board.parts.all[leaf].pods
        assert pods is not None
        for node, count in sorted(where.items()):
            board.inventory.take(board.slots[node], pods.request, pods.host_ports, count)


def _leaving_ports(board: Board, node: int) -> set[int]:
    slot = board.slots[node]
    return set(board.inventory.ports(slot, False)) - set(board.inventory.ports(slot, True))


def _mask(board: Board, inside: frozenset[int]) -> int:
    return sum(1 << node for node, slot in enumerate(board.slots) if slot in inside)


def _unplaced(gang: Gang, outcome: Outcome, explanation: Explanation) -> Decision:
    return Decision(name=gang.name, outcome=outcome, explanation=explanation)
