"""The largest gang of one kind of pod that fits into a domain, and the moves that would allow more pods.

For display only: changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from spinney.api.placement.problem import Consolidate, Gang, Group, PodSet
from spinney.api.placement.result import Move
from spinney.core.inventory.counts import Shape
from spinney.core.placement.budget import Exhausted
from spinney.core.placement.disrupt.consolidation import fewest_moves
from spinney.core.placement.gang.gang_tree import read_gang_tree

if TYPE_CHECKING:
    from spinney.core.placement.engine import Engine


@dataclass(frozen=True, slots=True)
class LargerGang:
    """After these moves `count` pods fit into one domain; `loss` is the sum of the score losses of the moved gangs."""

    count: int
    moves: tuple[Move, ...]
    loss: float


@dataclass(frozen=True, slots=True)
class LargestPlaceable:
    """How many pods fit into one domain now, and the moves for more; `proved`: no further count is possible."""

    count: int
    raises: tuple[LargerGang, ...]
    proved: bool


def largest_placeable(engine: Engine, pods: PodSet, topology: str, level: str, limits: Consolidate) -> LargestPlaceable:
    """The largest number of equal pods that fits into one domain of a level, and the cheapest moves for larger numbers.

    Counts idle and releasing capacity. A step that needs no more moves than the one before replaces it.
    """
    tree = engine.inventory.trees[topology]
    depth = tree.depth(level)
    if depth is None:
        raise KeyError(f"level {level} is not a level of topology {topology}")
    shape = Shape(pods.request, pods.filter, pods.host_ports)
    held = engine.inventory.counts(shape, waiting=True).at(topology, depth)
    now = int(held.max()) if len(held) else 0
    raises: list[LargerGang] = []
    try:
        count = now + 1
        while (step := _raised(engine, pods, topology, level, count, limits)) is not None:
            if raises and len(raises[-1].moves) >= len(step.moves):
                raises.pop()
            raises.append(step)
            count += 1
    except Exhausted:
        return LargestPlaceable(now, tuple(raises), proved=False)
    return LargestPlaceable(now, tuple(raises), proved=True)


def _raised(
    engine: Engine, pods: PodSet, topology: str, level: str, count: int, limits: Consolidate
) -> LargerGang | None:
    wanted = msgspec.structs.replace(pods, count=count, min=count, topology=None, required=None, preferred=None)
    root = Group("", pods=(wanted,), topology=topology, required=level)
    shift = fewest_moves(engine, read_gang_tree(Gang("", root), engine.topologies), None, limits)
    return LargerGang(count, shift.moves, shift.loss) if shift is not None else None
