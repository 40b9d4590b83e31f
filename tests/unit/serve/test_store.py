"""The store: one revision for all, history that ends, watchers that miss nothing."""

from __future__ import annotations

import pytest

from kube_embedded.base import store as store_module
from kube_embedded.base.store import Expired, Record, Store


def put(store: Store, name: str, body: bytes = b"{}", owners: tuple[str, ...] = (), uid: str = "") -> Record:
    record = Record(body, store.next_revision(), uid or f"uid-{name}", "ns", name, {}, {}, owners)
    store.write("/pods", record)
    return record


def drop(store: Store, name: str) -> None:
    old = store.get("/pods", "ns", name)
    assert old is not None
    last = Record(old.body, store.next_revision(), old.uid, "ns", name, {}, {}, old.owners)
    store.erase("/pods", last)


def names(records: object) -> list[str]:
    return [record.name for record in records]  # type: ignore[attr-defined]


def test_every_write_in_any_collection_raises_the_one_revision() -> None:
    store = Store()
    first = put(store, "a").revision
    store.write("/nodes", Record(b"{}", store.next_revision(), "n", "", "n1", {}, {}))
    assert store.revision == first + 1
    assert put(store, "b").revision == first + 2


def test_lists_are_in_the_order_of_namespace_and_name() -> None:
    store = Store()
    for name in ("c", "a", "b"):
        put(store, name)
    assert names(store.collection("/pods").after(None)) == ["a", "b", "c"]
    assert names(store.collection("/pods").after(("ns", "a"))) == ["b", "c"]


def test_the_past_can_be_listed_while_history_reaches_back() -> None:
    store = Store()
    put(store, "a", b"1")
    then = put(store, "b", b"1").revision
    put(store, "a", b"2")
    drop(store, "b")
    put(store, "c")
    past = {record.name: record.body for record in store.collection("/pods").at(then)}
    assert past == {"a": b"1", "b": b"1"}


def test_history_that_was_dropped_is_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_HISTORY_EVENTS", 3)
    store = Store()
    start = store.revision
    for _ in range(5):
        put(store, "a")
    with pytest.raises(Expired):
        store.watch("/pods", start)
    assert len(store.watch("/pods", store.revision - 3).pending) == 3


def test_a_watcher_gets_the_events_after_its_version_and_then_the_new_ones_in_order() -> None:
    store = Store()
    first = put(store, "a").revision
    put(store, "b")
    watcher = store.watch("/pods", first)
    drop(store, "a")
    seen = [(event.revision, event.new.name if event.new else None) for event in watcher.pending]
    assert seen == [(first + 1, "b"), (first + 2, None)]


def test_a_watcher_that_does_not_read_is_cut_and_not_fed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_PENDING_EVENTS", 2)
    store = Store()
    watcher = store.watch("/pods", None)
    for _ in range(4):
        put(store, "a")
    assert watcher.overflow
    assert len(watcher.pending) == 2


def test_a_removed_watcher_gets_nothing() -> None:
    store = Store()
    watcher = store.watch("/pods", None)
    store.unwatch("/pods", watcher)
    put(store, "a")
    assert not watcher.pending


def test_dependents_follow_the_owner_references_of_every_version() -> None:
    store = Store()
    put(store, "child", owners=("o1", "o2"))
    assert store.dependents == {"o1": {("/pods", ("ns", "child"))}, "o2": {("/pods", ("ns", "child"))}}
    put(store, "child", owners=("o2",))
    assert set(store.dependents) == {"o2"}
    drop(store, "child")
    assert store.dependents == {}


def test_a_recreated_object_is_found_by_its_new_uid_only() -> None:
    store = Store()
    put(store, "a", uid="one")
    drop(store, "a")
    put(store, "a", uid="two")
    assert store.by_uid == {"two": ("/pods", ("ns", "a"))}
