"""Victims by rules instead of priorities: who goes first, and which go together (Q6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from spinney.api.placement.problem import Gang, Group, Node, Options, PodSet, Running, Topology
from spinney.api.placement.result import Decision, Victim
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.disrupt.victim_rules import VictimRules
from spinney.core.placement.engine import Engine

TOPOLOGY = Topology("t", ("rack",))


def gang(name: str, *nodes: str, minimum: int = 0, priority: int = 0, required: str | None = None) -> Gang:
    """A gang of pods that fill a node each."""
    pods = (PodSet("w", (8,), len(nodes), minimum or len(nodes)),)
    running = tuple([Running("w", node) for node in nodes if node])
    return Gang(name, Group("", pods=pods, topology="t", required=required), priority, True, None, running)


def decided(asking: Gang, rules: VictimRules, *running: Gang) -> Decision:
    """On three racks of two nodes."""
    nodes = tuple(Node(f"{rack}{number}", {"rack": rack}, (8,), (0,), (0,)) for rack in "abc" for number in (0, 1))
    engine = Engine(Inventory.of(("gpu",), (TOPOLOGY,), nodes), {"t": TOPOLOGY}, Options(preempt=True, extras="weigh"))
    for each in running:
        engine.admit_running(each)
    engine.victim_rules = rules
    return engine.decide(asking)


def gone(decision: Decision) -> list[str]:
    return [each.gang for each in decision.victims]


FULL = [gang(f"g{number}", node) for number, node in enumerate(("a0", "a1", "b0", "b1", "c0", "c1"))]


@pytest.mark.parametrize("first", ["g0", "g3", "g5"])
def test_q6_of_equal_victims_the_one_that_is_listed_first_goes_whatever_its_name(first: str) -> None:
    tiers = dict.fromkeys([first, "g1", "g2", "g4"], 0)
    assert gone(decided(gang("x", ""), VictimRules(tiers, lambda _: True), *FULL)) == [first]


def test_q6_a_lower_tier_goes_before_a_higher_one_and_priorities_do_not_count() -> None:
    rules = VictimRules({"g1": 1, "low": 1, "g5": 0}, lambda _: True)
    assert gone(decided(gang("x", ""), rules, gang("low", "c0", priority=-5), *FULL[:4], FULL[5])) == ["g5"]
    important = [gang("g5", "c1", priority=100), *FULL[:5]]
    assert gone(decided(gang("x", ""), rules, *important)) == ["g5"]


def test_q6_who_is_not_listed_stays() -> None:
    decision = decided(gang("x", "", "", required="rack"), VictimRules({"g0": 0, "g2": 0}, lambda _: True), *FULL)
    assert decision.outcome == "infeasible"


def test_q6_pods_above_a_minimum_go_before_a_whole_gang() -> None:
    elastic = gang("elastic", "a0", "a1", minimum=1)
    decision = decided(gang("x", ""), VictimRules({"g2": 0, "elastic": 0}, lambda _: True), elastic, *FULL[2:])
    assert gone(decision) == ["elastic"]


def at_most(count: int) -> Callable[[Sequence[Victim]], bool]:
    return lambda victims: len(victims) <= count


@pytest.mark.parametrize(("most", "outcome"), [(0, "infeasible"), (1, "infeasible"), (2, "placed"), (6, "placed")])
def test_q6_a_set_that_is_not_allowed_is_never_chosen_and_that_there_is_none_is_proved(most: int, outcome: str) -> None:
    rules = VictimRules({each.name: 0 for each in FULL}, at_most(most))
    decision = decided(gang("x", "", "", required="rack"), rules, *FULL)
    assert decision.outcome == outcome
    assert len(decision.victims) == (2 if outcome == "placed" else 0)


def test_q6_the_domain_is_chosen_in_which_an_allowed_set_is_enough() -> None:
    rules = VictimRules(
        {each.name: 0 for each in FULL}, lambda victims: {each.gang for each in victims} <= {"g4", "g5"}
    )
    decision = decided(gang("x", "", "", required="rack"), rules, *FULL)
    assert (decision.outcome, gone(decision)) == ("placed", ["g4", "g5"])
    assert decision.proved
