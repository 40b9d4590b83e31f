"""Planted where pods of several sizes are put on nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unit.placement import test_fault_gaps
from unit.placement.faults.fault import Ground, caught_by
from unit.placement.faults.judges import judged, rule


@caught_by(
    rule(test_fault_gaps.test_k5_pods_that_fill_nodes_to_the_last_are_found_though_the_largest_must_not_go_first),
    judged("false infeasible", "core", 183, 196),
)
def packing_is_greedy_only(ground: Ground) -> None:
    ground.answer("placement.search.packing", "NodePatterns.search", None)


@caught_by(
    rule(test_fault_gaps.test_k5_pods_that_fill_nodes_to_the_last_are_found_though_the_largest_must_not_go_first),
    judged("false infeasible", "core", 183),
)
def only_the_fullest_filling_of_a_node_is_tried(ground: Ground) -> None:
    def first(original: Any) -> Any:
        def fillings(*asked: Any) -> Iterator[Any]:
            for filling in original(*asked):
                yield filling
                return

        return fillings

    ground.swap("placement.search.packing", "NodePatterns._patterns", first)


@caught_by(
    rule(test_fault_gaps.test_k5_a_node_may_keep_room_that_none_of_the_pods_can_use),
    judged("false infeasible", "core", 196),
)
def a_filling_is_full_too_early(ground: Ground) -> None:
    """Only fillings that leave nothing, or nobody waiting, are taken."""

    def strict(original: Any) -> Any:
        def is_full(self: Any, limits: Any, free: Any, ports: Any, taken: Any) -> bool:
            return bool(original(self, limits, free, ports, taken)) and (free[-1] == 0 or list(taken) == list(limits))

        return is_full

    ground.swap("placement.search.packing", "NodePatterns._is_full", strict)


@caught_by(judged("false infeasible", "core", 21, 46, 77))
def sums_count_the_first_pods_twice(ground: Ground) -> None:
    def strict(original: Any) -> Any:
        return lambda board, jobs: original(board, [*jobs, jobs[0]])

    ground.swap("placement.search.packing", "_sums_suffice", strict)


@caught_by(rule(test_fault_gaps.test_k5_nodes_that_cannot_take_the_rest_are_tried_again_with_another_rest))
def a_failed_packing_is_remembered_by_its_node_alone(ground: Ground) -> None:
    """What was still waiting is forgotten."""

    class Nodes(set[object]):
        def add(self, key: Any) -> None:
            super().add(key[0])

        def __contains__(self, key: Any) -> bool:
            return super().__contains__(key[0])

    def forgetful(original: Any) -> Any:
        def start(self: Any, *asked: Any) -> None:
            original(self, *asked)
            self.dead = Nodes()

        return start

    ground.swap("placement.search.packing", "NodePatterns.__init__", forgetful)


@caught_by(judged("violations", "core", 12, 15, 25))
def merged_pods_all_go_to_the_first_pod_set(ground: Ground) -> None:
    """Equal pods of two pod sets are dealt out wrongly."""

    def unfair(original: Any) -> Any:
        def split(jobs: Any, placed: Any) -> Any:
            found = original(jobs, placed)
            for job in jobs:
                (first, _), *others = job.leaves
                for other, _ in others:
                    for node, count in found.pop(other).items():
                        found[first][node] = found[first].get(node, 0) + count
            return found

        return split

    ground.swap("placement.search.packing", "_split", unfair)
