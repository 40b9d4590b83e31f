"""Planted in zones below the host: what they have, what they share, and whose they are."""

from __future__ import annotations

from typing import Any

from spinney.api.placement.problem import Node
from unit.placement import test_zones
from unit.placement.faults.fault import Ground, caught_by
from unit.placement.faults.judges import judged, rule


@caught_by(rule(test_zones.test_k12_a_pod_goes_only_where_one_zone_holds_it), judged("violations", "zones", 1, 3))
def a_zone_gives_whatever_its_node_has(ground: Ground) -> None:
    ground.swap("inventory.numa_zones", "within", lambda _: lambda own, node: node)


@caught_by(
    rule(test_zones.test_inv1_k12_what_zones_do_not_account_for_is_not_used_twice),
    judged("violations", "hard-zones", 1, 5, 11),
)
def zones_have_a_node_each(ground: Ground) -> None:
    """What a pod takes in one zone is still there for the next."""
    ground.answer("placement.search.numa_sharing", "find_shared_nodes", ())
    ground.answer("placement.fit.fast_path", "_FastAttempt._still_holds", True)


@caught_by(
    rule(test_zones.test_inv1_k12_what_zones_do_not_account_for_is_not_used_twice),
    judged("violations", "zones", 28, 34),
)
def counting_forgets_that_zones_share_a_node(ground: Ground) -> None:
    ground.answer("placement.fit.fast_path", "_FastAttempt._still_holds", True)


@caught_by(
    rule(test_zones.test_k12_groups_that_want_one_host_port_are_not_in_two_zones_of_one_node),
    judged("violations", "hard-zones", 60),
)
def groups_in_zones_of_one_node_are_solved_apart(ground: Ground) -> None:
    ground.swap("placement.search.search_space", "SearchSpace.span", lambda _: lambda board, mask: mask)


@caught_by(rule(test_zones.test_k12_no_pod_is_put_where_another_one_needs_what_is_left))
def a_zone_is_always_filled_up(ground: Ground) -> None:
    """Although the next one may need what the node has left."""

    def greedy(original: Any) -> Any:
        def extend(self: Any, *given: Any) -> Any:
            return original(self, *given[:-1], True)

        return extend

    ground.swap("placement.search.packing", "NodePatterns._extend", greedy)
    ground.answer("placement.search.packing", "_greedy", None)


@caught_by(
    rule(test_zones.test_k12_a_running_member_whose_zone_is_not_known_holds_room_in_all_of_them),
    judged("violations", "zones", 49, 97),
)
def a_pod_whose_zone_is_not_known_is_in_none(ground: Ground) -> None:
    def nowhere(_: Any) -> Any:
        return lambda divided, slot: () if slot == divided.slot else (slot,)

    ground.swap("inventory.numa_zones", "DividedNode.charged", nowhere)


@caught_by(
    rule(test_zones.test_k12_zones_do_not_matter_under_another_policy), judged("false infeasible", "zones", 29, 188)
)
def a_node_is_divided_whatever_its_policy(ground: Ground) -> None:
    ground.patch.setattr(Node, "is_divided", property(lambda node: bool(node.zones)))


@caught_by(rule(test_zones.test_k12_a_host_port_is_open_once_on_all_zones), judged("violations", "hard-zones", 60))
def every_zone_has_ports_of_its_own(ground: Ground) -> None:
    def apart(original: Any) -> Any:
        def join(self: Any, divided: Any) -> None:
            original(self, divided)
            self._ports.homes.clear()

        return join

    ground.swap("inventory.numa_zones", "DividedNodes.join", apart)
    ground.swap(
        "placement.search.search_space", "SearchSpace._ports", lambda _: lambda board: [{} for _ in board.slots]
    )
    ground.swap(
        "placement.search.numa_sharing",
        "SharedNode.holds",
        lambda original: lambda self, request, _: original(self, request, ()),
    )


@caught_by(
    rule(test_zones.test_k12_a_gang_waits_where_zones_together_need_what_a_node_releases),
    judged("violations", "zones", 38, 48),
)
def nobody_waits_for_what_a_node_releases(ground: Ground) -> None:
    ground.answer("placement.engine", "needs_releasing", False)


@caught_by(judged("violations", "zones", 9, 13), judged("violations", "hard-zones", 0, 4))
def zones_of_one_name_are_one_zone(ground: Ground) -> None:
    def short(original: Any) -> Any:
        def labels(topology: Any, node: Any, zone: str) -> Any:
            found = dict(original(topology, node, zone))
            return found | {topology.levels[-1]: zone} if topology.zones and zone else found

        return labels

    ground.swap("inventory.numa_zones", "labels_for", short)


@caught_by(rule(test_zones.test_k10_k12_a_victim_in_another_zone_helps_where_the_node_is_short))
def only_pods_in_the_same_zone_can_make_room(ground: Ground) -> None:
    ground.swap("inventory.numa_zones", "DividedNodes.family", lambda _: lambda divisions, slot: (slot,))
