"""What one search for a placement gives, and what preemption, consolidation and explanations use of the engine.

They ask for further attempts on capacity that they free up; the engine decides when they are asked. This module is what
both sides share, so that neither imports the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spinney.api.placement.problem import Options, Topology
from spinney.api.placement.result import Decision, Placement
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.budget import StepBudget
from spinney.core.placement.disrupt.victim_rules import VictimRules
from spinney.core.placement.fit.counting import Profile
from spinney.core.placement.fit.fast_path import FastPath
from spinney.core.placement.gang.gang_tree import ChosenChildren, GangTree
from spinney.core.placement.gang.running_gangs import PlacedGang
from spinney.core.placement.search.preferences import RankedPlacement
from spinney.core.placement.search.search_space import SearchSpace, Solution


@dataclass(frozen=True, slots=True)
class SetDecision:
    """A decision, and where the minimums of the followers that fit beside it could go, by gang."""

    decision: Decision
    followers: Mapping[str, tuple[Placement, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class SearchResult:
    """The result of a search: a placement, a proof that there is none, or neither (`exhausted`)."""

    space: SearchSpace | None = None
    mask: int = 0
    found: RankedPlacement | None = None
    children: ChosenChildren = field(default_factory=dict)
    exhausted: bool = False


class PlacementState(Protocol):
    """The inventory and the gangs on it, and a search on what is free now. `Engine` is the only implementation."""

    inventory: Inventory
    topologies: Mapping[str, Topology]
    options: Options
    placed_gangs: dict[str, PlacedGang]
    fast_path: FastPath
    victim_rules: VictimRules | None

    def attempt(
        self,
        parts: GangTree,
        asked: Profile,
        scope: list[int] | None,
        waiting: bool,
        budget: StepBudget | None = None,
    ) -> SearchResult:
        """The best placement of the minimum on idle capacity, or with `waiting` on idle and releasing capacity."""


def needs_releasing(space: SearchSpace, solution: Solution) -> bool:
    """Whether a placement uses capacity or host ports that terminating pods still hold."""
    asked: dict[int, set[int]] = {}
    for leaf, where in solution.items():
        resources = {resource for resource, _ in space.types[space.type_of[leaf]].request}
        for node in where:
            asked.setdefault(node, set()).update(resources)
    with space.inventory.trial():
        take_solution(space, solution)
        if any(space.inventory.idle[space.slots[node]][r] < 0 for node, resources in asked.items() for r in resources):
            return True
    return any(
        asked.ports & _leaving_ports(space, node)
        for asked, where in ((space.types[space.type_of[leaf]], where) for leaf, where in solution.items())
        for node in where
    )


def take_solution(space: SearchSpace, solution: Solution) -> None:
    """Take the capacity of a solution from the inventory."""
    for leaf, where in solution.items():
        pods = space.parts.all[leaf].pods
        assert pods is not None
        for node, count in sorted(where.items()):
            space.inventory.take(space.slots[node], pods.request, pods.host_ports, count)


def _leaving_ports(space: SearchSpace, node: int) -> set[int]:
    slot = space.slots[node]
    return set(space.inventory.ports(slot, False)) - set(space.inventory.ports(slot, True))
