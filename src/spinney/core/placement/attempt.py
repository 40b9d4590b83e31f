"""What one search for a placement gives, and what preemption, consolidation and explanations use of the engine.

They ask for further attempts on capacity that they free up; the engine decides when they are asked. This module is what
both sides share, so that neither imports the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spinney.api.placement.problem import Options, Topology
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.disrupt.victim_rules import VictimRules
from spinney.core.placement.fit.counting import Profile
from spinney.core.placement.fit.fast_path import FastPath
from spinney.core.placement.gang.gang_tree import ChosenChildren, GangTree
from spinney.core.placement.gang.running_gangs import PlacedGang
from spinney.core.placement.search.preferences import RankedPlacement
from spinney.core.placement.search.search_space import SearchSpace


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

    def attempt(self, parts: GangTree, asked: Profile, scope: list[int] | None, waiting: bool) -> SearchResult:
        """The best placement of the minimum on idle capacity, or with `waiting` on idle and releasing capacity."""
