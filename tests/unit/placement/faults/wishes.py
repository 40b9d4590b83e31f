"""Planted in preferences: what is weighed, in which order, and how well it was met."""

from __future__ import annotations

from typing import Any

from unit.placement.faults.fault import Ground, caught_by


@caught_by()
def the_last_wish_comes_first(ground: Ground) -> None:
    def backwards(original: Any) -> Any:
        def order(part: Any) -> tuple[int, bool, int]:
            depth, is_leaf, index = original(part)
            return -depth, not is_leaf, -index

        return order

    ground.swap("placement.parts", "_order_of_wishes", backwards)


@caught_by()
def the_number_of_domains_does_not_matter(ground: Ground) -> None:
    ground.answer("placement.wishes", "fewest_domains", 10**6)


@caught_by()
def the_distance_of_domains_does_not_matter(ground: Ground) -> None:
    ground.answer("placement.wishes", "least_distance", 10**6)


@caught_by()
def all_domains_are_equally_near(ground: Ground) -> None:
    ground.answer("placement.search", "apart", 2)


@caught_by()
def a_node_outside_the_topology_is_as_good_as_any(ground: Ground) -> None:
    def blind(original: Any) -> Any:
        return lambda *asked: original(*asked)._replace(strays=False)

    ground.swap("placement.wishes", "worth_of", blind)


@caught_by()
def a_wish_that_fails_is_given_up_at_once(ground: Ground) -> None:
    """Levels between the wished one and the broadest are not tried."""

    def hasty(original: Any) -> Any:
        def level(search: Any, mask: int, wish: Any, found: Any) -> Any:
            holds = search.could_hold
            search.could_hold = lambda part, scope: scope == mask or holds(part, scope) and _is_narrow(search, wish, scope)
            try:
                return original(search, mask, wish, found)
            finally:
                del search.could_hold

        return level

    def _is_narrow(search: Any, wish: Any, scope: int) -> bool:
        return any(
            scope == spot.mask for spot in search.board.spots(wish.preferred.topology, wish.preferred.depth)
        )

    ground.swap("placement.wishes", "_better_level", hasty)


@caught_by()
def a_later_wish_undoes_an_earlier_one(ground: Ground) -> None:
    """What a wish got is not kept as a bound for those after it."""

    def loose(original: Any) -> Any:
        return lambda wish, got: original(wish, got)._replace(depth=0, strays=True, domains=None, distance=None)

    ground.swap("placement.wishes", "_cap", loose)


@caught_by()
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


@caught_by()
def the_fewest_domains_are_not_looked_for(ground: Ground) -> None:
    """Counting takes any domain above as long as it holds the pods."""

    def any_(original: Any) -> Any:
        return lambda *asked: original(*asked) * 0 + 1

    ground.swap("placement.spans", "Spans.fewest", any_)


@caught_by()
def the_score_forgets_how_many_domains_are_used(ground: Ground) -> None:
    ground.answer("placement.scoring", "_spread", 1)


@caught_by()
def pods_are_numbered_from_one(ground: Ground) -> None:
    def late(original: Any) -> Any:
        def number(*asked: Any) -> tuple[Any, ...]:
            import msgspec

            return tuple([msgspec.structs.replace(one, index=one.index + 1) for one in original(*asked)])

        return number

    ground.swap("placement.scoring", "number", late)


@caught_by()
def an_answer_does_not_say_that_it_waits(ground: Ground) -> None:
    ground.answer("placement.engine", "_needs_releasing", False)


@caught_by()
def a_gang_is_made_to_wait_for_what_is_idle(ground: Ground) -> None:
    """Idle room is not tried on its own."""

    def late(original: Any) -> Any:
        def attempt(self: Any, parts: Any, asked: Any, scope: Any, waiting: bool) -> Any:
            return original(self, parts, asked, scope, True)

        return attempt

    ground.swap("placement.engine", "Engine.attempt", late)
