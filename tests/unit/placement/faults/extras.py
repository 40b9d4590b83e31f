"""Planted in what comes above the minimum."""

from __future__ import annotations

from typing import Any

from unit.placement.faults.fault import Ground, caught_by


@caught_by()
def extras_leave_the_required_domain(ground: Ground) -> None:
    ground.swap("placement.extras", "_allowed", lambda _: lambda board, part, mask: mask)


@caught_by()
def extras_go_beyond_the_count(ground: Ground) -> None:
    def one_more(original: Any) -> Any:
        def fill(board: Any, leaf: Any, kind: int, scope: int, extra: int, spread: bool) -> Any:
            return original(board, leaf, kind, scope, extra + 1, spread)

        return fill

    ground.swap("placement.extras", "_fill_scope", one_more)


@caught_by()
def extras_are_forgotten(ground: Ground) -> None:
    ground.answer("placement.extras", "add_extras", {})


@caught_by()
def extras_go_anywhere(ground: Ground) -> None:
    """All that is allowed is as near as anything."""
    ground.swap("placement.extras", "_around", lambda _: lambda *_: iter(()))


@caught_by()
def extras_use_room_that_is_still_releasing(ground: Ground) -> None:
    """Although the minimum does not wait."""

    def early(original: Any) -> Any:
        def add(board: Any, *asked: Any) -> Any:
            for node, slot in enumerate(board.slots):
                soon = board.inventory.releasing[slot]
                if not board.waiting:
                    board.free[node] = [now + later for now, later in zip(board.free[node], soon, strict=True)]
            return original(board, *asked)

        return add

    ground.swap("placement.extras", "add_extras", early)


@caught_by()
def an_optional_child_is_placed_by_halves(ground: Ground) -> None:
    def half(original: Any) -> Any:
        def add(*asked: Any) -> Any:
            found = original(*asked)
            if found and len(found) > 1:
                del found[max(found)]
            return found

        return add

    ground.swap("placement.extras", "_add_child", half)


@caught_by()
def an_optional_child_stays_below_its_minimum(ground: Ground) -> None:
    """One of its pods is lost."""

    def short(original: Any) -> Any:
        def add(*asked: Any) -> Any:
            found = original(*asked)
            for where in (found or {}).values():
                where.pop(min(where, default=0), None)
            return found

        return add

    ground.swap("placement.extras", "_add_child", short)


@caught_by()
def optional_children_are_taken_backwards(ground: Ground) -> None:
    """Not in the order of the problem."""

    def backwards(original: Any) -> Any:
        def add(board: Any, mask: int, active: Any, *rest: Any) -> Any:
            for part in board.parts.all:
                part.kids = part.kids[::-1]
            try:
                return original(board, mask, active, *rest)
            finally:
                for part in board.parts.all:
                    part.kids = part.kids[::-1]

        return add

    ground.swap("placement.extras", "add_extras", backwards)
