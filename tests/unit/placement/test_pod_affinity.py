"""Affinity between the pods of one gang: what the engine answers, case by case and against the exact judge."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.api.placement.reading import read_problem
from spinney.api.placement.reading.fields import Unreadable
from spinney.core.placement.engine import Engine
from spinney.core.placement.gang.gang_tree import GangTree
from unit.api.placement.problem_writing import write_problem
from unit.placement.engine_kit import judged, judged_preferences
from unit.placement.problem_kit import BLOCK, HOST, RACK, answer, answers, gang, node, nodes_of, pods, problem

Json = dict[str, Any]
CHUNK = 25


def apart(key: str, *paths: str) -> Json:
    return {"podAntiAffinity": [{"topologyKey": key, "pods": list(paths)}]}


def near(key: str, *paths: str, **more: Any) -> Json:
    return {"podAffinity": [{"topologyKey": key, "pods": list(paths), **more}]}


def spread(key: str, skew: int = 1, **more: Any) -> Json:
    return {"topologySpreadConstraints": [{"topologyKey": key, "maxSkew": skew, **more}]}


def hosts(count: int, gpus: int = 8, racks: int = 1) -> list[Json]:
    return [node(f"n{one}", f"z/b/r{one % racks}", gpus) for one in range(count)]


def places(found: Json, pods: str) -> list[str]:
    """The nodes of the new pods of a set."""
    assert found["outcome"] == "placed", found
    return sorted(placement["node"] for placement in found["placements"] if placement["pods"] == pods)


@pytest.mark.parametrize("start", range(0, 200, CHUNK))
def test_k17_answers_to_gangs_with_affinity_inside_are_lawful_true_and_optimal_where_proved(start: int) -> None:
    _, wrong = judged("affinity", range(start, start + CHUNK))
    assert not wrong, "\n".join(wrong)


def test_k17_one_worker_per_host_across_pod_sets() -> None:
    one = apart(HOST, "a", "b")
    found = answer(hosts(5), gang(pods("a", 2, **one), pods("b", 3, **one)))
    assert set(nodes_of(found).values()) == {1}
    found = answer(hosts(4), gang(pods("a", 2, **one), pods("b", 3, **one)))
    assert found["outcome"] == "infeasible"


def test_k17_it_is_enough_that_one_of_the_two_says_so() -> None:
    found = answer(hosts(3), gang(pods("a", 2), pods("b", 2, **apart(HOST, "a"))))
    assert not set(places(found, "a")) & set(places(found, "b"))


def test_k17_pods_that_others_avoid_may_share_a_host_with_each_other() -> None:
    found = answer(hosts(2), gang(pods("a", 4, 2), pods("b", 4, 2, **apart(HOST, "a"))))
    assert [len(set(places(found, name))) for name in "ab"] == [1, 1]


def test_k17_pod_sets_keep_apart_by_a_level_and_by_any_other_label() -> None:
    racks = hosts(4, racks=2)
    found = answer(racks, gang(pods("a", 2, 8), pods("b", 2, 8, **apart(RACK, "a"))))
    assert places(found, "a") in (["n0", "n2"], ["n1", "n3"])
    for number, one in enumerate(racks):
        one["labels"]["room"] = f"room-{number // 2}"
    found = answer(racks, gang(pods("a", 2, 8), pods("b", 2, 8, **apart("room", "a"))))
    assert places(found, "a") in (["n0", "n1"], ["n2", "n3"])


def test_k17_a_node_without_the_label_is_nobodys_neighbour() -> None:
    nodes = hosts(1)
    found = answer(nodes, gang(pods("a"), pods("b", **apart("room", "a"))))
    assert nodes_of(found) == {"n0": 2}


def test_k17_members_that_run_keep_others_away() -> None:
    sets = gang(pods("a", 2), pods("b", 1, **apart(BLOCK, "a")), running=[{"pods": "a", "node": "n0"}])
    found = answer([node("n0", "z/b0/r"), node("n1", "z/b0/r"), node("n2", "z/b1/r")], sets)
    assert places(found, "b") == ["n2"]
    assert places(found, "a") in (["n0"], ["n1"])


def test_k17_groups_that_sit_in_different_racks_still_keep_apart_by_block() -> None:
    """Parts without a node in common are decided together where a label couples them."""
    nodes = [node("n0", "z/b0/r0"), node("n1", "z/b0/r1"), node("n2", "z/b1/r2")]
    groups = [
        {"name": "x", "required": RACK, "pods": [pods("a", 1, 8)]},
        {"name": "y", "required": RACK, "pods": [pods("b", 1, 8, **apart(BLOCK, "x/a"))]},
    ]
    found = answer(nodes, {"name": "gang", "topology": "t", "groups": groups})
    assert "n2" in nodes_of(found)
    assert answer(nodes[:2], {"name": "gang", "topology": "t", "groups": groups})["outcome"] == "infeasible"


def test_k17_pods_beyond_the_minimum_keep_apart_as_well() -> None:
    found = answer(hosts(3), gang(pods("a", 1, 1), pods("b", 30, 1, min=1, **apart(HOST, "a"))))
    assert len(places(found, "b")) == 16
    assert not set(places(found, "a")) & set(places(found, "b"))


def test_k17_pods_of_a_set_come_together_by_any_label() -> None:
    nodes = hosts(4)
    for number, one in enumerate(nodes):
        one["labels"]["room"] = f"room-{number % 2}"
    found = answer(nodes, gang(pods("a", 2, 8, **near("room", "a"))))
    assert places(found, "a") in (["n0", "n2"], ["n1", "n3"])
    found = answer(nodes, gang(pods("a", 3, 8, **near("room", "a"))))
    assert found["outcome"] == "infeasible"


def test_k17_sets_that_come_together_and_share_one_come_together_all() -> None:
    sets = [pods("a", 1, 8, **near(RACK, "a", "b")), pods("b", 1, 8), pods("c", 1, 8, **near(RACK, "b", "c"))]
    assert answer(hosts(4, racks=2), gang(*sets))["outcome"] == "infeasible"
    assert len(nodes_of(answer(hosts(6, racks=2), gang(*sets)))) == 3


def test_k17_pods_follow_those_of_another_set_wherever_they_are() -> None:
    """Two racks have two hosts each; three servers need both racks, so both need a cache."""
    nodes = hosts(4, racks=2)
    servers, caches = pods("server", 3, 7, **near(RACK, "cache")), pods("cache", 2, 1)
    found = answer(nodes, gang(servers, caches))
    racks = {one["name"]: one["labels"][RACK] for one in nodes}
    assert {racks[name] for name in places(found, "server")} == {racks[name] for name in places(found, "cache")}
    assert answer(nodes, gang(servers, pods("cache", 1, 1)))["outcome"] == "infeasible"


def test_k17_pods_follow_those_that_are_there_already() -> None:
    nodes = [node("n0", "z/b/r0"), node("n1", "z/b/r1")]
    found = answer(nodes, gang(pods("a", 1, **near(RACK, "b", domains=["r1"])), pods("b", 1, 8)))
    assert places(found, "a") == ["n1"]
    assert places(found, "b") == ["n0"]


def test_k17_a_set_is_spread_over_the_domains_of_a_label() -> None:
    nodes = [node(f"n{one}", f"z/b/r{one // 2}") for one in range(6)]
    found = answer(nodes, gang(pods("a", 6, 1, **spread(RACK))))
    racks = [int(name[1]) // 2 for name in places(found, "a")]
    assert [racks.count(rack) for rack in range(3)] == [2, 2, 2]


def test_k17_a_domain_without_room_counts_as_one_with_few_pods() -> None:
    nodes = [node("n0", "z/b/r0"), node("n1", "z/b/r1"), node("n2", "z/b/r2", used=8)]
    assert answer(nodes, gang(pods("a", 2, **spread(RACK))))["outcome"] == "placed"
    assert answer(nodes, gang(pods("a", 3, **spread(RACK))))["outcome"] == "infeasible"
    assert answer(nodes, gang(pods("a", 3, **spread(RACK, 2))))["outcome"] == "placed"
    selected = pods("a", 4, **spread(HOST), nodeSelector={RACK: "r0"})
    assert answer(nodes, gang(selected))["outcome"] == "placed"


def test_k17_with_too_few_domains_the_fewest_count_as_none() -> None:
    nodes = [node("n0", "z/b/r0"), node("n1", "z/b/r1")]
    assert answer(nodes, gang(pods("a", 4, **spread(RACK))))["outcome"] == "placed"
    assert answer(nodes, gang(pods("a", 4, **spread(RACK, minDomains=3))))["outcome"] == "infeasible"


def test_k17_pods_beyond_the_minimum_are_spread_and_near_as_well() -> None:
    nodes = [node("n0", "z/b/r0", gpus=2), node("n1", "z/b/r1")]
    found = answer(nodes, gang(pods("a", 8, 1, min=1, **spread(RACK))))
    assert sorted(places(found, "a")) == ["n0"] * 2 + ["n1"] * 3
    nodes = [node("n0", "z/b/r0"), node("n1", "z/b/r1", gpus=2)]
    found = answer(nodes, gang(pods("a", 20, 1, min=1, **near(RACK, "b")), pods("b", 1, 2, nodeSelector={RACK: "r1"})))
    assert found["outcome"] == "infeasible"


def group(name: str, *sets: Json, **more: Any) -> Json:
    return {"name": name, "pods": list(sets), **more}


def one_of(*groups: Json, **more: Any) -> Json:
    return {"name": "gang", "topology": "t", "groups": list(groups), "minGroups": 1, **more}


def groups_of(found: Json) -> set[str]:
    assert found["outcome"] == "placed", found
    return {placement["pods"].split("/")[0] for placement in found["placements"]}


MUTUAL = (group("a", pods("p", **near(RACK, "b/p"))), group("b", pods("p", **near(RACK, "a/p"))))


def test_k17_two_groups_that_need_each_other_are_placed_both_where_one_would_be_enough() -> None:
    assert groups_of(answer(hosts(2, 1), one_of(*MUTUAL), extras="skip")) == {"a", "b"}
    assert answer(hosts(1, 1), one_of(*MUTUAL))["outcome"] == "infeasible"
    inside = {"name": "inside", "groups": list(MUTUAL[1:]), "minGroups": 1}
    follower = pods("p", **near(RACK, "inside/b/p"))
    leader = pods("p", **near(RACK, "a/p"))
    asked = one_of(group("a", follower), inside | {"groups": [group("c", pods("q", 1, 8)), group("b", leader)]})
    assert groups_of(answer(hosts(2, 1), asked, extras="skip")) == {"a", "inside"}


def test_k17_a_child_that_nobody_has_to_be_near_to_is_not_needed() -> None:
    asked = one_of(*MUTUAL, group("c", pods("p")))
    assert groups_of(answer(hosts(2, 1), asked, extras="skip")) == {"c"}
    large = one_of(*MUTUAL, group("c", pods("p", 1, 8)))
    assert groups_of(answer(hosts(3, 1), large, extras="skip")) == {"a", "b"}


def test_k17_more_children_are_taken_only_where_the_fewest_fit_nowhere() -> None:
    """The fuller rack would hold the two; one alone needs the emptier one."""
    nodes = [node("n0", "z/b/r0", gpus=2), *(node(f"n{one}", "z/b/r1", gpus=8) for one in (1, 2))]
    asked = one_of(*MUTUAL, group("c", pods("p", 1, 8)), required=RACK)
    assert groups_of(answer(nodes, asked, extras="skip")) == {"c"}
    assert groups_of(answer(nodes[:1], asked, extras="skip")) == {"a", "b"}


def test_k17_room_is_made_for_all_that_need_each_other() -> None:
    low = gang(pods("p", 2, 1), name="low", priority=-1, running=[{"pods": "p", "node": f"n{one}"} for one in (0, 1)])
    found = answers(hosts(2, 1), one_of(*MUTUAL), low, preempt=True)[0]
    assert groups_of(found) == {"a", "b"}
    assert len(found["victims"]) == 2


def test_k17_optional_groups_are_added_with_those_that_they_have_to_be_near_to() -> None:
    first = group("first", pods("p", 1, 8))
    large = group("large", pods("p", 1, 8))
    found = answer(hosts(2), one_of(first, large, *MUTUAL))
    assert groups_of(found) == {"first", "large"}
    found = answer([*hosts(1), node("n1", gpus=2)], one_of(first, large, *MUTUAL))
    assert groups_of(found) == {"first", "a", "b"}


def test_k17_extra_pods_let_others_in_that_have_to_be_near_to_them() -> None:
    """The optional group fits beside the second server only."""
    nodes = [node("n0", "z/b/r0", gpus=4), node("n1", "z/b/r1", gpus=5)]
    server = group("server", pods("p", 2, 4, min=1))
    cache = group("cache", pods("p", 1, 1, **near(HOST, "server/p")))
    assert nodes_of(answer(nodes, one_of(server, cache))) == {"n0": 1, "n1": 2}


def test_k17_a_path_that_is_no_pod_set_is_a_mistake() -> None:
    found = answer(hosts(1), gang(pods("a", **apart(HOST, "typo"))))
    assert found["outcome"] == "invalid"
    assert found["explanation"]["reason"] == "podAntiAffinity names typo, which is not a pod set of this gang"


def test_k17_what_is_read_is_written() -> None:
    terms = apart(HOST, "a", "b") | near(RACK, "b", domains=["r0"]) | spread(BLOCK, 2, minDomains=3)
    document = problem(hosts(1), gang(pods("a", **terms), pods("b")))
    written = write_problem(read_problem(document))["gangs"][0]["pods"][0]
    assert {name: written[name] for name in terms} == terms
    assert read_problem(write_problem(read_problem(document))) == read_problem(document)


def test_k15_k17_a_gang_that_its_own_affinity_keeps_out_says_so() -> None:
    one = apart(HOST, "a", "b")
    found = answer(hosts(4), gang(pods("a", 2, **one), pods("b", 3, **one)))
    assert found["explanation"]["reason"].endswith("holds 4, and affinity between its pods keeps the others away")
    assert found["explanation"]["best"][0]["holds"] == 4


# Preferred terms


@pytest.mark.parametrize("start", range(0, 100, CHUNK))
def test_k17_preferences_are_kept_where_they_cost_nothing_and_never_cost_anything(start: int) -> None:
    figures, wrong = judged_preferences(range(start, start + CHUNK))
    assert not wrong, "\n".join(wrong)
    assert figures["kept"]


def weighed(terms: Json, weight: int) -> Json:
    return {name: [{**term, "weight": weight} for term in found] for name, found in terms.items()}


def test_k17_the_heavier_preference_goes_first() -> None:
    both = {**weighed(apart(HOST, "a"), 10), **weighed(near(HOST, "a"), 20)}
    assert set(nodes_of(answer(hosts(4), gang(pods("a", 4, **both)))).values()) == {4}
    both = {**weighed(apart(HOST, "a"), 20), **weighed(near(HOST, "a"), 10)}
    assert set(nodes_of(answer(hosts(4), gang(pods("a", 4, **both)))).values()) == {1}


def test_k17_a_preferred_level_goes_before_a_preferred_term() -> None:
    found = answer(hosts(4), gang(pods("a", 4, preferred=HOST, **weighed(apart(HOST, "a"), 100))))
    assert (found["score"], set(nodes_of(found).values())) == (1.0, {4})


def test_k17_pods_that_cannot_all_be_apart_are_spread_evenly() -> None:
    found = answer(hosts(3), gang(pods("a", 6, **weighed(apart(HOST, "a"), 1))))
    assert set(nodes_of(found).values()) == {2}


def test_k17_nobody_is_evicted_for_a_preference() -> None:
    there = gang(
        pods("p", 2, 8), name="there", priority=-1, running=[{"pods": "p", "node": name} for name in ("n0", "n1")]
    )
    new = gang(pods("a", 2, **weighed(apart(HOST, "a"), 100)), priority=5)
    found = answers(hosts(3), there, new, preempt=True)[-1]
    assert (found["outcome"], found["victims"], nodes_of(found)) == ("placed", [], {"n2": 2})


def test_k17_preferences_of_a_gang_with_followers_leave_room_for_them() -> None:
    base = gang(pods("a", 2, 4, **weighed(apart(HOST, "a"), 100)), name="base", topology="t")
    follower = gang(pods("b", 1, 8), name="scaled", topology="t", tiedTo={"gang": "base", "level": RACK})
    first, second = answers(hosts(2), base, follower)
    assert (set(nodes_of(first).values()), second["outcome"]) == ({2}, "placed")


def test_k17_what_was_tried_for_a_preference_is_kept_and_not_searched_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []
    alone = Engine._placed_alone

    def counted(engine: Engine, parts: GangTree, *more: Any) -> Any:
        tried.append(parts.gang.name)
        return alone(engine, parts, *more)

    monkeypatch.setattr(Engine, "_placed_alone", counted)
    more = gang(pods("b", 2, 4), name="more", running=[{"pods": "b", "node": "n0"}])
    wish = gang(pods("a", 2, 4, **weighed(apart(HOST, "a"), 100)), name="wish", running=[{"pods": "a", "node": "n0"}])
    found = answers(hosts(2), wish, more)
    assert [nodes_of(each) for each in found] == [{"n1": 1}, {"n1": 1}]
    assert tried == ["wish", "wish", "more"]


@pytest.mark.parametrize("weight", [0, 101, -1])
def test_k17_a_weight_out_of_range_is_refused(weight: int) -> None:
    with pytest.raises(Unreadable, match=r"weight.*a whole number from 1 to 100"):
        answer(hosts(2), gang(pods("a", 2, **weighed(apart(HOST, "a"), weight))))


def test_k17_a_preference_about_a_pod_set_that_there_is_not_is_invalid() -> None:
    found = answer(hosts(2), gang(pods("a", 2, **weighed(apart(HOST, "b"), 5))))
    assert (found["outcome"], found["explanation"]["reason"]) == (
        "invalid",
        "podAntiAffinity names b, which is not a pod set of this gang",
    )


def test_k17_preferences_can_be_written_and_read() -> None:
    every = {
        **weighed(apart(HOST, "a"), 1),
        **weighed(near(RACK, "a", domains=["r"]), 2),
        **weighed(spread(HOST, 2), 3),
    }
    asked = read_problem(problem(hosts(2), gang(pods("a", 2, **every))))
    assert read_problem(write_problem(asked)) == asked
    assert len(asked.gangs[0].root.pods[0].affinity_preferences) == 3
