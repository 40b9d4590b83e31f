"""The exact judge against its brute-force twin, and on problems small enough to do in the head."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from placement_oracle import brute, exact
from placement_oracle.cheapest import cheapest, may_evict, price_of
from placement_oracle.disruption import may_lose
from placement_oracle.instances import Profile, instance
from placement_oracle.reading import Gang, World, read
from placement_oracle.rules import split
from placement_oracle.state import State
from placement_oracle.validity import mistakes

CHUNK = 40
LEVELS = ["block", "rack", "host"]


@pytest.mark.parametrize("profile", ["tiny", "small-zones"])
@pytest.mark.parametrize("start", range(0, 400, CHUNK))
def test_r1_k12_the_exact_judge_agrees_with_brute_force(start: int, profile: Profile) -> None:
    for seed in range(start, start + CHUNK):
        world = read(instance(seed, profile))
        gang = world.gangs[0]
        if mistakes(world, gang) or _breaks_rules(world, gang):
            continue
        for releasing in (False, True):
            fits = brute.feasible(world, releasing=releasing)
            assert exact.feasible(world, releasing=releasing) == fits, (seed, releasing)
        if fits and all(node.least == len(node.children) for node in gang.root.walk()):
            assert exact.optimum(world) == brute.optimum(world), seed


def _breaks_rules(world: World, gang: Gang) -> bool:
    """Whether nothing is missing and the members that run are where they should not be: that is left open."""
    return not any(exact.missing(State(world), gang).values()) and bool(
        list(split(State(world), gang, [], gang.running))
    )


def test_r1_the_price_of_a_preemption_agrees_with_brute_force() -> None:
    seen = set()
    for seed in range(60):
        world = read(instance(seed, "preempt"))
        evictable = [gang for gang in world.gangs[1:] if may_evict(world.gangs[0], gang)]
        pods = [(gang.name, *member) for gang in evictable for member in gang.running]
        if len(pods) <= 8 and not exact.feasible(world, releasing=True):
            price = cheapest(world, 0)
            assert price == cheapest_by_force(world, pods), seed
            seen.add(price)
    assert len(seen) > 4


def cheapest_by_force(world: World, pods: list[tuple[str, str, str]]) -> tuple[int, int, int] | None:
    """Every set of victims, lawful ones priced, cheapest first."""
    state, priced = State(world), []
    for size in range(1, len(pods) + 1):
        for chosen in combinations(pods, size):
            victims = [{"gang": gang, "pods": path, "node": node} for gang, path, node in chosen]
            lost = {gang: [(path, node) for other, path, node in chosen if other == gang] for gang, _, _ in chosen}
            if all(may_lose(state, gang, lost[gang.name]) for gang in world.gangs if gang.name in lost):
                priced.append((price_of(world, [{"victims": victims}], 0), victims))
    for price, victims in sorted(priced, key=lambda each: each[0]):
        if exact.feasible(world, releasing=True, victims=victims):
            return price
    return None


def a_problem(racks: dict[str, list[int]], **gang: Any) -> dict[str, Any]:
    """Free GPUs per node of each rack; a rack is named `block/rack`."""
    nodes: list[Any] = []
    for place, rooms in racks.items():
        for room in rooms:
            block, _, rack = place.partition("/")
            name = f"n{len(nodes)}"
            labels = {"block": block, "rack": rack, "host": name} if rack else {}
            nodes.append({"name": name, "labels": labels, "allocatable": {"gpu": room}})
    return {
        "version": 1,
        "resources": ["gpu"],
        "topologies": [{"name": "t", "levels": LEVELS}],
        "nodes": nodes,
        "gangs": [{"name": "g", "topology": "t", **gang}],
    }


def pods(count: int, size: int, name: str = "p", **more: Any) -> dict[str, Any]:
    return {"name": name, "count": count, "request": {"gpu": size}, **more}


def test_uneven_sizes_share_two_nodes() -> None:
    problem = a_problem({"b/r": [8, 8]}, pods=[pods(4, 2, "small"), pods(1, 8, "large")], required="rack")
    assert exact.feasible(problem)


def test_siblings_do_not_depend_on_their_order() -> None:
    groups = [
        {"name": f"s{index}", "required": "rack", "pods": [pods(count, 1)]} for index, count in enumerate((3, 3, 5))
    ]
    assert exact.feasible(a_problem({"b/r0": [5], "b/r1": [6]}, groups=groups))
    assert not exact.feasible(a_problem({"b/r0": [5], "b/r1": [5]}, groups=groups))


def test_a_split_gang_counts_domains_and_their_distance() -> None:
    problem = a_problem({"b0/r0": [2], "b0/r1": [1], "b1/r0": [2], "b1/r1": [2]}, pods=[pods(4, 1)], preferred="rack")
    assert exact.optimum(problem) == [("", (1, 0, 2, 2))]


def test_a_node_outside_the_topology_is_the_last_resort() -> None:
    problem = a_problem({"b0/r0": [1], "b1/r0": [1], "": [2]}, pods=[pods(2, 1)], preferred="rack")
    assert exact.optimum(problem) == [("", (2, 0, 2, 4))]
    problem = a_problem({"b0/r0": [1], "": [2]}, pods=[pods(2, 1)], preferred="rack")
    assert exact.optimum(problem) == [("", (2, 1, 1, 0))]


def test_the_root_is_served_before_its_groups() -> None:
    groups = [{"name": "a", "preferred": "host", "pods": [pods(2, 1)]}, {"name": "b", "pods": [pods(1, 1)]}]
    problem = a_problem({"b0/r0": [1, 1, 1], "b0/r1": [2]}, groups=groups, preferred="rack")
    assert exact.optimum(problem) == [("", (0, 0, 1, 0)), ("a", (1, 0, 2, 2))]


def test_enough_children_are_enough() -> None:
    groups = [{"name": name, "pods": [pods(1, size)]} for name, size in (("a", 9), ("b", 2), ("c", 1))]
    assert exact.feasible(a_problem({"b/r": [3]}, groups=groups, minGroups=2))
    assert not exact.feasible(a_problem({"b/r": [3]}, groups=groups))
