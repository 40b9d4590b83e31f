"""What a correct answer is, rule by rule, each with a problem small enough to see."""

from __future__ import annotations

from collections import Counter

import pytest

from unit.placement.problem_kit import BLOCK, HOST, RACK, ZONE, answer, answers, gang, node, nodes_of, pods


def test_k6_required_puts_all_pods_into_one_domain_or_none() -> None:
    nodes = [node("a", "z/b/r0", gpus=2), node("b", "z/b/r0", gpus=2), node("c", "z/b/r1", gpus=3)]
    assert nodes_of(answer(nodes, gang(pods("w", 4), required=RACK))) == {"a": 2, "b": 2}
    refused = answer(nodes, gang(pods("w", 5), required=RACK))
    assert (refused["outcome"], refused["placements"]) == ("infeasible", [])


def test_k6_preferred_falls_back_level_by_level() -> None:
    nodes = [node("a", "z/b0/r0", gpus=2), node("b", "z/b0/r1", gpus=2), node("c", "z/b1/r2", gpus=2)]
    assert answer(nodes, gang(pods("w", 2), preferred=RACK))["score"] == 1.0
    split = answer(nodes, gang(pods("w", 4), preferred=RACK))
    assert nodes_of(split) == {"a": 2, "b": 2}
    assert split["domains"] == [{"group": "", "level": BLOCK, "path": ["z", "b0"]}]
    assert split["score"] == pytest.approx((2 + 1 / 2) / 4)


def test_k6_a_preferred_level_never_breaks_a_required_one() -> None:
    nodes = [node("a", "z0/b/r0", gpus=2), node("b", "z0/b/r1", gpus=2), node("c", "z1/b/r2", gpus=3)]
    assert nodes_of(answer(nodes, gang(pods("w", 4), required=ZONE, preferred=RACK))) == {"a": 2, "b": 2}


def test_k7_a_split_gang_uses_few_domains_and_near_ones() -> None:
    racks = {"z/b0/r0": 3, "z/b0/r1": 1, "z/b0/r2": 2, "z/b1/r3": 3}
    nodes = [node(path.split("/")[-1], path, gpus=gpus) for path, gpus in racks.items()]
    assert nodes_of(answer(nodes, gang(pods("w", 5), preferred=RACK))) == {"r0": 3, "r2": 2}


def test_k7_thirty_two_one_pod_nodes_worth_of_gang_on_racks_of_eight_use_four_racks() -> None:
    nodes = [node(f"n{at}", f"z/b/r{at // 8}", gpus=1) for at in range(800)]
    found = nodes_of(answer(nodes, gang(pods("w", 32), preferred=RACK)))
    assert len({int(name[1:]) // 8 for name in found}) == 4


def test_k5_pods_of_different_sizes_are_counted_as_what_they_are() -> None:
    nodes = [node("a"), node("b")]
    assert nodes_of(answer(nodes, gang(pods("small", 4, 2), pods("large", 1, 8), required=BLOCK)))


def test_k9_siblings_are_moved_for_each_other_whatever_their_order() -> None:
    nodes = [node("five", "z/b/r0", gpus=5), node("six", "z/b/r1", gpus=6)]
    for sizes in ((3, 3, 5), (5, 3, 3), (3, 5, 3)):
        groups = [{"name": f"s{at}", "required": RACK, "pods": [pods("w", size)]} for at, size in enumerate(sizes)]
        assert nodes_of(answer(nodes, gang(groups=groups))) == {"five": 5, "six": 6}


def test_k9_a_required_level_broader_than_all_nodes_works() -> None:
    assert nodes_of(answer([node("a"), node("b")], gang(pods("w", 2, 8), required=ZONE))) == {"a": 1, "b": 1}


def test_equal_rack_names_in_different_blocks_stay_apart() -> None:
    nodes = [node("a", "z/b0/r", gpus=1), node("b", "z/b1/r", gpus=1)]
    assert answer(nodes, gang(pods("w", 2), required=RACK))["outcome"] == "infeasible"


def test_dotted_label_values_do_not_collide() -> None:
    nodes = [node("a", "a.b/c/r", gpus=1), node("b", "a/b.c/r", gpus=1)]
    assert answer(nodes, gang(pods("w", 2), required=RACK))["outcome"] == "infeasible"


def test_idle_room_is_taken_before_a_domain_that_is_still_releasing() -> None:
    nodes = [node("leaving", "z/b/r0", gpus=2, used=2, releasing=2), node("idle", "z/b/r1", gpus=4)]
    found = answer(nodes, gang(pods("w", 2), required=RACK))
    assert (nodes_of(found), found["waits"]) == ({"idle": 2}, False)


def test_a_gang_waits_for_releasing_room_when_there_is_no_other() -> None:
    found = answer([node("leaving", gpus=2, used=2, releasing=2)], gang(pods("w", 2), required=RACK))
    assert (nodes_of(found), found["waits"]) == ({"leaving": 2}, True)


def test_unlabelled_nodes_are_the_last_resort_of_a_preference() -> None:
    nodes = [node("in", gpus=1), *(node(f"out{at}", "", gpus=1) for at in range(3))]
    assert len(nodes_of(answer(nodes, gang(pods("w", 4), preferred=RACK)))) == 4
    assert nodes_of(answer([node("in", gpus=4), node("out", "", gpus=2)], gang(pods("w", 2), preferred=RACK))) == {
        "in": 2
    }


def test_k8_cordoned_not_ready_and_untolerated_nodes_are_no_capacity() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    nodes = [
        node("cordoned", unschedulable=True),
        node("lost", ready=False),
        node("tainted", taints=[taint]),
    ]
    assert answer(nodes, gang(pods("w")))["outcome"] == "infeasible"
    tolerant = gang(pods("w", tolerations=[{"key": "k", "operator": "Exists"}]))
    assert nodes_of(answer(nodes, tolerant)) == {"tainted": 1}


def test_k8_preferred_affinity_and_soft_taints_decide_inside_the_chosen_domain_only() -> None:
    soft = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
    nodes = [node("a", "z/b/r0", gpus=4, taints=[soft]), node("b", "z/b/r0", gpus=4), node("c", "z/b/r1", gpus=20)]
    assert nodes_of(answer(nodes, gang(pods("w"), required=RACK))) == {"b": 1}


def test_k8_two_pods_with_one_host_port_never_share_a_node() -> None:
    nodes = [node("a", hostPorts=[80]), node("b"), node("c")]
    asked = gang(pods("w", 2, hostPorts=[80]))
    assert nodes_of(answer(nodes, asked)) == {"b": 1, "c": 1}
    assert answer(nodes[:2], asked)["outcome"] == "infeasible"


def test_anti_affinity_keeps_pods_of_a_set_on_different_hosts() -> None:
    asked = gang(pods("w", 2, antiAffinity=[HOST]))
    assert nodes_of(answer([node("a"), node("b")], asked)) == {"a": 1, "b": 1}
    assert answer([node("a")], asked)["outcome"] == "infeasible"


def test_pods_are_a_resource() -> None:
    full = node("a") | {"allocatable": {"pods": "2", "nvidia.com/gpu": "8"}}
    assert answer([full], gang(pods("w", 3)))["outcome"] == "infeasible"


def test_k14_elastic_pods_stay_near_and_the_rack_that_holds_them_beats_a_tighter_one() -> None:
    nodes = [node("tight", "z/b/r0", gpus=4), node("roomy", "z/b/r1", gpus=6), node("near", "z/b/r2", gpus=2)]
    found = answer(nodes, gang(pods("w", 8, min=4), preferred=RACK))
    assert nodes_of(found)["roomy"] == 6 and sum(nodes_of(found).values()) == 8


def test_k14_extras_can_be_left_for_later() -> None:
    assert nodes_of(answer([node("a")], gang(pods("w", 6, min=2)), extras="skip")) == {"a": 2}


@pytest.mark.parametrize(("least", "placed"), [((1, 1), {"x": 3, "y": 3}), ((2, 1), {"x": 4, "y": 2})])
def test_k14_pod_sets_share_the_room_for_extras_by_their_minimums(
    least: tuple[int, int], placed: dict[str, int]
) -> None:
    found = answer([node("a", gpus=6)], gang(pods("x", 6, min=least[0]), pods("y", 6, min=least[1])))
    assert Counter(placement["pods"] for placement in found["placements"]) == placed


def test_k14_min_groups_lets_the_rest_out_in_the_order_of_the_problem() -> None:
    nodes = [node("a", gpus=3)]
    asked = gang(pods("x", 2), pods("y", 2), pods("z", 1), minGroups=1)
    found = answer(nodes, asked)
    assert sorted({placement["pods"] for placement in found["placements"]}) == ["x", "z"]


def test_k14_running_members_pin_the_domain() -> None:
    nodes = [node("a", "z/b/r0", gpus=4), node("b", "z/b/r1", gpus=8)]
    asked = gang(pods("w", 3), required=RACK, running=[{"pods": "w", "node": "a"}])
    assert nodes_of(answer(nodes, asked)) == {"a": 2}


def test_g12_a_tied_gang_shares_the_domain_of_the_other() -> None:
    nodes = [node("a", "z/b0/r0", gpus=2), node("b", "z/b0/r1", gpus=4), node("c", "z/b1/r2", gpus=3)]
    base = gang(pods("w", 2), name="base", required=RACK)
    tied = gang(pods("w", 3), name="scaled", tiedTo={"gang": "base", "level": BLOCK})
    assert [nodes_of(found) for found in answers(nodes, base, tied)] == [{"a": 2}, {"b": 3}]


def test_g12_a_gang_tied_to_one_that_is_not_placed_waits_with_that_reason() -> None:
    base = gang(pods("w", 20), name="base")
    tied = gang(pods("w"), name="scaled", tiedTo={"gang": "base", "level": BLOCK})
    refused = answers([node("a")], base, tied)[1]
    assert refused["outcome"] == "infeasible" and "base" in refused["explanation"]["reason"]


@pytest.mark.parametrize(("strategy", "chosen"), [("binpack", "tight"), ("spread", "roomy")])
def test_best_fit_takes_the_least_or_the_most_room_as_configured(strategy: str, chosen: str) -> None:
    nodes = [node("roomy", "z/b/r0", used=2), node("tight", "z/b/r1", used=4)]
    assert set(nodes_of(answer(nodes, gang(pods("w", 2), required=RACK), strategy=strategy))) == {chosen}


def test_gangs_are_decided_in_order_each_after_what_the_others_took() -> None:
    first, second = answers([node("a", gpus=3)], gang(pods("w", 2), name="one"), gang(pods("w", 2), name="two"))
    assert (first["outcome"], second["outcome"]) == ("placed", "infeasible")


def test_nothing_left_to_place_is_placed() -> None:
    found = answer([node("a")], gang(pods("w"), running=[{"pods": "w", "node": "a"}]))
    assert (found["outcome"], found["placements"]) == ("placed", [])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"required": "shelf"}, "shelf"),
        ({"topology": "nowhere"}, "nowhere"),
        ({"topology": None, "required": RACK}, "without a topology"),
        ({"minGroups": 3}, "minGroups"),
        ({"pods": [pods("w", 1, min=2)]}, "min 2"),
        ({"pods": [pods("w"), pods("w")]}, "two children"),
        ({"running": [{"pods": "w", "node": "a"}] * 2}, "running"),
        ({"tiedTo": {"gang": "gang", "level": "shelf"}}, "shelf"),
    ],
)
def test_a_gang_that_contradicts_itself_is_invalid_with_its_reason(wrong: dict[str, object], said: str) -> None:
    refused = answer([node("a")], gang(pods("w")) | wrong)
    assert refused["outcome"] == "invalid" and said in refused["explanation"]["reason"]


def test_k9_a_million_pods_on_fifty_nodes_are_infeasible_at_once() -> None:
    nodes = [node(f"n{at}") for at in range(50)]
    refused = answer(nodes, gang(pods("w", 1_000_000), required=RACK))
    assert refused["outcome"] == "infeasible"


def test_k9_an_answer_that_was_not_found_in_time_says_so() -> None:
    sizes = [27 + at * 7 % 23 for at in range(33)]
    nodes = [node(f"n{at}", f"z/b/r{at}", gpus=100) for at in range(13)]
    groups = [{"name": f"g{at}", "required": RACK, "pods": [pods("w", 1, size)]} for at, size in enumerate(sizes)]
    found = answer(nodes, gang(groups=groups), budget=50)
    assert found["outcome"] == "exhausted" and "50" in found["explanation"]["reason"]
