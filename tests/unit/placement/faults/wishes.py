"""Planted in preferences: what is weighed, in which order, and how well it was met."""

from __future__ import annotations

from typing import Any

import msgspec

from unit.placement import test_fault_gaps, test_rules
from unit.placement.faults.fault import Ground, caught_by
from unit.placement.faults.judges import judged, rule


@caught_by(rule(test_fault_gaps.test_k6_a_later_wish_never_undoes_an_earlier_one), judged("optimum missed", "full", 42))
def the_last_wish_comes_first(ground: Ground) -> None:
    def backwards(original: Any) -> Any:
        def order(part: Any) -> tuple[int, bool, int]:
            depth, is_leaf, index = original(part)
            return -depth, not is_leaf, -index

        return order

    ground.swap("placement.gang.gang_tree", "_order_of_preferences", backwards)


@caught_by(judged("optimum missed", "full", 10, 12, 37))
def the_number_of_domains_does_not_matter(ground: Ground) -> None:
    ground.answer("placement.search.preferences", "fewest_domains", 10**6)


@caught_by(judged("optimum missed", "full", 42, 103), judged("optimum missed", "core", 81))
def the_distance_of_domains_does_not_matter(ground: Ground) -> None:
    ground.answer("placement.search.preferences", "least_distance", 10**6)


@caught_by(judged("optimum missed", "core", 8, 136, 189))
def all_domains_are_equally_near(ground: Ground) -> None:
    ground.answer("placement.search.candidates", "path_distance", 2)


@caught_by(rule(test_fault_gaps.test_k6_a_later_wish_leaves_nodes_outside_the_topology_for_the_last))
def a_node_outside_the_topology_is_as_good_as_any(ground: Ground) -> None:
    def blind(original: Any) -> Any:
        return lambda *asked: original(*asked)._replace(outside_nodes=False)

    ground.swap("placement.search.preferences", "score_nodes", blind)


@caught_by(judged("optimum missed", "hard", 37, 97), judged("optimum missed", "full", 111))
def a_wish_that_fails_is_given_up_at_once(ground: Ground) -> None:
    """Levels between the wished one and the broadest are not tried."""

    def hasty(original: Any) -> Any:
        def scopes(self: Any, part: Any, cap: Any) -> Any:
            floor = part.required.depth if part.required else 0
            return iter(()) if floor < cap.depth < part.preferred.depth else original(self, part, cap)

        return scopes

    ground.swap("placement.search.candidates", "Candidates.scopes_of", hasty)


@caught_by(rule(test_fault_gaps.test_k6_a_later_wish_never_undoes_an_earlier_one))
def a_later_wish_undoes_an_earlier_one(ground: Ground) -> None:
    """What a wish got is not kept as a bound for those after it."""

    def loose(original: Any) -> Any:
        return lambda wish, got: original(wish, got)._replace(depth=0, outside_nodes=True, domains=None, distance=None)

    ground.swap("placement.search.preferences", "_domain_bound", loose)


@caught_by(rule(test_fault_gaps.test_k14_the_level_is_decided_by_the_minimum_whatever_holds_all_pods))
def the_level_is_judged_on_all_pods(ground: Ground) -> None:
    """Where everything fits at a broader level, the minimum does not get the narrower one."""

    def greedy(original: Any) -> Any:
        def minimum(board: Any) -> dict[int, int]:
            everything = {
                leaf.index: max(0, leaf.pods.count - len(board.running.get(leaf.index, ())))
                for leaf in board.parts.leaves
            }
            room = {
                kind: sum(board.capacity(kind, node) for node in range(len(board.slots)) if asked.usable >> node & 1)
                for kind, asked in enumerate(board.types)
            }
            fits = all(room[board.type_of[leaf]] >= count for leaf, count in everything.items())
            return everything if fits else original(board)

        return minimum

    ground.swap("placement.engine", "minimum", greedy)


@caught_by(rule(test_fault_gaps.test_k7_counting_takes_the_block_with_the_fewest_racks_before_the_tightest))
def the_fewest_domains_are_not_looked_for(ground: Ground) -> None:
    """Counting takes any domain above as long as it holds the pods."""

    def any_(original: Any) -> Any:
        return lambda *asked: original(*asked) * 0 + 1

    ground.swap("placement.fit.counting", "DomainsNeeded.fewest", any_)


@caught_by(rule(test_rules.test_k6_preferred_falls_back_level_by_level), judged("violations", "core", 8, 10))
def the_score_forgets_how_many_domains_are_used(ground: Ground) -> None:
    ground.answer("placement.scoring", "_spread", 1)


@caught_by(judged("violations", "core", 0, 2))
def pods_are_numbered_from_one(ground: Ground) -> None:
    def late(original: Any) -> Any:
        def number(*asked: Any) -> tuple[Any, ...]:
            return tuple([msgspec.structs.replace(one, index=one.index + 1) for one in original(*asked)])

        return number

    ground.swap("placement.scoring", "number", late)


@caught_by(
    rule(test_rules.test_a_gang_waits_for_releasing_room_when_there_is_no_other), judged("violations", "full", 21, 65)
)
def an_answer_does_not_say_that_it_waits(ground: Ground) -> None:
    ground.answer("placement.engine", "needs_releasing", False)


@caught_by(judged("waits needlessly", "full", 17, 19, 33))
def a_gang_is_made_to_wait_for_what_is_idle(ground: Ground) -> None:
    """Idle room is not tried on its own."""

    def late(original: Any) -> Any:
        def attempt(self: Any, parts: Any, asked: Any, scope: Any, waiting: bool) -> Any:
            return original(self, parts, asked, scope, True)

        return attempt

    ground.swap("placement.engine", "Engine.attempt", late)
