"""Exact packing: pods of several types onto nodes, each type with the nodes it may use.

Answers a solution or None, and None only when there is none. Greedy first, then a search node by node over the fillings
to which nothing can be added (any solution can be turned into one of these), remembering what failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spinney.core.placement.board import Board, Solution, bits
from spinney.core.placement.budget import Budget
from spinney.core.placement.filling import Ladder, fill


@dataclass(slots=True)
class Job:
    """Equal pods with equal choices of nodes; `leaves` says for whom, in order."""

    kind: int
    mask: int
    count: int
    leaves: list[tuple[int, int]]
    caps: dict[int, int]


Ladders = Callable[[int], Ladder]
"""For a pod set (index of its part) how its pods go down its topology."""


class Impatient(Exception):
    """The packing took more steps than it was given; whether it exists is not known."""


def pack(
    board: Board,
    demands: Sequence[tuple[int, int, int]],
    budget: Budget,
    ladder: Ladders,
    spread: bool,
    patience: int | None = None,
) -> Solution | None:
    """Place every demand (leaf, count, mask), or prove that it cannot be done."""
    jobs = _jobs(board, demands)
    budget.spend(1 + sum(len(job.caps) for job in jobs) // 8)
    if any(sum(job.caps.values()) < job.count for job in jobs):
        return None
    shared = any(board.types[job.kind].shared for job in jobs)
    if len(jobs) == 1 and not shared:
        job = jobs[0]
        return _split(jobs, [fill(board, job.kind, job.mask, job.count, job.caps, ladder(job.leaves[0][0]), spread)])
    if not _sums_suffice(board, jobs):
        return None
    if not shared:
        for order in _orders(board, jobs):
            greedy = _greedy(board, jobs, order, ladder, spread)
            if greedy is not None:
                return _split(jobs, greedy)
    found = _Fillings(board, jobs, budget, patience).search()
    return _split(jobs, found) if found is not None else None


def _jobs(board: Board, demands: Sequence[tuple[int, int, int]]) -> list[Job]:
    merged: dict[tuple[int, int], Job] = {}
    for leaf, count, mask in demands:
        if count <= 0:
            continue
        kind = board.type_of[leaf]
        usable = mask & board.types[kind].usable
        job = merged.get((kind, usable))
        if job is None:
            caps = {node: fits for node in bits(usable) if (fits := board.capacity(kind, node))}
            job = merged[(kind, usable)] = Job(kind, usable, 0, [], caps)
        job.count += count
        job.leaves.append((leaf, count))
    return list(merged.values())


def _split(jobs: Sequence[Job], placed: Sequence[dict[int, int]]) -> Solution:
    """Deal the pods of merged jobs out to their pod sets, in order."""
    solution: Solution = {}
    for job, where in zip(jobs, placed, strict=True):
        stock = sorted(where.items())
        for leaf, count in job.leaves:
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


def _sums_suffice(board: Board, jobs: Sequence[Job]) -> bool:
    """A necessary condition: what all jobs ask of a resource is there on the nodes that any of them may use."""
    asked: dict[int, int] = {}
    usable = 0
    for job in jobs:
        usable |= job.mask
        for resource, amount in board.types[job.kind].request:
            asked[resource] = asked.get(resource, 0) + amount * job.count
    have = dict.fromkeys(asked, 0)
    for node in bits(usable):
        free = board.free[node]
        for resource in asked:
            if free[resource] > 0:
                have[resource] += free[resource]
    return all(have[resource] >= amount for resource, amount in asked.items())


def _hardness(board: Board, jobs: Sequence[Job]) -> list[int]:
    """Jobs hardest first: large pods, then few choices."""
    largest: dict[int, int] = {}
    for job in jobs:
        for node in job.caps:
            for resource, _ in board.types[job.kind].request:
                largest[resource] = max(largest.get(resource, 1), board.free[node][resource])

    def key(at: int) -> tuple[float, int, int]:
        job = jobs[at]
        size = max((amount / largest.get(r, 1) for r, amount in board.types[job.kind].request), default=0.0)
        return -size, sum(job.caps.values()) - job.count, at

    return sorted(range(len(jobs)), key=key)


def _orders(board: Board, jobs: Sequence[Job]) -> Iterator[list[int]]:
    """Orders worth a try: large pods first, those with the least to spare first, and by every resource."""
    seen = []
    resources = sorted({resource for job in jobs for resource, _ in board.types[job.kind].request})
    slack = [sum(job.caps.values()) - job.count for job in jobs]
    orders = [
        _hardness(board, jobs),
        sorted(range(len(jobs)), key=lambda at: (jobs[at].mask.bit_count(), slack[at], at)),
    ]
    for resource in resources:
        amounts = [-dict(board.types[job.kind].request).get(resource, 0) for job in jobs]
        keys = list(zip(amounts, slack, strict=True))
        orders.append(sorted(range(len(jobs)), key=keys.__getitem__))
    for order in orders:
        if order not in seen:
            seen.append(order)
            yield order


def _greedy(
    board: Board, jobs: Sequence[Job], order: list[int], ladder: Ladders, spread: bool
) -> list[dict[int, int]] | None:
    """One job after the other, best fit; None only says that this did not work."""
    placed: list[dict[int, int]] = [{} for _ in jobs]
    done: list[int] = []
    used = 0
    try:
        for at in order:
            job = jobs[at]
            caps = {node: fits for node in job.caps if (fits := board.capacity(job.kind, node))} if done else job.caps
            if sum(caps.values()) < job.count:
                return None
            placed[at] = fill(board, job.kind, job.mask, job.count, caps, ladder(job.leaves[0][0]), spread, used)
            for node, count in placed[at].items():
                board.take(job.kind, node, count)
                used |= 1 << node
            done.append(at)
        return placed
    finally:
        for at in done:
            for node, count in placed[at].items():
                board.take(jobs[at].kind, node, -count)


class _Fillings:
    """Depth-first over nodes, tight ones first; at each node only fillings to which no waiting pod could be added."""

    def __init__(self, board: Board, jobs: Sequence[Job], budget: Budget, patience: int | None) -> None:
        self.patience = patience
        self.board = board
        self.jobs = [jobs[at] for at in _hardness(board, jobs)]
        self.budget = budget
        self.given = list(jobs)
        resources = sorted({r for job in self.jobs for r, _ in board.types[job.kind].request})
        self.request = [
            [dict(board.types[job.kind].request).get(resource, 0) for resource in resources] for job in self.jobs
        ]
        nodes = sorted({node for job in self.jobs for node in job.caps})
        self.free = {node: [board.free[node][resource] for resource in resources] for node in nodes}
        self.nodes = sorted(nodes, key=lambda node: (self.free[node], self._users(node), node))
        self.values = [board.types[job.kind].values if board.types[job.kind].shared else () for job in self.jobs]
        self.dead: set[object] = set()
        self._make_suffixes(len(resources))

    def _users(self, node: int) -> tuple[int, ...]:
        return tuple(job.caps.get(node, 0) for job in self.jobs)

    def _make_suffixes(self, resources: int) -> None:
        caps = [0] * len(self.jobs)
        sums = [0] * resources
        self.caps_from = [tuple(caps)]
        self.sums_from = [tuple(sums)]
        for node in reversed(self.nodes):
            for at, job in enumerate(self.jobs):
                caps[at] += job.caps.get(node, 0)
            for resource in range(resources):
                sums[resource] += max(0, self.free[node][resource])
            self.caps_from.append(tuple(caps))
            self.sums_from.append(tuple(sums))
        self.caps_from.reverse()
        self.sums_from.reverse()

    def search(self) -> list[dict[int, int]] | None:
        waiting = tuple(job.count for job in self.jobs)
        used: frozenset[object] = frozenset()
        trail: list[tuple[tuple[int, ...], Iterator[tuple[int, ...]], frozenset[object]]] = []
        choice: list[tuple[int, ...]] = []
        trail.append((waiting, self._fillings(0, waiting, used), used))
        while trail:
            waiting, fillings, used = trail[-1]
            at = len(trail) - 1
            if not any(waiting):
                return self._read(choice)
            filling = next(fillings, None)
            if filling is None:
                self.dead.add((at, waiting, used))
                trail.pop()
                if choice:
                    choice.pop()
                continue
            left = tuple(w - f for w, f in zip(waiting, filling, strict=True))
            taken = self._with_values(used, self.nodes[at], filling)
            if not self._hopeful(at + 1, left, taken):
                continue
            choice.append(filling)
            trail.append((left, self._fillings(at + 1, left, taken), taken))
        return None

    def _hopeful(self, at: int, left: tuple[int, ...], used: frozenset[object]) -> bool:
        if any(want > have for want, have in zip(left, self.caps_from[at], strict=True)):
            return False
        for resource, have in enumerate(self.sums_from[at]):
            if sum(want * self.request[job][resource] for job, want in enumerate(left)) > have:
                return False
        return (at, left, used) not in self.dead

    def _with_values(self, used: frozenset[object], node: int, filling: tuple[int, ...]) -> frozenset[object]:
        fresh = [
            (job, key, by_node[node])
            for job, count in enumerate(filling)
            if count
            for key, by_node in enumerate(self.values[job])
            if node in by_node
        ]
        return used.union(fresh) if fresh else used

    def _fillings(self, at: int, waiting: tuple[int, ...], used: frozenset[object]) -> Iterator[tuple[int, ...]]:
        """What the node can take of the waiting pods, fullest first; only fillings to which nothing can be added."""
        if at == len(self.nodes):
            return
        node = self.nodes[at]
        limits = []
        for job, want in enumerate(waiting):
            here = min(want, self.jobs[job].caps.get(node, 0))
            if here and any((job, key, by.get(node)) in used for key, by in enumerate(self.values[job])):
                here = 0
            limits.append(here)
        yield from self._extend(0, limits, list(self.free[node]), set(), [])

    def _extend(
        self, job: int, limits: list[int], free: list[int], ports: set[int], taken: list[int]
    ) -> Iterator[tuple[int, ...]]:
        if job == len(limits):
            self.budget.spend()
            if self.patience is not None:
                self.patience -= 1
                if self.patience < 0:
                    raise Impatient
            if self._is_full(limits, free, ports, taken):
                yield tuple(taken)
            return
        most = limits[job]
        mine = self.board.types[self.jobs[job].kind].ports
        if most and mine & ports:
            most = 0
        for resource, amount in enumerate(self.request[job]):
            if amount and most:
                most = min(most, max(0, free[resource] // amount))
        least = most if job == len(limits) - 1 else 0
        for count in range(most, least - 1, -1):
            rest = [have - count * amount for have, amount in zip(free, self.request[job], strict=True)]
            yield from self._extend(job + 1, limits, rest, ports | mine if count else ports, [*taken, count])

    def _is_full(self, limits: list[int], free: list[int], ports: set[int], taken: list[int]) -> bool:
        for job, limit in enumerate(limits):
            if taken[job] >= limit or self.board.types[self.jobs[job].kind].ports & ports:
                continue
            if all(have >= amount for have, amount in zip(free, self.request[job], strict=True)):
                return False
        return True

    def _read(self, choice: list[tuple[int, ...]]) -> list[dict[int, int]]:
        found: dict[int, dict[int, int]] = {id(job): {} for job in self.jobs}
        for node, filling in zip(self.nodes, choice, strict=False):
            for job, count in zip(self.jobs, filling, strict=True):
                if count:
                    found[id(job)][node] = count
        return [found[id(job)] for job in self.given]
