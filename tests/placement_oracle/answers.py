"""A stand-in for the engine, for testing the judges: minimums only, placed by the exact judge."""

from __future__ import annotations

from collections import Counter

from placement_oracle import exact
from placement_oracle.checker import domains_of
from placement_oracle.reading import Document, Gang, World, read
from placement_oracle.state import Member, state_after
from placement_oracle.validity import mistakes
from placement_oracle.values import score_of


def answered(problem: Document) -> Document:
    """A lawful result for a problem with `extras: skip`, without victims and moves."""
    world = read(problem)
    answers: list[Document] = []
    for number, gang in enumerate(world.gangs):
        answers.append(_answer(world, gang, number, answers))
    return {"version": 1, "gangs": answers}


def _answer(world: World, gang: Gang, number: int, decided: list[Document]) -> Document:
    if mistakes(world, gang):
        return _refused(gang, "invalid")
    for waits in (False, True):
        new = exact.members(world, number, decided, releasing=waits)
        if new is not None:
            running = state_after(world, decided).running[gang.name]
            return placed(world, gang, running, new, waits=waits)
    return _refused(gang, "infeasible")


def placed(world: World, gang: Gang, running: list[Member], new: list[Member], *, waits: bool = False) -> Document:
    """The answer that puts these pods on these nodes."""
    seen: Counter[str] = Counter()
    placements = []
    for path, node in new:
        placements.append({"pods": path, "index": seen[path], **world.where(node)})
        seen[path] += 1
    domains = domains_of(world, gang, running + new)
    return {
        "name": gang.name,
        "outcome": "placed",
        "waits": waits,
        "proved": False,
        "score": score_of(world, gang, running + new),
        "placements": placements,
        "domains": [{"group": group, "level": level, "path": list(path)} for group, level, path in domains],
        "victims": [],
        "moves": [],
        "explanation": {},
    }


def _refused(gang: Gang, outcome: str) -> Document:
    return {"name": gang.name, "outcome": outcome, "placements": [], "explanation": {"reason": "no room"}}
