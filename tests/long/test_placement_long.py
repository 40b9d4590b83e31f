"""The engine before its judges, at length: fresh random problems, and the figures of the contract.

SPINNEY_SEED repeats a run, SPINNEY_INSTANCES and SPINNEY_CHECKS change its length.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from random import SystemRandom
from typing import Any

import pytest

from placement_oracle.instances import Profile
from unit.placement.engine_kit import Findings, judged, judged_sets
from unit.placement.metamorphic_kit import CHECKS, broken_promises

CHUNK = 50
MIX: tuple[Profile, ...] = ("core", "core", "core", "core", "hard", "hard", "full", "full", "tiny", "preempt")
FIGURES = (
    *("instances", "gangs", "feasible", "placed", "infeasible", "invalid", "exhausted"),
    *("false infeasible", "exhausted on feasible", "exhausted on infeasible", "violations", "missed extras"),
    *(
        "waits needlessly",
        "victims not cheapest",
        "optimum missed",
        "with preferences",
        "proved",
        "undecided by the judge",
        "crashes",
    ),
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(0)]


@pytest.fixture(scope="module")
def first_seed() -> int:
    return int(os.environ.get("SPINNEY_SEED") or SystemRandom().randrange(10**6, 10**9))


def in_parallel(work: Callable[..., Findings], tasks: Iterable[tuple[Any, ...]]) -> Findings:
    figures: Counter[str] = Counter()
    wrong: list[str] = []
    with ProcessPoolExecutor() as pool:
        for future in [pool.submit(work, *task) for task in tasks]:
            some, more = future.result()
            figures += some
            wrong += more
    return figures, wrong


def test_r1_every_answer_is_lawful_true_and_optimal_where_proved(
    first_seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    count = int(os.environ.get("SPINNEY_INSTANCES") or 20_000)
    starts = range(first_seed, first_seed + count, CHUNK)
    tasks = [(MIX[index % len(MIX)], range(start, start + CHUNK)) for index, start in enumerate(starts)]
    figures, wrong = in_parallel(judged, tasks)
    with capsys.disabled():
        print(f"\nR1 placement against the exact judge, SPINNEY_SEED={first_seed}")
        print("\n".join(f"  {name:24} {figures[name]}" for name in FIGURES))
        print(f"  {'share proved':24} {figures['proved'] / max(1, figures['with preferences']):.4f}")
        print("\n".join(wrong[:50]))
    assert not wrong
    assert figures["exhausted on infeasible"] <= 0.01 * (figures["gangs"] - figures["feasible"])


def test_g12_wherever_one_domain_holds_a_random_set_all_of_it_runs(
    first_seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    count = int(os.environ.get("SPINNEY_INSTANCES") or 5_000)
    starts = range(first_seed, first_seed + count, CHUNK)
    figures, wrong = in_parallel(judged_sets, [(range(start, start + CHUNK),) for start in starts])
    with capsys.disabled():
        print(f"\nG12 whole sets against the exact judge, SPINNEY_SEED={first_seed}")
        print("\n".join(f"  {name:24} {number}" for name, number in figures.items()))
        print("\n".join(wrong[:50]))
    assert not wrong


def test_k17_answers_to_gangs_with_affinity_inside_are_lawful_true_and_optimal_where_proved(
    first_seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    count = int(os.environ.get("SPINNEY_INSTANCES") or 20_000)
    starts = range(first_seed, first_seed + count, CHUNK)
    figures, wrong = in_parallel(judged, [("affinity", range(start, start + CHUNK)) for start in starts])
    with capsys.disabled():
        print(f"\nK17 affinity inside gangs against the exact judge, SPINNEY_SEED={first_seed}")
        print("\n".join(f"  {name:24} {figures[name]}" for name in FIGURES))
        print("\n".join(wrong[:50]))
    assert not wrong
    assert figures["exhausted on infeasible"] <= 0.01 * (figures["gangs"] - figures["feasible"])


def promises(check: str, seeds: range) -> Findings:
    wrong = [each for seed in seeds for each in broken_promises(check, seed)]
    return Counter({check: len(seeds)}), wrong


def test_r2_what_must_not_matter_does_not(first_seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    count = int(os.environ.get("SPINNEY_CHECKS") or 50_000) // len(CHECKS)
    starts = range(first_seed, first_seed + count, CHUNK)
    figures, wrong = in_parallel(promises, [(check, range(at, at + CHUNK)) for check in CHECKS for at in starts])
    with capsys.disabled():
        print(f"\nR2 metamorphic placement, SPINNEY_SEED={first_seed}")
        print("\n".join(f"  {name:24} {times}" for name, times in figures.items()))
        print(f"  {'broken promises':24} {len(wrong)}")
        print("\n".join(wrong[:50]))
    assert not wrong
