"""Planted in deletion: what holds an object, what goes with it, and what a namespace or a definition leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drills.bug import answer, caught_by, swap
from kube_embedded.admission.builtin_plugins import NamespaceLifecycle
from kube_embedded.base.errors import ApiError
from kube_embedded.builtins.common import metadata
from kube_embedded.controllers.crd_controller import DEFINITIONS, CrdController, _without_cleanup
from kube_embedded.controllers.garbage_collector import GarbageCollector, _without_finalizer
from kube_embedded.controllers.namespace_controller import NamespaceController
from kube_embedded.requests import deletion
from kube_embedded.requests.deletion import FOREGROUND, ORPHAN
from kube_embedded.server import routing


@caught_by(
    "test_deletion::test_a_finalizer_holds_an_object_until_it_is_removed",
    "test_watch::test_a_deletion_that_waits_for_a_finalizer_is_a_change_and_then_an_end",
)
def finalizers_do_not_hold() -> None:
    def ours(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
        return lambda current, options: [one for one in original(current, options) if one in (FOREGROUND, ORPHAN)]

    swap(deletion, "_finalizers", ours)


@caught_by("test_deletion::test_a_held_object_takes_no_new_finalizers")
def a_dying_object_takes_new_finalizers() -> None:
    answer(metadata, "_check_new_finalizers", [])


@caught_by(
    "test_deletion::test_a_failed_precondition_keeps_the_object[uid]",
    "test_eviction::test_a_failed_precondition_evicts_nobody",
)
def the_uid_of_a_deletion_is_not_looked_at() -> None:
    def blind(original: Callable[..., None]) -> Callable[..., None]:
        return lambda call, old, options: original(call, old, replace(options, uid=""))

    swap(deletion, "_check_preconditions", blind)


@caught_by("test_deletion::test_a_failed_precondition_keeps_the_object[version]")
def the_version_of_a_deletion_is_not_looked_at() -> None:
    def blind(original: Callable[..., None]) -> Callable[..., None]:
        return lambda call, old, options: original(call, old, replace(options, resource_version=""))

    swap(deletion, "_check_preconditions", blind)


@caught_by("test_dry_run::test_a_dry_delete_keeps_the_object[query]")
def a_dry_deletion_deletes() -> None:
    def wet(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda query, body: replace(original(query, body), dry_run=False)

    swap(routing, "parse_options", wet)


@caught_by("test_deletion::test_a_bound_pod_is_given_its_grace")
def no_pod_is_given_grace() -> None:
    answer(deletion, "_grace", 0)


@caught_by("test_garbage_collection::test_foreground_waits_for_blocking_dependents")
def foreground_is_background() -> None:
    def hasty(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
        return lambda current, options: [one for one in original(current, options) if one != FOREGROUND]

    swap(deletion, "_finalizers", hasty)


@caught_by("test_garbage_collection::test_orphans_lose_the_reference_and_stay")
def orphans_are_not_let_go() -> None:
    async def release(self: Any, resource: Any, record: Any) -> None:
        await self._writer.change(resource, record.key, lambda obj: _without_finalizer(obj, ORPHAN))

    swap(GarbageCollector, "_orphan", lambda _: release)


@caught_by("test_garbage_collection::test_an_owner_in_another_namespace_is_no_owner")
def an_owner_may_be_in_another_namespace() -> None:
    def anywhere(original: Callable[..., Any]) -> Callable[..., Any]:
        def owner(self: Any, ref: Any, namespace: str) -> Any:
            place = self._kernel.store.by_uid.get(ref["uid"])
            return original(self, ref, place[1][0] if place else namespace)

        return owner

    swap(GarbageCollector, "_owner", anywhere)


@caught_by("test_namespaces::test_the_end_of_a_namespace")
def a_namespace_goes_before_its_content() -> None:
    def hasty(original: Callable[..., Any]) -> Callable[..., Any]:
        async def empty(self: Any, namespace: str) -> None:
            await original(self, namespace)
            await self._finish(namespace)

        return empty

    swap(NamespaceController, "_empty", hasty)


@caught_by("test_namespaces::test_the_end_of_a_namespace")
def an_ending_namespace_takes_new_content() -> None:
    def open_late(original: Callable[..., None]) -> Callable[..., None]:
        def check(self: Any, request: Any, lookup: Any) -> None:
            try:
                original(self, request, lookup)
            except ApiError as error:
                if error.code != 403:
                    raise

        return check

    swap(NamespaceLifecycle, "_check_content", open_late)


@caught_by("test_definitions::test_a_kind_goes_with_its_definition")
def a_definition_leaves_its_objects() -> None:
    async def forget(self: Any, record: Any) -> None:
        await self._writer.change(self._writer.resource_of(DEFINITIONS), record.key, _careless)

    swap(CrdController, "_clean_up", lambda _: forget)


def _careless(crd: Any) -> Any:
    return _without_cleanup(crd) if "finalizers" in crd["metadata"] else crd
