"""Random problems on which the engine once was wrong."""

from __future__ import annotations

import pytest

from placement_oracle.instances import Profile
from unit.placement.engine_kit import judged
from unit.placement.metamorphic_kit import broken_promises

SEEDS: list[tuple[Profile, int]] = [
    ("core", 81),  # a hard packing ate the budget of an easy placement elsewhere
    ("core", 2017),  # claimed to be proved after the budget had ended
    ("core", 100306),  # nodes outside the wished level were forgotten in counting
    ("tiny", 602),  # a wish of a child that was not chosen
    ("full", 805496639),  # an optional child was asked for more than its own minimum
    ("full", 805502146),  # extra pods for a child below its minimum
    ("full", 805502150),  # running members that break a rule by themselves
    ("full", 805507592),
    ("affinity", 383971132),  # one group of two is enough, but each has to be near to the other
    ("affinity", 383955961),  # an optional group that has to be near to pods of a later one
    ("affinity", 383971882),
]


@pytest.mark.parametrize(("profile", "seed"), SEEDS)
def test_what_was_wrong_once_is_right(profile: Profile, seed: int) -> None:
    _, wrong = judged(profile, [seed])
    assert not wrong


PROMISES: list[tuple[str, int]] = [
    ("unusable nodes", 788603442),  # a full node told two groups apart whose pods may use the same nodes
]


@pytest.mark.parametrize(("check", "seed"), PROMISES)
def test_r2_what_was_promised_and_broken_once_is_kept(check: str, seed: int) -> None:
    assert broken_promises(check, seed) == []
