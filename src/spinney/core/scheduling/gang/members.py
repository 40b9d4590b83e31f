"""The pods of a gang by state: running, waiting, gated, succeeded; and the order in which they are placed.

A terminating pod is not a member, though it holds its capacity. A pod that succeeded is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from spinney.api.builtin.pod import Pod
from spinney.api.labels import (
    JOB_COMPLETION_INDEX,
    KAI_TASK_PRIORITY,
    KUBEFLOW_JOB_ROLE,
    KUBEFLOW_REPLICA_INDEX,
    LWS_WORKER_INDEX,
    POD_INDEX,
    RAY_NODE_TYPE,
    STATEFULSET_POD_INDEX,
)

INDEX_KEYS = (
    POD_INDEX,
    JOB_COMPLETION_INDEX,
    KUBEFLOW_REPLICA_INDEX,
    LWS_WORKER_INDEX,
    STATEFULSET_POD_INDEX,
)
_UNINDEXED = 2**31


@dataclass(slots=True)
class Members:
    """The pods of one leaf. `lost` pods have a node that no longer exists; `running` and `waiting` are sorted."""

    running: list[Pod] = field(default_factory=list)
    waiting: list[Pod] = field(default_factory=list)
    gated: int = 0
    lost: int = 0
    succeeded: int = 0

    @property
    def alive(self) -> int:
        return len(self.running) + len(self.waiting) + self.gated + self.lost

    @property
    def started(self) -> bool:
        """From then on members are replaced and added, not placed for the first time. Lost pods do not count."""
        return bool(self.running)

    def needed(self, min_member: int) -> int:
        """The minimum. Once some pods succeeded, at most the number left: succeeded pods are not replaced."""
        return min(min_member, self.alive) if self.succeeded else min_member

    def are_ready(self, min_member: int) -> bool:
        return self.started or len(self.waiting) >= self.needed(min_member)


def sort_members(pods: Iterable[Pod], has_node: Callable[[str], bool]) -> Members:
    members = Members()
    for pod in pods:
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            continue
        if pod.status.phase == "Succeeded":
            members.succeeded += 1
        elif pod.spec.node_name:
            if has_node(pod.spec.node_name):
                members.running.append(pod)
            else:
                members.lost += 1
        elif pod.spec.scheduling_gates:
            members.gated += 1
        else:
            members.waiting.append(pod)
    members.running.sort(key=order)
    members.waiting.sort(key=order)
    return members


def order(pod: Pod) -> tuple[bool, int, int, str, str]:
    """Sort key: leaders first, then task priority, index, age and name."""
    metadata = pod.metadata
    index = index_of(pod)
    return (
        not _leads(metadata.labels),
        -_number(metadata.labels.get(KAI_TASK_PRIORITY), 0),
        _UNINDEXED if index is None else index,
        metadata.creation_timestamp or "",
        metadata.name,
    )


def index_of(pod: Pod) -> int | None:
    """The pod's index among its siblings, if its owner numbers them."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    for key in INDEX_KEYS:
        written = labels.get(key) or annotations.get(key)
        if written is not None:
            index = _number(written, -1)
            return index if index >= 0 else None
    return None


def _leads(labels: dict[str, str]) -> bool:
    return labels.get(KUBEFLOW_JOB_ROLE) in ("master", "launcher") or labels.get(RAY_NODE_TYPE) == "head"


def _number(text: str | None, otherwise: int) -> int:
    if text is None or len(text) > 10:
        return otherwise
    try:
        return int(text)
    except ValueError:
        return otherwise


def age_s(pod: Pod, now_s: float) -> float:
    """How long ago it was created."""
    created = pod.metadata.creation_timestamp
    return now_s - datetime.fromisoformat(created).timestamp() if created else 0.0
