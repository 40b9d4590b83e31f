"""What the scheduler was told at its start."""

from __future__ import annotations

from dataclasses import dataclass

from spinney.api.labels import SCHEDULER_KAI
from spinney.api.placement.problem import DEFAULT_BUDGET


@dataclass(frozen=True, slots=True)
class Settings:
    """`names`: whose pods it takes. `node_pool`: whose nodes; empty: nodes without a pool.

    `gather_s`: changes of so short a time are taken together. `patience_s`: so long a gang may be incomplete, or a pod
    without its PodGroup, before that is told.
    """

    names: frozenset[str] = frozenset({SCHEDULER_KAI})
    strategy: str = "binpack"
    budget: int = DEFAULT_BUDGET
    node_pool: str = ""
    gather_s: float = 0.002
    patience_s: float = 2.0
    gangs_at_a_time: int = 64
    binds_at_a_time: int = 128
