"""Consolidation: the fewest moves of running pods after which a gang fits that otherwise fits nowhere.

Every moved pod finds idle room at once, and its gang keeps its requirements, its ties and, but for the configured loss,
its locality. Never moves a pod unless the gang fits afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING

import msgspec

from spinney.api.placement.problem import Consolidate, Running
from spinney.api.placement.result import Move
from spinney.core.placement.budget import Budget, Exhausted
from spinney.core.placement.clearing import Clearing
from spinney.core.placement.ground import Ground, grounds
from spinney.core.placement.holders import forget, holders, pod_sets, release
from spinney.core.placement.parts import Parts
from spinney.core.placement.targets import Mover, Targets

if TYPE_CHECKING:
    from spinney.core.placement.counting import Profile
    from spinney.core.placement.engine import Attempt, Engine


Found = tuple[list[Mover], list[int]]
"""Who moves, and to which slots."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Moves, sorted, what the moved gangs lose of their scores together, and whether fewer moves would not do."""

    moves: tuple[Move, ...]
    loss: float
    proved: bool


@dataclass(frozen=True, slots=True)
class Consolidation:
    """A placement on the room that moves leave, which are made in inventory and standings."""

    attempt: Attempt
    moves: tuple[Move, ...]
    proved: bool


def consolidate(
    engine: Engine, parts: Parts, asked: Profile, scope: list[int] | None, limits: Consolidate
) -> Consolidation | None:
    """Make the fewest moves and find the placement; None: it is proved that no allowed moves help.

    Raises Exhausted, everything as it was, when the budget ends before that is known.
    """
    shift = fewest_moves(engine, parts, scope, limits)
    if shift is None:
        return None
    inventory = engine.inventory
    mark = inventory.checkpoint()
    for move in shift.moves:
        pods = pod_sets(engine.standings[move.gang].gang)[move.pods]
        release(inventory, inventory.seat(move.source, move.source_zone), pods)
        inventory.take(inventory.seat(move.target, move.target_zone), pods.request, pods.host_ports)
    attempt = engine.attempt(parts, asked, scope, waiting=True)
    if attempt.found is None:
        inventory.rollback(mark)
        raise Exhausted
    inventory.commit(mark)
    for move in shift.moves:
        _resettle(engine, move)
    return Consolidation(attempt, shift.moves, shift.proved and attempt.found.proved)


def _resettle(engine: Engine, move: Move) -> None:
    """A member runs elsewhere from now on."""
    standing = engine.standings[move.gang]
    forget(engine.inventory, standing, Running(move.pods, move.source, move.source_zone))
    place = move.pods, engine.inventory.seat(move.target, move.target_zone)
    standing.live.append(place)
    standing.moved.append(place)
    running = (*standing.gang.running, Running(move.pods, move.target, move.target_zone))
    standing.gang = msgspec.structs.replace(standing.gang, running=running)


def fewest_moves(engine: Engine, parts: Parts, scope: Sequence[int] | None, limits: Consolidate) -> Shift | None:
    """Which pods would have to move where; nothing is changed. None and Exhausted as for `consolidate`."""
    targets = Targets(engine, parts, limits.max_loss)
    standings = [standing for name, standing in engine.standings.items() if name != parts.gang.name]
    movable = [holder for holder in holders(engine.inventory, standings) if targets.may_move(holder)]
    if not movable or limits.max_moves < 1:
        return None
    with engine.inventory.trial():
        shuffle = _Shuffle(list(grounds(engine.inventory, parts, scope, movable)), targets, engine.options.budget)
        return shuffle.run(limits.max_moves)


class _Shuffle:
    """The search over all domains, one more move at a time; where it takes too long, a guess."""

    def __init__(self, all_: list[Ground], targets: Targets, budget: int) -> None:
        self.grounds = all_
        self.targets = targets
        self.budget = Budget(budget)
        self.guessing = Budget(budget)

    def run(self, most: int) -> Shift | None:
        hopeful = [ground for ground in self.grounds if ground.fits_without(ground.holders, self.budget)]
        found, proved = None, True
        try:
            found = self._fewest(hopeful, most)
        except Exhausted:
            proved = False
            found = self._guessed(hopeful, most)
        proved = proved and all(ground.sure for ground in self.grounds)
        if found is not None:
            return self._shift(*found, proved)
        if not proved:
            raise Exhausted
        return None

    def _fewest(self, hopeful: list[Ground], most: int) -> Found | None:
        walks = [_Walk(ground, self.targets, self.budget) for ground in hopeful]
        for count in range(1, most + 1):
            for walk in walks:
                found = walk.search(count)
                if found is not None:
                    return found
        return None

    def _guessed(self, hopeful: list[Ground], most: int) -> Found | None:
        """The nodes that few pods stand on are cleared, and whoever can stay there is put back."""
        for ground in hopeful:
            clearing = Clearing(ground, self.guessing)
            try:
                movers = clearing.movers()
                slots = self.targets.find(movers, ground, self.guessing) if 0 < len(movers) <= most else None
            finally:
                clearing.put_back()
            if slots is not None:
                return movers, slots
        return None

    def _shift(self, movers: list[Mover], slots: list[int], proved: bool) -> Shift:
        inventory = self.targets.inventory
        moves = []
        for mover, slot in zip(movers, slots, strict=True):
            held, target = mover.held, inventory.node(slot).name
            moves.append(Move(mover.holder.gang.name, held.path, held.node, target, held.zone, inventory.zone(slot)))
        moves.sort(key=msgspec.structs.astuple)
        return Shift(tuple(moves), self.targets.loss(movers, slots), proved)


class _Walk:
    """Sets of pods in one ground in the order of their names."""

    def __init__(self, ground: Ground, targets: Targets, budget: Budget) -> None:
        self.ground = ground
        self.targets = targets
        self.budget = budget
        self.choices = [Mover(holder, held) for holder in ground.holders for held in holder.held]
        self.tops = [nlargest(64, self._gains(at)) for at in range(len(ground.rows))]
        self.movers: list[Mover] = []

    def search(self, count: int) -> Found | None:
        """So many moves, if they help."""
        return self._extend(0, count)

    def _extend(self, start: int, left: int) -> Found | None:
        if not left:
            return self._settle()
        for at in range(start, len(self.choices)):
            self.budget.spend()
            if not self._can_reach(left):
                return None
            mover = self.choices[at]
            for count in range(min(left, mover.held.count), 0, -1):
                found = self._with(mover, count, at + 1, left - count)
                if found is not None:
                    return found
        return None

    def _with(self, mover: Mover, count: int, start: int, left: int) -> Found | None:
        held, inside = mover.held, mover.held.slot in self.ground.place
        self.movers.extend([mover] * count)
        if inside:
            self.ground.lift(held.slot, held.pods, count)
        try:
            return self._extend(start, left)
        finally:
            if inside:
                self.ground.lift(held.slot, held.pods, -count)
            del self.movers[-count:]

    def _settle(self) -> Found | None:
        """The set is complete: is it enough, and does everybody find a place?"""
        if not self.ground.fits(self.budget):
            return None
        slots = self.targets.find(self.movers, self.ground, self.budget)
        return (list(self.movers), slots) if slots is not None else None

    def _can_reach(self, left: int) -> bool:
        for row, tops in zip(self.ground.rows, self.tops, strict=True):
            if row.want - row.hope > sum(tops[:left]) and left <= len(tops):
                return False
        return True

    def _gains(self, at: int) -> list[int]:
        ground = self.ground
        return [
            ground.gain_of_one(ground.rows[at], mover.held) if mover.held.slot in ground.place else 0
            for mover in self.choices
            for _ in range(mover.held.count)
        ]
