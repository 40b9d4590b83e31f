"""Exact packing: pods of several types onto nodes, each type with the nodes it may use.

Answers a solution or None, and None only when there is none. Greedy first, then a search node by node over the fillings
to which nothing can be added (any solution can be turned into one of these), remembering what failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from spinney.core.placement.board import Board, Solution, bits
from spinney.core.placement.budget import Budget
from spinney.core.placement.filling import Ladder, fill
from spinney.core.placement.fillings import Fillings, Job, hardness

Ladders = Callable[[int], Ladder]
"""For a pod set (index of its part) how its pods go down its topology."""


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
    if any(sum(board.usable_at_once(job.kind, job.caps).values()) < job.count for job in jobs):
        return None
    shared = any(board.types[job.kind].shared for job in jobs)
    if len(jobs) == 1 and not shared:
        job = jobs[0]
        caps = board.usable_at_once(job.kind, job.caps)
        return _split(jobs, [fill(board, job.kind, job.mask, job.count, caps, ladder(job.leaves[0][0]), spread)])
    if not _sums_suffice(board, jobs):
        return None
    if not shared:
        for order in _orders(board, jobs):
            greedy = _greedy(board, jobs, order, ladder, spread)
            if greedy is not None:
                return _split(jobs, greedy)
    found = Fillings(board, jobs, budget, patience).search()
    return _split(jobs, found) if found is not None else None


def _jobs(board: Board, demands: Sequence[tuple[int, int, int]]) -> list[Job]:
    """Demands of one kind and the same nodes together; nodes without room make no difference."""
    known: dict[tuple[int, int], tuple[int, dict[int, int]]] = {}
    merged: dict[tuple[int, int], Job] = {}
    for leaf, count, mask in demands:
        if count <= 0:
            continue
        kind = board.type_of[leaf]
        usable = mask & board.types[kind].usable
        if (kind, usable) not in known:
            caps = {node: fits for node in bits(usable) if (fits := board.capacity(kind, node))}
            known[kind, usable] = sum([1 << node for node in caps]), caps
        open_to, caps = known[kind, usable]
        job = merged.get((kind, open_to))
        if job is None:
            job = merged[kind, open_to] = Job(kind, open_to, 0, [], caps)
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


def _orders(board: Board, jobs: Sequence[Job]) -> Iterator[list[int]]:
    """Orders worth a try: large pods first, those with the least to spare first, and by every resource."""
    seen = []
    resources = sorted({resource for job in jobs for resource, _ in board.types[job.kind].request})
    slack = [sum(job.caps.values()) - job.count for job in jobs]
    orders = [
        hardness(board, jobs),
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
            at_once = board.usable_at_once(job.kind, caps)
            if sum(at_once.values()) < job.count:
                return None
            placed[at] = fill(board, job.kind, job.mask, job.count, at_once, ladder(job.leaves[0][0]), spread, used)
            for node, count in placed[at].items():
                board.take(job.kind, node, count)
                used |= 1 << node
            done.append(at)
        return placed
    finally:
        for at in done:
            for node, count in placed[at].items():
                board.take(jobs[at].kind, node, -count)
