"""Simulated worlds in which a promise was broken once."""

from __future__ import annotations

import pytest

from simulation.trial import play, replay

SEEDS = [
    2,  # a gang began with the rest of its pods after others of its plan had left
    19,  # pods of a part that was not complete were held in silence beside a part that ran
    28,  # a bind counted as seen because of a bookmark: a pod was planned again after it had been bound
    96,  # held in silence, as 19
    113,  # an eviction that was asked for twice
    158,  # a plan was given up by halves, and nobody asked what became of the rest until a restart
    169,  # members on a node that was gone
]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_broken_once_is_kept(seed: int) -> None:
    assert play(seed).broken == [], replay(seed)
