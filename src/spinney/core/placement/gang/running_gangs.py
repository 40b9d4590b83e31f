"""Gangs that have members: the pods they run and can lose, the domain they share with tied gangs, their evictions.

Only pods listed as running may be evicted or moved; pods placed or moved in this run may not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from spinney.api.placement.problem import Gang, Group, PodSet, Running
from spinney.api.placement.result import Victim
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import NOWHERE
from spinney.core.placement.gang.gang_tree import GangTree, Invalid


class UnsatisfiedTie(Exception):
    """The other gang has no single domain to share, or a running member is outside it."""

    def __init__(self, reason: str, level: str) -> None:
        super().__init__(reason)
        self.level = level


class Members(Protocol):
    live: list[tuple[str, int]]
    planned: list[int]


def tied_slots(parts: GangTree, inventory: Inventory, placed_gangs: Mapping[str, Members]) -> list[int] | None:
    """The slots of the shared domain; None: the gang is not tied."""
    tie = parts.gang.tied_to
    if tie is None:
        return None
    tree = inventory.trees.get(parts.gang.root.topology or "")
    depth = tree.depth(tie.level) if tree is not None else None
    if tree is None or depth is None:
        raise Invalid(
            f"tiedTo: level {tie.level} is not a level of the gang's own topology {parts.gang.root.topology}",
            "",
            tie.level,
        )
    placed_gang = placed_gangs.get(tie.gang)
    if placed_gang is None:
        raise UnsatisfiedTie(f"tied to gang {tie.gang}, which is not known", tie.level)
    if not placed_gang.live:
        raise UnsatisfiedTie(f"tied to gang {tie.gang}, which is not placed", tie.level)
    domains = {tree.domain_of(depth)[slot] for slot in (*(slot for _, slot in placed_gang.live), *placed_gang.planned)}
    if len(domains) > 1 or NOWHERE in domains:
        raise UnsatisfiedTie(f"tied to gang {tie.gang}, which is not in one domain of level {tie.level}", tie.level)
    domain = domains.pop()
    for member in parts.gang.running:
        if tree.domain_of(depth)[inventory.slot_for(member.node, member.zone)] != domain:
            where = "/".join(tree.path(depth, domain))
            raise UnsatisfiedTie(
                f"tied to gang {tie.gang} in {where}, but {member.pods} runs on {member.node} outside it", tie.level
            )
    return list(tree.members(depth, domain))


def is_beside(gang: Gang, inventory: Inventory, placed_gangs: Mapping[str, Members], slots: Iterable[int]) -> bool:
    """Whether all given slots are in domains, at the level of the gang's tie, that have members of the other gang."""
    tie = gang.tied_to
    tree = inventory.trees.get(gang.root.topology or "")
    depth = tree.depth(tie.level) if tie is not None and tree is not None else None
    if tie is None or tree is None or depth is None:
        return tie is None
    placed_gang, domain_of = placed_gangs.get(tie.gang), tree.domain_of(depth)
    theirs = {domain_of[slot] for _, slot in placed_gang.live} if placed_gang is not None else set()
    return {domain_of[slot] for slot in slots} <= theirs - {NOWHERE}


@dataclass(slots=True)
class PlacedGang:
    """A gang that has members: for each of them the path of its pod set and the slot of its node.

    Once it is `disturbed`, evictions and moves of this run are reflected in `gang.running`; `moved` are the members
    moved. `planned`: slots of members that are assigned to a node and not yet observed there.
    """

    gang: Gang
    live: list[tuple[str, int]] = field(default_factory=list)
    moved: list[tuple[str, int]] = field(default_factory=list)
    planned: list[int] = field(default_factory=list)
    disturbed: bool = False


@dataclass(slots=True, eq=False)
class RunningPods:
    """Equal running pods on one node (in one NUMA zone if the node is divided)."""

    path: str
    node: str
    zone: str
    slot: int
    pods: PodSet
    count: int = 0


@dataclass(slots=True, eq=False)
class RunningGang:
    """A gang with running pods; `held` is sorted by pod set and node, `live` counts its members per pod set."""

    gang: Gang
    held: list[RunningPods]
    live: Counter[str]
    _known_losses: dict[tuple[tuple[str, int], ...], bool] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(held.count for held in self.held)

    @property
    def can_be_evicted(self) -> bool:
        """Whether no member is left when its running pods are evicted."""
        return self.size == self.live.total()

    @property
    def victims(self) -> tuple[Victim, ...]:
        return tuple(self.victim(at) for at in self.held for _ in range(at.count))

    def victim(self, held: RunningPods) -> Victim:
        return Victim(self.gang.name, held.path, held.node, held.zone)

    def can_lose(self, gone: Mapping[str, int]) -> bool:
        """Whether the gang keeps its minimum without so many pods of each pod set; never true when no pod is left.

        Parts in `gang.short` count as unsatisfied. A gang that is below its minimum for that reason is judged by its
        pod counts alone: it only has to keep what it has complete.
        """
        key = tuple(sorted(gone.items()))
        known = self._known_losses.get(key)
        if known is None:
            left = {path: count - gone.get(path, 0) for path, count in self.live.items()}
            known = self._known_losses[key] = sum(left.values()) > 0 and is_satisfied(
                self.gang.root, left, short=self._short
            )
        return known

    @property
    def _short(self) -> frozenset[str]:
        """Parts that count as unsatisfied, if the gang satisfies its minimum without them."""
        short = self.gang.short
        return short if short and is_satisfied(self.gang.root, self.live, short=short) else frozenset()


def is_satisfied(
    group: Group, live: Mapping[str, int], prefix: str = "", *, short: frozenset[str] = frozenset()
) -> bool:
    """Whether enough children of a group have their minimum; parts in `short` never do, whatever pods they have."""
    if prefix.rstrip("/") in short:
        return False
    met = sum(live.get(path := prefix + pods.name, 0) >= pods.min and path not in short for pods in group.pods)
    met += sum(is_satisfied(kid, live, f"{prefix}{kid.name}/", short=short) for kid in group.groups)
    least = group.min_groups if group.min_groups is not None else len(group.groups) + len(group.pods)
    return met >= least


def running_gangs(inventory: Inventory, placed_gangs: Iterable[PlacedGang]) -> list[RunningGang]:
    """All preemptible gangs with pods that may be disturbed, by name."""
    found = []
    for placed_gang in placed_gangs:
        if placed_gang.gang.preemptible and placed_gang.gang.running:
            held = _running_pods(inventory, placed_gang)
            if held:
                found.append(RunningGang(placed_gang.gang, held, Counter(path for path, _ in placed_gang.live)))
    return sorted(found, key=lambda running_gang: running_gang.gang.name)


def _running_pods(inventory: Inventory, placed_gang: PlacedGang) -> list[RunningPods]:
    sets = pod_sets(placed_gang.gang)
    fixed = Counter(placed_gang.moved)
    by_place: dict[tuple[str, str, str], RunningPods] = {}
    for member in placed_gang.gang.running:
        slot = inventory.slot_for(member.node, member.zone)
        if fixed[member.pods, slot] > 0:
            fixed[member.pods, slot] -= 1
            continue
        place = member.pods, member.node, member.zone
        if place not in by_place:
            by_place[place] = RunningPods(*place, slot, sets[member.pods])
        by_place[place].count += 1
    return [by_place[place] for place in sorted(by_place)]


def pod_sets(gang: Gang) -> dict[str, PodSet]:
    """Every pod set by its path."""
    found: dict[str, PodSet] = {}
    stack = [(gang.root, "")]
    while stack:
        group, prefix = stack.pop()
        found.update((prefix + pods.name, pods) for pods in group.pods)
        stack.extend((kid, f"{prefix}{kid.name}/") for kid in group.groups)
    return found


def release(inventory: Inventory, slot: int, pods: PodSet, count: int = 1) -> None:
    """Mark running pods as terminating: their capacity and host ports become releasing."""
    inventory.give(slot, pods.request, pods.host_ports, count)
    inventory.take(slot, pods.request, pods.host_ports, count, releasing=True)


def forget(inventory: Inventory, placed_gang: PlacedGang, member: Running) -> None:
    """Remove a member that no longer runs there."""
    placed_gang.disturbed = True
    placed_gang.live.remove((member.pods, inventory.slot_for(member.node, member.zone)))
    running = list(placed_gang.gang.running)
    running.remove(member)
    placed_gang.gang = msgspec.structs.replace(placed_gang.gang, running=tuple(running))
