"""Planted in the search: what it leaves out, forgets or gives up."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from unit.placement import test_fault_gaps, test_rules
from unit.placement.faults.fault import Ground, caught_by
from unit.placement.faults.judges import judged, rule


@caught_by(
    rule(test_fault_gaps.test_k9_a_group_is_moved_when_its_sibling_finds_no_rack),
    judged("false infeasible", "core", 108, 141),
)
def siblings_are_never_revisited(ground: Ground) -> None:
    """Once the next part has been looked at, the domain of the part before it stays."""

    def forward(original: Any) -> Any:
        looked: Counter[int] = Counter()

        def options(self: Any, now: Any, *rest: Any) -> Iterator[Any]:
            looked[id(now)] += 1
            before = looked[id(now)]
            for option in original(self, now, *rest):
                yield option
                if looked[id(now)] != before:
                    return

        return options

    ground.swap("placement.search.exact_search", "Search._options", forward)


@caught_by(judged("false infeasible", "core", 20, 40, 101, 119))
def only_the_first_candidate_domain_is_tried(ground: Ground) -> None:
    ground.swap(
        "placement.search.candidates", "Candidates.single", lambda original: lambda *asked: original(*asked)[:1]
    )


@caught_by(judged("false infeasible", "core", 1, 40, 119, 155))
def all_domains_look_alike(ground: Ground) -> None:
    """What is skipped as equal to what was tried is not equal at all."""
    ground.answer("placement.search.candidates", "Candidates.symmetry_class", 0)


@caught_by(judged("optimum missed", "full", 10, 96))
def domains_look_alike_whatever_is_below_them(ground: Ground) -> None:
    """The look of a node leaves out what is free on it."""
    ground.answer("placement.search.symmetry", "Symmetry._node_signature", 0)


@caught_by(rule(test_fault_gaps.test_k9_racks_that_look_alike_differ_by_what_is_in_them))
def a_remembered_failure_forgets_what_was_placed(ground: Ground) -> None:
    """Failed states are told apart by the domains in use, not by what is in them."""

    def forgetful(original: Any) -> Any:
        def state(self: Any, tried: Any) -> object:
            number, looks = original(self, tried)
            return number, tuple([look for look, _ in looks])

        return state

    ground.swap("placement.search.exact_search", "Search._state", forgetful)


@caught_by(rule(test_rules.test_k9_an_answer_that_was_not_found_in_time_says_so))
def a_budget_that_ends_is_taken_for_a_proof(ground: Ground) -> None:
    ground.swap(
        "placement.engine", "SearchResult.exhausted", lambda _: property(lambda self: False, lambda self, value: None)
    )


@caught_by(rule(test_rules.test_k14_running_members_pin_the_domain), judged("false infeasible", "core", 2, 8, 19))
def what_is_to_come_must_find_more_than_it_needs(ground: Ground) -> None:
    """The look ahead counts the last part twice."""

    def strict(original: Any) -> Any:
        def enough(self: Any, tried: Any) -> bool:
            longer = copy.copy(tried)
            longer.now, longer.choices = [*tried.now, tried.now[-1]], [*tried.choices, tried.choices[-1]]
            verdict: bool = original(self, longer)
            return verdict

        return enough

    ground.swap("placement.search.exact_search", "Search._leaves_enough", strict)


@caught_by(judged("violations", "core", 1, 4, 10))
def what_shares_nodes_is_solved_apart(ground: Ground) -> None:
    ground.swap(
        "placement.search.exact_search", "_pieces", lambda _: lambda board, entries: [[entry] for entry in entries]
    )


@caught_by(judged("violations", "core", 27, 49, 55))
def a_required_level_is_not_asked(ground: Ground) -> None:
    """Only wishes bind a part to a domain."""

    def free(_: Any) -> Any:
        return lambda self, entry: not entry.requirement_met and entry.part.index in self.candidates.domain_bounds

    ground.swap("placement.search.exact_search", "Search._is_bound", free)


@caught_by(rule(test_fault_gaps.test_k9_a_large_cluster_is_searched_beyond_the_tightest_domain))
def only_the_tightest_field_is_searched(ground: Ground) -> None:
    def first(original: Any) -> Any:
        def fields(*asked: Any) -> Iterator[Any]:
            yield next(original(*asked))

        return fields

    ground.swap("placement.fit.regions", "find_regions", first)


@caught_by(rule(test_fault_gaps.test_k9_a_large_cluster_keeps_every_node_that_some_pod_can_use))
def nodes_on_which_the_largest_pods_do_not_fit_are_left_out(ground: Ground) -> None:
    """A field holds the nodes for one kind of pods only."""

    def narrow(original: Any) -> Any:
        def promising(counting: Any, asked: Any, waiting: bool) -> Any:
            one = frozenset(sorted(asked.all_shapes, key=lambda shape: shape.request)[-1:])
            return original(counting, replace(asked, all_shapes=one), waiting)

        return promising

    ground.swap("placement.fit.regions", "_promising", narrow)


@caught_by(judged("violations", "full", 7, 23, 27))
def fewer_children_than_asked_are_enough(ground: Ground) -> None:
    def lax(original: Any) -> Any:
        return lambda group, children, path: max(0, original(group, children, path) - (group.min_groups is not None))

    ground.swap("placement.gang.gang_tree", "_needed_children", lax)


@caught_by(
    rule(test_fault_gaps.test_k14_children_that_fit_are_chosen_where_the_first_ones_do_not),
    judged("false infeasible", "full", 59),
)
def only_the_first_choice_of_children_is_tried(ground: Ground) -> None:
    def first(original: Any) -> Any:
        def choices(*asked: Any) -> Iterator[Any]:
            yield next(original(*asked))

        return choices

    ground.swap("placement.gang.child_selection", "choices", first)


@caught_by(rule(test_fault_gaps.test_k14_of_several_children_those_that_give_the_better_preference_are_chosen))
def the_first_children_that_fit_are_kept(ground: Ground) -> None:
    """Whatever the other choices are worth."""
    ground.answer("placement.engine", "_better", False)
