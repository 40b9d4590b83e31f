"""R4 at length: fresh seeds, with the figures of what was checked.

SPINNEY_SEED is the first seed, SPINNEY_SEEDS how many, SPINNEY_PROCESSES in how many processes. What was played on this
tree is kept in `.seeds` and not played again.
"""

from __future__ import annotations

import os
from random import SystemRandom

import pytest

from simulation.seeds import broken_by, fresh_seeds, run, summary

pytestmark = [pytest.mark.long, pytest.mark.timeout(0)]


def test_r4_the_fresh_seeds_of_this_tree_break_no_promise() -> None:
    assert [sentence for seed in fresh_seeds() for sentence in broken_by(seed)] == []


def test_r4_ten_thousand_fault_schedules_break_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    first = int(os.environ.get("SPINNEY_SEED") or SystemRandom().randrange(10**6, 10**9))
    count = int(os.environ.get("SPINNEY_SEEDS") or 10_000)
    with capsys.disabled():
        done = run(first, count, processes=int(os.environ.get("SPINNEY_PROCESSES") or 2))
        print("\n".join(["", f"R4: seeds {first} to {first + count - 1}", *summary(done)]))
    assert [sentence for each in done for sentence in each.broken] == []
