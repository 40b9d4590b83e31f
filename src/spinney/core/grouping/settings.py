"""Settings of the pod-grouper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spinney.api.labels import DEFAULT_QUEUE, KAI_QUEUE, SCHEDULER_KAI


@dataclass(frozen=True, slots=True)
class GrouperSettings:
    """`default_classes`: the PriorityClass of workloads that name none, by owner kind."""

    scheduler_names: frozenset[str] = frozenset({SCHEDULER_KAI})
    queue_label: str = KAI_QUEUE
    default_queue: str = DEFAULT_QUEUE
    default_classes: Mapping[str, str] = field(default_factory=dict)
    workers: int = 16
