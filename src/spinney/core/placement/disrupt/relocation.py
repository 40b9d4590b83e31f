"""Target nodes for running pods that are moved: idle capacity where their gang keeps required levels, ties and score.

Never uses capacity that is still releasing, and never lets a gang lose more of its score than allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spinney.api.placement.problem import Consolidate
from spinney.core.inventory.filters import admits
from spinney.core.inventory.trees import NOWHERE
from spinney.core.placement.attempt import PlacementState
from spinney.core.placement.budget import StepBudget
from spinney.core.placement.disrupt.eviction_trial import EvictionTrial
from spinney.core.placement.gang.gang_tree import GangTree, Invalid, Part, read_gang_tree
from spinney.core.placement.gang.running_gangs import RunningGang, RunningPods
from spinney.core.placement.scoring import score

ROUNDING = 1e-9
NODES_PER_STEP = 16
"""Scanning the nodes for idle capacity costs one step per this number of nodes."""


class MovingPod(NamedTuple):
    """One running pod that is to be moved."""

    running_gang: RunningGang
    held: RunningPods


@dataclass(slots=True)
class _MovedGang:
    """A gang of which pods are moved: its parts, the members that stay, and its score before the moves."""

    parts: GangTree
    stay: list[tuple[Part, int]]
    score: float


class RelocationTargets:
    """Finds target nodes for moved pods; `wanting` is the gang for which capacity is made."""

    def __init__(self, engine: PlacementState, wanting: GangTree, limits: Consolidate) -> None:
        self.engine = engine
        self.inventory = engine.inventory
        self.wanting = wanting
        self.max_loss = limits.max_loss
        self._most_gpus = limits.max_gpus
        self._gpus = [at for at, name in enumerate(self.inventory.resources) if name.endswith("/gpu")]
        self._read: dict[str, GangTree | None] = {}
        self._wanted: set[int] = set()

    def may_move(self, running_gang: RunningGang) -> bool:
        """Whether pods of a gang may be moved: not if it is invalid or already violates its required levels.

        Nor where its pods have to be near each other or spread evenly.
        """
        parts = self._parts(running_gang)
        if parts is None or not parts.affinity.only_apart:
            return False
        return self._keeps_levels(parts, self._live(running_gang, parts))

    def are_few(self, moving_pods: Sequence[MovingPod]) -> bool:
        """Whether these pods hold no more GPUs than may be moved."""
        held = sum(pod.held.pods.request[at] for pod in moving_pods for at in self._gpus)
        return self._most_gpus is None or held <= self._most_gpus

    def find(self, moving_pods: Sequence[MovingPod], trial: EvictionTrial, budget: StepBudget) -> list[int] | None:
        """A target slot for every moved pod such that the pending gang still fits.

        The pods are already removed from the trial, and `trial.solution` is a placement of the pending gang without
        them.
        """
        self._wanted = {trial.space.slots[node] for where in trial.solution.values() for node in where}
        gangs = {
            moving_pod.running_gang.gang.name: self._without(moving_pod.running_gang, moving_pods)
            for moving_pod in moving_pods
        }
        return self._assign(moving_pods, gangs, trial, [], budget)

    def loss(self, moving_pods: Sequence[MovingPod], slots: Sequence[int]) -> float:
        """The sum of the score losses of all moved gangs."""
        gangs = {
            moving_pod.running_gang.gang.name: self._without(moving_pod.running_gang, moving_pods)
            for moving_pod in moving_pods
        }
        return sum(gang.score - self._score_after(name, gang, moving_pods, slots) for name, gang in gangs.items())

    def _assign(
        self,
        moving_pods: Sequence[MovingPod],
        gangs: dict[str, _MovedGang],
        trial: EvictionTrial,
        slots: list[int],
        budget: StepBudget,
    ) -> list[int] | None:
        if len(slots) == len(moving_pods):
            return list(slots) if trial.fits(budget) else None
        moving_pod = moving_pods[len(slots)]
        gang = gangs[moving_pod.running_gang.gang.name]
        is_last = (
            len(slots) + 1 == len(moving_pods)
            or moving_pods[len(slots) + 1].running_gang is not moving_pod.running_gang
        )
        pods = moving_pod.held.pods
        budget.spend(1 + len(self.inventory.slots()) // NODES_PER_STEP)
        for slot in self._candidates(moving_pod, gang, moving_pods, slots, trial):
            budget.spend()
            slots.append(slot)
            # The constraints of a gang are checked once all its moved pods have a target.
            if not is_last or self._is_kept(moving_pod.running_gang.gang.name, gang, moving_pods, slots):
                with self.inventory.trial():
                    self.inventory.take(slot, pods.request, pods.host_ports)
                    inside = slot in trial.place
                    if inside:
                        trial.lift(slot, pods, -1)
                    try:
                        found = self._assign(moving_pods, gangs, trial, slots, budget)
                    finally:
                        if inside:
                            trial.lift(slot, pods, 1)
                if found is not None:
                    return found
            slots.pop()
        return None

    # --- candidate nodes ---

    def _candidates(
        self,
        moving_pod: MovingPod,
        gang: _MovedGang,
        moving_pods: Sequence[MovingPod],
        slots: Sequence[int],
        trial: EvictionTrial,
    ) -> Iterator[int]:
        """Target nodes with idle capacity: those the pending gang does not use first, then by best fit.

        Of nodes in the same symmetry class only the first is tried.
        """
        live = [*gang.stay, *self._moved(gang, moving_pods, slots)]
        leaf = gang.parts.leaf(moving_pod.held.path)
        inventory, pods = self.inventory, moving_pod.held.pods
        asked = [resource for resource, amount in enumerate(pods.request) if amount]
        fitting = [
            slot
            for slot in inventory.slots()
            if inventory.home(slot) != inventory.home(moving_pod.held.slot)
            and all(inventory.idle[slot][resource] >= pods.request[resource] for resource in asked)
            and admits(pods.filter, inventory.node(slot))
            and not pods.host_ports.intersection(inventory.ports(slot, waiting=False))
            and not any(
                pods.host_ports & other.held.pods.host_ports and inventory.home(other.held.slot) == inventory.home(slot)
                for other in moving_pods
            )
            and self._may_join(gang.parts, leaf, live, slot)
        ]
        fitting.sort(key=lambda s: (s in self._wanted, [inventory.idle[s][r] for r in asked], inventory.name(s)))
        homes = {slot for _, slot in live}
        seen = set()
        for slot in fitting:
            symmetry_class = self._symmetry_class(slot, trial, homes, _keys(gang.parts, leaf))
            if symmetry_class not in seen:
                seen.add(symmetry_class)
                yield slot

    def _symmetry_class(self, slot: int, trial: EvictionTrial, homes: set[int], keys: Sequence[str]) -> object:
        inventory, node = self.inventory, trial.place.get(slot)
        domain_ids = [
            (name, depth, domain if tree.size(depth, domain) > 1 else -2)
            for name, tree in inventory.trees.items()
            for depth in range(1, len(tree.levels) + 1)
            if (domain := tree.domain_of(depth)[slot]) != NOWHERE
        ]
        usable = tuple(kind.usable >> node & 1 for kind in trial.space.types) if node is not None else ()
        labels = inventory.node(slot).labels
        values = tuple(labels.get(key) for key in keys)
        ports = frozenset(inventory.ports(slot, waiting=True))
        free = tuple(inventory.free(slot, True))
        alone = slot in homes or slot in inventory.divided
        return tuple(domain_ids), usable, values, ports, free, slot in self._wanted, slot if alone else -1

    def _may_join(self, parts: GangTree, leaf: Part, live: Sequence[tuple[Part, int]], slot: int) -> bool:
        """Whether a slot respects required domains and anti-affinity, given the members with fixed nodes."""
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
        return not any(
            labels.get(key) is not None and labels.get(key) == self.inventory.node(other).labels.get(key)
            for key in _keys(parts, leaf)
            for one, other in live
            if (one is leaf and key in leaf.pods.anti_affinity) or parts.affinity.keep_apart(key, leaf.index, one.index)
        )

    # --- constraints that must still hold ---

    def _is_kept(self, name: str, gang: _MovedGang, moving_pods: Sequence[MovingPod], slots: Sequence[int]) -> bool:
        live = [*gang.stay, *self._moved(gang, moving_pods, slots)]
        if gang.score - score(gang.parts, self.inventory, live) > self.max_loss + ROUNDING:
            return False
        return self._keeps_levels(gang.parts, live) and self._keeps_ties(name, gang, [slot for _, slot in live])

    def _keeps_levels(self, parts: GangTree, live: Sequence[tuple[Part, int]]) -> bool:
        for part in parts.all:
            if part.required is None:
                continue
            domain_of = self.inventory.trees[part.required.topology].domain_of(part.required.depth)
            below = {leaf.index for leaf in parts.below(part)}
            domains = {domain_of[slot] for leaf, slot in live if leaf.index in below}
            if len(domains) > 1 or NOWHERE in domains:
                return False
        return True

    def _keeps_ties(self, name: str, gang: _MovedGang, slots: list[int]) -> bool:
        """Whether the gang's own tie and the ties of other gangs to it hold, including that of the pending gang."""
        placed_gangs = self.engine.placed_gangs
        tie = gang.parts.gang.tied_to
        if tie is not None and tie.gang in placed_gangs:
            base = [slot for _, slot in placed_gangs[tie.gang].live]
            if not self._share(gang.parts.gang.root.topology, tie.level, base + slots):
                return False
        for other in [*(placed_gang.gang for placed_gang in placed_gangs.values()), self.wanting.gang]:
            if other.tied_to is None or other.tied_to.gang != name:
                continue
            members = [slot for _, slot in placed_gangs[other.name].live] if other.name in placed_gangs else []
            if other.name == self.wanting.gang.name:
                members = members + [slot for _, slot in placed_gangs[name].live]
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

    def _parts(self, running_gang: RunningGang) -> GangTree | None:
        name = running_gang.gang.name
        if name not in self._read:
            try:
                self._read[name] = read_gang_tree(running_gang.gang, self.engine.topologies)
            except Invalid:
                self._read[name] = None
        return self._read[name]

    def _live(self, running_gang: RunningGang, parts: GangTree) -> list[tuple[Part, int]]:
        leaves = {leaf.path: leaf for leaf in parts.leaves}
        return [(leaves[path], slot) for path, slot in self.engine.placed_gangs[running_gang.gang.name].live]

    def _without(self, running_gang: RunningGang, moving_pods: Sequence[MovingPod]) -> _MovedGang:
        parts = self._parts(running_gang)
        assert parts is not None
        live = self._live(running_gang, parts)
        going = Counter(
            (moving_pod.held.path, moving_pod.held.slot)
            for moving_pod in moving_pods
            if moving_pod.running_gang is running_gang
        )
        stay = []
        for leaf, slot in live:
            if going[leaf.path, slot] > 0:
                going[leaf.path, slot] -= 1
            else:
                stay.append((leaf, slot))
        return _MovedGang(parts, stay, score(parts, self.inventory, live))

    def _moved(
        self, gang: _MovedGang, moving_pods: Sequence[MovingPod], slots: Sequence[int]
    ) -> list[tuple[Part, int]]:
        name = gang.parts.gang.name
        return [
            (gang.parts.leaf(moving_pod.held.path), slot)
            for moving_pod, slot in zip(moving_pods, slots, strict=False)
            if moving_pod.running_gang.gang.name == name
        ]

    def _score_after(
        self, name: str, gang: _MovedGang, moving_pods: Sequence[MovingPod], slots: Sequence[int]
    ) -> float:
        assert name == gang.parts.gang.name
        return score(gang.parts, self.inventory, [*gang.stay, *self._moved(gang, moving_pods, slots)])


def _keys(parts: GangTree, leaf: Part) -> tuple[str, ...]:
    """The labels by which the pods of a set keep apart, from each other or from others of the gang."""
    assert leaf.pods is not None
    return tuple(dict.fromkeys((*leaf.pods.anti_affinity, *parts.affinity.apart)))
