"""The brute-force twin of consolidation: every set of moves onto idle room, fewest first, until the gang fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

from placement_oracle import exact
from placement_oracle.disruption import unlawful_moves
from placement_oracle.filters import may_use
from placement_oracle.reading import World, read
from placement_oracle.rules import split
from placement_oracle.state import state_after

Document = dict[str, Any]


def fewest(problem: Document) -> int | None:
    """How many moves the first gang of a problem needs at least, None where the allowed ones do not help."""
    world = read(problem)
    for count in range(1, problem["options"]["consolidate"]["maxMoves"] + 1):
        if any(_helps(world, moves) for moves in _sets(world, count)):
            return count
    return None


def _sets(world: World, count: int) -> Iterator[list[Document]]:
    pods = [
        (gang.name, path, node)
        for gang in world.gangs[1:]
        if gang.preemptible and not list(split(state_after(world, ()), gang, [], gang.running))
        for path, node in gang.running
    ]
    for chosen in sorted(set(combinations(pods, count))):
        for targets in product(world.nodes, repeat=count):
            if all(target != node for (_, _, node), target in zip(chosen, targets, strict=True)):
                yield [
                    {"gang": gang, "pods": path, "from": node, "to": target}
                    for (gang, path, node), target in zip(chosen, targets, strict=True)
                ]


def _helps(world: World, moves: list[Document]) -> bool:
    if not _is_idle(world, moves):
        return False
    answer = {"name": world.gangs[0].name, "outcome": "placed", "moves": moves}
    if list(unlawful_moves(world, [answer], 0)):
        return False
    return _fits_after(world, moves)


def _is_idle(world: World, moves: list[Document]) -> bool:
    state = state_after(world, ())
    asked: Counter[tuple[str, str]] = Counter()
    for move in moves:
        gang = world.gang(move["gang"])
        assert gang is not None
        leaf = gang.leaf[move["pods"]]
        if not may_use(leaf, world.nodes[move["to"]]):
            return False
        for resource, amount in leaf.request.items():
            asked[move["to"], resource] += amount
    return all(amount <= state.idle(node, resource) for (node, resource), amount in asked.items())


def _fits_after(world: World, moves: list[Document]) -> bool:
    state = state_after(world, ())
    state.make_way({"moves": moves})
    return exact.Model(state, world.gangs[0], True).solve()
