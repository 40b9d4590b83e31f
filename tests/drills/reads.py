"""Planted in lists and watches: where they begin, what they are told, and how they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drills.bug import answer, caught_by, swap
from kube_embedded.base.store import Collection, Expired, Store
from kube_embedded.requests import reading, watching
from kube_embedded.requests.watching import _Session


@caught_by("test_watch::test_a_watch_from_the_version_of_a_list_has_no_gap")
def a_watch_begins_one_change_too_late() -> None:
    def late(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, name, after: original(self, name, None if after is None else after + 1)

    swap(Store, "watch", late)


@caught_by("test_watch::test_a_resumed_watch_neither_loses_nor_repeats")
def a_watch_begins_one_change_too_early() -> None:
    swap(_Session, "run", lambda original: lambda self, start, initial: original(self, start - 1, initial))


@caught_by("test_watch::test_bookmarks_come_when_they_are_allowed")
def bookmarks_never_come() -> None:
    answer(_Session, "_bookmark", b"")


@caught_by("test_watch::test_moving_in_and_out_of_a_label_selector_is_added_and_deleted")
def leaving_a_selection_is_told_as_a_change() -> None:
    def told(original: Callable[..., bytes]) -> Callable[..., bytes]:
        def event(self: Any, change: Any) -> bytes:
            left = change.new is not None and change.old is not None and self._chosen.holds(change.old)
            return self._line("MODIFIED", change.new) if left else original(self, change)

        return event

    swap(_Session, "_event", told)


@caught_by("test_watch::test_a_deleted_object_is_shown_as_it_was_with_the_version_of_its_end")
def a_deletion_carries_the_version_before_it() -> None:
    def told(original: Callable[..., bytes]) -> Callable[..., bytes]:
        return lambda self, change: original(self, change) if change.new else self._line("DELETED", change.old)

    swap(_Session, "_event", told)


@caught_by("test_watch::test_other_namespaces_are_not_told")
def a_watch_tells_of_all_namespaces() -> None:
    swap(watching, "selection", lambda original: lambda call: replace(original(call), namespace=""))


@caught_by("test_watch::test_a_watch_from_before_the_history_is_gone")
def a_forgotten_history_counts_as_quiet() -> None:
    def silent(original: Callable[..., Any]) -> Callable[..., Any]:
        def since(self: Collection, revision: int) -> Any:
            try:
                return original(self, revision)
            except Expired:
                return list(self.history)

        return since

    swap(Collection, "since", silent)


@caught_by("test_lists::test_pages_are_cut_by_limit")
def a_continued_list_begins_anew() -> None:
    swap(reading, "_parse_token", lambda original: lambda token: (original(token)[0], ("", "")))


@caught_by("test_lists::test_all_pages_are_of_the_moment_of_the_first")
def a_continued_list_is_of_now() -> None:
    swap(reading, "_parse_token", lambda original: lambda token: (reading.NOW, original(token)[1]))


@caught_by("test_lists::test_an_exact_version_shows_the_past")
def the_past_is_shown_as_the_present() -> None:
    swap(Collection, "at", lambda _: lambda self, revision: self.after(None))
