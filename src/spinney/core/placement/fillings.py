"""Filling nodes one by one: the exact part of packing, over the fillings to which nothing can be added.

Any solution can be turned into one of these, so finding none proves that there is none. Remembers what failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spinney.core.placement.board import Board
from spinney.core.placement.budget import Budget
from spinney.core.placement.shares import Share


@dataclass(slots=True)
class Job:
    """Equal pods with equal choices of nodes; `leaves` says for whom, in order."""

    kind: int
    mask: int
    count: int
    leaves: list[tuple[int, int]]
    caps: dict[int, int]


class Impatient(Exception):
    """The packing took more steps than it was given; whether it exists is not known."""


def hardness(board: Board, jobs: Sequence[Job]) -> list[int]:
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


class _Left(NamedTuple):
    """What the nodes filled so far leave to the others: values that are taken, and on a node with zones still to come
    what it has left and which ports are taken there."""

    values: frozenset[object] = frozenset()
    room: tuple[int, ...] | None = None
    ports: frozenset[int] = frozenset()


class Fillings:
    """Depth-first over nodes, tight ones first; at each node only fillings to which no waiting pod could be added.

    Zones that share a node stand side by side. What is added to one may be missing in the next, so every filling of
    them is tried; only together they must be so full that nothing can be added to any of them.
    """

    def __init__(self, board: Board, jobs: Sequence[Job], budget: Budget, patience: int | None) -> None:
        self.patience = patience
        self.board = board
        self.jobs = [jobs[at] for at in hardness(board, jobs)]
        self.budget = budget
        self.given = list(jobs)
        self.resources = sorted({r for job in self.jobs for r, _ in board.types[job.kind].request})
        self.request = [
            [dict(board.types[job.kind].request).get(resource, 0) for resource in self.resources] for job in self.jobs
        ]
        nodes = sorted({node for job in self.jobs for node in job.caps})
        self.free = {node: [board.free[node][resource] for resource in self.resources] for node in nodes}
        self.nodes = sorted(nodes, key=lambda node: (self.free[node], self._users(node), node))
        self.shares: dict[int, Share] = {}
        if board.shares:
            self._gather()
        self.values = [board.types[job.kind].values if board.types[job.kind].shared else () for job in self.jobs]
        self.dead: set[object] = set()
        self._make_suffixes(len(self.resources))

    def _gather(self) -> None:
        """Zones that share a node side by side, where the first of them stands."""
        known = {node: share for share in self.board.shares for node in share.own}
        kin = {node: [one for one in self.nodes if one in known[node].own] for node in self.nodes if node in known}
        self.shares = {node: known[node] for node in kin if len(kin[node]) > 1}
        self.nodes = list(dict.fromkeys(one for node in self.nodes for one in kin.get(node, [node])))

    def _users(self, node: int) -> tuple[int, ...]:
        return tuple(job.caps.get(node, 0) for job in self.jobs)

    def _make_suffixes(self, resources: int) -> None:
        """What the nodes from a position on hold, each job and each resource for itself."""
        caps = [0] * len(self.jobs)
        sums = [0] * resources
        self.caps_from = [tuple(caps)]
        self.sums_from = [tuple(sums)]
        for at in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[at]
            for job, asked in enumerate(self.jobs):
                caps[job] += asked.caps.get(node, 0)
            for resource in range(resources):
                sums[resource] += max(0, self.free[node][resource])
            if node in self.shares and not self._is_last(at):
                self._limit(at, caps, sums)
            self.caps_from.append(tuple(caps))
            self.sums_from.append(tuple(sums))
        self.caps_from.reverse()
        self.sums_from.reverse()

    def _limit(self, at: int, caps: list[int], sums: list[int]) -> None:
        """Zones give no more together than their node has."""
        share = self.shares[self.nodes[at]]
        last = next(position for position in range(at, len(self.nodes)) if self._is_last(position))
        known = len(self.nodes) - last - 1
        for job, asked in enumerate(self.jobs):
            kind = self.board.types[asked.kind]
            caps[job] = min(caps[job], self.caps_from[known][job] + share.holds(kind.request, kind.ports))
        for place, resource in enumerate(self.resources):
            sums[place] = min(sums[place], self.sums_from[known][place] + max(0, share.free[resource]))

    def _is_last(self, at: int) -> bool:
        """Whether no more zones of the node at a position follow."""
        share = self.shares.get(self.nodes[at])
        return share is None or at + 1 == len(self.nodes) or self.shares.get(self.nodes[at + 1]) is not share

    def search(self) -> list[dict[int, int]] | None:
        waiting = tuple(job.count for job in self.jobs)
        left = _Left()
        trail: list[tuple[tuple[int, ...], Iterator[tuple[int, ...]], _Left]] = []
        choice: list[tuple[int, ...]] = []
        trail.append((waiting, self._fillings(0, waiting, left), left))
        while trail:
            waiting, fillings, left = trail[-1]
            at = len(trail) - 1
            if not any(waiting):
                return self._read(choice)
            filling = next(fillings, None)
            if filling is None:
                self.dead.add((at, waiting, left))
                trail.pop()
                if choice:
                    choice.pop()
                continue
            still = tuple(w - f for w, f in zip(waiting, filling, strict=True))
            if self.shares and self._leaves_room(at, [*choice, filling], still):
                continue
            after = self._after(left, at, filling)
            if not self._hopeful(at + 1, still, after):
                continue
            choice.append(filling)
            trail.append((still, self._fillings(at + 1, still, after), after))
        return None

    def _hopeful(self, at: int, waiting: tuple[int, ...], left: _Left) -> bool:
        if any(want > have for want, have in zip(waiting, self.caps_from[at], strict=True)):
            return False
        for resource, have in enumerate(self.sums_from[at]):
            if sum(want * self.request[job][resource] for job, want in enumerate(waiting)) > have:
                return False
        return (at, waiting, left) not in self.dead

    def _after(self, left: _Left, at: int, filling: tuple[int, ...]) -> _Left:
        node = self.nodes[at]
        fresh = [
            (job, key, by_node[node])
            for job, count in enumerate(filling)
            if count
            for key, by_node in enumerate(self.values[job])
            if node in by_node
        ]
        if not fresh and not self.shares:
            return left
        values = left.values.union(fresh) if fresh else left.values
        if self._is_last(at):
            return _Left(values)
        room = list(self._room(node, left))
        ports = set(left.ports)
        for job, count in enumerate(filling):
            for resource, amount in enumerate(self.request[job]):
                room[resource] -= amount * count
            if count:
                ports |= self.board.types[self.jobs[job].kind].ports
        return _Left(values, tuple(room), frozenset(ports))

    def _leaves_room(self, at: int, choice: Sequence[tuple[int, ...]], waiting: tuple[int, ...]) -> bool:
        """Whether a waiting pod could be added to zones of the node that ends here: then it may as well be there."""
        share = self.shares.get(self.nodes[at])
        if share is None or not self._is_last(at):
            return False
        zones = [position for position in range(at + 1) if self.shares.get(self.nodes[position]) is share]
        room = self._rest(share.free, [choice[position] for position in zones])
        taken = {port for position in zones for port in self._opened(choice[position])}
        for position in zones[:-1]:
            own = self._rest(share.own[self.nodes[position]], [choice[position]])
            for job, want in enumerate(waiting):
                if not want or self.values[job] or not self.jobs[job].caps.get(self.nodes[position]):
                    continue
                if self.board.types[self.jobs[job].kind].ports & taken:
                    continue
                if all(need <= min(*left) for need, *left in zip(self.request[job], own, room, strict=True) if need):
                    return True
        return False

    def _rest(self, free: Sequence[int], fillings: Sequence[tuple[int, ...]]) -> list[int]:
        """What fillings leave of a row."""
        rest = [free[resource] for resource in self.resources]
        for filling in fillings:
            for job, count in enumerate(filling):
                if count:
                    rest = [have - count * amount for have, amount in zip(rest, self.request[job], strict=True)]
        return rest

    def _opened(self, filling: tuple[int, ...]) -> Iterator[int]:
        for job, count in enumerate(filling):
            if count:
                yield from self.board.types[self.jobs[job].kind].ports

    def _room(self, node: int, left: _Left) -> Sequence[int]:
        """What the node that a zone is a part of has left."""
        if left.room is not None:
            return left.room
        return [self.shares[node].free[resource] for resource in self.resources]

    def _fillings(self, at: int, waiting: tuple[int, ...], left: _Left) -> Iterator[tuple[int, ...]]:
        """What the node can take of the waiting pods, fullest first; only fillings to which nothing can be added."""
        if at == len(self.nodes):
            return
        node = self.nodes[at]
        limits = []
        for job, want in enumerate(waiting):
            here = min(want, self.jobs[job].caps.get(node, 0))
            if here and any((job, key, by.get(node)) in left.values for key, by in enumerate(self.values[job])):
                here = 0
            limits.append(here)
        free = list(self.free[node])
        if node in self.shares:
            free = list(map(min, free, self._room(node, left)))
        yield from self._extend(0, limits, free, set(left.ports), [], self._is_last(at))

    def _extend(
        self, job: int, limits: list[int], free: list[int], ports: set[int], taken: list[int], only_full: bool
    ) -> Iterator[tuple[int, ...]]:
        if job == len(limits):
            self.budget.spend()
            if self.patience is not None:
                self.patience -= 1
                if self.patience < 0:
                    raise Impatient
            if not only_full or self._is_full(limits, free, ports, taken):
                yield tuple(taken)
            return
        most = limits[job]
        mine = self.board.types[self.jobs[job].kind].ports
        if most and mine & ports:
            most = 0
        for resource, amount in enumerate(self.request[job]):
            if amount and most:
                most = min(most, max(0, free[resource] // amount))
        least = most if only_full and job == len(limits) - 1 else 0
        for count in range(most, least - 1, -1):
            rest = [have - count * amount for have, amount in zip(free, self.request[job], strict=True)]
            yield from self._extend(job + 1, limits, rest, ports | mine if count else ports, [*taken, count], only_full)

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
