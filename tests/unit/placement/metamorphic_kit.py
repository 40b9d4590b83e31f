"""Changes of a problem and what they must leave as it is; each check gives a sentence per broken promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from placement_oracle.instances import Profile, instance
from placement_oracle.values import preference_values
from placement_oracle.variations import renamed, scaled, shuffled, with_more_room, with_unusable_nodes
from unit.placement.engine_kit import decided

Document = dict[str, Any]
PROFILES: tuple[Profile, ...] = ("tiny", "full", "core", "hard")


def _problem(seed: int, *, exotic: bool = False) -> Document:
    """Exotic ones only where the variation leaves them what they are."""
    profile = PROFILES[seed % len(PROFILES)]
    problem = instance(seed, profile if exotic or profile != "full" else "core")
    if not exotic:
        problem["gangs"][0].pop("tiedTo", None)
    return problem


def _same(vary: Callable[[Random, Document], Document]) -> Callable[[int], Iterator[str]]:
    def check(seed: int) -> Iterator[str]:
        problem = _problem(seed, exotic=True)
        plain, varied = decided(problem), decided(vary(Random(seed), problem))
        if _without_explanations(plain) != _without_explanations(varied):
            yield f"{seed}: {vary.__name__} gives another answer"

    return check


def _without_explanations(result: Document) -> list[Document]:
    return [{name: field for name, field in gang.items() if name != "explanation"} for gang in result["gangs"]]


def _of_the_same_worth(seed: int) -> Iterator[str]:
    """Names break ties, so places may change; verdict and worth may not. Filters name labels: left out."""
    problem = _problem(seed)
    if _filtered(problem["gangs"][0]):
        return
    [plain], [answer] = decided(problem)["gangs"], decided(renamed(Random(seed), problem))["gangs"]
    if (plain["outcome"], plain["waits"]) != (answer["outcome"], answer["waits"]):
        yield f"{seed}: {plain['outcome']} becomes {answer['outcome']} under other names"
        return
    proved = plain["outcome"] == "placed" and plain["proved"] and answer["proved"] and _least(problem["gangs"][0]) >= 0
    if proved and abs(plain["score"] - answer["score"]) > 1e-6:
        yield f"{seed}: score {plain['score']} becomes {answer['score']} under other names"


def _never_worse(seed: int) -> Iterator[str]:
    problem = _problem(seed)
    roomier = with_more_room(Random(seed), problem)
    [plain], [answer] = decided(problem)["gangs"], decided(roomier)["gangs"]
    if plain["outcome"] != "placed":
        return
    if answer["outcome"] != "placed" or answer["waits"] > plain["waits"]:
        yield f"{seed}: placed becomes {answer['outcome']} (waits: {answer['waits']}) with more room"
    elif answer["proved"] and answer["waits"] == plain["waits"] and _least(problem["gangs"][0]) >= 0:
        gang = problem["gangs"][0]
        before = preference_values(problem, gang, plain["placements"])
        after = preference_values(roomier, gang, answer["placements"])
        if [value for _, value in after] > [value for _, value in before]:
            yield f"{seed}: {before} becomes {after} with more room"


def _filtered(group: Document) -> bool:
    own = any(pods.get("nodeSelector") or pods.get("affinity") for pods in group.get("pods") or [])
    return own or bool(group.get("running")) or any(_filtered(child) for child in group.get("groups") or [])


def _least(group: Document) -> int:
    """Pods of a tree without running members, extras and optional children; negative for others."""
    pods = group.get("pods") or []
    if group.get("minGroups") is not None or group.get("running") or any("min" in one for one in pods):
        return -(10**9)
    return sum(one.get("count", 1) for one in pods) + sum(_least(child) for child in group.get("groups") or [])


CHECKS: dict[str, Callable[[int], Iterator[str]]] = {
    "shuffled nodes": _same(shuffled),
    "scaled amounts": _same(scaled),
    "unusable nodes": _same(with_unusable_nodes),
    "other names": _of_the_same_worth,
    "more room": _never_worse,
}


def broken_promises(check: str, seed: int) -> list[str]:
    return list(CHECKS[check](seed))
