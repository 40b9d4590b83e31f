"""R5: a scheduler that crashes at any of its writes. Whoever comes after it ends where it would have ended."""

from __future__ import annotations

import pytest

from simulation.scenarios import SCENARIOS, Scenario
from simulation.stage import outcome
from spinney.sim.faults import CrashPoint, When


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_r5_a_crash_at_any_write_changes_neither_the_end_nor_what_was_done_for_it(scenario: Scenario) -> None:
    calm = outcome(scenario)
    assert calm.broken == []
    assert (calm.bound, calm.crashes) == (scenario.bound, 0)
    assert calm.writes > 0
    for number in range(1, calm.writes + 1):
        for when in When:
            crashed = outcome(scenario, CrashPoint(number, when))
            point = f"write {number}, {when.value}"
            assert crashed.broken == [], point
            assert crashed.crashes == 1, point
            assert crashed.counts == calm.counts, point
            assert crashed.state == calm.state, point
