"""Planted in what comes above the minimum."""

from __future__ import annotations

from typing import Any

from unit.placement import test_fault_gaps, test_rules
from unit.placement.faults.fault import Ground, caught_by
from unit.placement.faults.judges import judged, rule


@caught_by(judged("violations", "full", 15, 19, 33))
def extras_leave_the_required_domain(ground: Ground) -> None:
    ground.swap("placement.search.elastic_pods", "_allowed", lambda _: lambda board, part, mask: mask)


@caught_by(
    rule(test_rules.test_k14_elastic_pods_stay_near_and_the_rack_that_holds_them_beats_a_tighter_one),
    judged("violations", "full", 5, 12),
)
def extras_go_beyond_the_count(ground: Ground) -> None:
    def one_more(original: Any) -> Any:
        def fill(board: Any, leaf: Any, kind: int, scope: int, extra: int, spread: bool) -> Any:
            return original(board, leaf, kind, scope, extra + 1, spread)

        return fill

    ground.swap("placement.search.elastic_pods", "_fill_scope", one_more)


@caught_by(
    rule(test_rules.test_k14_min_groups_lets_the_rest_out_in_the_order_of_the_problem),
    judged("missed extras", "full", 5, 33),
)
def extras_are_forgotten(ground: Ground) -> None:
    ground.answer("placement.search.elastic_pods", "add_extras", {})


@caught_by(rule(test_fault_gaps.test_k14_extras_that_do_not_fit_beside_the_minimum_stay_in_the_next_broader_domain))
def extras_go_anywhere(ground: Ground) -> None:
    """All that is allowed is as near as anything."""
    ground.swap("placement.search.elastic_pods", "_around", lambda _: lambda *_: iter(()))


@caught_by(judged("violations", "full", 33, 75, 110))
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

    ground.swap("placement.search.elastic_pods", "add_extras", early)


@caught_by(rule(test_fault_gaps.test_k14_an_optional_child_is_placed_whole))
def an_optional_child_is_placed_by_halves(ground: Ground) -> None:
    def half(original: Any) -> Any:
        def add(*asked: Any) -> Any:
            found = original(*asked)
            if found and len(found.solution) > 1:
                del found.solution[max(found.solution)]
            return found

        return add

    ground.swap("placement.search.elastic_pods", "_add_child", half)


@caught_by(rule(test_fault_gaps.test_k14_optional_children_come_in_the_order_of_the_problem))
def optional_children_are_taken_backwards(ground: Ground) -> None:
    """Not in the order of the problem."""

    def backwards(original: Any) -> Any:
        def add(board: Any, mask: int, active: Any, *rest: Any) -> Any:
            for part in board.parts.all:
                part.children = part.children[::-1]
            try:
                return original(board, mask, active, *rest)
            finally:
                for part in board.parts.all:
                    part.children = part.children[::-1]

        return add

    ground.swap("placement.search.elastic_pods", "add_extras", backwards)
