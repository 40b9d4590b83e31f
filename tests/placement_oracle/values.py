"""How good a placement is for its preferences: the numbers that are compared and the score that is published."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from placement_oracle.reading import Document, Gang, Path, TreeNode, World, read
from placement_oracle.state import Member, common_path

Value = tuple[int, int, int, int]
"""Missed levels, a node outside the topology, preferred-level domains, sum of their distances. Smaller is better."""

Values = list[tuple[str, Value]]

IDEAL: Value = (0, 0, 1, 0)


def preference_values(problem: Document | World, gang: Document, placements: Iterable[Document]) -> Values:
    """The values of a gang's minimum with its running members: for answers without extras."""
    world = read(problem)
    found = world.gang(gang["name"])
    assert found is not None
    members = found.running + [(placement["pods"], world.seat(placement)) for placement in placements]
    return values_of(world, found, members)


def values_of(world: World, gang: Gang, members: list[Member]) -> Values:
    found: Values = []
    for node in gang.constrained("preferred"):
        hosts = hosts_below(node, members)
        if hosts:
            found.append((node.path, value_of(world, node, hosts)))
    return found


def value_of(world: World, node: TreeNode, hosts: list[str]) -> Value:
    depth, places = _places(world, node, hosts)
    shared = min(depth, len(common_path(path for path, _ in places)))
    outside = shared == 0 and any(not path for path, _ in places)
    distance = sum(2 * (depth - len(common_path([left, right]))) for (left, _), (right, _) in combinations(places, 2))
    return depth - shared, int(outside), len(places), distance


def score_of(world: World, gang: Gang, members: list[Member]) -> float:
    """The published score: over all live pods, extras included."""
    total, weight = 0.0, 0
    for node in gang.constrained("preferred"):
        hosts = hosts_below(node, members)
        if hosts:
            depth, places = _places(world, node, hosts)
            shared = min(depth, len(common_path(path for path, _ in places)))
            total += len(hosts) * (shared + 1 / len(places)) / (depth + 1)
            weight += len(hosts)
    return total / weight if weight else 1.0


def hosts_below(node: TreeNode, members: list[Member]) -> list[str]:
    """The nodes of the live pods under a tree node, one entry per pod."""
    if not node.path:
        return [host for _, host in members]
    return [host for path, host in members if path == node.path or path.startswith(f"{node.path}/")]


def _places(world: World, node: TreeNode, hosts: list[str]) -> tuple[int, list[tuple[Path, str]]]:
    """The preferred-level domains in use; a node outside that level is a place of its own."""
    assert node.topology is not None and node.preferred is not None
    depth = world.depth(node, node.preferred)
    found = set()
    for host in hosts:
        path = world.path(node.topology, host)
        found.add((path[:depth], "") if len(path) >= depth else (path, world.home(host)))
    return depth, sorted(found)
