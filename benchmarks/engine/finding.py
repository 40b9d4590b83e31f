"""Who finds what exists: tight random gangs of the placement tests, decided by the engine and by the baseline.

A gang counts as one that fits when either of them placed it. Every placement is judged by the independent rules of the
tests, which share no code with the engine.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.engine.clocks import Row
from benchmarks.engine.contenders import Baseline
from spinney.api.placement.problem import Problem
from spinney.api.placement.reading.problem import read_problem
from spinney.api.placement.writing import write_result
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.engine import place

_TESTS = str(Path(__file__).resolve().parents[2] / "tests")
if _TESTS not in sys.path:
    sys.path.append(_TESTS)

from placement_oracle.checker import violations  # noqa: E402
from placement_oracle.instances import Profile, instance  # noqa: E402
from placement_oracle.reading import read  # noqa: E402
from placement_oracle.rules import half_placed, misplaced  # noqa: E402
from placement_oracle.state import State  # noqa: E402

Document = dict[str, Any]
BASELINES = {
    "refused_by_greedy": {},
    "refused_by_greedy_with_sums": {"by_sums": True},
    "refused_by_greedy_with_sums_largest_first": {"by_sums": True, "largest_first": True},
}
PROFILES: tuple[Profile, ...] = ("core", "hard")
GOAL = "none of the gangs that fit refused (KAI refused 36 % of 896 that fit, Kueue 26 % of tight ones); no rule broken"


def run(say: Callable[[str], None], instances: int = 1_000) -> list[Row]:
    rows: list[Row] = []
    for profile in PROFILES:
        say(f"finding what exists, {instances:,} instances of {profile} ...")
        found: Counter[str] = Counter()
        for seed in range(instances):
            found.update(judge(instance(seed, profile)))
        rows.append((f"finding what exists, {profile}, seeds 0-{instances - 1}", _figures(found), GOAL))
    return rows


def judge(document: Document) -> Counter[str]:
    """What came of one problem, as counts."""
    problem = read_problem(document)
    result = write_result(place(problem))
    baselines = {name: _greedy(problem, **favours) for name, favours in BASELINES.items()}
    placed = [members for members in baselines.values() if members is not None]
    ours = result["gangs"][0]["outcome"]
    found = Counter({ours: 1, "violations": len(violations(document, result))})
    found["violations"] += sum(len(_broken(document, members)) for members in placed)
    if ours == "placed" or placed:
        found["fit"] += 1
        found["refused"] += ours != "placed"
        found.update(name for name, members in baselines.items() if members is None)
    return found


def _greedy(problem: Problem, **favours: bool) -> list[tuple[str, str]] | None:
    topologies = {topology.name: topology for topology in problem.topologies}
    greedy = Baseline(Inventory.of(problem.resources, problem.topologies, problem.nodes), topologies, **favours)
    return greedy.members(greedy.decide(problem.gangs[0]))


def _broken(document: Document, members: list[tuple[str, str]]) -> list[str]:
    world = read(document)
    gang = world.gangs[0]
    return [*misplaced(State(world), gang, members, waiting=False), *half_placed(gang, [], members)]


def _figures(found: Counter[str]) -> dict[str, Any]:
    fit = max(1, found["fit"])
    return {
        "fit": found["fit"],
        "refused": found["refused"],
        **{name: f"{found[name]} ({found[name] / fit:.1%})" for name in BASELINES},
        "proved_infeasible": found["infeasible"],
        "exhausted": found["exhausted"],
        "violations": found["violations"],
    }
