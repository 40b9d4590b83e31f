"""Are victims and moves lawful, and were they needed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from placement_oracle.exact import feasible
from placement_oracle.filters import may_use
from placement_oracle.reading import Document, Gang, World
from placement_oracle.rules import satisfied, split
from placement_oracle.state import Member, State, state_after
from placement_oracle.values import score_of

MOST_SUBSETS = 6
"""Gangs with more running pods are spared whole or not at all."""


def unlawful_victims(world: World, answers: list[Document], number: int) -> Iterator[str]:
    victims = answers[number].get("victims") or []
    if not victims:
        return
    if not world.options.get("preempt"):
        yield "has victims without preempt"
    preemptor, before = world.gangs[number], state_after(world, answers[:number])
    by_gang: dict[str, list[Member]] = {}
    for victim in victims:
        by_gang.setdefault(victim["gang"], []).append((victim["pods"], world.seat(victim)))
    wrong = [each for name, evicted in by_gang.items() for each in _unlawful(world, before, preemptor, name, evicted)]
    yield from wrong or _needless(world, answers, number, by_gang, before)


def _unlawful(world: World, before: State, preemptor: Gang, name: str, evicted: list[Member]) -> Iterator[str]:
    gang = world.gang(name)
    if gang is None or Counter(evicted) - Counter(before.running[name]):
        yield f"victims of {name} are not all running"
        return
    if gang is preemptor or gang.priority >= preemptor.priority or not gang.preemptible:
        yield f"{name} may not be preempted"
    if not may_lose(before, gang, evicted):
        yield f"{name} is evicted neither whole nor above its minimum"


def may_lose(before: State, gang: Gang, evicted: list[Member]) -> bool:
    """A gang goes whole or keeps its minimum."""
    left = list((Counter(before.live(gang.name)) - Counter(evicted)).elements())
    return not left or satisfied(gang.root, left)


def _needless(
    world: World, answers: list[Document], number: int, by_gang: dict[str, list[Member]], before: State
) -> Iterator[str]:
    decided = answers[:number]
    if feasible(world, number, decided, releasing=True):
        yield "has victims although it fits without any"
        return
    for name, evicted in by_gang.items():
        for kept in _lawful_rests(world, before, name, evicted):
            rest = {**by_gang, name: kept}
            fewer = [
                {"gang": who, "pods": path, **world.where(seat)} for who, pods in rest.items() for path, seat in pods
            ]
            if feasible(world, number, decided, releasing=True, victims=fewer):
                spared = list((Counter(evicted) - Counter(kept)).elements())
                yield f"victims {spared} of {name} can be spared"
                return


def _lawful_rests(world: World, before: State, name: str, evicted: list[Member]) -> Iterator[list[Member]]:
    """Smaller sets of victims of one gang that are lawful as well, one pod fewer first."""
    gang = world.gang(name)
    assert gang is not None
    if len(evicted) > MOST_SUBSETS:
        if not may_lose(before, gang, evicted[1:]):
            yield []
        else:
            yield from (evicted[:gone] + evicted[gone + 1 :] for gone in range(len(evicted)))
        return
    for size in range(len(evicted) - 1, -1, -1):
        for kept in combinations(evicted, size):
            if not kept or may_lose(before, gang, list(kept)):
                yield list(kept)


def unlawful_moves(world: World, answers: list[Document], number: int) -> Iterator[str]:
    moves, allowed = answers[number].get("moves") or [], world.options.get("consolidate")
    if not moves:
        return
    if not allowed or len(moves) > allowed.get("maxMoves", 8):
        yield f"{len(moves)} moves, allowed: {allowed}"
        return
    before, after = state_after(world, answers[:number]), state_after(world, answers[:number])
    for move in moves:
        gang = world.gang(move["gang"])
        if gang is None or (move["pods"], world.seat(move, "from", "fromZone")) not in before.running[move["gang"]]:
            yield f"moves a pod that is not running: {move}"
            return
        if not gang.preemptible or gang is world.gangs[number]:
            yield f"{gang.name} may not be moved"
        if move["to"] not in world.nodes or not may_use(
            gang.leaf[move["pods"]], world.nodes[world.seat(move, "to", "toZone")]
        ):
            yield f"{move['pods']} may not use node {move['to']}"
            return
    after.make_way(answers[number])
    yield from _crowded(after)
    for name in sorted({move["gang"] for move in moves}):
        yield from _worse_off(world, before, after, name, allowed.get("maxLoss", 0.0))


def _crowded(after: State) -> Iterator[str]:
    for node in after.world.nodes:
        for resource in after.world.resources:
            if after.taken_later[node][resource] and after.coming(node, resource) < 0:
                yield f"moved pods overfill node {node} in {resource}"
        if any(times > 1 for times in after.ports[node].values()):
            yield f"moved pods share a port on node {node}"


def _worse_off(world: World, before: State, after: State, name: str, most: float) -> Iterator[str]:
    gang = world.gang(name)
    assert gang is not None
    if not list(split(before, gang, [], before.live(name))):
        yield from split(after, gang, [], after.live(name))
    loss = score_of(world, gang, before.live(name)) - score_of(world, gang, after.live(name))
    if loss > most + 1e-6:
        yield f"{name} loses {loss} of its score by moves"
    for path, leaf in gang.leaf.items():
        for key in leaf.spec.get("antiAffinity") or []:
            seen = [world.nodes[node].labels.get(key) for other, node in after.live(name) if other == path]
            if any(times > 1 for value, times in Counter(seen).items() if value is not None):
                yield f"moved pods of {path} share {key}"
