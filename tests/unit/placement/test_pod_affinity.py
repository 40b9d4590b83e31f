"""Affinity between the pods of one gang: what the engine answers, case by case and against the exact judge."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.api.placement.reading import read_problem
from spinney.api.placement.writing import write_problem
from unit.placement.engine_kit import judged
from unit.placement.problem_kit import BLOCK, HOST, RACK, answer, gang, node, nodes_of, pods, problem

Json = dict[str, Any]
CHUNK = 25


def apart(key: str, *paths: str) -> Json:
    return {"podAntiAffinity": [{"topologyKey": key, "pods": list(paths)}]}


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


def test_k17_a_path_that_is_no_pod_set_is_a_mistake() -> None:
    found = answer(hosts(1), gang(pods("a", **apart(HOST, "typo"))))
    assert found["outcome"] == "invalid"
    assert found["explanation"]["reason"] == "podAntiAffinity names typo, which is not a pod set of this gang"


def test_k17_what_is_read_is_written() -> None:
    document = problem(hosts(1), gang(pods("a", **apart(HOST, "a", "b")), pods("b")))
    assert (
        write_problem(read_problem(document))["gangs"][0]["pods"][0]["podAntiAffinity"]
        == (document["gangs"][0]["pods"][0]["podAntiAffinity"])
    )
    assert read_problem(write_problem(read_problem(document))) == read_problem(document)
