"""Random problems on which the engine once was wrong."""

from __future__ import annotations

import pytest

from placement_oracle.instances import Profile
from unit.placement.engine_kit import judged

SEEDS: list[tuple[Profile, int]] = [
    ("core", 81),  # a hard packing ate the budget of an easy placement elsewhere
    ("core", 2017),  # claimed to be proved after the budget had ended
    ("core", 100306),  # nodes outside the wished level were forgotten in counting
    ("tiny", 602),  # a wish of a child that was not chosen
    ("full", 805496639),  # an optional child was asked for more than its own minimum
    ("full", 805502146),  # extra pods for a child below its minimum
    ("full", 805502150),  # running members that break a rule by themselves
    ("full", 805507592),
]


@pytest.mark.parametrize(("profile", "seed"), SEEDS)
def test_what_was_wrong_once_is_right(profile: Profile, seed: int) -> None:
    _, wrong = judged(profile, [seed])
    assert not wrong
