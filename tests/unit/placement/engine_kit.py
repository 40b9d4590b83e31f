"""The engine before its judges: a document in, a document out, and what they say of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from placement_oracle.instances import Profile, instance
from placement_oracle.judging import judge
from placement_oracle.sets import judged_set, random_set
from spinney.api.placement.reading import read_problem
from spinney.api.placement.writing import write_result
from spinney.core.placement.engine import place

Findings = tuple[Counter[str], list[str]]
"""Figures, and a sentence with its seed for everything that is wrong."""


def decided(problem: dict[str, Any]) -> dict[str, Any]:
    """What the engine answers to a problem in the exchange format."""
    return write_result(place(read_problem(problem)))


def judged(profile: Profile, seeds: Iterable[int]) -> Findings:
    figures: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in seeds:
        problem = instance(seed, profile)
        figures["instances"] += 1
        try:
            result = decided(problem)
        except Exception as error:  # one crash must not hide what the other seeds show
            figures["crashes"] += 1
            wrong.append(f"{profile} {seed}: crash: {error!r}")
            continue
        verdict = judge(problem, result)
        figures += verdict.figures
        wrong += [f"{profile} {seed}: {each}" for each in verdict.wrong]
    return figures, wrong


def judged_sets(seeds: Iterable[int]) -> Findings:
    """What is wrong with the answers to random sets: whole ones, or as much of them as one domain holds."""
    figures: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in seeds:
        problem = random_set(seed)
        some, sentences = judged_set(problem, decided(problem))
        figures += some
        wrong += [f"set {seed}: {each}" for each in sentences]
    return figures, wrong
