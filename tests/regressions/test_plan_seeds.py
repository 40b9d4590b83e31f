"""Worlds in which a plan once said something else than then happened."""

from __future__ import annotations

import pytest

from simulation.plan_trial import play

SEEDS = [
    (87, 18),  # pods that were evicted were made anew, and took room that the plan gave to others
]


@pytest.mark.parametrize(("seed", "workloads"), SEEDS)
def test_b1_a_plan_that_was_wrong_once_says_what_then_happens(seed: int, workloads: int) -> None:
    assert play(seed, workloads).different == []
