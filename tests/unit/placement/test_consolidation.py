"""Who has to move: the fewest pods, onto idle room, and nobody is worse off than allowed."""

from __future__ import annotations

from typing import Any

import pytest

from placement_oracle.checker import violations
from spinney.api.placement.problem import Consolidate, PodSet
from spinney.core.placement.disrupt.consolidation import largest_placeable
from unit.placement.engine_kit import decided
from unit.placement.move_twin import fewest
from unit.placement.test_preemption import engine_for, gang, node, problem
from unit.placement.victim_twin import GPU, HOST, RACK, crowded

Document = dict[str, Any]


def allowing(moves: int = 8, loss: float = 0.0) -> Document:
    return {"preempt": False, "consolidate": {"maxMoves": moves, "maxLoss": loss}}


def moves(answer: Document) -> list[tuple[str, str, str]]:
    return [(move["gang"], move["from"], move["to"]) for move in answer["moves"]]


def loosened(seed: int) -> Document:
    """A crowded problem with a little idle room, whose running gangs care where they are."""
    document = crowded(seed)
    document["options"] = {"extras": "skip", "consolidate": {"maxMoves": 2, "maxLoss": (0.0, 0.5)[seed % 2]}}
    for index, each in enumerate(document["nodes"]):
        each["allocatable"][GPU] = str(int(each["allocatable"][GPU]) + (seed + index) % 3)
    for each in document["gangs"][1:]:
        if seed % 3 == 0:
            each["required"] = RACK
        if seed % 5 < 3:
            each["preferred"] = HOST if seed % 2 else RACK
    return document


@pytest.mark.parametrize("start", range(0, 80, 20))
def test_k10_the_moves_are_as_few_as_those_of_the_brute_force_twin(start: int) -> None:
    for seed in range(start, start + 20):
        document = loosened(seed)
        result = decided(document)
        answer = result["gangs"][0]
        assert not violations(document, result), seed
        if answer["outcome"] == "placed" and not answer["moves"]:
            continue
        assert (len(answer["moves"]) or None, answer["proved"]) == (fewest(document), True), seed


def test_k10_one_pod_moves_and_the_gang_waits_for_its_room() -> None:
    nodes = [node("a0", "a"), node("b0", "b")]
    low = [gang("low-a", 1, 2, "a0"), gang("low-b", 1, 4, "b0")]
    answer = decided(problem(nodes, gang("wanting", 1, 8), *low, **allowing()))["gangs"][0]
    assert (moves(answer), answer["waits"], answer["proved"]) == ([("low-a", "a0", "b0")], True, True)


def test_k10_moves_are_tried_before_victims() -> None:
    nodes = [node("a0", "a"), node("b0", "b")]
    low = [gang("low-a", 1, 2, "a0"), gang("low-b", 1, 4, "b0")]
    options = {**allowing(), "preempt": True}
    answer = decided(problem(nodes, gang("wanting", 1, 8, priority=5), *low, **options))["gangs"][0]
    assert len(answer["moves"]) == 1 and not answer["victims"]


def test_k10_victims_are_taken_where_the_moves_allowed_are_too_few() -> None:
    nodes = [node("a0", "a"), node("b0", "b")]
    low = [gang("low-a", 2, 2, "a0", "a0"), gang("low-b", 2, 2, "b0", "b0")]
    options = {**allowing(moves=1), "preempt": True}
    answer = decided(problem(nodes, gang("wanting", 1, 8, priority=5), *low, **options))["gangs"][0]
    assert not answer["moves"] and len(answer["victims"]) == 2


def test_k10_a_running_gang_does_not_lose_its_locality_beyond_the_allowed_loss() -> None:
    nodes = [node("a0", "a"), node("b0", "b", 4)]
    low = gang("low", 2, 2, "a0", "a0", preferred=RACK)
    stays = gang("stays", 1, 2, "b0", preemptible=False)
    wanting = gang("wanting", 1, 6)
    answers = [decided(problem(nodes, wanting, low, stays, **allowing(loss=loss)))["gangs"][0] for loss in (0.0, 0.9)]
    assert [answer["outcome"] for answer in answers] == ["infeasible", "placed"]
    assert moves(answers[1]) == [("low", "a0", "b0")]


def test_k10_a_required_domain_moves_as_a_whole_or_not_at_all() -> None:
    nodes = [node("a0", "a", 4), node("a1", "a", 4), node("b0", "b", 4)]
    low = gang("low", 2, 2, "a0", "a1", required=RACK)
    wanting = gang("wanting", 2, 4, required=RACK)
    assert decided(problem(nodes, wanting, low, **allowing(moves=1)))["gangs"][0]["outcome"] == "infeasible"
    answer = decided(problem(nodes, wanting, low, **allowing(moves=2)))["gangs"][0]
    assert moves(answer) == [("low", "a0", "b0"), ("low", "a1", "b0")]


def test_g12_a_gang_does_not_move_away_from_the_one_it_is_tied_to() -> None:
    nodes = [node("a0", "a"), node("a1", "a", 2), node("b0", "b", 2)]
    base = gang("base", 1, 2, "a1", preemptible=False)
    tied = gang("tied", 1, 2, "a0", tiedTo={"gang": "base", "level": RACK})
    answer = decided(problem(nodes, gang("wanting", 1, 8), base, tied, **allowing()))["gangs"][0]
    assert answer["outcome"] == "infeasible"
    del tied["tiedTo"]
    answer = decided(problem(nodes, gang("wanting", 1, 8), base, tied, **allowing()))["gangs"][0]
    assert moves(answer) == [("tied", "a0", "b0")]


def test_g12_a_gang_does_not_move_away_from_those_tied_to_it() -> None:
    nodes = [node("a0", "a"), node("a1", "a", 2), node("b0", "b", 2)]
    base = gang("base", 1, 2, "a0")
    tied = gang("tied", 1, 2, "a1", preemptible=False, tiedTo={"gang": "base", "level": RACK})
    answer = decided(problem(nodes, gang("wanting", 1, 8), base, tied, **allowing()))["gangs"][0]
    assert answer["outcome"] == "infeasible"


def test_k10_protected_gangs_do_not_move() -> None:
    nodes = [node("a0", "a"), node("b0", "b", 4)]
    low = gang("low", 1, 2, "a0", preemptible=False)
    answer = decided(problem(nodes, gang("wanting", 1, 8), low, **allowing()))["gangs"][0]
    assert (answer["outcome"], answer["moves"]) == ("infeasible", [])


def test_k10_a_moved_pod_is_not_moved_or_evicted_again() -> None:
    nodes = [node("a0", "a"), node("b0", "b", 4)]
    low = gang("low", 1, 4, "a0")
    later = gang("later", 1, 4, priority=9)
    options = {**allowing(), "preempt": True}
    answers = decided(problem(nodes, gang("wanting", 1, 8, priority=5), later, low, **options))["gangs"]
    assert moves(answers[0]) == [("low", "a0", "b0")]
    assert [answer["outcome"] for answer in answers] == ["placed", "infeasible", "placed"]
    assert not answers[2]["placements"]


def test_k10_what_would_raise_the_largest_placeable_gang_and_what_it_costs() -> None:
    nodes = [node("a0", "a"), node("a1", "a"), node("b0", "b", 4)]
    low = [gang("low-0", 1, 2, "a0"), gang("low-1", 2, 1, "a1", "a1")]
    engine = engine_for(problem(nodes, *low))
    found = largest_placeable(engine, PodSet("w", (8,)), "t", RACK, Consolidate(max_moves=3, max_loss=0.0))
    assert found.count == 0 and found.proved
    assert [(step.count, len(step.moves), step.loss) for step in found.raises] == [(1, 1, 0.0), (2, 3, 0.0)]
    assert engine.inventory.idle == [[6], [6], [4]]
