"""A candidate domain as a place for trials: pods are lifted from its nodes and put back, and the gang asks if it fits.

Counts what the gang lacks, resource by resource, so that most questions need no search. Never changes the inventory for
longer than pods are lifted, and every lift must be put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from spinney.api.placement.problem import PodSet
from spinney.core.inventory.state import Inventory
from spinney.core.placement.board import Board, Solution, bits, minimum
from spinney.core.placement.budget import Budget, Exhausted
from spinney.core.placement.choices import all_kids, choices, has_choice
from spinney.core.placement.holders import Held, Holder
from spinney.core.placement.parts import Part, Parts
from spinney.core.placement.search import Search

EVERY_TYPE = -1
ONE_QUESTION = 10
"""A single question may use this part of the budget, one in so many."""


@dataclass(slots=True)
class Row:
    """A necessary condition: the nodes together have `want` of a resource in pieces of `piece` (pods of one type).

    `most` is what a node gives at best and `base` what it gives as it is. `hope` is `have` with broken pieces counted
    in proportion, so that what pods add to it can be summed up.
    """

    kind: int
    resource: int
    piece: int
    want: int
    have: int = 0
    hope: int = 0
    most: dict[int, int] = field(default_factory=dict)
    base: dict[int, int] = field(default_factory=dict)
    short: dict[int, int] = field(default_factory=dict)  # what is missing on a node to its next piece

    def given(self, amount: int, node: int) -> int:
        return min(self.most[node], amount - amount % self.piece) if amount > 0 else 0

    def gain(self, amount: int, node: int) -> int:
        """At most so much more once an amount is lifted from a node as it was; gains of several pods add up."""
        share = -(-amount * self.piece // self.short[node])
        return min(share, self.most[node] - self.base[node])


class Ground:
    """One domain, the gang that wants to go there, and the gangs that hold room in it."""

    def __init__(
        self, inventory: Inventory, parts: Parts, slots: Sequence[int], inside: set[int] | None, all_: Sequence[Holder]
    ) -> None:
        self.inventory = inventory
        self.board = Board(inventory, parts, slots, waiting=True, lasting=True)
        self.place = {slot: node for node, slot in enumerate(self.board.slots)}
        self.mask = self.board.everything
        if inside is not None:
            self.mask = sum(1 << node for slot, node in self.place.items() if slot in inside)
        self.needs = minimum(self.board)
        self.solution: Solution = {}
        self.sure = True
        self.plain = _is_plain(parts)
        self.rows: list[Row] = []
        self.start = [tuple(free) for free in self.board.free]
        useful = [self.board.slots[node] for node in bits(self.mask & self.board.useful)]
        matter = {kin for slot in useful for kin in inventory.family(slot)}
        self.held = {id(holder): [held for held in holder.held if held.slot in matter] for holder in all_}
        self.holders = [holder for holder in all_ if self.held[id(holder)]]
        if not has_choice(parts) and not self.board.shares:
            self._count()

    # --- trials ---

    def lift(self, slot: int, pods: PodSet, count: int) -> None:
        """Take running pods off a node, or put them back with a negative count."""
        node = self.place[slot]
        free = self.board.free[node]
        for row in self.rows:
            if pods.request[row.resource] and node in row.most:
                before = free[row.resource]
                after = before + count * pods.request[row.resource]
                start = self.start[node][row.resource]
                row.have += row.given(after, node) - row.given(before, node)
                row.hope += row.gain(after - start, node) - row.gain(before - start, node)
        self.board.use(node, [(resource, amount) for resource, amount in enumerate(pods.request) if amount], -count)
        if pods.host_ports and count:
            self.inventory.give(slot, (0,) * len(pods.request), pods.host_ports, count)
            self.board.ports[node].clear()
            self.board.ports[node].update(self.inventory.ports(slot, waiting=True))

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
        budget.spend(1 + len(self.board.slots))
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

    def crowded(self) -> set[int]:
        """The slots on which the solution found last needs pods to be gone."""
        board = self.board
        if board.shares:
            used = {board.slots[node] for where in self.solution.values() for node in where}
            return {kin for slot in used for kin in self.inventory.family(slot)}
        asked: dict[int, list[int]] = {}
        crowded = set()
        for leaf, where in self.solution.items():
            kind = board.types[board.type_of[leaf]]
            for node, count in where.items():
                mine = asked.setdefault(node, [0] * len(self.start[node]))
                for resource, amount in kind.request:
                    mine[resource] += amount * count
                if kind.ports:
                    crowded.add(board.slots[node])
        for node, amounts in asked.items():
            if any(want > have for want, have in zip(amounts, self.start[node], strict=True) if want):
                crowded.add(board.slots[node])
        return crowded

    def _search(self, budget: Budget) -> bool:
        for kids in choices(self.board.parts, self.needs):
            budget.spend()
            found = Search(self.board, budget, self.needs, kids, spread=False).solve(self.mask, {})
            if found is not None:
                self.solution = found
                return True
        return False

    # --- what is lacking ---

    def _count(self) -> None:
        """Conditions that do not hold yet; those that do will hold with more room as well."""
        rows = list(self._conditions())
        for row, most in zip(rows, self._at_best(rows), strict=True):
            row.most = most
            for node in most:
                free = self.start[node][row.resource]
                row.base[node] = row.given(free, node)
                row.short[node] = row.piece - max(0, free) % row.piece
            row.have = row.hope = sum(row.base.values())
        self.rows = [row for row in rows if row.have < row.want]

    def _conditions(self) -> Iterator[Row]:
        board = self.board
        search = Search(board, Budget(0), self.needs, all_kids(board.parts), spread=False)
        demand = search.measures.demand(board.parts.all[0])
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
            if node in row.most:
                amounts[node] = amounts.get(node, 0) + at.pods.request[row.resource] * at.count
        return sum(row.gain(amount, node) for node, amount in amounts.items())

    def gain_of_one(self, row: Row, held: Held) -> int:
        node = self.place[held.slot]
        return row.gain(held.pods.request[row.resource], node) if node in row.most else 0


def grounds(
    inventory: Inventory, parts: Parts, scope: Sequence[int] | None, all_: Sequence[Holder]
) -> Iterator[Ground]:
    """The domains that the gang as a whole may go to, by path; the cluster or the scope if it may go anywhere."""
    part = _outermost(parts)
    own = {inventory.seat(member.node, member.zone) for member in parts.gang.running}
    allowed = set(scope) if scope is not None else None
    if part.required is None:
        slots = list(inventory.slots()) if scope is None else sorted({*scope, *own})
        yield Ground(inventory, parts, slots, allowed, all_)
        return
    tree, depth = inventory.trees[part.required.topology], part.required.depth
    on = _by_slot(all_)
    for domain in tree.order(depth):
        members = tree.members(depth, domain)
        inside = set(members) if allowed is None else allowed & set(members)
        if inside and own <= set(members):
            kin = {one for slot in inside for one in inventory.family(slot)} if inventory.divided else inside
            slots = sorted(kin | own)
            here = sorted({at for slot in slots for kin_slot in inventory.family(slot) for at in on.get(kin_slot, ())})
            yield Ground(inventory, parts, slots, inside, [all_[at] for at in here])


def _by_slot(all_: Sequence[Holder]) -> dict[int, list[int]]:
    """Positions of the holders that have pods in a slot."""
    found: dict[int, list[int]] = {}
    for at, holder in enumerate(all_):
        for held in holder.held:
            found.setdefault(held.slot, []).append(at)
    return found


def _outermost(parts: Parts) -> Part:
    """The first part from the root down that has a requirement of its own or more than one child."""
    part = parts.all[0]
    while part.required is None and len(part.kids) == 1 and part.need == 1:
        part = parts.all[part.kids[0]]
    return part


def _is_plain(parts: Parts) -> bool:
    """One pod set that asks for no more than the domain and its own room: then counting says nearly everything."""
    if len(parts.leaves) != 1:
        return False
    leaf, outermost = parts.leaves[0], _outermost(parts)
    assert leaf.pods is not None
    depths = [part.required.depth for part in parts.above(leaf) if part.required]
    is_narrower = outermost.required is not None and any(depth > outermost.required.depth for depth in depths)
    return not is_narrower and not leaf.pods.host_ports and not leaf.pods.anti_affinity
