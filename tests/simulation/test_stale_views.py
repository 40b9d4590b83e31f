"""R6: a scheduler that hears nothing for a while, from any piece of news on, binds and evicts nobody wrongly."""

from __future__ import annotations

import pytest

from simulation.scenarios import SCENARIOS, Scenario
from simulation.stage import Stale, outcome

LONG_S, SHORT_S = 20.0, 0.5


@pytest.mark.parametrize("lists_anew", [False, True], ids=["late", "cancelled events hidden"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_r6_an_old_view_at_any_moment_does_no_harm(scenario: Scenario, lists_anew: bool) -> None:
    calm = outcome(scenario)
    assert calm.news > 0
    for number in range(1, calm.news + 1):
        seconds = LONG_S if number % 2 else SHORT_S
        deaf = outcome(scenario, stale=Stale(number, seconds, lists_anew))
        assert deaf.broken == [], f"news {number}"
        assert deaf.bound == scenario.bound, f"news {number}"
        assert deaf.evictions == calm.evictions, f"news {number}"
