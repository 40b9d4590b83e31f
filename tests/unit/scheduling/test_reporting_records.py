"""What follows what was said before, and the explanation that stands on the PodGroup."""

from __future__ import annotations

import json

import pytest

from spinney.api.builtin.pod import PodCondition
from spinney.api.kinds.podgroup import SchedulingCondition
from spinney.api.placement.result import Blocked, Explanation, FitsWithVictims, Shortfall, Victim
from spinney.core.scheduling.reporting import Report
from spinney.core.scheduling.reporting.report import (
    DEFAULT_NODE_POOL,
    LIMIT,
    State,
    alike,
    decode,
    encode,
    next_conditions,
    pod_condition,
    record,
)
from unit.placement.refusal_kit import BLOCK, RACK, gang, nodes, pods
from unit.scheduling.reporting_kit import told


def refused() -> Report:
    return told(nodes({"b0/r0": [8, 8], "b0/r1": [8], "b1/r2": [4]}), gang(required=RACK, pods=[pods("w", 3, 8)]))


# Conditions one after another


def condition(message: str, number: str = "4", pool: str = DEFAULT_NODE_POOL) -> SchedulingCondition:
    return SchedulingCondition(
        "UnschedulableOnNodePool", pool, "Unschedulable", message, (), "2026-01-01T00:00:00Z", "True", number
    )


def test_a_new_story_counts_one_further_and_stands_last() -> None:
    found = next_conditions((condition("a"), condition("b", "7", "other")), refused(), "default", 60.0)
    assert found is not None
    assert [(one["nodePool"], one["transitionID"]) for one in found] == [("other", "7"), ("default", "8")]
    assert found[-1]["lastTransitionTime"] == "1970-01-01T00:01:00Z"


def test_new_figures_are_no_transition() -> None:
    found = refused()
    assert found.condition is not None
    before = condition(found.message.replace("only 2 of 3", "only 1 of 3"))
    (after,) = next_conditions((before,), found, "default", 60.0) or []
    assert (after["transitionID"], after["lastTransitionTime"]) == ("4", "2026-01-01T00:00:00Z")
    assert after["message"] == found.message


def test_the_same_story_is_no_write() -> None:
    found = refused()
    assert next_conditions((condition(found.message),), found, "default", 60.0) is None


def test_a_scheduled_gang_loses_the_condition_of_its_pool_only() -> None:
    done = Report(State.SCHEDULED, "", clears=True)
    found = next_conditions((condition("a"), condition("b", "7", "other")), done, "default", 60.0)
    assert [one["nodePool"] for one in found or []] == ["other"]
    assert next_conditions((), done, "default", 60.0) is None


def test_a_pod_is_told_again_only_what_is_new_to_it() -> None:
    before = PodCondition("PodScheduled", "False", "Unschedulable", "holds 2 of 3")
    assert pod_condition(before, ("Unschedulable", "holds 1 of 3"), 60.0) is None
    after = pod_condition(before, ("Unschedulable", "no such queue"), 60.0)
    assert after is not None and (after["status"], after["lastTransitionTime"]) == ("False", "1970-01-01T00:01:00Z")


def test_counters_are_all_that_alike_messages_may_differ_in() -> None:
    assert alike("holds 2 of 3", "holds 12 of 3")
    assert not alike("holds 2 of 3", "lacks 2 of 3")


# The explanation


def test_k15_the_explanation_has_the_figures_behind_the_words() -> None:
    found = refused().explanation
    assert found is not None
    assert (found["version"], found["state"], found["level"], found["considered"]) == (1, "Unschedulable", RACK, 3)
    assert found["best"][0] == {"path": ["b0", "r0"], "holds": 2, "of": 3, "short": {"nvidia.com/gpu": 8}}
    assert found["fitsIf"] == [{"level": BLOCK}, {"count": 2}]
    assert decode(encode(found)) == found


def test_a_long_explanation_is_cut_and_says_how_long_it_was() -> None:
    victims = tuple(Victim(f"ns/gang-{at}", "pods", f"node-{at}") for at in range(2000))
    reasons = {f"untolerated taint {at}={'v' * 300}:NoSchedule": 1 for at in range(500)}
    found = record(
        "Unschedulable",
        ["x" * 9000],
        Explanation("r" * 9000, blocked=Blocked(reasons), fits_if=(FitsWithVictims(victims),)),
    )
    assert len(encode(found).encode()) <= LIMIT
    assert found["blocked"]["others"] == 492
    (way,) = found["fitsIf"]
    assert (way["victimCount"], len(way["victims"]), len(way["gangs"])) == (2000, 16, 8)


def test_an_explanation_never_exceeds_its_limit() -> None:
    path = tuple("é" * 253 for _ in range(7))
    best = tuple(Shortfall(path, 1, 2, {}) for _ in range(8))
    found = record("Unschedulable", ["é" * 600] * 9, Explanation("é" * 600, best=best))
    assert len(encode(found).encode()) <= LIMIT
    assert found["leftOut"] == ["best", "lines"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', json.dumps("x")])
def test_what_is_no_explanation_of_ours_is_none(text: str) -> None:
    assert decode(text) is None
