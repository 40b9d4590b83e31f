"""Planted in what decides where a pod may go: conditions, taints, labels, ports, neighbours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unit.inventory import test_filters
from unit.placement import test_fault_gaps, test_pod_affinity, test_rules
from unit.placement.faults.fault import Ground, caught_by
from unit.placement.faults.judges import judged, rule


@caught_by(
    rule(test_rules.test_k8_cordoned_not_ready_and_untolerated_nodes_are_no_capacity),
    judged("violations", "full", 32, 75),
)
def a_cordoned_node_is_capacity(ground: Ground) -> None:
    def blind(original: Any) -> Any:
        return lambda tolerations, taints, unschedulable, ready: original(tolerations, taints, False, ready)

    ground.swap("inventory.filters", "condition", blind)


@caught_by(
    rule(test_rules.test_k8_cordoned_not_ready_and_untolerated_nodes_are_no_capacity),
    judged("violations", "full", 8, 96),
)
def a_node_that_is_not_ready_is_capacity(ground: Ground) -> None:
    def blind(original: Any) -> Any:
        return lambda tolerations, taints, unschedulable, ready: original(tolerations, taints, unschedulable, True)

    ground.swap("inventory.filters", "condition", blind)


@caught_by(
    rule(test_rules.test_k8_cordoned_not_ready_and_untolerated_nodes_are_no_capacity),
    judged("violations", "full", 5, 7),
)
def a_taint_keeps_nobody_out(ground: Ground) -> None:
    def blind(original: Any) -> Any:
        return lambda tolerations, taints, unschedulable, ready: original(tolerations, (), unschedulable, ready)

    ground.swap("inventory.filters", "condition", blind)


@caught_by(
    rule(test_filters.test_k8_a_taint_is_tolerated_as_in_kubernetes),
    rule(test_fault_gaps.test_k8_a_toleration_of_another_value_lets_nobody_in),
)
def a_toleration_holds_for_every_value(ground: Ground) -> None:
    def lax(_: Any) -> Any:
        return lambda toleration, taint: toleration.key in ("", taint.key)

    ground.swap("inventory.filters", "_tolerates", lax)


@caught_by(
    rule(test_filters.test_k8_a_required_term_matches_as_in_kubernetes), judged("violations", "full", 62, 87, 91)
)
def not_in_is_taken_for_in(ground: Ground) -> None:
    def confused(original: Any) -> Any:
        return lambda term, value: value in term.values if term.operator == "NotIn" else original(term, value)

    ground.swap("inventory.filters", "holds", confused)


@caught_by(
    rule(test_filters.test_k8_one_node_and_all_nodes_at_once_are_judged_alike),
    rule(test_fault_gaps.test_k8_not_in_keeps_a_gang_off_where_nothing_has_to_be_searched),
)
def not_in_is_taken_for_in_over_all_nodes(ground: Ground) -> None:
    def confused(original: Any) -> Any:
        return lambda self, wish: ~original(self, wish) if wish.operator == "NotIn" else original(self, wish)

    ground.swap("inventory.masks", "Masks._label", confused)


@caught_by(rule(test_rules.test_k8_preferred_affinity_and_soft_taints_decide_inside_the_chosen_domain_only))
def what_pods_prefer_is_not_asked(ground: Ground) -> None:
    ground.answer("inventory.filters", "preference", (0, 0))


@caught_by(
    rule(test_rules.test_k8_two_pods_with_one_host_port_never_share_a_node), judged("violations", "full", 20, 38)
)
def pods_share_a_host_port(ground: Ground) -> None:
    def shared(original: Any) -> Any:
        return lambda *given: replace(original(*given), ports=frozenset(), refused=frozenset())

    ground.swap("placement.search.search_space", "SearchSpace._type", shared)


@caught_by(rule(test_rules.test_k8_two_pods_with_one_host_port_never_share_a_node), judged("violations", "full", 5, 38))
def ports_in_use_are_not_seen(ground: Ground) -> None:
    ground.answer("inventory.ports", "Ports.used", frozenset())


@caught_by(rule(test_rules.test_anti_affinity_keeps_pods_of_a_set_on_different_hosts), judged("violations", "full", 5))
def anti_affinity_is_not_asked(ground: Ground) -> None:
    ground.answer("placement.search.search_space", "SearchSpace.label_values", {})


@caught_by(judged("violations", "full", 48, 100))
def anti_affinity_keeps_apart_on_nodes_only(ground: Ground) -> None:
    """Two nodes that carry the same value of the key are taken for two places."""

    def near(original: Any) -> Any:
        return lambda self, key: {node: node for node in original(self, key)}

    ground.swap("placement.search.search_space", "SearchSpace.label_values", near)


@caught_by(
    rule(test_pod_affinity.test_k17_it_is_enough_that_one_of_the_two_says_so), judged("violations", "affinity", 13, 22)
)
def other_pod_sets_are_not_kept_apart(ground: Ground) -> None:
    ground.answer("placement.gang.pod_affinity", "GangAffinity.others", frozenset())


@caught_by(rule(test_pod_affinity.test_k17_groups_that_sit_in_different_racks_still_keep_apart_by_block))
def parts_are_coupled_by_nodes_only(ground: Ground) -> None:
    ground.answer("placement.search.search_space", "SearchSpace.couplings", 0)


@caught_by(
    rule(test_pod_affinity.test_k17_pods_follow_those_of_another_set_wherever_they_are),
    rule(test_pod_affinity.test_k17_a_set_is_spread_over_the_domains_of_a_label),
    judged("violations", "affinity", 21, 28),
)
def rules_are_not_judged(ground: Ground) -> None:
    ground.answer("placement.search.affinity", "PatternRules.allows", True)
    ground.answer("placement.search.affinity", "PatternRules.__bool__", False)


@caught_by(rule(test_pod_affinity.test_k17_pods_of_a_set_come_together_by_any_label))
def pods_need_not_come_together(ground: Ground) -> None:
    ground.answer("placement.search.search_space", "SearchSpace.undecided", None)
