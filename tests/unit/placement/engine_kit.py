"""The engine before its judges: a document in, a document out, and what they say of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from placement_oracle.checker import violations
from placement_oracle.instances import Profile, instance
from placement_oracle.judging import judge
from placement_oracle.sets import judged_set, random_set
from spinney.api.placement.reading import read_problem
from spinney.api.placement.writing import write_result
from spinney.core.placement.engine import place
from spinney.core.placement.gang.preferred_affinity import MOST_PREFERENCES

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


_TERMS = ("podAntiAffinity", "podAffinity", "topologySpreadConstraints")


def judged_preferences(seeds: Iterable[int]) -> Findings:
    """What is wrong with the answers to gangs that only prefer what gangs with affinity ask for.

    Where the terms cost nothing, neither time nor score nor pods, all of them are kept; and never is anything lost by
    them.
    """
    figures: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in seeds:
        hard = instance(seed, "affinity")
        hard["gangs"] = hard["gangs"][:1]
        if len(list(_terms_of(hard["gangs"][0]))) > MOST_PREFERENCES:
            continue
        plain, soft, kept = (decided(_changed(hard, how))["gangs"][0] for how in (_without, _weighed, dict))
        figures["gangs"] += 1
        if soft["outcome"] != plain["outcome"] or (soft["outcome"] == "placed" and not _is_as_good(soft, plain)):
            wrong.append(f"{seed}: preferences cost something: {plain} became {soft}")
        elif kept["outcome"] == "placed" and _is_as_good(kept, plain):
            figures["kept"] += 1
            wrong += [f"{seed}: {each}" for each in violations(hard, {"version": 1, "gangs": [soft]})]
    return figures, wrong


def _is_as_good(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (
        one["waits"] <= other["waits"]
        and one["score"] >= other["score"] - 1e-6
        and len(one["placements"]) >= len(other["placements"])
    )


def _terms_of(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for pods in part.get("pods") or []:
        yield from (term for name in _TERMS for term in pods.get(name) or [])
    for group in part.get("groups") or []:
        yield from _terms_of(group)


def _changed(problem: dict[str, Any], how: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The problem with every pod set of its gangs changed."""

    def changed(part: dict[str, Any]) -> dict[str, Any]:
        found = dict(part)
        if "pods" in part:
            found["pods"] = [how(pods) for pods in part["pods"]]
        if "groups" in part:
            found["groups"] = [changed(group) for group in part["groups"]]
        return found

    return {**problem, "gangs": [changed(gang) for gang in problem["gangs"]]}


def _without(pods: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in pods.items() if name not in _TERMS}


def _weighed(pods: dict[str, Any]) -> dict[str, Any]:
    weighed = {name: [{**term, "weight": 50} for term in pods[name]] for name in _TERMS if name in pods}
    return {**pods, **weighed}
