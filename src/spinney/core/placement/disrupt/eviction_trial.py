"""A candidate domain as a place for trials: pods are lifted from its nodes and put back, and the gang asks if it fits.

Counts what the gang lacks, resource by resource, so that most questions need no search. Never changes the inventory for
longer than pods are lifted, and every lift must be put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from spinney.api.placement.problem import PodSet
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.budget import Exhausted, StepBudget
from spinney.core.placement.gang.child_selection import all_children, choices, has_choice
from spinney.core.placement.gang.gang_tree import GangTree, Part
from spinney.core.placement.gang.running_gangs import RunningGang, RunningPods
from spinney.core.placement.search.exact_search import Search
from spinney.core.placement.search.search_space import SearchSpace, Solution, bits, minimum

EVERY_TYPE = -1
ONE_QUESTION = 10
"""A single question may use this part of the budget, one in so many."""


@dataclass(slots=True)
class CapacityRow:
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
        shared_node = -(-amount * self.piece // self.short[node])
        return min(shared_node, self.most[node] - self.base[node])


class EvictionTrial:
    """One domain, the gang that wants to go there, and the gangs that hold room in it."""

    def __init__(
        self,
        inventory: Inventory,
        parts: GangTree,
        slots: Sequence[int],
        inside: set[int] | None,
        all_: Sequence[RunningGang],
    ) -> None:
        self.inventory = inventory
        self.space = SearchSpace(inventory, parts, slots, waiting=True, lasting=True)
        self.place = {slot: node for node, slot in enumerate(self.space.slots)}
        self.mask = self.space.everything
        if inside is not None:
            self.mask = sum(1 << node for slot, node in self.place.items() if slot in inside)
        self.needs = minimum(self.space)
        self.solution: Solution = {}
        self.sure = True
        self.plain = _is_plain(parts)
        self.rows: list[CapacityRow] = []
        self.start = [tuple(free) for free in self.space.free]
        useful = [self.space.slots[node] for node in bits(self.mask & self.space.useful)]
        matter = {kin for slot in useful for kin in inventory.family(slot)}
        self.held = {
            id(running_gang): [held for held in running_gang.held if held.slot in matter] for running_gang in all_
        }
        self.running_gangs = [running_gang for running_gang in all_ if self.held[id(running_gang)]]
        if not has_choice(parts) and not self.space.shared_nodes:
            self._count()

    # --- trials ---

    def lift(self, slot: int, pods: PodSet, count: int) -> None:
        """Take running pods off a node, or put them back with a negative count."""
        node = self.place[slot]
        free = self.space.free[node]
        for row in self.rows:
            if pods.request[row.resource] and node in row.most:
                before = free[row.resource]
                after = before + count * pods.request[row.resource]
                start = self.start[node][row.resource]
                row.have += row.given(after, node) - row.given(before, node)
                row.hope += row.gain(after - start, node) - row.gain(before - start, node)
        self.space.use(node, [(resource, amount) for resource, amount in enumerate(pods.request) if amount], -count)
        if pods.host_ports and count:
            self.inventory.give(slot, (0,) * len(pods.request), pods.host_ports, count)
            self.space.ports[node].clear()
            self.space.ports[node].update(self.inventory.ports(slot, waiting=True))

    def lift_all(self, running_gangs: Iterable[RunningGang], sign: int = 1) -> None:
        for running_gang in running_gangs:
            for held in self.held[id(running_gang)]:
                self.lift(held.slot, held.pods, sign * held.count)

    def lacks(self) -> bool:
        """Counting says that it cannot fit."""
        return any(row.have < row.want for row in self.rows)

    def fits(self, budget: StepBudget) -> bool:
        """Whether the minimum fits now. Where a question takes too long the answer is no, and `sure` falls."""
        if self.lacks():
            return False
        budget.spend(1 + len(self.space.slots))
        most = max(1, budget.left // ONE_QUESTION)
        part = StepBudget(most)
        try:
            return self._search(part)
        except Exhausted:
            self.sure = False
            return False
        finally:
            budget.left -= most - max(0, part.left)

    def fits_without(self, running_gangs: Sequence[RunningGang], budget: StepBudget) -> bool:
        """Whether it fits when everything these gangs hold is gone."""
        self.lift_all(running_gangs)
        try:
            return self.fits(budget)
        finally:
            self.lift_all(running_gangs, -1)

    def crowded(self) -> set[int]:
        """The slots on which the solution found last needs pods to be gone."""
        space = self.space
        if space.shared_nodes:
            used = {space.slots[node] for where in self.solution.values() for node in where}
            return {kin for slot in used for kin in self.inventory.family(slot)}
        asked: dict[int, list[int]] = {}
        crowded = set()
        for leaf, where in self.solution.items():
            kind = space.types[space.type_of[leaf]]
            for node, count in where.items():
                mine = asked.setdefault(node, [0] * len(self.start[node]))
                for resource, amount in kind.request:
                    mine[resource] += amount * count
                if kind.ports:
                    crowded.add(space.slots[node])
        for node, amounts in asked.items():
            if any(want > have for want, have in zip(amounts, self.start[node], strict=True) if want):
                crowded.add(space.slots[node])
        return crowded

    def _search(self, budget: StepBudget) -> bool:
        for children in choices(self.space.parts, self.needs):
            budget.spend()
            found = Search(self.space, budget, self.needs, children, spread=False).solve(self.mask, {})
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

    def _conditions(self) -> Iterator[CapacityRow]:
        space = self.space
        search = Search(space, StepBudget(0), self.needs, all_children(space.parts), spread=False)
        demand = search.vectors.demand(space.parts.all[0])
        for kind, asked in enumerate(space.types):
            for resource, amount in asked.request:
                yield CapacityRow(kind, resource, amount, demand[kind] * amount)
        for resource, amount in enumerate(demand[len(space.types) :]):
            if amount:
                yield CapacityRow(EVERY_TYPE, resource, 1, amount)

    def _at_best(self, rows: list[CapacityRow]) -> list[dict[int, int]]:
        """What every node gives when all that may go is gone."""
        self.lift_all(self.running_gangs)
        space = self.space
        found: list[dict[int, int]] = []
        for row in rows:
            if row.kind == EVERY_TYPE:
                nodes = bits(self.mask & space.useful)
                found.append({node: max(0, space.free[node][row.resource]) for node in nodes})
            else:
                nodes = bits(self.mask & space.types[row.kind].usable)
                found.append({node: row.piece * space.capacity(row.kind, node) for node in nodes})
        self.lift_all(self.running_gangs, -1)
        return found

    def gain(self, row: CapacityRow, held: Iterable[RunningPods]) -> int:
        """The most that lifting these pods adds to a condition."""
        amounts: dict[int, int] = {}
        for at in held:
            node = self.place[at.slot]
            if node in row.most:
                amounts[node] = amounts.get(node, 0) + at.pods.request[row.resource] * at.count
        return sum(row.gain(amount, node) for node, amount in amounts.items())

    def gain_of_one(self, row: CapacityRow, held: RunningPods) -> int:
        node = self.place[held.slot]
        return row.gain(held.pods.request[row.resource], node) if node in row.most else 0


def eviction_trials(
    inventory: Inventory, parts: GangTree, scope: Sequence[int] | None, all_: Sequence[RunningGang]
) -> Iterator[EvictionTrial]:
    """The domains that the gang as a whole may go to, by path; the cluster or the scope if it may go anywhere."""
    part = _outermost(parts)
    own = {inventory.seat(member.node, member.zone) for member in parts.gang.running}
    allowed = set(scope) if scope is not None else None
    if part.required is None:
        slots = list(inventory.slots()) if scope is None else sorted({*scope, *own})
        yield EvictionTrial(inventory, parts, slots, allowed, all_)
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
            yield EvictionTrial(inventory, parts, slots, inside, [all_[at] for at in here])


def _by_slot(all_: Sequence[RunningGang]) -> dict[int, list[int]]:
    """Positions of the holders that have pods in a slot."""
    found: dict[int, list[int]] = {}
    for at, running_gang in enumerate(all_):
        for held in running_gang.held:
            found.setdefault(held.slot, []).append(at)
    return found


def _outermost(parts: GangTree) -> Part:
    """The first part from the root down that has a requirement of its own or more than one child."""
    part = parts.all[0]
    while part.required is None and len(part.children) == 1 and part.need == 1:
        part = parts.all[part.children[0]]
    return part


def _is_plain(parts: GangTree) -> bool:
    """One pod set that asks for no more than the domain and its own room: then counting says nearly everything."""
    if len(parts.leaves) != 1:
        return False
    leaf, outermost = parts.leaves[0], _outermost(parts)
    assert leaf.pods is not None
    depths = [part.required.depth for part in parts.above(leaf) if part.required]
    is_narrower = outermost.required is not None and any(depth > outermost.required.depth for depth in depths)
    return not is_narrower and not leaf.pods.host_ports and not leaf.pods.anti_affinity
