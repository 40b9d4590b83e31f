"""Planted in the way of a write: versions, doors, dry runs, and what the server itself keeps in metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drills.bug import answer, caught_by, first, swap
from kube_embedded.builtins.common.rules import Rules
from kube_embedded.customresources.strategy import CustomStrategy
from kube_embedded.requests import bodies, writing
from kube_embedded.requests.kernel import Call
from kube_embedded.server import http_parser

STRATEGIES = (Rules, CustomStrategy)


def _take_the_current_version(new: Any, old: Any) -> None:
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]


@caught_by(
    "test_versions::test_a_stale_replace_is_refused[configmaps]",
    "test_versions::test_a_patch_that_carries_an_old_version_is_refused",
)
def a_stale_write_is_accepted() -> None:
    def forgive(call: Any, new: Any, old: Any) -> None:
        if not call.target.subresource:
            _take_the_current_version(new, old)

    first(writing, "_check_versions", forgive)


@caught_by(
    "test_versions::test_a_stale_status_write_is_refused[deployments]",
    "test_status::test_a_stale_custom_status_write_is_refused",
)
def a_stale_status_is_accepted() -> None:
    def forgive(call: Any, new: Any, old: Any) -> None:
        if call.target.subresource == "status":
            _take_the_current_version(new, old)

    first(writing, "_check_versions", forgive)


@caught_by("test_versions::test_a_replace_with_another_uid_is_refused")
def another_uid_is_accepted() -> None:
    first(writing, "_check_versions", lambda call, new, old: new["metadata"].pop("uid", None))


@caught_by("test_versions::test_creating_what_exists_is_refused", "test_deletion::test_a_held_name_cannot_be_taken")
def a_taken_name_is_overwritten() -> None:
    answer(writing, "_check_free", None)


def _keeping(part: str, name: str) -> None:
    """Let one step of every kind leave a part of the new object as the client sent it."""

    def keeping(original: Callable[..., None]) -> Callable[..., None]:
        def run(self: Any, obj: Any, old: Any, context: Any) -> None:
            sent = {part: obj[part]} if part in obj else {}
            original(self, obj, old, context)
            obj.update(sent)

        return run

    for strategy in STRATEGIES:
        swap(strategy, name, keeping)


@caught_by(
    "test_status::test_status_is_written_through_its_own_door_only[deployments]",
    "test_status::test_custom_status_and_spec_are_kept_apart",
)
def the_main_door_writes_the_status() -> None:
    _keeping("status", "prepare_update")


@caught_by(
    "test_status::test_the_status_door_leaves_the_spec_alone[deployments]",
    "test_status::test_custom_status_and_spec_are_kept_apart",
)
def the_status_door_writes_the_spec() -> None:
    _keeping("spec", "prepare_status_update")


@caught_by(
    "test_dry_run::test_a_dry_create_stores_nothing[configmaps]",
    "test_dry_run::test_a_dry_write_answers_with_the_result_and_stores_nothing[merge patch]",
    "test_dry_run::test_a_dry_binding_binds_nothing",
)
def a_dry_write_is_stored() -> None:
    swap(Call, "dry_run", lambda _: property(lambda self: False))


@caught_by("test_versions::test_a_write_that_changes_nothing_keeps_the_version[configmaps]")
def a_write_without_effect_is_stored() -> None:
    def eager(original: Callable[..., Any]) -> Callable[..., Any]:
        def settle(kernel: Any, call: Any, new: Any, old: Any) -> Any:
            return kernel.save(call.resource, new) if new == old else original(kernel, call, new, old)

        return settle

    swap(writing, "save_changed", eager)


@caught_by(
    "test_metadata::test_generation_counts_changes_of_the_spec_only",
    "test_metadata::test_generation_of_custom_objects_counts_everything_but_metadata_and_status",
)
def the_generation_stands_still() -> None:
    for strategy in STRATEGIES:
        answer(strategy, "generation_changes", False)


@caught_by("test_metadata::test_system_metadata_survives_a_merge_patch[generation]")
def system_metadata_is_taken_from_the_client() -> None:
    answer(writing, "_keep_metadata", None)


@caught_by(
    "test_metadata::test_managed_fields_tell_who_wrote_what",
    "test_apply::test_an_update_conflicts_with_a_later_apply",
)
def nobody_is_told_to_manage_a_field() -> None:
    answer(writing, "created", [])
    answer(writing, "updated", None)


@caught_by("test_custom_objects::test_updates_are_validated", "test_pods::test_the_message_says_what_may_be_changed")
def an_update_is_not_validated() -> None:
    answer(writing, "_update_errors", [])


@caught_by("test_bad_input::test_a_body_over_three_mebibytes_is_refused")
def a_huge_body_is_read() -> None:
    for module in (http_parser, bodies):
        swap(module, "MAX_BODY_BYTES", lambda limit: limit * 100)
