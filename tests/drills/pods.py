"""Planted in what only pods have: binding and eviction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from drills.bug import answer, caught_by, swap
from kube_embedded.base.store import Record
from kube_embedded.subresources import binding, eviction


def _seen_otherwise(change: Callable[[Record], Record]) -> None:
    """Show the checks of a binding another pod than the one that is bound."""

    def otherwise(original: Callable[..., None]) -> Callable[..., None]:
        def check(record: Record, pod: Any, given: Any) -> None:
            original(change(record), pod, given)

        return check

    swap(binding, "_check", otherwise)


@caught_by("test_binding::test_a_pod_is_bound_once")
def a_pod_is_bound_twice() -> None:
    _seen_otherwise(lambda record: replace(record, fields={**record.fields, "spec.nodeName": ""}))


@caught_by("test_binding::test_a_gated_pod_is_not_bound")
def a_gated_pod_is_bound() -> None:
    _seen_otherwise(lambda record: replace(record, body=b""))


@caught_by("test_binding::test_a_deleting_pod_is_not_bound")
def a_dying_pod_is_bound() -> None:
    _seen_otherwise(lambda record: replace(record, deleting=False))


def _without(*ignored: str) -> None:
    def blind(original: Callable[..., None]) -> Callable[..., None]:
        def check(record: Record, pod: Any, given: dict[str, Any]) -> None:
            original(record, pod, {key: value for key, value in given.items() if key not in ignored})

        return check

    swap(binding, "_check", blind)


@caught_by("test_binding::test_a_binding_may_name_the_pods_uid")
def the_uid_of_a_binding_is_not_looked_at() -> None:
    _without("uid")


@caught_by("test_binding::test_a_binding_may_name_the_pods_version")
def the_version_of_a_binding_is_not_looked_at() -> None:
    _without("resourceVersion")


@caught_by("test_watch::test_binding_a_pod_makes_it_appear_to_a_watcher_of_the_node")
def a_bound_pod_is_not_found_by_its_node() -> None:
    def unseen(original: Callable[..., Any]) -> Callable[..., Any]:
        def bound(kernel: Any, record: Any, *rest: Any) -> Any:
            return replace(original(kernel, record, *rest), fields=record.fields)

        return bound

    swap(binding, "_bound", unseen)


@caught_by(
    "test_eviction::test_a_budget_without_room_refuses",
    "test_eviction::test_a_budget_with_room_lets_one_go",
)
def an_eviction_asks_no_budget() -> None:
    answer(eviction, "_take_disruption", None)


@caught_by("test_eviction::test_a_budget_with_room_lets_one_go")
def an_eviction_is_not_counted() -> None:
    def uncounted(original: Callable[..., None]) -> Callable[..., None]:
        return lambda kernel, pod, options: original(_Deaf(kernel), pod, options)

    swap(eviction, "_take_disruption", uncounted)


class _Deaf:
    """A kernel that stores nothing."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def save(self, resource: Any, obj: Any) -> Any:
        return obj

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)
