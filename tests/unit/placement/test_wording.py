"""Explanations as text: what is there is said, once, in words and quantities."""

from __future__ import annotations

from spinney.api.placement.result import (
    Blocked,
    Explanation,
    FitsAtLevel,
    FitsWithCount,
    FitsWithVictims,
    Shortfall,
    Victim,
)
from spinney.core.placement.explain.reasons import amounts, sentence

VICTIMS = (Victim("ns/a", "w", "n0"), Victim("ns/a", "w", "n1"), Victim("ns/b", "w", "n2"))
FULL = Explanation(
    reason="worker needs 8 pods in one rack; the best of 12, a/r3, holds 5, short of 24 gpu",
    group="worker",
    level="rack",
    considered=12,
    best=(Shortfall(("a", "r3"), 5, 8, {"gpu": 24}), Shortfall(("a", "r1"), 4, 8, {})),
    blocked=Blocked({"not ready": 2, "insufficient gpu": 1}, {"ns/a": 1, "ns/b": 3}),
    fits_if=(FitsAtLevel("block"), FitsWithCount(5), FitsWithVictims(VICTIMS)),
)


def test_k15_the_sentence_is_the_reason_and_what_would_help() -> None:
    assert sentence(FULL) == f"{FULL.reason}; it would fit in one block, with 5 pods or without 3 pods of ns/a and ns/b"


def test_k15_a_reason_without_a_way_out_stands_alone() -> None:
    assert sentence(Explanation("no such level")) == "no such level"


def test_k15_without_the_requirement_is_a_way_of_its_own() -> None:
    assert sentence(Explanation("no", fits_if=(FitsAtLevel(None),))) == "no; it would fit without the requirement"


def test_k15_amounts_are_shown_as_quantities() -> None:
    short = {"nvidia.com/gpu": 24, "cpu": 1500, "memory": 3 << 30, "pods": 1}
    assert amounts(short) == "24 nvidia.com/gpu, 1500m cpu, 3Gi memory and 1 pod slot"
    assert amounts({"cpu": 2000, "pods": 2}) == "2 cpu and 2 pod slots"
