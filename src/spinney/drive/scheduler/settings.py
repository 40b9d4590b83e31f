"""The settings of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from spinney.api.labels import SCHEDULER_KAI
from spinney.api.placement.problem import DEFAULT_BUDGET, Consolidate


@dataclass(frozen=True, slots=True)
class Settings:
    """Durations (`_s`) are in seconds.

    - `names`: the scheduler names that it serves.
    - `node_pool`: the pool of its nodes and PodGroups; empty: those without a pool.
    - `gather_s`: changes within this time go into one cycle.
    - `incomplete_grace_s`: how long a gang may be incomplete, or a pod without its PodGroup, before that is reported.
    - `staleness_grace_s`: how long a gang may run below its minimum before the rest is evicted; negative: for ever.
    - `consolidate`: how much may be moved for a gang that fits nowhere; None: nothing.
    - `moves_on_request`: a PodGroup may ask for moves with an annotation that admission lets only administrators write.
    - `volumes_s`: how long a gang keeps its assignments while its volumes are provisioned.
    - `labels_before_bind`: write ranks as labels also where the API server takes none from a bind; one write per pod.
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
