"""What-if evictions in one domain: pods are removed from its nodes and restored, and the gang's fit is tested.

Counts what the gang lacks, resource by resource, so that most tests need no search. Never changes the inventory beyond
the time for which pods are removed; every removal (`lift`) must be undone by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from spinney.api.placement.problem import PodSet
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.budget import Exhausted, StepBudget
from spinney.core.placement.gang.gang_tree import GangTree, Part, all_children, every_choice, has_choice
from spinney.core.placement.gang.running_gangs import RunningGang, RunningPods
from spinney.core.placement.search.exact_search import Search
from spinney.core.placement.search.search_space import SearchSpace, Solution, bits, minimum

EVERY_TYPE = -1
ONE_QUESTION = 10
"""A single test of fit may use at most 1/ONE_QUESTION of the budget that is left."""


@dataclass(slots=True)
class CapacityRow:
    """A necessary condition: the nodes together have `want` of a resource in pieces of `piece` (pods of one type).

    `most` is what a node provides at best and `base` what it provides as it is. `hope` is an upper bound on `have` that
    counts broken pieces in proportion, so that the gains of single pods can be summed up.
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
        """An upper bound on what a node adds once `amount` is freed on it; the gains of several pods add up."""
        shared_node = -(-amount * self.piece // self.short[node])
        return min(shared_node, self.most[node] - self.base[node])


class EvictionTrial:
    """One domain, the gang that is to be placed there, and the running gangs that occupy capacity in it."""

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
        matter = {siblings for slot in useful for siblings in inventory.family(slot)}
        self.held = {
            id(running_gang): [held for held in running_gang.held if held.slot in matter] for running_gang in all_
        }
        self.running_gangs = [running_gang for running_gang in all_ if self.held[id(running_gang)]]
        if not has_choice(parts) and not self.space.shared_nodes:
            self._count()

    # --- trials ---

    def lift(self, slot: int, pods: PodSet, count: int) -> None:
        """Remove running pods from a node, or restore them with a negative count."""
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
            self.space.read_ports(node)

    def lift_all(self, running_gangs: Iterable[RunningGang], sign: int = 1) -> None:
        for running_gang in running_gangs:
            for held in self.held[id(running_gang)]:
                self.lift(held.slot, held.pods, sign * held.count)

    def lacks(self) -> bool:
        """Whether counting alone proves that the gang does not fit."""
        return any(row.have < row.want for row in self.rows)

    def fits(self, budget: StepBudget) -> bool:
        """Whether the minimum fits now. A test that exceeds its budget says no and sets `sure` to False."""
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
            # Charge the steps to the caller's budget, also when this test exceeded its share.
            budget.left -= most - max(0, part.left)

    def fits_without(self, running_gangs: Sequence[RunningGang], budget: StepBudget) -> bool:
        """Whether the minimum fits after all pods of these gangs are evicted."""
        self.lift_all(running_gangs)
        try:
            return self.fits(budget)
        finally:
            self.lift_all(running_gangs, -1)

    def crowded(self) -> set[int]:
        """The slots on which the last solution needs pods to be evicted."""
        space = self.space
        if space.shared_nodes:
            used = {space.slots[node] for where in self.solution.values() for node in where}
            return {siblings for slot in used for siblings in self.inventory.family(slot)}
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
        for children in every_choice(self.space.parts, self.needs):
            budget.spend()
            found = Search(self.space, budget, self.needs, children, spread=False).solve(self.mask, {})
            if found is not None:
                self.solution = found
                return True
        return False

    # --- counting the shortage ---

    def _count(self) -> None:
        """Keep only the conditions that do not hold yet; those that hold also hold with more free capacity."""
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
        """What every node provides when everything that may be evicted is evicted."""
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
        """An upper bound on what evicting these pods adds to a condition."""
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
    """The domains that the gang as a whole may be placed in, by path; without a requirement the cluster or scope."""
    part = _outermost(parts)
    own = {inventory.slot_for(member.node, member.zone) for member in parts.gang.running}
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
            siblings = {one for slot in inside for one in inventory.family(slot)} if inventory.divided else inside
            slots = sorted(siblings | own)
            here = sorted({at for slot in slots for kin_slot in inventory.family(slot) for at in on.get(kin_slot, ())})
            yield EvictionTrial(inventory, parts, slots, inside, [all_[at] for at in here])


def _by_slot(all_: Sequence[RunningGang]) -> dict[int, list[int]]:
    """Positions of the running gangs that have pods in a slot."""
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
    """Whether the gang is one pod set constrained by its domain and requests only: then counting is nearly exact."""
    if len(parts.leaves) != 1:
        return False
    leaf, outermost = parts.leaves[0], _outermost(parts)
    assert leaf.pods is not None
    depths = [part.required.depth for part in parts.above(leaf) if part.required]
    is_narrower = outermost.required is not None and any(depth > outermost.required.depth for depth in depths)
    return not is_narrower and not leaf.pods.host_ports and not leaf.pods.anti_affinity and not parts.affinity
