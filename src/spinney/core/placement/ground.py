"""A candidate domain as a place for trials: pods are lifted from its nodes and put back, and the gang asks if it fits.

Counts what the gang lacks, resource by resource, so that most questions need no search. Never changes the inventory for
longer than pods are lifted, and every lift must be put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd

from spinney.api.placement.problem import PodSet
from spinney.core.inventory.state import Inventory
from spinney.core.placement.board import Board, bits
from spinney.core.placement.budget import Budget, Exhausted
from spinney.core.placement.choices import all_kids, choices, has_choice
from spinney.core.placement.holders import Held, Holder
from spinney.core.placement.parts import Part, Parts
from spinney.core.placement.search import Search

EVERY_TYPE = -1
NODES_PER_STEP = 16
ONE_QUESTION = 10
"""A single question may use this part of the budget, one in so many."""


@dataclass(slots=True)
class Row:
    """A necessary condition: the nodes together have `want` of a resource in pieces of `piece` (pods of one type).

    `most` is what a node gives at best; `slack` what may turn into a piece there beyond the room a pod leaves.
    """

    kind: int
    resource: int
    piece: int
    want: int
    have: int = 0
    most: dict[int, int] = field(default_factory=dict)
    base: dict[int, int] = field(default_factory=dict)
    slack: dict[int, int] = field(default_factory=dict)

    def given(self, free: Sequence[int], node: int) -> int:
        amount = free[self.resource]
        if amount <= 0:
            return 0
        return min(self.most[node], amount - amount % self.piece)

    def gain(self, node: int, amount: int) -> int:
        """At most so much more once an amount is lifted from a node, whatever else is."""
        if not amount or node not in self.most:
            return 0
        return min(amount + self.slack[node], self.most[node] - self.base[node])


class Ground:
    """One domain, the gang that wants to go there, and the gangs that hold room in it."""

    def __init__(
        self, inventory: Inventory, parts: Parts, slots: Sequence[int], inside: set[int] | None, all_: Sequence[Holder]
    ) -> None:
        self.inventory = inventory
        self.board = Board(inventory, parts, slots, waiting=True)
        self.place = {slot: node for node, slot in enumerate(self.board.slots)}
        self.mask = self.board.everything
        if inside is not None:
            self.mask = sum(1 << node for slot, node in self.place.items() if slot in inside)
        self.needs = _needs(self.board)
        self.sure = True
        self.rows: list[Row] = []
        matter = {self.board.slots[node] for node in bits(self.mask & self.board.useful)}
        self.held = {id(holder): [held for held in holder.held if held.slot in matter] for holder in all_}
        self.holders = [holder for holder in all_ if self.held[id(holder)]]
        if not has_choice(parts):
            self._count()

    # --- trials ---

    def lift(self, slot: int, pods: PodSet, count: int) -> None:
        """Take running pods off a node, or put them back with a negative count."""
        node = self.place.get(slot)
        if node is None or not count:
            return
        free = self.board.free[node]
        before = [row.given(free, node) if node in row.most else 0 for row in self.rows]
        for resource, amount in enumerate(pods.request):
            free[resource] += amount * count
        for row, given in zip(self.rows, before, strict=True):
            if node in row.most:
                row.have += row.given(free, node) - given
        if pods.host_ports:
            self.inventory.give(slot, (0,) * len(pods.request), pods.host_ports, count)
            self.board.ports[node] = set(self.inventory.ports(slot, waiting=True))

    def lift_all(self, holders: Iterable[Holder], sign: int = 1) -> None:
        for holder in holders:
            for held in self.held[id(holder)]:
                self.lift(held.slot, held.pods, sign * held.count)

    def lacks(self) -> bool:
        """Counting says that it cannot fit."""
        return any(row.have < row.want for row in self.rows)

    def fits(self, budget: Budget) -> bool:
        """Whether the minimum fits now. Where a question takes too long the answer is no, and `sure` falls."""
        if self.lacks():
            return False
        budget.spend(1 + len(self.board.slots) // NODES_PER_STEP)
        most = max(1, budget.left // ONE_QUESTION)
        part = Budget(most)
        try:
            return self._search(part)
        except Exhausted:
            self.sure = False
            return False
        finally:
            budget.left -= most - max(0, part.left)

    def fits_without(self, holders: Sequence[Holder], budget: Budget) -> bool:
        """Whether it fits when everything these gangs hold is gone."""
        self.lift_all(holders)
        try:
            return self.fits(budget)
        finally:
            self.lift_all(holders, -1)

    def _search(self, budget: Budget) -> bool:
        for kids in choices(self.board.parts, self.needs):
            budget.spend()
            if Search(self.board, budget, self.needs, kids, spread=False).solve(self.mask, {}) is not None:
                return True
        return False

    # --- what is lacking ---

    def _count(self) -> None:
        """Conditions that do not hold yet; those that do will hold with more room as well."""
        rows = list(self._conditions())
        steps = {node: list(self.board.free[node]) for node in bits(self.mask & self.board.useful)}
        for holder in self.holders:
            for held in self.held[id(holder)]:
                node = self.place[held.slot]
                for resource, amount in enumerate(held.pods.request):
                    steps[node][resource] = gcd(steps[node][resource], amount)
        best = self._at_best(rows)
        for row, most in zip(rows, best, strict=True):
            row.most = most
            for node in most:
                row.base[node] = row.given(self.board.free[node], node)
                row.slack[node] = row.piece - gcd(row.piece, steps[node][row.resource])
            row.have = sum(row.base.values())
        self.rows = [row for row in rows if row.have < row.want]

    def _conditions(self) -> Iterator[Row]:
        board = self.board
        search = Search(board, Budget(0), self.needs, all_kids(board.parts), spread=False)
        demand = search.demand(board.parts.all[0])
        for kind, asked in enumerate(board.types):
            for resource, amount in asked.request:
                yield Row(kind, resource, amount, demand[kind] * amount)
        for resource, amount in enumerate(demand[len(board.types) :]):
            if amount:
                yield Row(EVERY_TYPE, resource, 1, amount)

    def _at_best(self, rows: list[Row]) -> list[dict[int, int]]:
        """What every node gives when all that may go is gone."""
        self.lift_all(self.holders)
        board = self.board
        found: list[dict[int, int]] = []
        for row in rows:
            if row.kind == EVERY_TYPE:
                nodes = bits(self.mask & board.useful)
                found.append({node: max(0, board.free[node][row.resource]) for node in nodes})
            else:
                nodes = bits(self.mask & board.types[row.kind].usable)
                found.append({node: row.piece * board.capacity(row.kind, node) for node in nodes})
        self.lift_all(self.holders, -1)
        return found

    def gain(self, row: Row, held: Iterable[Held]) -> int:
        """The most that lifting these pods adds to a condition."""
        amounts: dict[int, int] = {}
        for at in held:
            node = self.place[at.slot]
            amounts[node] = amounts.get(node, 0) + at.pods.request[row.resource] * at.count
        return sum(row.gain(node, amount) for node, amount in amounts.items())

    def gain_of_one(self, row: Row, held: Held) -> int:
        return row.gain(self.place[held.slot], held.pods.request[row.resource])


def grounds(
    inventory: Inventory, parts: Parts, scope: Sequence[int] | None, all_: Sequence[Holder]
) -> Iterator[Ground]:
    """The domains that the gang as a whole may go to, by path; the cluster or the scope if it may go anywhere."""
    part = _outermost(parts)
    own = {inventory.slot(member.node) for member in parts.gang.running}
    allowed = set(scope) if scope is not None else None
    if part.required is None:
        slots = list(inventory.slots()) if scope is None else sorted({*scope, *own})
        yield Ground(inventory, parts, slots, allowed, all_)
        return
    tree, depth = inventory.trees[part.required.topology], part.required.depth
    for domain in tree.order(depth):
        members = tree.members(depth, domain)
        inside = set(members) if allowed is None else allowed & set(members)
        if inside and own <= set(members):
            yield Ground(inventory, parts, sorted(inside | own), inside, all_)


def _outermost(parts: Parts) -> Part:
    """The first part from the root down that has a requirement of its own or more than one child."""
    part = parts.all[0]
    while part.required is None and len(part.kids) == 1 and part.need == 1:
        part = parts.all[part.kids[0]]
    return part


def _needs(board: Board) -> dict[int, int]:
    needs = {}
    for leaf in board.parts.leaves:
        assert leaf.pods is not None
        needs[leaf.index] = max(0, leaf.pods.min - len(board.running.get(leaf.index, ())))
    return needs
