"""Planted where two writes meet, and where a tie between objects is made late."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from drills.bug import caught_by, swap
from kube_embedded.base.store import Store
from kube_embedded.requests import patching, writing
from kube_embedded.requests.kernel import Kernel
from kube_embedded.server import routing


@caught_by(
    "test_drill_gaps::test_a_patch_that_lost_a_race_is_run_again",
    "test_drill_gaps::test_a_replace_that_lost_a_race_is_refused",
)
def a_lost_race_is_not_noticed() -> None:
    """An update that looks whether its object is still the same is told that it is."""
    update = writing._update_once.__code__

    def blind(original: Callable[..., Any]) -> Callable[..., Any]:
        def record(self: Any, resource: Any, namespace: str, name: str) -> Any:
            asking = sys._getframe(1)
            return asking.f_locals["record"] if asking.f_code is update else original(self, resource, namespace, name)

        return record

    swap(Kernel, "record", blind)


@caught_by("test_drill_gaps::test_a_patch_that_lost_a_race_is_run_again")
def a_patch_that_lost_a_race_is_given_up() -> None:
    def once(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **options: original(*arguments, **options | {"retry": False})

    swap(patching, "update", once)


@caught_by("test_drill_gaps::test_a_name_that_was_taken_meanwhile_is_taken")
def a_name_is_looked_up_before_webhooks_are_asked() -> None:
    check = writing._check_free

    def early(original: Callable[..., Any]) -> Callable[..., Any]:
        async def create(kernel: Any, call: Any, obj: Any) -> Any:
            meta = {"namespace": call.target.namespace, **obj["metadata"]}
            if "name" in meta:
                check(kernel, call, {"metadata": meta}, False)
            return await original(kernel, call, obj)

        return create

    swap(writing, "_check_free", lambda _: lambda *_: None)
    swap(routing, "create", early)


@caught_by("test_drill_gaps::test_an_owner_that_is_named_later_takes_its_dependent_along")
def an_owner_that_is_named_later_is_not_seen() -> None:
    def settled(original: Callable[..., None]) -> Callable[..., None]:
        def index(self: Any, collection: str, old: Any, new: Any) -> None:
            both = old is not None and new is not None
            original(self, collection, old, replace(new, owners=old.owners) if both else new)

        return index

    swap(Store, "_index", settled)
