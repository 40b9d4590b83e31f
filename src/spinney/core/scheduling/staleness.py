"""Gangs that run with fewer members than they need together (K14).

Counts members that have a node; whoever succeeded has done its part. Never says what is to be done about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import KAI_SUBGROUP_NAME
from spinney.core.scheduling.members import Members, sort_members
from spinney.core.scheduling.tree import DEFAULT_LEAF, Branch, Mistake, read_tree

PODGANG = "PodGang"


@dataclass(frozen=True, slots=True)
class Shortage:
    """`active` members where `minimum` are needed; `short`: sub-groups with their minimum and the members they have."""

    active: int
    minimum: int
    short: tuple[tuple[str, int, int], ...] = ()


def shortage(podgroup: PodGroup, pods: Sequence[Pod], has_node: Callable[[str], bool]) -> Shortage | None:
    """What a gang that runs lacks; None: nothing, or it does not run, or nobody can say what it needs."""
    try:
        tree = read_tree(podgroup.spec)
    except Mistake:
        return None
    by_leaf: dict[str, list[Pod]] = {leaf.name: [] for leaf in tree.leaves()}
    for pod in pods:
        by_leaf.get(pod.metadata.labels.get(KAI_SUBGROUP_NAME) or DEFAULT_LEAF, []).append(pod)
    leaves = {name: sort_members(mine, has_node) for name, mine in by_leaf.items()}
    active = sum(len(members.running) for members in leaves.values())
    if not active or _is_met(tree, leaves):
        return None
    short = [
        (leaf.name, leaf.min_member, len(leaves[leaf.name].running))
        for leaf in tree.leaves()
        if podgroup.spec.sub_groups and not _is_met(leaf, leaves)
    ]
    minimum = podgroup.spec.min_member or sum(leaf.min_member for leaf in tree.leaves())
    return Shortage(active, minimum, tuple(short))


def is_owned_by_podgang(podgroup: PodGroup) -> bool:
    """The gang's operator ends it by itself."""
    return any(owner.kind == PODGANG for owner in podgroup.metadata.owner_references)


def _is_met(branch: Branch, leaves: dict[str, Members]) -> bool:
    if not branch.kids:
        members = leaves[branch.name]
        return len(members.running) + members.succeeded >= branch.min_member
    met = sum(_is_met(kid, leaves) for kid in branch.kids)
    return met >= (len(branch.kids) if branch.min_groups is None else branch.min_groups)
