"""Which children of a group must be satisfied, where `minGroups` leaves a choice.

Yields every choice that matters, in the order of the problem; equal children are interchangeable and chosen in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spinney.core.placement.gang.gang_tree import GangTree, Part

ChosenChildren = dict[int, tuple[int, ...]]
"""For every group (by index of its part) the children that count."""


def all_children(parts: GangTree) -> ChosenChildren:
    return {part.index: part.children for part in parts.all if part.pods is None}


def has_choice(parts: GangTree) -> bool:
    return any(part.need < len(part.children) for part in parts.all)


def choices(parts: GangTree, needs: Mapping[int, int], top: Part | None = None) -> Iterator[ChosenChildren]:
    """Every selection of children that satisfies the minimum; children that need nothing more come for free.

    With `top` only groups at or below that part have a choice.
    """
    free = _satisfied(parts, needs)
    choosers = [
        part for part in parts.all if part.need < len(part.children) and (top is None or top in parts.above(part))
    ]
    start = all_children(parts)
    if not choosers:
        yield start
        return
    trail = [_selections(parts, choosers[0], free)]
    chosen: list[tuple[int, ...]] = []
    while trail:
        selection = next(trail[-1], None)
        if selection is None:
            trail.pop()
            if chosen:
                chosen.pop()
            continue
        chosen.append(selection)
        if len(chosen) == len(choosers):
            yield start | {part.index: children for part, children in zip(choosers, chosen, strict=True)}
            chosen.pop()
            continue
        following = choosers[len(chosen)]
        if _is_active(parts, following, choosers, chosen):
            trail.append(_selections(parts, following, free))
        else:
            trail.append(iter([()]))  # the group itself is not chosen, so its children do not matter


def _satisfied(parts: GangTree, needs: Mapping[int, int]) -> set[int]:
    done: set[int] = set()
    for part in reversed(parts.all):
        if part.pods is not None:
            if needs.get(part.index, 0) == 0:
                done.add(part.index)
        elif sum(1 for child in part.children if child in done) >= part.need:
            done.add(part.index)
    return done


def _is_active(parts: GangTree, part: Part, choosers: list[Part], chosen: list[tuple[int, ...]]) -> bool:
    picked = {chooser.index: children for chooser, children in zip(choosers, chosen, strict=False)}
    at = part
    while at.parent >= 0:
        if at.parent in picked and at.index not in picked[at.parent]:
            return False
        at = parts.all[at.parent]
    return True


def _selections(parts: GangTree, part: Part, free: set[int]) -> Iterator[tuple[int, ...]]:
    """Combinations of the children that still need pods, in order; of equal children the first ones are chosen."""
    open_children = [child for child in part.children if child not in free]
    missing = part.need - (len(part.children) - len(open_children))
    if missing <= 0:
        yield ()
        return
    stack: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    while stack:
        at, picked = stack.pop()
        if len(picked) == missing:
            yield picked
            continue
        if len(open_children) - at < missing - len(picked):
            continue
        kind = parts.all[open_children[at]].kind
        beside = at + 1
        while beside < len(open_children) and parts.all[open_children[beside]].kind == kind:
            beside += 1
        stack.append((beside, picked))
        stack.append((at + 1, (*picked, open_children[at])))
