"""Exact bin packing: pods of several types onto nodes, each type with the nodes it may use.

Returns a solution or None, and None only if no solution exists. Tries greedy packing first, then searches node by node
over the maximal patterns, those to which no pod can be added (any solution can be turned into one that uses only
these), and remembers the states that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spinney.core.placement.budget import StepBudget
from spinney.core.placement.search.affinity import PatternRules, RuleState
from spinney.core.placement.search.best_fit import LevelMasks, fill
from spinney.core.placement.search.search_space import SearchSpace, SharedNode, Solution, bits


@dataclass(slots=True)
class PodBatch:
    """Pods with equal requests and the same eligible nodes; `leaves` lists the pod sets they belong to, in order."""

    kind: int
    mask: int
    count: int
    leaves: list[tuple[int, int]]
    caps: dict[int, int]


class PackingBudgetExceeded(Exception):
    """The packing exceeded its step limit; whether a solution exists is not known."""


def hardness(space: SearchSpace, batches: Sequence[PodBatch]) -> list[int]:
    """Batches in the order in which they are packed: large pods first, then those with few eligible nodes."""
    largest: dict[int, int] = {}
    for batch in batches:
        for node in batch.caps:
            for resource, _ in space.types[batch.kind].request:
                largest[resource] = max(largest.get(resource, 1), space.free[node][resource])

    def key(at: int) -> tuple[float, int, int]:
        batch = batches[at]
        size = max((amount / largest.get(r, 1) for r, amount in space.types[batch.kind].request), default=0.0)
        return -size, sum(batch.caps.values()) - batch.count, at

    return sorted(range(len(batches)), key=key)


class _Left(NamedTuple):
    """What the nodes filled so far leave to the next ones.

    `values`: anti-affinity values already in use. `room` and `ports`: on a node of which more NUMA zones follow, its
    free amounts and the host ports in use.
    """

    values: frozenset[object] = frozenset()
    room: tuple[int, ...] | None = None
    ports: frozenset[int] = frozenset()
    rules: tuple[RuleState, ...] = ()


class NodePatterns:
    """Depth-first search over nodes, smallest first; on each node only patterns to which no waiting pod could be added.

    The zones of one node are adjacent in the order. A pod added to one zone may be missing in the next, so every
    pattern of a zone is tried; only all zones of a node together must be so full that nothing can be added to any of
    them.
    """

    def __init__(
        self,
        space: SearchSpace,
        batches: Sequence[PodBatch],
        budget: StepBudget,
        max_steps: int | None,
        pending: frozenset[int] = frozenset(),
    ) -> None:
        self.max_steps = max_steps
        self.space = space
        self.batches = [batches[at] for at in hardness(space, batches)]
        self.budget = budget
        self.given = list(batches)
        self.resources = sorted({r for batch in self.batches for r, _ in space.types[batch.kind].request})
        self.request = [
            [dict(space.types[batch.kind].request).get(resource, 0) for resource in self.resources]
            for batch in self.batches
        ]
        nodes = sorted({node for batch in self.batches for node in batch.caps})
        self.free = {node: [space.free[node][resource] for resource in self.resources] for node in nodes}
        self.nodes = sorted(nodes, key=lambda node: (self.free[node], self._users(node), node))
        self.rules = pattern_rules(space, self.batches, pending)
        if self.rules:
            self.nodes = self.rules.order(self.nodes)
        self.shared_nodes: dict[int, SharedNode] = {}
        if space.shared_nodes:
            self._gather()
        types = [space.types[batch.kind] for batch in self.batches]
        self.values = [asked.values if asked.shared else () for asked in types]
        self.domain_claims = [asked.domain_claims for asked in types]
        self.claims = [asked.ports for asked in types]
        self.refused = [asked.refused for asked in types]
        self.rules.close(self.nodes)
        self.closing = self._closing()
        self.dead: set[object] = set()
        self._make_suffixes(len(self.resources))

    def _gather(self) -> None:
        """Move the zones that share a node next to each other, to the position of the first of them."""
        known = {node: shared_node for shared_node in self.space.shared_nodes for node in shared_node.own}
        siblings = {node: [one for one in self.nodes if one in known[node].own] for node in self.nodes if node in known}
        self.shared_nodes = {node: known[node] for node in siblings if len(siblings[node]) > 1}
        self.nodes = list(dict.fromkeys(one for node in self.nodes for one in siblings.get(node, [node])))

    def _users(self, node: int) -> tuple[int, ...]:
        return tuple(batch.caps.get(node, 0) for batch in self.batches)

    def _make_suffixes(self, resources: int) -> None:
        """Upper bounds on what the nodes from a position on hold, per batch and per resource."""
        caps = [0] * len(self.batches)
        sums = [0] * resources
        self.caps_from = [tuple(caps)]
        self.sums_from = [tuple(sums)]
        for at in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[at]
            for batch, asked in enumerate(self.batches):
                caps[batch] += asked.caps.get(node, 0)
            for resource in range(resources):
                sums[resource] += max(0, self.free[node][resource])
            if node in self.shared_nodes and not self._is_last(at):
                self._limit(at, caps, sums)
            self.caps_from.append(tuple(caps))
            self.sums_from.append(tuple(sums))
        self.caps_from.reverse()
        self.sums_from.reverse()

    def _limit(self, at: int, caps: list[int], sums: list[int]) -> None:
        """Cap the bounds: the zones of a node provide no more together than the node has."""
        shared_node = self.shared_nodes[self.nodes[at]]
        last = next(position for position in range(at, len(self.nodes)) if self._is_last(position))
        known = len(self.nodes) - last - 1
        for batch, asked in enumerate(self.batches):
            kind = self.space.types[asked.kind]
            caps[batch] = min(caps[batch], self.caps_from[known][batch] + shared_node.holds(kind.request, kind.ports))
        for place, resource in enumerate(self.resources):
            sums[place] = min(sums[place], self.sums_from[known][place] + max(0, shared_node.free[resource]))

    def _is_last(self, at: int) -> bool:
        """Whether the node at a position is not followed by further zones of the same node."""
        shared_node = self.shared_nodes.get(self.nodes[at])
        return (
            shared_node is None
            or at + 1 == len(self.nodes)
            or self.shared_nodes.get(self.nodes[at + 1]) is not shared_node
        )

    def search(self) -> list[dict[int, int]] | None:
        waiting = tuple(batch.count for batch in self.batches)
        left = _Left(rules=self.rules.start())
        trail: list[tuple[tuple[int, ...], Iterator[tuple[int, ...]], _Left]] = []
        choice: list[tuple[int, ...]] = []
        trail.append((waiting, self._patterns(0, waiting, left), left))
        while trail:
            waiting, patterns, left = trail[-1]
            at = len(trail) - 1
            if not any(waiting) and (not self.rules or self.rules.is_lawful(left.rules, at, left.values)):
                return self._read(choice)
            pattern = next(patterns, None) if any(waiting) else None
            if pattern is None:
                # All patterns of this node failed: the same state need not be searched again.
                self.dead.add((at, waiting, left))
                trail.pop()
                if choice:
                    choice.pop()
                continue
            still = tuple(w - f for w, f in zip(waiting, pattern, strict=True))
            if self.shared_nodes and self._leaves_room(at, [*choice, pattern], still):
                continue
            after = self._after(left, at, pattern)
            if self.rules:
                states = self.rules.after(left.rules, at, self.nodes[at], pattern, after.values)
                if states is None:
                    continue
                after = after._replace(rules=states)
            if self.closing[at]:
                after = after._replace(values=after.values - self.closing[at])
            if not self._may_succeed(at + 1, still, after):
                continue
            choice.append(pattern)
            trail.append((still, self._patterns(at + 1, still, after), after))
        return None

    def _may_succeed(self, at: int, waiting: tuple[int, ...], left: _Left) -> bool:
        if any(want > have for want, have in zip(waiting, self.caps_from[at], strict=True)):
            return False
        for resource, have in enumerate(self.sums_from[at]):
            if sum(want * self.request[batch][resource] for batch, want in enumerate(waiting)) > have:
                return False
        return (at, waiting, left) not in self.dead

    def _after(self, left: _Left, at: int, pattern: tuple[int, ...]) -> _Left:
        node = self.nodes[at]
        fresh: list[object] = [
            (batch, key, by_node[node])
            for batch, count in enumerate(pattern)
            if count
            for key, by_node in enumerate(self.values[batch])
            if node in by_node
        ]
        fresh += [
            (claim.token, claim.by_node[node])
            for batch, count in enumerate(pattern)
            if count
            for claim in self.domain_claims[batch]
            if node in claim.by_node
        ]
        if not fresh and not self.shared_nodes:
            return left
        values = left.values.union(fresh) if fresh else left.values
        if self._is_last(at):
            return _Left(values, rules=left.rules)
        room = list(self._room(node, left))
        ports = set(left.ports)
        for batch, count in enumerate(pattern):
            for resource, amount in enumerate(self.request[batch]):
                room[resource] -= amount * count
            if count:
                ports |= self.space.types[self.batches[batch].kind].ports
        return _Left(values, tuple(room), frozenset(ports), left.rules)

    def _leaves_room(self, at: int, choice: Sequence[tuple[int, ...]], waiting: tuple[int, ...]) -> bool:
        """Whether the zones of the node that is complete here could take a waiting pod: then they are not full."""
        shared_node = self.shared_nodes.get(self.nodes[at])
        if shared_node is None or not self._is_last(at):
            return False
        zones = [position for position in range(at + 1) if self.shared_nodes.get(self.nodes[position]) is shared_node]
        room = self._rest(shared_node.free, [choice[position] for position in zones])
        taken = {port for position in zones for port in self._opened(choice[position])}
        for position in zones[:-1]:
            own = self._rest(shared_node.own[self.nodes[position]], [choice[position]])
            for batch, want in enumerate(waiting):
                if not want or self.values[batch] or not self.batches[batch].caps.get(self.nodes[position]):
                    continue
                if self.domain_claims[batch] or not self.refused[batch].isdisjoint(taken):
                    continue
                if all(need <= min(*left) for need, *left in zip(self.request[batch], own, room, strict=True) if need):
                    return True
        return False

    def _rest(self, free: Sequence[int], patterns: Sequence[tuple[int, ...]]) -> list[int]:
        """The free amounts of a row after subtracting the patterns."""
        rest = [free[resource] for resource in self.resources]
        for pattern in patterns:
            for batch, count in enumerate(pattern):
                if count:
                    rest = [have - count * amount for have, amount in zip(rest, self.request[batch], strict=True)]
        return rest

    def _opened(self, pattern: tuple[int, ...]) -> Iterator[int]:
        for batch, count in enumerate(pattern):
            if count:
                yield from self.space.types[self.batches[batch].kind].ports

    def _room(self, node: int, left: _Left) -> Sequence[int]:
        """The free amounts of the node that a zone belongs to."""
        if left.room is not None:
            return left.room
        return [self.shared_nodes[node].free[resource] for resource in self.resources]

    def _patterns(self, at: int, waiting: tuple[int, ...], left: _Left) -> Iterator[tuple[int, ...]]:
        """The maximal patterns of waiting pods for a node, fullest first."""
        if at == len(self.nodes):
            return
        node = self.nodes[at]
        limits = []
        for batch, want in enumerate(waiting):
            here = min(want, self.batches[batch].caps.get(node, 0))
            if here and any((batch, key, by.get(node)) in left.values for key, by in enumerate(self.values[batch])):
                here = 0
            if here and self._is_refused(batch, node, left):
                here = 0
            if here and self.rules:
                here = self.rules.limit(left.rules, batch, node, here)
            limits.append(here)
        free = list(self.free[node])
        if node in self.shared_nodes:
            free = list(map(min, free, self._room(node, left)))
        yield from self._extend(node, 0, limits, free, left.ports, [], self._is_last(at))

    def _closing(self) -> list[frozenset[object]]:
        """Per position the claims in domains that end there: nothing after it can meet them."""
        last: dict[object, int] = {}
        for position, node in enumerate(self.nodes):
            for claims in self.domain_claims:
                for claim in claims:
                    if node in claim.by_node:
                        last[claim.token, claim.by_node[node]] = position
        for claims in self.domain_claims:
            for claim in claims:
                for token in claim.refused:
                    for value in claim.by_node.values():
                        position = max(last.get((token, value), -1), last.get((claim.token, value), -1))
                        last[token, value] = last[claim.token, value] = position
        found: list[set[object]] = [set() for _ in self.nodes]
        for one, position in last.items():
            if position >= 0:
                found[position].add(one)
        return [frozenset(each) for each in found]

    def _is_refused(self, batch: int, node: int, left: _Left) -> bool:
        return any(
            node in claim.by_node and (token, claim.by_node[node]) in left.values
            for claim in self.domain_claims[batch]
            for token in claim.refused
        )

    def _claims(self, batch: int, node: int) -> tuple[frozenset[int], frozenset[int]]:
        """What the pods of a batch claim and refuse on a node: host ports, and tokens of other pod sets."""
        claims, refused = self.claims[batch], self.refused[batch]
        here = [claim for claim in self.domain_claims[batch] if node in claim.by_node]
        if not here:
            return claims, refused
        return claims.union([claim.token for claim in here]), refused.union(*[claim.refused for claim in here])

    def _extend(
        self,
        node: int,
        batch: int,
        limits: list[int],
        free: list[int],
        ports: frozenset[int],
        taken: list[int],
        only_full: bool,
    ) -> Iterator[tuple[int, ...]]:
        if batch == len(limits):
            self.budget.spend()
            if self.max_steps is not None:
                self.max_steps -= 1
                if self.max_steps < 0:
                    raise PackingBudgetExceeded
            if not only_full or self._is_full(limits, free, ports, taken):
                yield tuple(taken)
            return
        most = limits[batch]
        mine, refused = self._claims(batch, node)
        if most and not refused.isdisjoint(ports):
            most = 0
        for resource, amount in enumerate(self.request[batch]):
            if amount and most:
                most = min(most, max(0, free[resource] // amount))
        # The last batch takes as many as fit: with fewer pods the pattern would not be maximal.
        # Not so where another node of the domain could need the room: such pods may be left out here.
        least = most if only_full and batch == len(limits) - 1 and not self.domain_claims[batch] else 0
        for count in range(most, least - 1, -1):
            rest = [have - count * amount for have, amount in zip(free, self.request[batch], strict=True)]
            claimed = ports | mine if count else ports
            yield from self._extend(node, batch + 1, limits, rest, claimed, [*taken, count], only_full)

    def _is_full(self, limits: list[int], free: list[int], ports: frozenset[int], taken: list[int]) -> bool:
        for batch, limit in enumerate(limits):
            if taken[batch] >= limit or self.domain_claims[batch] or not self.refused[batch].isdisjoint(ports):
                continue
            if all(have >= amount for have, amount in zip(free, self.request[batch], strict=True)):
                return False
        return True

    def _read(self, choice: list[tuple[int, ...]]) -> list[dict[int, int]]:
        found: dict[int, dict[int, int]] = {id(batch): {} for batch in self.batches}
        for node, pattern in zip(self.nodes, choice, strict=False):
            for batch, count in zip(self.batches, pattern, strict=True):
                if count:
                    found[id(batch)][node] = count
        return [found[id(batch)] for batch in self.given]


LevelMasksOf = Callable[[int], LevelMasks]
"""For a pod set (index of its part): the domain masks by which its pods descend its topology."""


def pack(
    space: SearchSpace,
    demands: Sequence[tuple[int, int, int]],
    budget: StepBudget,
    level_masks: LevelMasksOf,
    spread: bool,
    max_steps: int | None = None,
    pending: frozenset[int] = frozenset(),
) -> Solution | None:
    """Place every demand (leaf, count, mask), or prove that it is impossible.

    `pending`: pod sets that are still to be placed elsewhere; near rules about them are not judged yet.
    """
    batches = _batches(space, demands)
    budget.spend(1 + sum(len(batch.caps) for batch in batches) // 8)
    if any(sum(space.usable_at_once(batch.kind, batch.caps).values()) < batch.count for batch in batches):
        return None
    shared = any(space.types[batch.kind].shared for batch in batches)
    ruled = any(space.types[batch.kind].ruled for batch in batches)
    if len(batches) == 1 and not shared and not ruled:
        batch = batches[0]
        caps = space.usable_at_once(batch.kind, batch.caps)
        return _split(
            batches, [fill(space, batch.kind, batch.mask, batch.count, caps, level_masks(batch.leaves[0][0]), spread)]
        )
    if not _sums_suffice(space, batches):
        return None
    if not shared:
        for order in _orders(space, batches):
            greedy = _greedy(space, batches, order, level_masks, spread)
            if greedy is not None:
                solution = _split(batches, greedy)
                if not ruled or pattern_rules(space, batches, pending).allows(solution):
                    return solution
    found = NodePatterns(space, batches, budget, max_steps, pending).search()
    return _split(batches, found) if found is not None else None


def pattern_rules(space: SearchSpace, batches: Sequence[PodBatch], pending: frozenset[int]) -> PatternRules:
    """The rules about the pod sets of these batches."""
    batch_of = {leaf: at for at, batch in enumerate(batches) for leaf, _ in batch.leaves}
    needs = {leaf: count for batch in batches for leaf, count in batch.leaves}
    return PatternRules(space.near, space.spread_rules, batch_of, needs, pending, space.claimed)


def _batches(space: SearchSpace, demands: Sequence[tuple[int, int, int]]) -> list[PodBatch]:
    """Merge demands of one pod type and the same eligible nodes; nodes without capacity are not eligible."""
    known: dict[tuple[int, int], tuple[int, dict[int, int]]] = {}
    merged: dict[tuple[int, int], PodBatch] = {}
    for leaf, count, mask in demands:
        if count <= 0:
            continue
        kind = space.type_of[leaf]
        usable = mask & space.types[kind].usable
        if (kind, usable) not in known:
            caps = {node: fits for node in bits(usable) if (fits := space.capacity(kind, node))}
            known[kind, usable] = sum([1 << node for node in caps]), caps
        open_to, caps = known[kind, usable]
        batch = merged.get((kind, open_to))
        if batch is None:
            batch = merged[kind, open_to] = PodBatch(kind, open_to, 0, [], caps)
        batch.count += count
        batch.leaves.append((leaf, count))
    return list(merged.values())


def _split(batches: Sequence[PodBatch], placed: Sequence[dict[int, int]]) -> Solution:
    """Distribute the pods of merged batches to their pod sets, in order."""
    solution: Solution = {}
    for batch, where in zip(batches, placed, strict=True):
        stock = sorted(where.items())
        for leaf, count in batch.leaves:
            mine = solution.setdefault(leaf, {})
            while count > 0:
                node, there = stock[0]
                here = min(count, there)
                mine[node] = mine.get(node, 0) + here
                count -= here
                if here == there:
                    stock.pop(0)
                else:
                    stock[0] = (node, there - here)
    return solution


def _sums_suffice(space: SearchSpace, batches: Sequence[PodBatch]) -> bool:
    """A necessary condition: per resource, the eligible nodes of all batches together have what all batches request."""
    asked: dict[int, int] = {}
    usable = 0
    for batch in batches:
        usable |= batch.mask
        for resource, amount in space.types[batch.kind].request:
            asked[resource] = asked.get(resource, 0) + amount * batch.count
    have = dict.fromkeys(asked, 0)
    for node in bits(usable):
        free = space.free[node]
        for resource in asked:
            if free[resource] > 0:
                have[resource] += free[resource]
    return all(have[resource] >= amount for resource, amount in asked.items())


def _orders(space: SearchSpace, batches: Sequence[PodBatch]) -> Iterator[list[int]]:
    """Promising orders for the greedy packing: large pods first, least slack first, and by each resource."""
    seen = []
    resources = sorted({resource for batch in batches for resource, _ in space.types[batch.kind].request})
    slack = [sum(batch.caps.values()) - batch.count for batch in batches]
    orders = [
        hardness(space, batches),
        sorted(range(len(batches)), key=lambda at: (batches[at].mask.bit_count(), slack[at], at)),
    ]
    for resource in resources:
        amounts = [-dict(space.types[batch.kind].request).get(resource, 0) for batch in batches]
        keys = list(zip(amounts, slack, strict=True))
        orders.append(sorted(range(len(batches)), key=keys.__getitem__))
    for order in orders:
        if order not in seen:
            seen.append(order)
            yield order


def _greedy(
    space: SearchSpace, batches: Sequence[PodBatch], order: list[int], level_masks: LevelMasksOf, spread: bool
) -> list[dict[int, int]] | None:
    """Place one batch after the other by best fit; None only means that this order does not work."""
    placed: list[dict[int, int]] = [{} for _ in batches]
    done: list[int] = []
    used = 0
    try:
        for at in order:
            batch = batches[at]
            caps = (
                {node: fits for node in batch.caps if (fits := space.capacity(batch.kind, node))}
                if done
                else batch.caps
            )
            at_once = space.usable_at_once(batch.kind, caps)
            if sum(at_once.values()) < batch.count:
                return None
            placed[at] = fill(
                space, batch.kind, batch.mask, batch.count, at_once, level_masks(batch.leaves[0][0]), spread, used
            )
            for node, count in placed[at].items():
                space.take(batch.kind, node, count)
                used |= 1 << node
            done.append(at)
        return placed
    finally:
        for at in done:
            for node, count in placed[at].items():
                space.take(batches[at].kind, node, -count)
