"""New places for running pods that have to move: idle room where their gang keeps its requirements, ties and locality.

Never gives a pod room that is still releasing, and never lets a gang lose more of its score than allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spinney.core.inventory.filters import admits
from spinney.core.inventory.tiers import NOWHERE
from spinney.core.placement.budget import Budget
from spinney.core.placement.ground import Ground
from spinney.core.placement.holders import Held, Holder
from spinney.core.placement.parts import Invalid, Part, Parts, read_parts
from spinney.core.placement.scoring import score

if TYPE_CHECKING:
    from spinney.core.placement.engine import Engine

ROUNDING = 1e-9
NODES_PER_STEP = 16
"""Looking through the nodes for idle room costs a step for so many of them."""


class Mover(NamedTuple):
    """One pod that has to go somewhere else."""

    holder: Holder
    held: Held


@dataclass(slots=True)
class _Gang:
    """A gang that is moved: its parts, its members that stay, and what it scored."""

    parts: Parts
    stay: list[tuple[Part, int]]
    score: float


class Targets:
    """Finds places for movers; `wanting` is the gang for whose sake they move."""

    def __init__(self, engine: Engine, wanting: Parts, max_loss: float) -> None:
        self.engine = engine
        self.inventory = engine.inventory
        self.wanting = wanting
        self.max_loss = max_loss
        self._read: dict[str, Parts | None] = {}
        self._wanted: set[int] = set()

    def may_move(self, holder: Holder) -> bool:
        """A gang that contradicts itself, or already breaks its requirements, is left alone."""
        parts = self._parts(holder)
        return parts is not None and self._keeps_levels(parts, self._live(holder, parts))

    def find(self, movers: Sequence[Mover], ground: Ground, budget: Budget) -> list[int] | None:
        """A slot for every mover such that the wanting gang still fits.

        They are lifted from the ground already, and the ground has just found its solution without them.
        """
        self._wanted = {ground.board.slots[node] for where in ground.solution.values() for node in where}
        gangs = {mover.holder.gang.name: self._without(mover.holder, movers) for mover in movers}
        return self._assign(movers, gangs, ground, [], budget)

    def loss(self, movers: Sequence[Mover], slots: Sequence[int]) -> float:
        """What all moved gangs lose of their scores together."""
        gangs = {mover.holder.gang.name: self._without(mover.holder, movers) for mover in movers}
        return sum(gang.score - self._score_after(name, gang, movers, slots) for name, gang in gangs.items())

    def _assign(
        self, movers: Sequence[Mover], gangs: dict[str, _Gang], ground: Ground, slots: list[int], budget: Budget
    ) -> list[int] | None:
        if len(slots) == len(movers):
            return list(slots) if ground.fits(budget) else None
        mover = movers[len(slots)]
        gang = gangs[mover.holder.gang.name]
        is_last = len(slots) + 1 == len(movers) or movers[len(slots) + 1].holder is not mover.holder
        pods = mover.held.pods
        budget.spend(1 + len(self.inventory.slots()) // NODES_PER_STEP)
        for slot in self._candidates(mover, gang, movers, slots, ground):
            budget.spend()
            slots.append(slot)
            if not is_last or self._is_kept(mover.holder.gang.name, gang, movers, slots):
                with self.inventory.trial():
                    self.inventory.take(slot, pods.request, pods.host_ports)
                    inside = slot in ground.place
                    if inside:
                        ground.lift(slot, pods, -1)
                    try:
                        found = self._assign(movers, gangs, ground, slots, budget)
                    finally:
                        if inside:
                            ground.lift(slot, pods, 1)
                if found is not None:
                    return found
            slots.pop()
        return None

    # --- where a pod could go ---

    def _candidates(
        self, mover: Mover, gang: _Gang, movers: Sequence[Mover], slots: Sequence[int], ground: Ground
    ) -> Iterator[int]:
        """Nodes with idle room, those nobody waits for first, then tight ones; of nodes that look alike the first."""
        live = [*gang.stay, *self._moved(gang, movers, slots)]
        leaf = gang.parts.leaf(mover.held.path)
        inventory, pods = self.inventory, mover.held.pods
        asked = [resource for resource, amount in enumerate(pods.request) if amount]
        fitting = [
            slot
            for slot in inventory.slots()
            if inventory.home(slot) != inventory.home(mover.held.slot)
            and all(inventory.idle[slot][resource] >= pods.request[resource] for resource in asked)
            and admits(pods.filter, inventory.node(slot))
            and not pods.host_ports.intersection(inventory.ports(slot, waiting=False))
            and not any(
                pods.host_ports & other.held.pods.host_ports and inventory.home(other.held.slot) == inventory.home(slot)
                for other in movers
            )
            and self._may_join(gang.parts, leaf, live, slot)
        ]
        fitting.sort(key=lambda s: (s in self._wanted, [inventory.idle[s][r] for r in asked], inventory.name(s)))
        homes = {slot for _, slot in live}
        seen = set()
        for slot in fitting:
            look = self._look(slot, ground, homes, pods.anti_affinity)
            if look not in seen:
                seen.add(look)
                yield slot

    def _look(self, slot: int, ground: Ground, homes: set[int], keys: Sequence[str]) -> object:
        inventory, node = self.inventory, ground.place.get(slot)
        seats = [
            (name, depth, domain if tree.size(depth, domain) > 1 else -2)
            for name, tree in inventory.trees.items()
            for depth in range(1, len(tree.levels) + 1)
            if (domain := tree.domain_of(depth)[slot]) != NOWHERE
        ]
        usable = tuple(kind.usable >> node & 1 for kind in ground.board.types) if node is not None else ()
        labels = inventory.node(slot).labels
        values = tuple(labels.get(key) for key in keys)
        ports = frozenset(inventory.ports(slot, waiting=True))
        free = tuple(inventory.free(slot, True))
        alone = slot in homes or slot in inventory.divided
        return tuple(seats), usable, values, ports, free, slot in self._wanted, slot if alone else -1

    def _may_join(self, parts: Parts, leaf: Part, live: Sequence[tuple[Part, int]], slot: int) -> bool:
        """Beside the members that are placed for certain: every required domain, and nobody who wants to be apart."""
        for part in parts.above(leaf):
            if part.required is None:
                continue
            domain_of = self.inventory.trees[part.required.topology].domain_of(part.required.depth)
            if domain_of[slot] == NOWHERE:
                return False
            below = {one.index for one in parts.below(part)}
            if any(domain_of[other] != domain_of[slot] for one, other in live if one.index in below):
                return False
        assert leaf.pods is not None
        labels = self.inventory.node(slot).labels
        near = [self.inventory.node(other).labels for one, other in live if one is leaf]
        return not any(
            labels.get(key) is not None and labels.get(key) == other.get(key)
            for key in leaf.pods.anti_affinity
            for other in near
        )

    # --- what a gang keeps ---

    def _is_kept(self, name: str, gang: _Gang, movers: Sequence[Mover], slots: Sequence[int]) -> bool:
        live = [*gang.stay, *self._moved(gang, movers, slots)]
        if gang.score - score(gang.parts, self.inventory, live) > self.max_loss + ROUNDING:
            return False
        return self._keeps_levels(gang.parts, live) and self._keeps_ties(name, gang, [slot for _, slot in live])

    def _keeps_levels(self, parts: Parts, live: Sequence[tuple[Part, int]]) -> bool:
        for part in parts.all:
            if part.required is None:
                continue
            domain_of = self.inventory.trees[part.required.topology].domain_of(part.required.depth)
            below = {leaf.index for leaf in parts.below(part)}
            domains = {domain_of[slot] for leaf, slot in live if leaf.index in below}
            if len(domains) > 1 or NOWHERE in domains:
                return False
        return True

    def _keeps_ties(self, name: str, gang: _Gang, slots: list[int]) -> bool:
        """Its own tie, and the ties of others to it, the wanting gang's included."""
        standings = self.engine.standings
        tie = gang.parts.gang.tied_to
        if tie is not None and tie.gang in standings:
            base = [slot for _, slot in standings[tie.gang].live]
            if not self._share(gang.parts.gang.root.topology, tie.level, base + slots):
                return False
        for other in [*(standing.gang for standing in standings.values()), self.wanting.gang]:
            if other.tied_to is None or other.tied_to.gang != name:
                continue
            members = [slot for _, slot in standings[other.name].live] if other.name in standings else []
            if other.name == self.wanting.gang.name:
                members = members + [slot for _, slot in standings[name].live]
            if members and not self._share(other.root.topology, other.tied_to.level, members + slots):
                return False
        return True

    def _share(self, topology: str | None, level: str, slots: Sequence[int]) -> bool:
        tree = self.inventory.trees.get(topology or "")
        depth = tree.depth(level) if tree is not None else None
        if tree is None or depth is None:
            return True
        domains = {tree.domain_of(depth)[slot] for slot in slots}
        return len(domains) <= 1 and NOWHERE not in domains

    # --- members ---

    def _parts(self, holder: Holder) -> Parts | None:
        name = holder.gang.name
        if name not in self._read:
            try:
                self._read[name] = read_parts(holder.gang, self.engine.topologies)
            except Invalid:
                self._read[name] = None
        return self._read[name]

    def _live(self, holder: Holder, parts: Parts) -> list[tuple[Part, int]]:
        leaves = {leaf.path: leaf for leaf in parts.leaves}
        return [(leaves[path], slot) for path, slot in self.engine.standings[holder.gang.name].live]

    def _without(self, holder: Holder, movers: Sequence[Mover]) -> _Gang:
        parts = self._parts(holder)
        assert parts is not None
        live = self._live(holder, parts)
        going = Counter((mover.held.path, mover.held.slot) for mover in movers if mover.holder is holder)
        stay = []
        for leaf, slot in live:
            if going[leaf.path, slot] > 0:
                going[leaf.path, slot] -= 1
            else:
                stay.append((leaf, slot))
        return _Gang(parts, stay, score(parts, self.inventory, live))

    def _moved(self, gang: _Gang, movers: Sequence[Mover], slots: Sequence[int]) -> list[tuple[Part, int]]:
        name = gang.parts.gang.name
        return [
            (gang.parts.leaf(mover.held.path), slot)
            for mover, slot in zip(movers, slots, strict=False)
            if mover.holder.gang.name == name
        ]

    def _score_after(self, name: str, gang: _Gang, movers: Sequence[Mover], slots: Sequence[int]) -> float:
        assert name == gang.parts.gang.name
        return score(gang.parts, self.inventory, [*gang.stay, *self._moved(gang, movers, slots)])
