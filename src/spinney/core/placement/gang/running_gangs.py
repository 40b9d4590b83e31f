"""Running gangs: the pods they have, how many of them they can lose, and the bookkeeping of evictions and moves.

Only pods listed as running may be evicted or moved; pods placed or moved in this run may not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from spinney.api.placement.problem import Gang, Group, PodSet, Running
from spinney.api.placement.result import Victim
from spinney.core.inventory.inventory import Inventory

if TYPE_CHECKING:
    from spinney.core.placement.engine import PlacedGang


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
        slot = inventory.seat(member.node, member.zone)
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
    placed_gang.live.remove((member.pods, inventory.seat(member.node, member.zone)))
    running = list(placed_gang.gang.running)
    running.remove(member)
    placed_gang.gang = msgspec.structs.replace(placed_gang.gang, running=tuple(running))
