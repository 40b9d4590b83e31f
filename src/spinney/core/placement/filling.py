"""Spreading equal pods over nodes: best fit, level by level down to the node.

Never decides whether they fit (the capacities do), only which nodes are taken first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spinney.core.placement.board import Board, bits


def fill(
    board: Board,
    kind: int,
    mask: int,
    count: int,
    caps: Mapping[int, int],
    ladder: Sequence[Sequence[int]],
    spread: bool,
) -> dict[int, int]:
    """Put `count` pods on nodes of the mask; the sum of caps there must be enough.

    `ladder` holds the masks of the domains per level, broad to narrow.
    """
    chosen: dict[int, int] = {}
    taste = board.types[kind].taste
    if spread:
        _spread(board, kind, mask, count, dict(caps), chosen)
    elif taste is not None:
        order = sorted(
            (node for node in bits(mask) if caps.get(node, 0)),
            key=lambda n: (_negative(taste[n]), board.room(1 << n), n),
        )
        _in_order(order, count, caps, chosen)
    else:
        _descend(board, mask, count, caps, ladder, 0, chosen)
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
    ladder: Sequence[Sequence[int]],
    depth: int,
    chosen: dict[int, int],
) -> None:
    """The tightest child that holds them all, else the tightest children one after the other."""
    if depth == len(ladder):
        children = [1 << node for node in bits(mask) if caps.get(node, 0)]
    else:
        children = [part & mask for part in ladder[depth] if part & mask]
        rest = mask
        for child in children:
            rest &= ~child
        if rest:
            children.append(rest)
    if depth < len(ladder) and len(children) == 1:
        _descend(board, children[0], count, caps, ladder, depth + 1, chosen)
        return
    holds = {child: sum(caps.get(node, 0) for node in bits(child)) for child in children}
    order = sorted((child for child in children if holds[child]), key=lambda child: (board.room(child), child & -child))
    while count > 0:
        whole = next((child for child in order if holds[child] >= count), None)
        child = whole if whole is not None else order[0]
        order.remove(child)
        here = min(count, holds[child])
        if depth == len(ladder):
            node = child.bit_length() - 1
            chosen[node] = chosen.get(node, 0) + here
        else:
            _descend(board, child, here, caps, ladder, depth + 1, chosen)
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
