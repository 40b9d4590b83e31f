"""Planted in what happens to single fields: apply, patches, defaults, pruning, rules, strictness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drills.bug import answer, caught_by, swap
from kube_embedded.apply import server_side
from kube_embedded.customresources.strategy import CustomStrategy
from kube_embedded.patch import json_operations, strategic
from kube_embedded.requests import writing
from kube_embedded.schema.cel import rules


@caught_by(
    "test_apply::test_a_conflict_names_the_owner_and_the_field",
    "test_apply::test_an_update_takes_ownership_of_what_it_changes",
)
def an_apply_never_conflicts() -> None:
    answer(server_side, "find_conflicts", [])


@caught_by("test_apply::test_a_field_left_out_is_removed")
def a_field_that_is_applied_no_more_stays() -> None:
    swap(server_side, "prune", lambda _: lambda merged, layout, last, owned: merged)


@caught_by("test_apply::test_a_field_left_out_stays_while_another_owns_it")
def a_field_that_is_applied_no_more_goes_though_another_owns_it() -> None:
    swap(server_side, "prune", lambda original: lambda merged, layout, last, owned: original(merged, layout, last, {}))


@caught_by(
    "test_patches::test_strategic_merges_containers_by_name",
    "test_patches::test_strategic_merges_conditions_by_type",
)
def a_strategic_merge_replaces_lists() -> None:
    answer(strategic, "_strategy", "")


@caught_by("test_versions::test_a_json_patch_test_of_the_version_fails_when_it_moved")
def a_test_of_a_json_patch_always_holds() -> None:
    answer(json_operations, "same", True)


@caught_by("test_custom_objects::test_defaulting")
def custom_defaults_are_not_set() -> None:
    answer(CustomStrategy, "default", None)


@caught_by("test_custom_objects::test_pruning", "test_custom_objects::test_fields_beside_spec_and_status_are_pruned")
def unknown_custom_fields_are_kept() -> None:
    answer(writing, "prune", [])


@caught_by(
    "test_custom_objects::test_a_transition_rule_is_asked_on_update_only",
    "test_custom_objects::test_transition_rules_reach_keyed_list_items",
)
def transition_rules_are_not_asked() -> None:
    def without_them(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda node, place: original(replace(node, rules=[r for r in node.rules if not r.transition]), place)

    swap(rules, "_run", without_them)


@caught_by("test_custom_objects::test_a_rule_compares_fields")
def rules_are_asked_only_where_there_was_something_before() -> None:
    def late(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda node, place: original(node, place) if place.old is not None else iter(())

    swap(rules, "_run", late)


@caught_by(
    "test_field_validation::test_strict_refuses_all_unknown_fields_at_once",
    "test_field_validation::test_strict_on_custom_objects",
)
def strict_takes_unknown_fields() -> None:
    def lenient(original: Callable[..., None]) -> Callable[..., None]:
        def conform(call: Any, obj: Any) -> None:
            query = {key: value for key, value in call.query.items() if key != "fieldValidation"}
            original(replace(call, query=query), obj)

        return conform

    swap(writing, "conform", lenient)
