"""Planted in what is counted: free amounts, resources, and counts that have to follow every change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from unit.inventory import test_inventory
from unit.placement import test_rules
from unit.placement.faults.fault import Ground, caught_by
from unit.placement.faults.judges import judged, rule


@caught_by(
    rule(test_rules.test_k14_elastic_pods_stay_near_and_the_rack_that_holds_them_beats_a_tighter_one),
    judged("violations", "core", 1, 8),
)
def one_pod_more_fits_than_there_is_room_for(ground: Ground) -> None:
    def generous(original: Any) -> Any:
        def capacity(board: Any, kind: int, node: int) -> int:
            fits: int = original(board, kind, node)
            return fits + 1 if fits > 0 else 0

        return capacity

    ground.swap("placement.search.search_space", "SearchSpace.capacity", generous)


@caught_by(
    rule(test_rules.test_k5_pods_of_different_sizes_are_counted_as_what_they_are),
    judged("false infeasible", "core", 2, 57),
)
def one_pod_less_fits_than_there_is_room_for(ground: Ground) -> None:
    ground.swap("inventory.counts", "Counts._count_all", lambda original: lambda self: (original(self) - 1).clip(0))


@caught_by(rule(test_rules.test_pods_are_a_resource), judged("violations", "core", 169, 170))
def pods_are_no_resource(ground: Ground) -> None:
    """The number of pods a node may have is left out where all nodes are counted."""

    def forgetful(original: Any) -> Any:
        def start(self: Any, shape: Any, waiting: bool, inventory: Any) -> None:
            limited = [name != "pods" for name in inventory.resources]
            request = tuple([amount * counts for amount, counts in zip(shape.request, limited, strict=True)])
            original(self, msgspec.structs.replace(shape, request=request), waiting, inventory)

        return start

    ground.swap("inventory.counts", "Counts.__init__", forgetful)


@caught_by(judged("violations", "core", 4, 37, 59))
def only_the_last_resource_is_looked_at(ground: Ground) -> None:
    def narrow(original: Any) -> Any:
        def of(*given: Any) -> Any:
            found = original(*given)
            return replace(found, request=found.request[-1:])

        return of

    ground.swap("placement.search.search_space", "SearchSpace._type", narrow)


@caught_by(
    rule(test_rules.test_a_gang_waits_for_releasing_room_when_there_is_no_other), judged("violations", "core", 1, 7)
)
def allocatable_counts_as_free(ground: Ground) -> None:
    ground.swap("inventory.inventory", "capacity", lambda _: lambda node: list(node.allocatable))


@caught_by(judged("violations", "full", 17, 19, 37))
def releasing_room_counts_as_idle(ground: Ground) -> None:
    def early(original: Any) -> Any:
        return lambda self, slot, waiting: original(self, slot, True)

    ground.swap("inventory.inventory", "Inventory.free", early)


@caught_by(
    rule(test_rules.test_idle_room_is_taken_before_a_domain_that_is_still_releasing),
    judged("violations", "full", 13, 108),
)
def releasing_room_is_counted_as_idle(ground: Ground) -> None:
    def early(original: Any) -> Any:
        return lambda self, shape, waiting, inventory: original(self, shape, True, inventory)

    ground.swap("inventory.counts", "Counts.__init__", early)


@caught_by(
    rule(test_rules.test_gangs_are_decided_in_order_each_after_what_the_others_took),
    judged("violations", "core", 61, 104),
)
def counts_do_not_follow_what_is_taken(ground: Ground) -> None:
    """A shape is counted once; what is taken later does not reach it."""

    def stale(original: Any) -> Any:
        return lambda self: self if len(self.per_node) else original(self)

    ground.swap("inventory.counts", "Counts.refresh", stale)


@caught_by(
    rule(test_inventory.test_k4_rollback_restores_fold_and_takes_alike), judged("false infeasible", "hard", 25, 55, 84)
)
def a_rollback_leaves_a_trace(ground: Ground) -> None:
    """The change that was made first is not taken back."""

    def sloppy(original: Any) -> Any:
        def rollback(self: Any, mark: int) -> None:
            del self.entries[self._marks[mark - 1] : self._marks[mark - 1] + 1]
            original(self, mark)

        return rollback

    ground.swap("inventory.undo", "UndoLog.rollback", sloppy)


@caught_by(judged("violations", "full", 21, 23, 39))
def members_that_run_take_no_room(ground: Ground) -> None:
    """They are known, and their nodes are as free as before."""

    def weightless(original: Any) -> Any:
        def admit(self: Any, gang: Any) -> None:
            with self.inventory.trial():
                original(self, gang)

        return admit

    ground.swap("placement.engine", "Engine.admit_running", weightless)


@caught_by(rule(test_rules.test_k14_running_members_pin_the_domain), judged("violations", "full", 5, 100))
def counting_answers_what_needs_a_search(ground: Ground) -> None:
    """Every gang is taken for a simple one."""

    def rash(original: Any) -> Any:
        return lambda parts, resources: replace(original(parts, resources), simple=True)

    ground.swap("placement.fit.counting", "profile", rash)


@caught_by(
    rule(test_rules.test_a_gang_waits_for_releasing_room_when_there_is_no_other),
    judged("false infeasible", "core", 2, 77),
)
def a_domain_must_hold_one_pod_more_than_needed(ground: Ground) -> None:
    """The proof by counting that a gang cannot be placed asks for too much."""

    def strict(original: Any) -> Any:
        def hopeless(self: Any, parts: Any, asked: Any, waiting: bool) -> bool:
            shapes = [tuple((shape, need + 1) for shape, need in mine) for mine in asked.shapes]
            verdict: bool = original(self, parts, replace(asked, shapes=shapes), waiting)
            return verdict

        return hopeless

    ground.swap("placement.fit.counting", "Counting.is_hopeless", strict)
