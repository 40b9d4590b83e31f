"""What the scheduler was told at its start."""

from __future__ import annotations

from dataclasses import dataclass

from spinney.api.labels import SCHEDULER_KAI
from spinney.api.placement.problem import DEFAULT_BUDGET, Consolidate


@dataclass(frozen=True, slots=True)
class Settings:
    """`names`: whose pods it takes. `node_pool`: whose nodes and PodGroups; empty: those without a pool.

    `gather_s`: changes of so short a time are taken together. `incomplete_grace_s`: so long a gang may be
    incomplete, or a pod without its PodGroup, before that is told.
    `volumes_s`: so long a gang keeps its places while its volumes are made.
    `labels_before_bind`: ranks are labels also where the server takes none from a bind; costs a write for each pod.
    `staleness_grace_s`: so long a gang may run below its minimum before what is left of it is ended; negative: for
    ever. `consolidate`: how much may be moved for a gang that fits nowhere; None: nothing. `moves_on_request`: or as
    much as its PodGroup asks for, by an annotation that admission lets nobody write but administrators.
    """

    names: frozenset[str] = frozenset({SCHEDULER_KAI})
    strategy: str = "binpack"
    budget: int = DEFAULT_BUDGET
    node_pool: str = ""
    gather_s: float = 0.002
    incomplete_grace_s: float = 2.0
    staleness_grace_s: float = 60.0
    consolidate: Consolidate | None = None
    moves_on_request: bool = True
    volumes_s: float = 600.0
    labels_before_bind: bool = False
    gangs_at_a_time: int = 64
    binds_at_a_time: int = 128
