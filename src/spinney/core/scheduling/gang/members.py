"""The pods of a gang by state: running, waiting, gated, succeeded; their order, and whether there are enough of them.

A terminating pod is not a member, though it holds its capacity. A pod that succeeded is done.

A gang is stale when it runs with fewer members than its minimum (K14): members that have a node count, and those that
succeeded. It lacks what it has lost, not what it is scaled up to: the most members it has had is noted on its PodGroup.
What to do about it is decided elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kube_apimachinery.quantity import read_number
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import (
    JOB_COMPLETION_INDEX,
    KAI_SUBGROUP_NAME,
    KAI_TASK_PRIORITY,
    KUBEFLOW_JOB_ROLE,
    KUBEFLOW_REPLICA_INDEX,
    LWS_WORKER_INDEX,
    MEMBERS,
    POD_INDEX,
    RAY_NODE_TYPE,
    STATEFULSET_POD_INDEX,
)
from spinney.core.scheduling.gang.subgroup_tree import DEFAULT_LEAF, SubGroupError, SubGroupNode, read_tree

PODGANG = "PodGang"


@dataclass(frozen=True, slots=True)
class Shortage:
    """`active` members of the required `minimum`; `short`: sub-groups with their minimum and active members."""

    active: int
    minimum: int
    short: tuple[tuple[str, int, int], ...] = ()


def shortage(podgroup: PodGroup, pods: Sequence[Pod], has_node: Callable[[str], bool]) -> Shortage | None:
    """What a running gang lacks; None: nothing, or it does not run, or its PodGroup is not valid."""
    try:
        tree = read_tree(podgroup.spec)
    except SubGroupError:
        return None
    running, done = _count(pods, has_node)
    active, had = sum(running[leaf.name] for leaf in tree.leaves()), _had(podgroup)
    if not active or _is_met(tree, running + done, had):
        return None
    short = [
        (leaf.name, leaf.min_member, running[leaf.name])
        for leaf in tree.leaves()
        if podgroup.spec.sub_groups and not _is_met(leaf, running + done, had)
    ]
    minimum = podgroup.spec.min_member or sum(leaf.min_member for leaf in tree.leaves())
    return Shortage(active, minimum, tuple(short))


def starts_whole(podgroup: PodGroup, pods: Sequence[Pod], coming: Container[str]) -> bool:
    """Whether a gang has its minimum with the pods (by uid) that get their nodes now, unless it ends already."""
    try:
        tree = read_tree(podgroup.spec)
    except SubGroupError:
        return True
    running, done = _count(pods, lambda name: True)
    running.update(leaf_of(pod) for pod in pods if pod.metadata.uid in coming)
    return bool(done) or _is_met(tree, running, None)


def members_noted(podgroup: PodGroup, pods: Sequence[Pod], coming: Container[str]) -> str:
    """The most members each leaf has had since the gang started, including pods (by uid) that get their nodes now."""
    running, done = _count(pods, lambda name: True)
    before = _had(podgroup) if running else None
    running.update(leaf_of(pod) for pod in pods if pod.metadata.uid in coming)
    most = running + done | (before or Counter())
    return ",".join(f"{leaf}={most[leaf]}" for leaf in sorted(most))


def is_owned_by_podgang(podgroup: PodGroup) -> bool:
    """Then the gang's operator terminates it."""
    return any(owner.kind == PODGANG for owner in podgroup.metadata.owner_references)


def _count(pods: Sequence[Pod], has_node: Callable[[str], bool]) -> tuple[Counter[str], Counter[str]]:
    """By leaf: running members, and members that succeeded."""
    running, done = Counter[str](), Counter[str]()
    for pod in pods:
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            continue
        leaf = leaf_of(pod)
        if pod.status.phase == "Succeeded":
            done[leaf] += 1
        elif pod.spec.node_name and has_node(pod.spec.node_name):
            running[leaf] += 1
    return running, done


def leaf_of(pod: Pod) -> str:
    return pod.metadata.labels.get(KAI_SUBGROUP_NAME) or DEFAULT_LEAF


def _had(podgroup: PodGroup) -> Counter[str] | None:
    """None: it is not noted, or cannot be parsed."""
    parts = [part.rpartition("=") for part in podgroup.metadata.annotations.get(MEMBERS, "").split(",")]
    found = {leaf: read_number(most) for leaf, _, most in parts}
    known = {leaf: most for leaf, most in found.items() if leaf and most is not None}
    return Counter(known) if len(known) == len(found) else None


def _is_met(branch: SubGroupNode, members: Counter[str], had: Counter[str] | None) -> bool:
    if not branch.kids:
        needed = branch.min_member if had is None else min(branch.min_member, had[branch.name])
        return members[branch.name] >= needed
    met = sum(_is_met(kid, members, had) for kid in branch.kids)
    return met >= (len(branch.kids) if branch.min_groups is None else branch.min_groups)


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
