"""Whole sets (G12): a base gang is placed with the gangs in mind that have to share its domain."""

from __future__ import annotations

import pytest

from unit.placement.engine_kit import judged_sets
from unit.placement.problem_kit import BLOCK, HOST, RACK, ZONE, answers, gang, node, nodes_of, pods

CHUNK = 25


def tied(name: str, count: int = 1, gpus: int = 8, level: str = BLOCK) -> dict[str, object]:
    return gang(pods("w", count, gpus), name=name, required=level, tiedTo={"gang": "gang", "level": level})


def blocks(*sizes: int) -> list[dict[str, object]]:
    """Empty nodes of eight GPUs in blocks of these sizes."""
    return [node(f"b{at}-{n}", f"z/b{at}/r") for at, size in enumerate(sizes) for n in range(size)]


def test_g12_the_base_gang_passes_over_a_tight_domain_that_does_not_hold_its_scaled_gangs() -> None:
    found = answers(blocks(2, 4, 6), gang(pods("w", 2, 8), required=BLOCK), tied("s0"), tied("s1"))
    assert {name[:2] for each in found for name in nodes_of(each)} == {"b1"}
    alone = answers(blocks(2, 4, 6), gang(pods("w", 2, 8), required=BLOCK))
    assert {name[:2] for name in nodes_of(alone[0])} == {"b0"}


def test_g12_where_no_domain_holds_all_the_one_with_the_base_and_most_scaled_gangs_is_taken() -> None:
    found = answers(blocks(2, 4, 3), gang(pods("w", 2, 8), required=BLOCK), *(tied(f"s{at}") for at in range(4)))
    assert [each["outcome"] for each in found] == ["placed", "placed", "placed", "infeasible", "infeasible"]
    assert {name[:2] for each in found[:3] for name in nodes_of(each)} == {"b1"}
    assert found[0]["proved"]
    assert "in z/b1" in found[3]["explanation"]["reason"] or found[3]["explanation"]["level"] == BLOCK


def test_g12_inside_the_domain_the_base_gang_stands_where_its_scaled_gangs_still_fit() -> None:
    nodes = [node("four", "z/b/r0", gpus=4), node("seven", "z/b/r1", gpus=7)]
    tie = {"gang": "gang", "level": BLOCK}
    scaled = [gang(pods("w", 4), name=name, required=RACK, tiedTo=tie) for name in ("s0", "s1")]
    base = gang(pods("w", 3), required=BLOCK, preferred=RACK)
    assert nodes_of(answers(nodes, base)[0]) == {"four": 3}
    found = [nodes_of(each) for each in answers(nodes, base, *scaled)]
    assert (found[0], sorted(map(list, found[1:]))) == ({"seven": 3}, [["four"], ["seven"]])


def test_g12_a_scaled_gang_leaves_room_for_the_others_of_its_set() -> None:
    nodes = [node("five", "z/b/r0", gpus=5), node("six", "z/b/r1", gpus=6), node("one", "z/b/r2", gpus=1)]
    tie = {"gang": "gang", "level": BLOCK}
    first = gang(pods("w", 3), pods("v", 2), name="s0", preferred=HOST, tiedTo=tie)
    second = gang(pods("w", 6), name="s1", required=RACK, tiedTo=tie)
    found = answers(nodes, gang(pods("w", 1), required=BLOCK), first, second)
    assert [each["outcome"] for each in found] == ["placed"] * 3


def test_g12_scaled_gangs_come_before_the_preferences_of_the_base_gang_and_after_its_minimum() -> None:
    nodes = [*blocks(1), node("b1-0", "z/b1/r0", gpus=4), node("b1-1", "z/b1/r1", gpus=4)]
    nodes += [node(f"b1-{at}", f"z/b1/r{at}") for at in (2, 3)]
    base = gang(pods("w", 8), required=BLOCK, preferred=HOST)
    found = answers(nodes, base, tied("s0"), tied("s1"))
    assert nodes_of(found[0]) == {"b1-0": 4, "b1-1": 4}
    assert [each["outcome"] for each in found[1:]] == ["placed", "placed"]
    too_large = answers(nodes, base, tied("s0", 9))
    assert nodes_of(too_large[0]) == {"b0-0": 8}


def test_g12_the_minimum_of_scaled_gangs_comes_before_pods_above_the_minimum_of_the_base_gang() -> None:
    base = gang({**pods("w", 4, 8), "min": 2}, required=BLOCK)
    found = answers(blocks(4), base, tied("s0", 2))
    assert [sum(nodes_of(each).values()) for each in found] == [2, 2]


def test_g12_a_base_gang_starts_now_while_its_scaled_gangs_wait_for_pods_that_terminate() -> None:
    nodes = [*blocks(2), *(node(f"b1-{at}", "z/b1/r") for at in range(2)), node("b1-x", "z/b1/r", 8, 8, 8)]
    found = answers(nodes, gang(pods("w", 2, 8), required=BLOCK), tied("s0"))
    assert [each["waits"] for each in found] == [False, True]
    assert {name[:2] for each in found for name in nodes_of(each)} == {"b1"}


def test_g12_a_base_gang_does_not_wait_for_the_sake_of_its_scaled_gangs() -> None:
    nodes = [*blocks(1), node("b1-x", "z/b1/r", 8, 8, 8), node("b1-y", "z/b1/r", 8, 8, 8)]
    found = answers(nodes, gang(pods("w", 1, 8), required=BLOCK), tied("s0"))
    assert (found[0]["waits"], nodes_of(found[0])) == (False, {"b0-0": 1})


def test_g12_a_base_gang_placed_anew_goes_to_its_scaled_gangs_that_run() -> None:
    runs = {**tied("s0"), "running": [{"pods": "w", "node": "b1-0"}]}
    found = answers(blocks(3, 4), gang(pods("w", 2, 8), required=BLOCK), runs)
    assert {name[:2] for name in nodes_of(found[0])} == {"b1"}


def test_g12_the_scaled_gangs_of_a_large_set_are_placed_where_they_fit() -> None:
    base = gang(pods("w", 4), required=ZONE, preferred=HOST)
    nodes = [node(f"n{at}", f"z{at % 2}/b{at % 8}/r{at % 16}") for at in range(16)]
    found = answers(nodes, base, *(tied(f"s{at}", 1, 1, ZONE) for at in range(70)))
    assert sum(each["outcome"] == "placed" for each in found) == 61
    assert not found[0]["proved"]  # it looks at the first of so many


def test_g12_k15_a_scaled_gang_whose_domain_is_full_is_told_where_the_whole_set_would_fit() -> None:
    base = {**gang(pods("w", 2, 8), required=BLOCK), "running": [{"pods": "w", "node": f"b0-{at}"} for at in range(2)]}
    first = {**tied("s0"), "running": [{"pods": "w", "node": "b0-2"}]}
    refused = answers(blocks(3, 2, 4), base, first, tied("s1"))[2]
    assert refused["outcome"] == "infeasible"
    assert {"wholeSet": {"gang": "gang", "path": ["z", "b2"]}} in refused["explanation"]["fitsIf"]
    nowhere = answers(blocks(3, 2, 3), base, first, tied("s1"))[2]
    assert not [way for way in nowhere["explanation"]["fitsIf"] if "wholeSet" in way]


@pytest.mark.parametrize("start", range(0, 300, CHUNK))
def test_g12_wherever_one_domain_holds_a_random_set_all_of_it_runs(start: int) -> None:
    _, wrong = judged_sets(range(start, start + CHUNK))
    assert not wrong, "\n".join(wrong)
