"""R4 to R6 at length: fresh seeds, with the figures of what was checked.

SPINNEY_SEED repeats a run, SPINNEY_SEEDS changes its length.
"""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from random import SystemRandom

import pytest

from simulation.trial import play, replay

CHUNK = 20

pytestmark = [pytest.mark.long, pytest.mark.timeout(0)]


@pytest.fixture(autouse=True)
def only_when_asked(request: pytest.FixtureRequest) -> None:
    if "long" not in (request.config.getoption("markexpr") or "") and os.environ.get("SPINNEY_LONG") != "1":
        pytest.skip("the long suite runs with -m long or SPINNEY_LONG=1")


def played(first: int, count: int) -> tuple[Counter[str], list[str]]:
    figures: Counter[str] = Counter()
    broken: list[str] = []
    for seed in range(first, first + count):
        trial = play(seed)
        figures += trial.figures
        broken += [f"seed {seed}: {sentence} ({replay(seed)})" for sentence in trial.broken]
    if play(first).digest != play(first).digest:
        broken.append(f"seed {first} is not the same run twice")
    figures["replayed"] += 1
    return figures, broken


def test_r4_ten_thousand_fault_schedules_break_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    first = int(os.environ.get("SPINNEY_SEED") or SystemRandom().randrange(10**6, 10**9))
    count = int(os.environ.get("SPINNEY_SEEDS") or 10_000)
    figures: Counter[str] = Counter()
    broken: list[str] = []
    with ProcessPoolExecutor() as pool:
        tasks = [pool.submit(played, at, min(CHUNK, first + count - at)) for at in range(first, first + count, CHUNK)]
        for task in tasks:
            some, more = task.result()
            figures += some
            broken += more
    with capsys.disabled():
        print(f"\nR4: seeds {first} to {first + count - 1}, {len(broken)} promises broken")
        for what, times in sorted(figures.items()):
            print(f"{times:10} {what}")
        print("\n".join(broken[:50]))
    assert broken == []
