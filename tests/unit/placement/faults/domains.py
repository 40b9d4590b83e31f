"""Planted in what a domain is, who sits in it, and which one is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from unit.placement import test_fault_gaps, test_rules, test_whole_sets
from unit.placement.faults.fault import Ground, caught_by
from unit.placement.faults.judges import judged, promise, rule


def _seat_by(ground: Ground, name: Callable[[list[str]], str]) -> None:
    """Let a domain be the first of its level with the same name, made of its path."""

    def confused(_: Any) -> Any:
        def enter(tree: Any, slot: int, labels: Mapping[str, str], reuse: bool) -> None:
            tree.reserve(slot + 1)
            tree._tiers[0].enter(slot, 0)
            domain, path = 0, tree.locate(labels)
            for depth, value in enumerate(path, start=1):
                wanted = name(path[:depth])
                known = range(tree.domains(depth))
                same = [one for one in known if name(list(tree.path(depth, one))) == wanted]
                domain = same[0] if same else tree._open(depth, domain, value, reuse)
                tree._tiers[depth].enter(slot, domain)

        return enter

    ground.swap("inventory.trees", "Tree.enter", confused)


@caught_by(rule(test_rules.test_equal_rack_names_in_different_blocks_stay_apart), judged("violations", "core", 0, 14))
def a_domain_is_its_own_value_alone(ground: Ground) -> None:
    _seat_by(ground, lambda path: path[-1])


@caught_by(rule(test_rules.test_dotted_label_values_do_not_collide), judged("violations", "core", 68, 75))
def a_domain_is_its_path_joined_by_dots(ground: Ground) -> None:
    _seat_by(ground, ".".join)


@caught_by(judged("violations", "core", 119, 136))
def a_missing_broader_label_is_overlooked(ground: Ground) -> None:
    """A node without a label sits where that label is empty, instead of outside the levels from there on."""

    def lax(_: Any) -> Any:
        return lambda tree, labels: [labels.get(level, "") for level in tree.levels] if labels else []

    ground.swap("inventory.trees", "Tree.locate", lax)


@caught_by(rule(test_rules.test_k6_preferred_falls_back_level_by_level), judged("violations", "core", 2, 7))
def a_domain_is_named_one_level_too_broad(ground: Ground) -> None:
    def broad(original: Any) -> Any:
        def domains(parts: Any, inventory: Any, live: Any) -> tuple[Any, ...]:
            found = original(parts, inventory, live)
            return tuple([msgspec.structs.replace(one, path=one.path[:-1]) if one.path[1:] else one for one in found])

        return domains

    ground.swap("placement.scoring", "domains", broad)


@caught_by(rule(test_rules.test_g12_a_tied_gang_shares_the_domain_of_the_other))
def a_tie_to_another_gang_is_ignored(ground: Ground) -> None:
    def free(original: Any) -> Any:
        def anywhere(parts: Any, inventory: Any, standings: Any) -> None:
            original(parts, inventory, standings)

        return anywhere

    ground.swap("placement.gang.tied_gangs", "tied_slots", free)


@caught_by(
    rule(test_rules.test_g12_a_gang_tied_to_one_that_is_not_placed_waits_with_that_reason),
    judged("violations", "full", 16, 68),
)
def a_tie_to_a_gang_that_is_not_there_is_dropped(ground: Ground) -> None:
    def lax(original: Any) -> Any:
        def slots(parts: Any, inventory: Any, standings: Any) -> Any:
            other = standings.get(parts.gang.tied_to.gang)
            return original(parts, inventory, standings) if other and other.live else None

        return slots

    ground.swap("placement.gang.tied_gangs", "tied_slots", lax)


@caught_by(judged("violations", "full", 15, 19, 61))
def running_members_pin_nothing(ground: Ground) -> None:
    ground.answer("placement.search.search_space", "SearchSpace.running_mask", 0)


@caught_by(rule(test_rules.test_best_fit_takes_the_least_or_the_most_room_as_configured))
def best_fit_takes_the_most_room_in_the_search(ground: Ground) -> None:
    def reversed_(original: Any) -> Any:
        return lambda board, mask: tuple([-amount for amount in original(board, mask)])

    ground.swap("placement.search.search_space", "SearchSpace.room", reversed_)


@caught_by(rule(test_rules.test_best_fit_takes_the_least_or_the_most_room_as_configured))
def best_fit_takes_the_most_room_by_counting(ground: Ground) -> None:
    ground.swap(
        "inventory.free_by_domain", "FreeByDomain.at", lambda original: lambda self, *where: -original(self, *where)
    )


@caught_by(rule(test_fault_gaps.test_equal_nodes_are_taken_by_name_whatever_order_they_came_in))
def equal_nodes_are_taken_as_they_came(ground: Ground) -> None:
    """The nodes of a domain are sorted by slot, not by name."""

    def untidy(_: Any) -> Any:
        def tidy(tier: Any, domain: int) -> None:
            tier._members[domain] = sorted({slot for slot in tier._members[domain] if tier.ids[slot] == domain})
            tier._untidy[domain] = False

        return tidy

    ground.swap("inventory.trees", "TreeLevel._tidy", untidy)


@caught_by(
    rule(test_fault_gaps.test_equal_domains_are_taken_by_path_whatever_order_they_came_in),
    promise("shuffled nodes", 10076),
)
def equal_domains_are_taken_as_they_came(ground: Ground) -> None:
    """Domains are sorted by id, not by path."""
    ground.swap("inventory.trees", "Tree.order", lambda _: lambda tree, depth: list(range(tree.domains(depth))))


@caught_by(rule(test_fault_gaps.test_equal_domains_are_taken_by_path_whatever_order_they_came_in))
def equal_domains_of_the_search_are_taken_backwards(ground: Ground) -> None:
    ground.swap(
        "placement.search.search_space",
        "SearchSpace.domain_masks",
        lambda original: lambda *asked: list(reversed(original(*asked))),
    )


@caught_by(
    rule(test_whole_sets.test_g12_the_base_gang_passes_over_a_tight_domain_that_does_not_hold_its_scaled_gangs),
    rule(test_whole_sets.test_g12_inside_the_domain_the_base_gang_stands_where_its_scaled_gangs_still_fit),
)
def a_base_gang_is_placed_for_itself_alone(ground: Ground) -> None:
    ground.answer("placement.whole_set", "place_whole_set", (None, True))


@caught_by(
    rule(
        test_whole_sets.test_g12_where_no_domain_holds_all_the_one_with_the_base_and_most_scaled_gangs_is_taken,
    )
)
def only_a_domain_for_all_scaled_gangs_counts(ground: Ground) -> None:
    def all_or_none(original: Any) -> Any:
        return lambda kinds, most, least: original(kinds, most, most)

    ground.swap("placement.gang.tied_gangs", "selections", all_or_none)
