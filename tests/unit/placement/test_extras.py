"""Pods above the minimum, at random: as many as fit, although the minimum was placed first."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest

from placement_oracle import exact
from placement_oracle.clusters import GPU, random_cluster
from placement_oracle.oddities import pod_set_paths
from unit.placement.engine_kit import decided
from unit.placement.problem_kit import RACK, answer, gang, node, nodes_of, pods

Json = dict[str, Any]
CHUNK = 50


def elastic(seed: int) -> Json:
    """A gang without preferences whose pod sets want more than there may be."""
    random = Random(f"elastic-{seed}")
    cluster = random_cluster(random, random.choice((4, 6, 10, 14)))
    levels = cluster.topologies["main"]
    groups = []
    for index in range(random.choice((1, 1, 2, 3))):
        least = random.randint(1, 3)
        request = {GPU: str(random.choice((1, 2, 3, 4, 5)))}
        sets = [{"name": "s", "min": least, "count": least + random.randint(0, 5), "request": request}]
        required = {"required": random.choice(levels)} if random.random() < 0.5 else {}
        groups.append({"name": f"g{index}", "pods": sets, **required})
    asked = {"name": "g", "topology": "main", "groups": groups}
    if random.random() < 0.5:
        asked["required"] = levels[0]
    nodes, resources = cluster.nodes, cluster.resources
    topologies = [{"name": "main", "levels": levels}]
    return {"version": 1, "resources": resources, "topologies": topologies, "nodes": nodes, "gangs": [asked]}


def one_more(problem: Json) -> str:
    """A pod set of which one more pod fits, with as many of all others as were placed."""
    found = decided(problem)["gangs"][0]
    placed = [placement["pods"] for placement in found["placements"]]
    for path, pod_set in pod_set_paths(problem["gangs"][0]) if placed else ():
        if placed.count(path) < pod_set["count"]:
            more = deepcopy(problem)
            for other, each in pod_set_paths(more["gangs"][0]):
                each["min"] = placed.count(other) + (other == path)
            if exact.feasible(more):
                return path
    return ""


@pytest.mark.parametrize("start", range(0, 200, CHUNK))
def test_k14_no_pod_above_the_minimum_is_missed(start: int) -> None:
    assert {seed: path for seed in range(start, start + CHUNK) if (path := one_more(elastic(seed)))} == {}


def test_k14_the_minimum_makes_way_for_extra_pods() -> None:
    """The tight rack holds the minimum of both sets; with the large one elsewhere two more small pods fit."""
    nodes = [node("n0", "z/b/r0", gpus=4), node("n1", "z/b/r1", gpus=5)]
    small = {"name": "small", "required": RACK, "pods": [pods("p", 2, 2, min=1)]}
    large = {"name": "large", "required": RACK, "pods": [pods("p", 1, 4)]}
    found = answer(nodes, {"name": "gang", "topology": "t", "groups": [small, large]})
    assert sum(nodes_of(found).values()) == 3


def test_k14_pods_above_the_minimum_take_turns() -> None:
    found = answer([node("n0", gpus=7)], gang(pods("a", 6, 1, min=1), pods("b", 6, 1, min=1)))
    counts = [sum(placement["pods"] == name for placement in found["placements"]) for name in "ab"]
    assert sorted(counts) == [3, 4]
