"""The best score that a gang could have: what is reached where nothing better exists, and never less than what is."""

from __future__ import annotations

import pytest

from placement_oracle.instances import Profile, instance
from spinney.api.placement.reading import read_problem
from spinney.core.placement.best_score import best_score, bound
from spinney.core.placement.engine import Engine
from spinney.core.placement.gang.gang_tree import read_gang_tree
from unit.placement.refusal_kit import RACK, Document, engine_of, gang, nodes, pods, problem


def scores(document: Document, at: int = 0) -> tuple[float, float]:
    """What a gang got, and what it could have at most."""
    asked = read_problem(document)
    engine: Engine = engine_of(asked)
    decisions = [engine.decide(one) for one in asked.gangs[: at + 1]]
    assert decisions[at].outcome == "placed"
    parts = read_gang_tree(asked.gangs[at], {each.name: each for each in asked.topologies})
    leaves = {leaf.path: leaf for leaf in parts.leaves}
    inventory = engine.inventory
    live = [(leaves[each.pods], inventory.slot_for(each.node, each.zone)) for each in decisions[at].placements]
    live += [(leaves[each.pods], inventory.slot_for(each.node, each.zone)) for each in asked.gangs[at].running]
    reached = decisions[at].score
    assert reached is not None
    return reached, best_score(parts, inventory, live)


def test_k15_a_gang_that_fills_two_racks_of_two_blocks_has_the_best_score_there_is() -> None:
    there = nodes({"b0/r0": [8] * 18, "b1/r0": [8] * 18})
    reached, best = scores(problem(there, gang(preferred=RACK, pods=[pods("w", 36, 8)])))
    assert reached == pytest.approx(best) == pytest.approx((0 + 1 / 2) / 3)


def test_k15_a_gang_in_one_block_that_no_rack_holds_has_the_best_score_there_is() -> None:
    there = nodes({"b0/r0": [8, 8], "b0/r1": [8, 8]})
    assert scores(problem(there, gang(preferred=RACK, pods=[pods("w", 4, 8)]))) == pytest.approx((0.5, 0.5))


def test_k15_what_others_hold_is_possible_and_was_not_reached() -> None:
    there = nodes({"b0/r0": [8, 0], "b0/r1": [8, 0]})
    reached, best = scores(problem(there, gang(preferred=RACK, pods=[pods("w", 2, 8)])))
    assert (reached, best) == pytest.approx((0.5, 1.0))


def test_k15_nodes_that_the_pods_may_not_use_make_nothing_possible() -> None:
    there = nodes({"b0/r0": [8], "b0/r1": [8, 8]})
    there[2]["unschedulable"] = True
    assert scores(problem(there, gang(preferred=RACK, pods=[pods("w", 2, 8)]))) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize("profile", ["core", "hard", "zones", "small-zones"])
def test_k15_the_engine_never_reaches_more_than_is_said_to_be_possible(profile: Profile) -> None:
    for seed in range(40):
        asked = read_problem(instance(seed, profile))
        engine = engine_of(asked)
        topologies = {each.name: each for each in asked.topologies}
        for one in asked.gangs:
            decision = engine.decide(one)
            if decision.outcome != "placed" or not decision.placements or one.running:
                continue
            parts = read_gang_tree(one, topologies)
            leaves = {leaf.path: leaf for leaf in parts.leaves}
            live = [
                (leaves[each.pods], engine.inventory.slot_for(each.node, each.zone)) for each in decision.placements
            ]
            bare = bound(parts, engine.inventory, live)
            assert decision.score is not None
            assert decision.score <= bare + 1e-9 <= 1 + 2e-9, (seed, one.name)
