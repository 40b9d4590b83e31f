"""What of its placement score a gang could have at most: shown beside what it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.best_score import best_score
from spinney.core.placement.gang.gang_tree import GangTree, Invalid, Part, read_gang_tree
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gang.parsed_gang import Context, read_gang
from spinney.core.view.explanation import GangExplanation

LEAST_GAP = 0.005
"""What is rounded to 1.00 is not told."""


def members_of(
    group: PodGroup, pods: Sequence[Pod], cluster: Cluster
) -> tuple[GangTree, Inventory, list[tuple[Part, int]]] | None:
    """The parts of a gang and the slots of its bound pods, as scores are computed from; None: nothing is bound."""
    inventory, topologies = cluster.inventory, cluster.topologies
    has_node = {pod.spec.node_name for pod in pods if inventory.find(pod.spec.node_name) is not None}
    reading = read_gang(
        group, pods, Context(inventory.resources, topologies=topologies, has_node=has_node.__contains__)
    )
    try:
        parts = read_gang_tree(reading.gang, topologies)
    except Invalid:
        return None
    leaves = {leaf.path: leaf for leaf in parts.leaves}
    members = [member for member in reading.gang.running if member.pods in leaves]
    live = [(leaves[member.pods], inventory.slot_for(member.node)) for member in members]
    return (parts, inventory, live) if live else None


def with_best_score(
    explained: GangExplanation, group: PodGroup, pods: Sequence[Pod], cluster: Cluster
) -> GangExplanation:
    """The same with the best score that its bound pods could have, if they have less than 1."""
    if explained.score is None or explained.score > 1 - LEAST_GAP:
        return explained
    found = members_of(group, pods, cluster)
    return explained if found is None else replace(explained, best_score=best_score(*found))


def score_words(score: float, best: float | None) -> str:
    """`0.41 of at most 0.41`; where the best is 1, the score alone."""
    return f"{score:.2f}" if best is None or best > 1 - LEAST_GAP else f"{score:.2f} of at most {best:.2f}"
