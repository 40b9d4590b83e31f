"""Which gangs are `invalid`: configuration mistakes, read literally from the contract."""

from __future__ import annotations

from collections import Counter

from placement_oracle.reading import Gang, TreeNode, World


def mistakes(world: World, gang: Gang) -> list[str]:
    found = [mistake for node in gang.root.walk() for mistake in _of_tree_node(world, node)]
    found += _unknown_pod_sets(gang)
    running = Counter(path for path, _ in gang.running)
    for path, leaf in gang.leaf.items():
        if running[path] > leaf.count:
            found.append(f"{path}: {running[path]} running, count is {leaf.count}")
    if gang.tied_to is not None and gang.tied_to["level"] not in world.topologies.get(gang.root.topology or "", []):
        found.append(f"tied at level {gang.tied_to['level']}, which is not of the gang's own topology")
    return found


def _unknown_pod_sets(gang: Gang) -> list[str]:
    terms = [
        (path, term)
        for path, leaf in gang.leaf.items()
        for name in ("podAntiAffinity", "podAffinity")
        for term in leaf.spec.get(name) or []
    ]
    return [f"{path}: names {other}" for path, term in terms for other in term["pods"] if other not in gang.leaf]


def _of_tree_node(world: World, node: TreeNode) -> list[str]:
    found = []
    if node.topology is not None and not world.topologies.get(node.topology):
        found.append(f"{node.path!r}: topology {node.topology} is unknown or has no levels")
    for level in (node.required, node.preferred):
        if level is not None and level not in world.topologies.get(node.topology or "", []):
            found.append(f"{node.path!r}: level {level} is unknown")
    if node.leaf:
        return found + _of_leaf(node)
    if node.min_groups is not None and not 0 <= node.min_groups <= len(node.children):
        found.append(f"{node.path!r}: minGroups {node.min_groups} of {len(node.children)} children")
    if len({child.path for child in node.children}) < len(node.children):
        found.append(f"{node.path!r}: two children of one name")
    return found


def _of_leaf(leaf: TreeNode) -> list[str]:
    found = []
    if leaf.min > leaf.count:
        found.append(f"{leaf.path}: min {leaf.min} above count {leaf.count}")
    affinity = leaf.spec.get("affinity") or {}
    if affinity.get("podAffinity") or affinity.get("podAntiAffinity"):
        found.append(f"{leaf.path}: pod affinity")
    return found
