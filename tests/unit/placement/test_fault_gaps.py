"""Rules that nothing else stated sharply enough: each was broken by a planted fault that passed all other tests."""

from __future__ import annotations

from typing import Any

from placement_oracle.clusters import HOST
from unit.placement.problem_kit import RACK, answer, gang, node, nodes_of, pods

FULL = [node(f"full{at}", f"z/b/full{at}", used=8) for at in range(300)]
"""So many that a cluster is searched field by field."""


def test_equal_nodes_are_taken_by_name_whatever_order_they_came_in() -> None:
    for asked in (gang(pods("w"), required=RACK), gang(pods("w", hostPorts=[80]), required=RACK)):
        assert nodes_of(answer([node("c"), node("a"), node("b")], asked)) == {"a": 1}


def test_equal_domains_are_taken_by_path_whatever_order_they_came_in() -> None:
    nodes = [node("a", "z/b/r1"), node("c", "z/b/r0"), node("b", "z/b/r2")]
    for asked in (gang(pods("w"), required=RACK), gang(pods("w", hostPorts=[80]), required=RACK)):
        assert nodes_of(answer(nodes, asked)) == {"c": 1}


def test_k8_not_in_keeps_a_gang_off_where_nothing_has_to_be_searched() -> None:
    term = {"matchExpressions": [{"key": RACK, "operator": "NotIn", "values": ["r0"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    nodes = [node("a", "z/b/r0"), node("b", "z/b/r1")]
    assert nodes_of(answer(nodes, gang(pods("w", affinity=affinity), required=RACK))) == {"b": 1}


def test_k8_a_toleration_of_another_value_lets_nobody_in() -> None:
    tainted = node("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    asked = gang(pods("w", tolerations=[{"key": "k", "operator": "Equal", "value": "other"}]))
    assert answer([tainted], asked)["outcome"] == "infeasible"


def test_k9_a_large_cluster_is_searched_beyond_the_tightest_domain() -> None:
    """Both racks hold every pod set by count; only the roomier one holds both together."""
    racks = [node("a", "z/b/r0", 4), node("b", "z/b/r0", 4), node("c", "z/b/r1", 4), node("d", "z/b/r1", 5)]
    found = answer([*FULL, *racks], gang(pods("x", 2, 3), pods("y", 1, 2), required=RACK))
    assert nodes_of(found) == {"c": 1, "d": 2}


def test_k9_a_large_cluster_keeps_every_node_that_some_pod_can_use() -> None:
    nodes = [node("large", "z/b/r0", 8), node("small", "z/b/r1", 1)]
    found = answer([*FULL, *nodes], gang(pods("x", 1, 8), pods("y", 1, 1), preferred=RACK))
    assert nodes_of(found) == {"large": 1, "small": 1}


def test_k14_of_several_children_those_that_give_the_better_preference_are_chosen() -> None:
    nodes = [node("a", "z/b/r0", 3), node("b", "z/b/r1", 3)]
    asked = gang(pods("x", 2, 3), pods("y", 1, 3), preferred=RACK, minGroups=1)
    found = answer(nodes, asked, extras="skip")
    assert ([each["pods"] for each in found["placements"]], found["score"]) == (["y"], 1.0)


def test_k6_a_later_wish_leaves_nodes_outside_the_topology_for_the_last() -> None:
    nodes = [node("a", "z0/b/r", 3), node("b", "z1/b/r", 3), node("out", "", 4)]
    found = answer(nodes, gang(pods("first", preferred=RACK), pods("second", 4, preferred=RACK)))
    assert set(nodes_of(found)) == {"a", "b"}
