"""Consolidation: the fewest moves of running pods after which a gang fits that otherwise fits nowhere.

Every moved pod finds idle capacity at once, and its gang keeps its required levels, its ties and, except for the
configured loss, its topology score. If the exact search exceeds its budget, clearing lightly used nodes yields a small
set of moves instead. Never moves a pod unless the gang fits afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest

import msgspec

from spinney.api.placement.problem import Consolidate, Gang, Group, PodSet, Running
from spinney.api.placement.result import Move
from spinney.core.inventory.counts import Shape
from spinney.core.placement.attempt import PlacementState, SearchResult
from spinney.core.placement.budget import Exhausted, StepBudget
from spinney.core.placement.disrupt.eviction_trial import EvictionTrial, eviction_trials
from spinney.core.placement.disrupt.relocation import MovingPod, RelocationTargets
from spinney.core.placement.fit.counting import Profile
from spinney.core.placement.gang.gang_tree import GangTree, read_gang_tree
from spinney.core.placement.gang.running_gangs import forget, pod_sets, release, running_gangs


class NodeClearing:
    """Heuristic choice of pods to move: clears lightly used nodes of a domain, then keeps every pod that may stay.

    Removes pods from the trial; the caller must restore them with `put_back`.
    """

    def __init__(self, trial: EvictionTrial, budget: StepBudget) -> None:
        self.trial = trial
        self.budget = budget
        self.choices = [
            MovingPod(running_gang, held)
            for running_gang in trial.running_gangs
            for held in trial.held[id(running_gang)]
        ]
        self.lifted: Counter[int] = Counter()
        self.on_slot: dict[int, list[int]] = {}
        for at, moving_pod in enumerate(self.choices):
            self.on_slot.setdefault(moving_pod.held.slot, []).append(at)

    def moving_pods(self) -> list[MovingPod]:
        """Pods without which the gang fits and none of which can stay, left removed; empty if it never fits."""
        name = self.trial.inventory.name
        slots = sorted(self.on_slot, key=lambda slot: (self._pods_on(slot), name(slot)))
        # Binary search for the smallest number of nodes, lightly used ones first, that must be cleared.
        low, high = 1, len(slots)
        while low < high:
            middle = (low + high) // 2
            self._lift_only(set(slots[:middle]))
            if self.trial.fits(self.budget):
                high = middle
            else:
                low = middle + 1
        self._lift_only(set(slots[:low]))
        if not self.trial.fits(self.budget):
            return []
        self._keep_nodes(slots[low - 1 :: -1])
        self._keep_pods()
        return [moving_pod for at, moving_pod in enumerate(self.choices) for _ in range(self.lifted[at])]

    def _pods_on(self, slot: int) -> int:
        return sum(self.choices[at].held.count for at in self.on_slot[slot])

    def put_back(self) -> None:
        self._lift_only(set())

    def _lift_only(self, slots: set[int]) -> None:
        for at, moving_pod in enumerate(self.choices):
            self._set(at, moving_pod.held.count if moving_pod.held.slot in slots else 0)

    def _set(self, at: int, count: int) -> None:
        held = self.choices[at].held
        if count != self.lifted[at]:
            self.trial.lift(held.slot, held.pods, count - self.lifted[at])
            self.lifted[at] = count

    def _keep_nodes(self, slots: Sequence[int]) -> None:
        """Restore the pods of many nodes at once where the gang still fits, the fullest first (recursive bisection)."""
        if not self._lift_on(slots, 0) or self.trial.fits(self.budget):
            return
        self._lift_on(slots, 1)
        if len(slots) > 1:
            half = len(slots) // 2
            self._keep_nodes(slots[:half])
            self._keep_nodes(slots[half:])

    def _lift_on(self, slots: Sequence[int], times: int) -> bool:
        """Remove all pods from these nodes (`times` 1) or restore them (`times` 0); whether anything changed."""
        before = self.lifted.total()
        for slot in slots:
            for at in self.on_slot[slot]:
                self._set(at, times * self.choices[at].held.count)
        return before != self.lifted.total()

    def _keep_pods(self) -> None:
        for at in range(len(self.choices)):
            while self.lifted[at]:
                self._set(at, self.lifted[at] - 1)
                if not self.trial.fits(self.budget):
                    self._set(at, self.lifted[at] + 1)
                    break


Relocation = tuple[list[MovingPod], list[int]]
"""The pods that move, and for each of them its target slot."""


@dataclass(frozen=True, slots=True)
class MoveSet:
    """Moves, sorted; the sum of the gangs' score losses; and whether it is proved that fewer moves do not suffice."""

    moves: tuple[Move, ...]
    loss: float
    proved: bool


@dataclass(frozen=True, slots=True)
class Consolidation:
    """A placement on the capacity that moves free up; inventory and placed gangs already reflect the moves."""

    attempt: SearchResult
    moves: tuple[Move, ...]
    proved: bool


def consolidate(
    engine: PlacementState, parts: GangTree, asked: Profile, scope: list[int] | None, limits: Consolidate
) -> Consolidation | None:
    """Apply the fewest moves and find the placement; None: it is proved that no allowed moves help.

    Raises Exhausted, with nothing changed, when the budget ends before that is known.
    """
    move_set = fewest_moves(engine, parts, scope, limits)
    if move_set is None:
        return None
    inventory = engine.inventory
    mark = inventory.checkpoint()
    for move in move_set.moves:
        pods = pod_sets(engine.placed_gangs[move.gang].gang)[move.pods]
        release(inventory, inventory.slot_for(move.source, move.source_zone), pods)
        inventory.take(inventory.slot_for(move.target, move.target_zone), pods.request, pods.host_ports)
    attempt = engine.attempt(parts, asked, scope, waiting=True)
    # The trial found a placement after these moves, so this search can only have run out of budget.
    if attempt.found is None:
        inventory.rollback(mark)
        raise Exhausted
    inventory.commit(mark)
    for move in move_set.moves:
        _record_move(engine, move)
    return Consolidation(attempt, move_set.moves, move_set.proved and attempt.found.proved)


def _record_move(engine: PlacementState, move: Move) -> None:
    """Record that a member now runs on the target node."""
    placed_gang = engine.placed_gangs[move.gang]
    forget(engine.inventory, placed_gang, Running(move.pods, move.source, move.source_zone))
    place = move.pods, engine.inventory.slot_for(move.target, move.target_zone)
    placed_gang.live.append(place)
    placed_gang.moved.append(place)
    running = (*placed_gang.gang.running, Running(move.pods, move.target, move.target_zone))
    placed_gang.gang = msgspec.structs.replace(placed_gang.gang, running=running)


def fewest_moves(
    engine: PlacementState, parts: GangTree, scope: Sequence[int] | None, limits: Consolidate
) -> MoveSet | None:
    """Which pods would have to move where, without moving them. None and Exhausted as for `consolidate`."""
    targets = RelocationTargets(engine, parts, limits)
    placed_gangs = [placed_gang for name, placed_gang in engine.placed_gangs.items() if name != parts.gang.name]
    movable = [
        running_gang for running_gang in running_gangs(engine.inventory, placed_gangs) if targets.may_move(running_gang)
    ]
    if not movable or limits.max_moves < 1:
        return None
    with engine.inventory.trial():
        move_search = _MoveSearch(
            list(eviction_trials(engine.inventory, parts, scope, movable)),
            targets,
            engine.options.budget if limits.budget is None else limits.budget,
        )
        return move_search.run(limits.max_moves)


class _MoveSearch:
    """The exact search over all domains, one more move per round; a heuristic where it exceeds its budget."""

    def __init__(self, all_: list[EvictionTrial], targets: RelocationTargets, budget: int) -> None:
        self.eviction_trials = all_
        self.targets = targets
        self.budget = StepBudget(budget)
        self.heuristic_budget = StepBudget(budget)

    def run(self, most: int) -> MoveSet | None:
        promising = [trial for trial in self.eviction_trials if trial.fits_without(trial.running_gangs, self.budget)]
        found, proved = None, True
        try:
            found = self._fewest(promising, most)
        except Exhausted:
            proved = False
            found = self._heuristic(promising, most)
        proved = proved and all(trial.sure for trial in self.eviction_trials)
        if found is not None:
            return self._move_set(*found, proved)
        if not proved:
            raise Exhausted
        return None

    def _fewest(self, promising: list[EvictionTrial], most: int) -> Relocation | None:
        walks = [_DomainWalk(trial, self.targets, self.budget) for trial in promising]
        for count in range(1, most + 1):
            for walk in walks:
                found = walk.search(count)
                if found is not None:
                    return found
        return None

    def _heuristic(self, promising: list[EvictionTrial], most: int) -> Relocation | None:
        """Clear the nodes with the fewest pods and keep every pod that can stay."""
        for trial in promising:
            node_clearing = NodeClearing(trial, self.heuristic_budget)
            try:
                moving_pods = node_clearing.moving_pods()
                slots = (
                    self.targets.find(moving_pods, trial, self.heuristic_budget)
                    if 0 < len(moving_pods) <= most and self.targets.are_few(moving_pods)
                    else None
                )
            finally:
                node_clearing.put_back()
            if slots is not None:
                return moving_pods, slots
        return None

    def _move_set(self, moving_pods: list[MovingPod], slots: list[int], proved: bool) -> MoveSet:
        inventory = self.targets.inventory
        moves = []
        for moving_pod, slot in zip(moving_pods, slots, strict=True):
            held, target = moving_pod.held, inventory.node(slot).name
            moves.append(
                Move(moving_pod.running_gang.gang.name, held.path, held.node, target, held.zone, inventory.zone(slot))
            )
        moves.sort(key=msgspec.structs.astuple)
        return MoveSet(tuple(moves), self.targets.loss(moving_pods, slots), proved)


class _DomainWalk:
    """Enumerates sets of pods to move in one trial domain, in the order of their names."""

    def __init__(self, trial: EvictionTrial, targets: RelocationTargets, budget: StepBudget) -> None:
        self.trial = trial
        self.targets = targets
        self.budget = budget
        self.choices = [
            MovingPod(running_gang, held) for running_gang in trial.running_gangs for held in running_gang.held
        ]
        self.tops = [nlargest(64, self._gains(at)) for at in range(len(trial.rows))]
        self.moving_pods: list[MovingPod] = []

    def search(self, count: int) -> Relocation | None:
        """The first set of exactly `count` moves after which the gang fits."""
        return self._extend(0, count)

    def _extend(self, start: int, left: int) -> Relocation | None:
        if not left:
            return self._complete()
        for at in range(start, len(self.choices)):
            self.budget.spend()
            if not self._can_reach(left):
                return None
            moving_pod = self.choices[at]
            for count in range(min(left, moving_pod.held.count), 0, -1):
                found = self._with(moving_pod, count, at + 1, left - count)
                if found is not None:
                    return found
        return None

    def _with(self, moving_pod: MovingPod, count: int, start: int, left: int) -> Relocation | None:
        held, inside = moving_pod.held, moving_pod.held.slot in self.trial.place
        self.moving_pods.extend([moving_pod] * count)
        if inside:
            self.trial.lift(held.slot, held.pods, count)
        try:
            return self._extend(start, left)
        finally:
            if inside:
                self.trial.lift(held.slot, held.pods, -count)
            del self.moving_pods[-count:]

    def _complete(self) -> Relocation | None:
        """Check a complete set: does the gang fit, and does every moved pod have a target node?"""
        if not self.targets.are_few(self.moving_pods) or not self.trial.fits(self.budget):
            return None
        slots = self.targets.find(self.moving_pods, self.trial, self.budget)
        return (list(self.moving_pods), slots) if slots is not None else None

    def _can_reach(self, left: int) -> bool:
        for row, tops in zip(self.trial.rows, self.tops, strict=True):
            if row.want - row.hope > sum(tops[:left]) and left <= len(tops):
                return False
        return True

    def _gains(self, at: int) -> list[int]:
        trial = self.trial
        return [
            trial.gain_of_one(trial.rows[at], moving_pod.held) if moving_pod.held.slot in trial.place else 0
            for moving_pod in self.choices
            for _ in range(moving_pod.held.count)
        ]


@dataclass(frozen=True, slots=True)
class LargerGang:
    """After these moves `count` pods fit into one domain; `loss` is the sum of the score losses of the moved gangs."""

    count: int
    moves: tuple[Move, ...]
    loss: float


@dataclass(frozen=True, slots=True)
class LargestPlaceable:
    """How many pods fit into one domain now, and the moves for more; `proved`: no further count is possible."""

    count: int
    raises: tuple[LargerGang, ...]
    proved: bool


def largest_placeable(
    engine: PlacementState, pods: PodSet, topology: str, level: str, limits: Consolidate
) -> LargestPlaceable:
    """The largest number of equal pods that fits into one domain of a level, and the cheapest moves for larger numbers.

    Counts idle and releasing capacity. A step that needs no more moves than the one before replaces it.
    """
    tree = engine.inventory.trees[topology]
    depth = tree.depth(level)
    if depth is None:
        raise KeyError(f"level {level} is not a level of topology {topology}")
    shape = Shape(pods.request, pods.filter, pods.host_ports)
    held = engine.inventory.counts(shape, waiting=True).at(topology, depth)
    now = int(held.max()) if len(held) else 0
    raises: list[LargerGang] = []
    try:
        count = now + 1
        while (step := _raised(engine, pods, topology, level, count, limits)) is not None:
            if raises and len(raises[-1].moves) >= len(step.moves):
                raises.pop()
            raises.append(step)
            count += 1
    except Exhausted:
        return LargestPlaceable(now, tuple(raises), proved=False)
    return LargestPlaceable(now, tuple(raises), proved=True)


def _raised(
    engine: PlacementState, pods: PodSet, topology: str, level: str, count: int, limits: Consolidate
) -> LargerGang | None:
    wanted = msgspec.structs.replace(pods, count=count, min=count, topology=None, required=None, preferred=None)
    root = Group("", pods=(wanted,), topology=topology, required=level)
    shift = fewest_moves(engine, read_gang_tree(Gang("", root), engine.topologies), None, limits)
    return LargerGang(count, shift.moves, shift.loss) if shift is not None else None
