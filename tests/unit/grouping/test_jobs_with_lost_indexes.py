"""Indexes of a Job that failed for good (`backoffLimitPerIndex`) are not waited for."""

from __future__ import annotations

from typing import Any

import pytest

from unit.grouping.grouping_kit import REQUIRED, TOPOLOGY, owner, pod, wanted

SPEC = {"parallelism": 4, "completions": 6, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
ASKS = {TOPOLOGY: "network", REQUIRED: "rack"}


@pytest.mark.parametrize(
    ("status", "size"),
    [
        ({"failedIndexes": ""}, 4),
        ({"failedIndexes": "2"}, 4),
        ({"failedIndexes": "0,2-3"}, 3),
        ({"failedIndexes": "2", "succeeded": 3}, 2),
        ({"failedIndexes": "0-5"}, 1),
        ({"failedIndexes": "9" * 5000}, 4),
        ({"failedIndexes": "2,4-5,0-" + "9" * 5000}, 2),
    ],
)
def test_k14_a_gang_does_not_wait_for_indexes_that_were_given_up(status: Any, size: int) -> None:
    found = wanted(pod("p"), owner("batch/v1/Job", SPEC, status=status, annotations=ASKS))
    assert found.spec.min_member == size
