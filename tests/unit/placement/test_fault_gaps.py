"""Rules that no other test stated sharply enough: planted faults passed the rest, or were met by a lucky seed only."""

from __future__ import annotations

from unit.placement.problem_kit import HOST, RACK, Document, answer, gang, node, nodes_of, pods

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


def test_k6_a_later_wish_never_undoes_an_earlier_one() -> None:
    """One host holds the pod set that wishes for one, but not in the rack that holds the gang."""
    nodes = [node("a", "z/b/r0", 2), node("b", "z/b/r0", 2), node("c", "z/b/r1", 3)]
    found = answer(nodes, gang(pods("x", 3, preferred=HOST), pods("y"), preferred=RACK))
    assert set(nodes_of(found)) == {"a", "b"}


def test_k14_the_level_is_decided_by_the_minimum_whatever_holds_all_pods() -> None:
    nodes = [node("a", "z/b0/r0", 4), node("b", "z/b1/r1", 3), node("c", "z/b1/r2", 3)]
    assert nodes_of(answer(nodes, gang(pods("w", 6, min=4), preferred=RACK))).get("a") == 4


def test_k14_extras_that_do_not_fit_beside_the_minimum_stay_in_the_next_broader_domain() -> None:
    nodes = [node("a", "z/b0/r0", 3), node("far", "z/b1/r2", 2), node("near", "z/b0/r1", 2)]
    assert nodes_of(answer(nodes, gang(pods("w", 5, min=3), preferred=RACK))) == {"a": 3, "near": 2}


def _in_racks(sizes: list[int]) -> Document:
    """One group in a rack of its choice for each size."""
    groups = [{"name": f"g{at}", "required": RACK, "pods": [pods("w", 1, size)]} for at, size in enumerate(sizes)]
    return gang(groups=groups)


def test_k9_a_group_is_moved_when_its_sibling_finds_no_rack() -> None:
    nodes = [node("a", "z/b/r0", 12), node("b", "z/b/r1", 9)]
    assert nodes_of(answer(nodes, _in_racks([3, 6, 7, 5]))) == {"a": 2, "b": 2}


def test_k9_racks_that_look_alike_differ_by_what_is_in_them() -> None:
    """Three equal racks that are filled to the last: what failed with some groups in two of them is no proof."""
    nodes = [node(f"n{at}", f"z/b/r{at}", 11) for at in range(3)]
    found = answer(nodes, _in_racks([4, 4, 2, 2, 4, 5, 5, 3, 4]), strategy="spread")  # left to the search
    assert sum(nodes_of(found).values()) == 9


def test_k5_pods_that_fill_nodes_to_the_last_are_found_though_the_largest_must_not_go_first() -> None:
    nodes = [node("a", gpus=10), node("b", gpus=8)]
    sets = [pods(f"s{size}", 1, size) for size in (7, 6, 2, 3)]
    assert nodes_of(answer(nodes, gang(*sets, required=RACK))) == {"a": 2, "b": 2}


def test_k5_nodes_that_cannot_take_the_rest_are_tried_again_with_another_rest() -> None:
    nodes = [node("a", gpus=12), node("b", gpus=12), node("c", gpus=10)]
    sets = [pods(f"s{size}", count, size) for size, count in {6: 1, 5: 2, 3: 1, 4: 2, 7: 1}.items()]
    assert sum(nodes_of(answer(nodes, gang(*sets, required=RACK))).values()) == 7


def test_k7_counting_takes_the_block_with_the_fewest_racks_before_the_tightest() -> None:
    racks = {"z/b0/r0": 2, "z/b0/r1": 2, "z/b0/r2": 2, "z/b1/r3": 4, "z/b1/r4": 4}
    nodes = [node(path.split("/")[-1], path, gpus=gpus) for path, gpus in racks.items()]
    assert set(nodes_of(answer(nodes, gang(pods("w", 5), preferred=RACK)))) == {"r3", "r4"}


def _placed(found: Document) -> list[str]:
    return sorted({placement["pods"] for placement in found["placements"]})


def test_k14_an_optional_child_is_placed_whole() -> None:
    groups = [
        {"name": "needed", "pods": [pods("w")]},
        {"name": "optional", "pods": [pods("p"), pods("q")]},
        {"name": "too-large", "pods": [pods("w", 1, 9)]},
    ]
    found = answer([node("a")], gang(groups=groups, minGroups=1))
    assert _placed(found) == ["needed/w", "optional/p", "optional/q"]


def test_k14_optional_children_come_in_the_order_of_the_problem() -> None:
    asked = gang(pods("x", 1), pods("y", 2), pods("z", 2), minGroups=1)
    assert _placed(answer([node("a", gpus=3)], asked)) == ["x", "y"]


def test_k14_children_that_fit_are_chosen_where_the_first_ones_do_not() -> None:
    nodes = [node("a", "z/b/r0", 4), node("b", "z/b/r1", 4)]
    groups = [{"name": name, "required": RACK, "pods": [pods("w", count, 3)]} for name, count in (("x", 2), ("y", 1))]
    assert _placed(answer(nodes, gang(groups=groups, minGroups=1))) == ["y/w"]


def test_k5_a_node_may_keep_room_that_none_of_the_pods_can_use() -> None:
    nodes = [node("a", gpus=10), node("b", gpus=11)]
    sets = [pods("s5", 1, 5), pods("s4", 2, 4), pods("s7", 1, 7)]
    assert nodes_of(answer(nodes, gang(*sets, required=RACK))) == {"a": 2, "b": 2}
