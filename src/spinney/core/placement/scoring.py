"""How good a placement is, and in which domains it sits: read off the live pods, nothing else."""

from __future__ import annotations

from spinney.api.placement.result import Domain
from spinney.core.placement.board import Board
from spinney.core.placement.parts import Part
from spinney.core.placement.wishes import worth_of


def score(board: Board) -> float:
    """The mean over parts with a preference of (a + 1/k) / (d + 1), weighted by live pods; 1.0 without any."""
    total, weight = 0.0, 0
    for part in board.parts.wishes:
        level = part.preferred
        assert level is not None
        pods = sum(len(board.running.get(leaf.index, ())) for leaf in board.parts.below(part))
        if not pods:
            continue
        got = worth_of(board, level.topology, level.depth, board.running_mask(part))
        total += pods * (level.depth - got.short + 1 / got.domains) / (level.depth + 1)
        weight += pods
    return total / weight if weight else 1.0


def domains(board: Board) -> tuple[Domain, ...]:
    """One entry per part with a requirement or preference whose live pods share a domain: the narrowest it asks for."""
    found = (_domain(board, part) for part in board.parts.all if part.required or part.preferred)
    return tuple(domain for domain in found if domain is not None)


def _domain(board: Board, part: Part) -> Domain | None:
    level = max((lv for lv in (part.required, part.preferred) if lv), key=lambda lv: lv.depth)
    live = board.running_mask(part)
    if not live:
        return None
    tree = board.inventory.trees[level.topology]
    for depth in range(level.depth, 0, -1):
        for spot in board.spots(level.topology, depth):
            if not live & ~spot.mask:
                return Domain(part.path, tree.levels[depth - 1], tuple(str(value) for value in spot.path))
    return None
