"""What is numbered after other placements: each pod set has every index once."""

from __future__ import annotations

from spinney.api.placement.result import Placement
from spinney.core.scheduling.cycle.reservations import continue_numbering


def test_g13_each_pod_set_goes_on_with_the_indices_that_are_free() -> None:
    first = [Placement("a", 1, "n"), Placement("b", 0, "n")]
    more = [Placement("a", 0, "n"), Placement("b", 0, "n"), Placement("a", 1, "n"), Placement("c", 0, "n")]
    numbered = [(place.pods, place.index) for place in continue_numbering(first, more)]
    assert numbered == [("a", 0), ("b", 1), ("a", 2), ("c", 0)]
