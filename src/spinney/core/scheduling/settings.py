"""The settings of the scheduler, and how much may be moved for a gang that fits nowhere.

A PodGroup may request moves with an annotation, `<most moves>,<largest loss of score>`; text in any other form is no
request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from spinney.api.labels import CONSOLIDATE, SCHEDULER_KAI
from spinney.api.operator_configuration import PlacementStrategy
from spinney.api.placement.problem import DEFAULT_BUDGET, Consolidate
from spinney.core.scheduling.queues.past_use import PastUse

BINPACK = PlacementStrategy()

BY_ITSELF = Consolidate(max_moves=16, max_loss=0.0, max_gpus=64, budget=10_000)
"""The limits of a scheduler that consolidates without a request."""

_REQUEST = re.compile(r"([0-9]{1,6}),(0|1|0?\.[0-9]{1,9}|1\.0+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Settings:
    """Durations (`_s`) are in seconds.

    - `names`: the scheduler names that it serves.
    - `node_pool`: the pool of its nodes and PodGroups; empty: those without a pool.
    - `gather_s`: changes within this time go into one cycle.
    - `incomplete_grace_s`: how long a gang may be incomplete, or a pod without its PodGroup, before that is reported.
    - `staleness_grace_s`: how long a gang may run below its minimum before the rest is evicted; negative: for ever.
    - `usage_stable_s`: how long a gang's usage must stay the same before it is written; it is within twice this time.
    - `consolidate`: how much may be moved for a gang that fits nowhere; None: nothing without a request.
    - `moves_every_s`: how long it waits before it looks for moves for the same gang again, unless somebody asks.
    - `moves_on_request`: a PodGroup may ask for moves with an annotation that admission lets only administrators write.
    - `volumes_s`: how long a gang keeps its assignments while its volumes are provisioned.
    - `reclaims`, `preempts`: gangs may take from other queues, and from less important ones in their own.
    - `preempt_min_runtime_s`, `reclaim_min_runtime_s`: of queues that state none, and none above them does.
    - `past_use`: shares remember what queues held; None: they do not.
    - `labels_before_bind`: write ranks as labels also where the API server takes none from a bind; one write per pod.
    """

    names: frozenset[str] = frozenset({SCHEDULER_KAI})
    strategy: PlacementStrategy = BINPACK
    budget: int = DEFAULT_BUDGET
    node_pool: str = ""
    gather_s: float = 0.002
    incomplete_grace_s: float = 2.0
    staleness_grace_s: float = 60.0
    usage_stable_s: float = 10.0
    consolidate: Consolidate | None = BY_ITSELF
    moves_every_s: float = 60.0
    moves_on_request: bool = True
    volumes_s: float = 600.0
    reclaims: bool = True
    preempts: bool = True
    preempt_min_runtime_s: float = 0.0
    reclaim_min_runtime_s: float = 0.0
    past_use: PastUse | None = None
    labels_before_bind: bool = False
    gangs_at_a_time: int = 64
    binds_at_a_time: int = 128


def request(limits: Consolidate) -> str:
    """The annotation text of a request."""
    loss = f"{limits.max_loss:.6f}".rstrip("0").rstrip(".")
    return f"{limits.max_moves},{loss or '0'}"


def limits_of(annotations: Mapping[str, str], otherwise: Consolidate | None) -> Consolidate | None:
    """The limits that a PodGroup requests, else the default."""
    found = _REQUEST.fullmatch(annotations.get(CONSOLIDATE, ""))
    return Consolidate(int(found[1]), float(found[2])) if found is not None else otherwise
