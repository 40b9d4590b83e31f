"""The engine before its judges: 500 fixed random problems, nothing illegal, no false verdict, no better answer."""

from __future__ import annotations

import pytest

from placement_oracle.instances import Profile
from spinney.core.placement.fit import counting
from unit.placement.engine_kit import judged

CHUNK = 20
SHARES: dict[Profile, int] = {"core": 200, "hard": 100, "full": 120, "tiny": 80, "preempt": 40}
CHUNKS = [(profile, start) for profile, count in SHARES.items() for start in range(0, count, CHUNK)]


@pytest.mark.parametrize(("profile", "start"), CHUNKS)
def test_r1_every_answer_is_lawful_true_and_optimal_where_proved(profile: Profile, start: int) -> None:
    _, wrong = judged(profile, range(start, start + CHUNK))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("start", range(0, 120, CHUNK))
def test_r1_the_same_holds_when_a_cluster_is_searched_field_by_field(
    start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "SMALL", 0)
    for profile in ("core", "full"):
        _, wrong = judged(profile, range(start, start + CHUNK))
        assert not wrong, "\n".join(wrong)
