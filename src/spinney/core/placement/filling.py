"""Spreading equal pods over nodes: best fit, level by level down to the node.

Never decides whether they fit (the capacities do), only which nodes are taken first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spinney.core.placement.board import Board, bits


class Ladder(NamedTuple):
    """The masks of the domains per level, broad to narrow, and down to which of them pods should stay together."""

    levels: Sequence[Sequence[int]] = ()
    wished: int = 0


def fill(
    board: Board,
    kind: int,
    mask: int,
    count: int,
    caps: Mapping[int, int],
    ladder: Ladder,
    spread: bool,
    used: int = 0,
) -> dict[int, int]:
    """Put `count` pods on nodes of the mask; the sum of caps there must be enough.

    `used` are nodes that the gang has anyhow: pods that want to stay together go there first.
    """
    chosen: dict[int, int] = {}
    taste = board.types[kind].taste
    if spread:
        _spread(board, kind, mask, count, dict(caps), chosen)
    elif taste is not None:
        nodes = [node for node in bits(mask) if caps.get(node, 0)]
        _in_order(sorted(nodes, key=lambda n: (_negative(taste[n]), board.room(1 << n), n)), count, caps, chosen)
    else:
        _descend(board, mask, count, caps, ladder, 0, chosen, used)
    return chosen


def _negative(taste: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-value for value in taste)


def _in_order(order: Sequence[int], count: int, caps: Mapping[int, int], chosen: dict[int, int]) -> None:
    for node in order:
        if count <= 0:
            return
        here = min(count, caps[node])
        chosen[node] = chosen.get(node, 0) + here
        count -= here


def _descend(
    board: Board,
    mask: int,
    count: int,
    caps: Mapping[int, int],
    ladder: Ladder,
    depth: int,
    chosen: dict[int, int],
    used: int,
) -> None:
    """The tightest child that holds them all, else one child after the other: the largest down to the wished level
    (few domains), the tightest below it."""
    if depth == len(ladder.levels):
        children = [1 << node for node in bits(mask) if caps.get(node, 0)]
    else:
        children = [part & mask for part in ladder.levels[depth] if part & mask]
        rest = mask
        for child in children:
            rest &= ~child
        if rest:
            children.append(rest)
        if len(children) == 1:
            _descend(board, children[0], count, caps, ladder, depth + 1, chosen, used)
            return
    few = depth < ladder.wished
    holds = {child: sum(caps.get(node, 0) for node in bits(child)) for child in children}
    order = [child for child in children if holds[child]]
    order.sort(key=lambda child: (few and not child & used, board.room(child), child & -child))
    while count > 0:
        chosen_child = next((child for child in order if holds[child] >= count), None)
        if chosen_child is None:
            chosen_child = max(order, key=lambda child: (bool(child & used), holds[child])) if few else order[0]
        order.remove(chosen_child)
        here = min(count, holds[chosen_child])
        if depth == len(ladder.levels):
            node = chosen_child.bit_length() - 1
            chosen[node] = chosen.get(node, 0) + here
        else:
            _descend(board, chosen_child, here, caps, ladder, depth + 1, chosen, used)
        count -= here


def _spread(board: Board, kind: int, mask: int, count: int, caps: dict[int, int], chosen: dict[int, int]) -> None:
    """One after the other, each on the node with the most room left."""
    asked = dict(board.types[kind].request)
    taste = board.types[kind].taste
    room = {node: list(board.room(1 << node)) for node in bits(mask) if caps.get(node, 0)}
    for _ in range(count):
        node = min(
            (node for node in room if caps[node]),
            key=lambda n: (_negative(taste[n]) if taste else (), [-amount for amount in room[n]], n),
        )
        chosen[node] = chosen.get(node, 0) + 1
        caps[node] -= 1
        for at, resource in enumerate(board.wanted):
            room[node][at] -= asked.get(resource, 0)
