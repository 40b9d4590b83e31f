"""Detects stale gangs: those that run with fewer members than their minimum (K14).

Counts members that have a node; members that succeeded count as well. A gang lacks what it has lost, not what it is
scaled up to: the most members it has had is noted on its PodGroup. What to do about it is decided elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from kube_apimachinery.integers import read_number
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import KAI_SUBGROUP_NAME, MEMBERS
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


def members_noted(podgroup: PodGroup, pods: Sequence[Pod], coming: Container[str]) -> str:
    """The most members each leaf has had since the gang started, including pods (by uid) that get their nodes now."""
    running, done = _count(pods, lambda name: True)
    before = _had(podgroup) if running else None
    running.update(_leaf(pod) for pod in pods if pod.metadata.uid in coming)
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
        leaf = _leaf(pod)
        if pod.status.phase == "Succeeded":
            done[leaf] += 1
        elif pod.spec.node_name and has_node(pod.spec.node_name):
            running[leaf] += 1
    return running, done


def _leaf(pod: Pod) -> str:
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
