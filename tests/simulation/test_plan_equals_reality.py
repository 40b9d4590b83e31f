"""B1: what `spinney plan` says is what then happens: 200 workloads by seed, planned and then applied."""

from __future__ import annotations

from collections import Counter

import pytest

from simulation.plan_trial import play

SEEDS = range(20)
PER_WORLD = 10


@pytest.mark.parametrize("seed", SEEDS)
def test_b1_a_plan_says_what_then_happens(seed: int) -> None:
    """Verdict, level and domain of every group, how many pods have nodes, who is evicted, and the words."""
    trial = play(seed, PER_WORLD)
    assert trial.different == []
    assert sum(trial.figures.values()) >= PER_WORLD


def test_the_seeds_hold_what_they_promise() -> None:
    """A few worlds are enough to have seen workloads that fit, that do not, that grow, and some evictions."""
    figures: Counter[str] = Counter()
    for seed in (0, 9):
        figures += play(seed, PER_WORLD).figures
    words = " ".join(figures)
    assert {"fits", "no", "partly", "refused"} <= set(words.replace(",", " ").split())
    assert "grows" in words
    assert figures["evictions"] > 0


SHARED_SEEDS = range(12)


@pytest.mark.parametrize("seed", SHARED_SEEDS)
def test_q9_a_plan_says_what_then_happens_where_queues_lend_and_borrow(seed: int) -> None:
    """Also which pods of which queue are reclaimed, and the figures that they are told with."""
    trial = play(seed, 6, shared=True)
    assert trial.different == []


def test_q9_the_seeds_hold_reclaims() -> None:
    figures: Counter[str] = Counter()
    for seed in (0, 8):
        figures += play(seed, 6, shared=True).figures
    assert figures["reclaims"] > 0
