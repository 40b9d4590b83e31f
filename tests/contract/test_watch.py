"""Watches: every change once, in order, and an honest word when that is not possible."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import binding, config, crd, custom, node, pod
from cluster_kit.server import Watch
from cluster_kit.space import Space

Event = dict[str, Any]


def brief(events: list[Event]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def version_of(thing: Any) -> str:
    return thing["metadata"]["resourceVersion"]


def sentinel(space: Space) -> Any:
    """Something that ends a watch: what came before it has been seen."""
    return space.create("configmaps", config("zz-end", labels={"watched": "yes"})).ok(201)


def before_the_end(watch: Watch) -> list[Event]:
    return watch.until(lambda event: event["object"]["metadata"]["name"] == "zz-end")[:-1]


def test_changes_arrive_in_the_order_of_their_versions(space: Space) -> None:
    start = version_of(space.list("configmaps"))
    space.create("configmaps", config("a")).ok(201)
    space.create("configmaps", config("b")).ok(201)
    space.patch("configmaps", "a", {"data": {"k": "w"}}).ok(200)
    space.delete("configmaps", "b").ok(200)
    space.delete("configmaps", "a").ok(200)
    with space.watch("configmaps", resourceVersion=start) as watch:
        events = watch.take(5)
    assert brief(events) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"), ("DELETED", "a")]
    versions = [int(version_of(event["object"])) for event in events]
    assert versions == sorted(versions)
    assert len(set(versions)) == 5


def test_a_watch_is_told_what_happens_after_it_began(space: Space) -> None:
    start = version_of(space.list("configmaps"))
    with space.watch("configmaps", resourceVersion=start) as watch:
        made = space.create("configmaps", config("a")).ok(201)
        event = watch.next()
    assert event == {"type": "ADDED", "object": made}


def test_a_deleted_object_is_shown_as_it_was_with_the_version_of_its_end(space: Space) -> None:
    made = space.create("configmaps", config("a", {"k": "last"})).ok(201)
    space.delete("configmaps", "a").ok(200)
    with space.watch("configmaps", resourceVersion=version_of(made)) as watch:
        event = watch.next()
    assert (event["type"], event["object"]["data"]) == ("DELETED", {"k": "last"})
    assert int(version_of(event["object"])) > int(version_of(made))


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}, {"resourceVersion": ""}], ids=["unset", "0", "empty"])
def test_a_watch_without_a_version_begins_with_what_is_there(query: dict[str, Any], space: Space) -> None:
    space.create("configmaps", config("b")).ok(201)
    space.create("configmaps", config("a")).ok(201)
    with space.watch("configmaps", **query) as watch:
        first = watch.take(2)
        space.create("configmaps", config("c")).ok(201)
        later = watch.next()
    assert sorted(brief(first)) == [("ADDED", "a"), ("ADDED", "b")]
    assert brief([later]) == [("ADDED", "c")]


def test_a_resumed_watch_neither_loses_nor_repeats(space: Space) -> None:
    start = version_of(space.list("configmaps"))
    for index in range(6):
        space.create("configmaps", config(f"c{index}")).ok(201)
    with space.watch("configmaps", resourceVersion=start) as watch:
        head = watch.take(3)
    with space.watch("configmaps", resourceVersion=version_of(head[-1]["object"])) as watch:
        tail = watch.take(3)
    assert [name for _, name in brief(head + tail)] == [f"c{index}" for index in range(6)]


def test_a_watch_from_the_version_of_a_list_has_no_gap(space: Space) -> None:
    space.create("configmaps", config("before")).ok(201)
    listed = space.list("configmaps")
    space.create("configmaps", config("after")).ok(201)
    with space.watch("configmaps", resourceVersion=version_of(listed)) as watch:
        assert brief(watch.take(1)) == [("ADDED", "after")]


def test_writes_that_change_nothing_and_dry_runs_are_not_told(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    space.replace("configmaps", made).ok(200)
    space.patch("configmaps", "a", {"data": {"k": "v"}}).ok(200)
    space.patch("configmaps", "a", {"data": {"k": "w"}}, dryRun="All").ok(200)
    space.delete("configmaps", "a", dryRun="All").ok(200)
    space.create("configmaps", config("b"), dryRun="All").ok(201)
    sentinel(space)
    with space.watch("configmaps", resourceVersion=version_of(made)) as watch:
        assert before_the_end(watch) == []


def test_other_namespaces_are_not_told(space: Space, cluster: Space, unique: str) -> None:
    other = f"{unique}-other"
    cluster.create("namespaces", {"metadata": {"name": other}}).ok(201)
    start = version_of(space.list("configmaps"))
    Space(space.server, other).create("configmaps", config("elsewhere")).ok(201)
    sentinel(space)
    with space.watch("configmaps", resourceVersion=start) as watch:
        assert before_the_end(watch) == []


def test_a_watch_of_all_namespaces_sees_each(space: Space, cluster: Space) -> None:
    start = version_of(cluster.list("configmaps"))
    space.create("configmaps", config("a")).ok(201)
    with cluster.watch("configmaps", resourceVersion=start) as watch:
        seen = watch.until(lambda event: event["object"]["metadata"]["namespace"] == space.namespace)
    assert brief(seen[-1:]) == [("ADDED", "a")]


def test_moving_in_and_out_of_a_label_selector_is_added_and_deleted(space: Space) -> None:
    start = version_of(space.list("configmaps"))
    space.create("configmaps", config("a")).ok(201)
    for value in ("yes", "yes", "no"):
        space.patch("configmaps", "a", {"metadata": {"labels": {"watched": value}}, "data": {value: "x"}}).ok(200)
    space.patch("configmaps", "a", {"metadata": {"labels": {"watched": "yes"}}, "data": {"again": "x"}}).ok(200)
    space.patch("configmaps", "a", {"data": {"once": "more"}}).ok(200)
    space.delete("configmaps", "a").ok(200)
    sentinel(space)
    with space.watch("configmaps", resourceVersion=start, labelSelector="watched=yes") as watch:
        events = before_the_end(watch)
    assert [kind for kind, _ in brief(events)] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    assert events[1]["object"]["metadata"]["labels"] == {"watched": "yes"}
    assert int(version_of(events[1]["object"])) > int(version_of(events[0]["object"]))


def test_one_object_is_watched_by_its_name(space: Space) -> None:
    start = version_of(space.list("configmaps"))
    space.create("configmaps", config("other")).ok(201)
    sentinel(space)
    with space.watch("configmaps", resourceVersion=start, fieldSelector="metadata.name=zz-end") as watch:
        assert before_the_end(watch) == []


def test_binding_a_pod_makes_it_appear_to_a_watcher_of_the_node(space: Space, unique: str) -> None:
    start = version_of(space.create("pods", pod("p")).ok(201))
    space.create("pods", binding("p", unique), name="p", sub="binding").ok(201)
    with space.watch("pods", resourceVersion=start, fieldSelector=f"spec.nodeName={unique}") as watch:
        (event,) = watch.take(1)
    assert (event["type"], event["object"]["spec"]["nodeName"]) == ("ADDED", unique)


def test_status_changes_are_told(space: Space) -> None:
    start = version_of(space.create("pods", pod("p")).ok(201))
    space.patch("pods", "p", {"status": {"phase": "Running"}}, sub="status").ok(200)
    with space.watch("pods", resourceVersion=start) as watch:
        (event,) = watch.take(1)
    assert (event["type"], event["object"]["status"]["phase"]) == ("MODIFIED", "Running")


def test_a_deletion_that_waits_for_a_finalizer_is_a_change_and_then_an_end(space: Space) -> None:
    start = version_of(space.create("configmaps", config("a", finalizers=["example.com/wait"])).ok(201))
    space.delete("configmaps", "a").ok(200)
    space.patch("configmaps", "a", {"metadata": {"finalizers": None}}).ok(200)
    with space.watch("configmaps", resourceVersion=start) as watch:
        changed, ended = watch.take(2)
    assert (changed["type"], ended["type"]) == ("MODIFIED", "DELETED")
    assert changed["object"]["metadata"]["deletionTimestamp"]
    assert changed["object"]["metadata"]["finalizers"] == ["example.com/wait"]


def test_an_object_made_anew_has_another_uid(space: Space) -> None:
    start = version_of(space.create("configmaps", config("a")).ok(201))
    space.delete("configmaps", "a").ok(200)
    space.create("configmaps", config("a")).ok(201)
    with space.watch("configmaps", resourceVersion=start) as watch:
        ended, added = watch.take(2)
    assert (ended["type"], added["type"]) == ("DELETED", "ADDED")
    assert ended["object"]["metadata"]["uid"] != added["object"]["metadata"]["uid"]


def test_a_watch_ends_when_its_time_is_over(space: Space) -> None:
    with space.watch("configmaps", resourceVersion=version_of(space.list("configmaps")), timeoutSeconds=1) as watch:
        assert (watch.status, watch.rest()) == (200, [])


def test_bookmarks_come_when_they_are_allowed(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    query: dict[str, Any] = {"resourceVersion": version_of(made), "timeoutSeconds": 3, "allowWatchBookmarks": "true"}
    with space.watch("configmaps", **query) as watch:
        events = watch.rest()
    assert events, "expected a bookmark before the watch ended"
    assert {event["type"] for event in events} == {"BOOKMARK"}
    mark = events[-1]["object"]
    assert (mark["apiVersion"], mark["kind"]) == ("v1", "ConfigMap")
    assert int(version_of(mark)) >= int(version_of(made))
    assert "name" not in mark["metadata"]


def test_bookmarks_do_not_come_unasked(space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    with space.watch("configmaps", resourceVersion=version_of(made), timeoutSeconds=3) as watch:
        assert watch.rest() == []


def test_initial_events_end_with_a_marked_bookmark(space: Space) -> None:
    for name in ("a", "b"):
        space.create("configmaps", config(name)).ok(201)
    query: dict[str, Any] = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    with space.watch("configmaps", **query) as watch:
        events = watch.until(lambda event: event["type"] == "BOOKMARK")
        later = space.create("configmaps", config("c")).ok(201)
        assert watch.next() == {"type": "ADDED", "object": later}
    assert sorted(brief(events[:-1])) == [("ADDED", "a"), ("ADDED", "b")]
    assert events[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(version_of(events[-1]["object"])) >= max(int(version_of(event["object"])) for event in events[:-1])


BAD_QUERIES = {
    "initial events without match": ({"sendInitialEvents": "true", "allowWatchBookmarks": "true"}, 422, "Invalid"),
    "initial events with exact match": (
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "resourceVersion": "1"},
        422,
        "Invalid",
    ),
    "a match without initial events": (
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
        422,
        "Invalid",
    ),
    "a version that is no number": ({"resourceVersion": "abc"}, 500, ""),
    "a negative version": ({"resourceVersion": "-1"}, 500, ""),
    "a label selector that cannot be read": ({"labelSelector": "a=b=c"}, 400, "BadRequest"),
    "a field that is not selectable": ({"fieldSelector": "data.k=v"}, 400, "BadRequest"),
    "a timeout that is no number": ({"timeoutSeconds": "soon"}, 400, "BadRequest"),
}


@pytest.mark.parametrize("row", BAD_QUERIES)
def test_a_watch_that_cannot_be_read_is_refused(row: str, space: Space) -> None:
    query, code, reason = BAD_QUERIES[row]
    space.get("configmaps", watch="true", **query).refused(code, reason)


def test_a_watch_from_before_the_history_is_gone(space: Space, cluster: Space, unique: str) -> None:
    before = version_of(space.create("configmaps", config("a")).ok(201))
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    space.create(f"{group}/v1/widgets", custom(group, "w")).ok(201)
    with space.watch(f"{group}/v1/widgets", resourceVersion=before) as watch:
        assert watch.status == 200
        (event,) = watch.take(1)
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert f"too old resource version: {before}" in status["message"]


def test_a_watch_may_ask_for_a_version_that_is_still_to_come(space: Space) -> None:
    now = int(version_of(space.create("configmaps", config("a")).ok(201)))
    with space.watch("configmaps", resourceVersion=now + 2) as watch:
        for index in range(20):
            space.create("configmaps", config(f"c{index}")).ok(201)
        first = watch.next()
    assert int(version_of(first["object"])) > now + 2


def test_a_watch_as_table_has_columns_in_its_first_event_only(space: Space) -> None:
    start = version_of(space.list("configmaps"))
    for name in ("a", "b"):
        space.create("configmaps", config(name)).ok(201)
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    with space.watch("configmaps", resourceVersion=start, accept=accept) as watch:
        first, second = watch.take(2)
    assert first["object"]["kind"] == second["object"]["kind"] == "Table"
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert not second["object"].get("columnDefinitions")
    assert second["object"]["rows"][0]["cells"][:2] == ["b", 1]
    assert second["object"]["rows"][0]["object"]["metadata"]["name"] == "b"


def test_a_watch_of_metadata_only(space: Space) -> None:
    start = version_of(space.list("configmaps"))
    space.create("configmaps", config("a")).ok(201)
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    with space.watch("configmaps", resourceVersion=start, accept=accept) as watch:
        (event,) = watch.take(1)
    assert (event["object"]["kind"], event["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "a")
    assert "data" not in event["object"]


def test_cluster_scoped_objects_are_watched(cluster: Space, unique: str) -> None:
    start = version_of(cluster.list("nodes"))
    cluster.create("nodes", node(unique)).ok(201)
    with cluster.watch("nodes", resourceVersion=start, fieldSelector=f"metadata.name={unique}") as watch:
        assert brief(watch.take(1)) == [("ADDED", unique)]


def test_custom_objects_are_watched_in_order(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    widgets = f"{group}/v1/widgets"
    start = version_of(space.list(widgets))
    space.create(widgets, custom(group, "a", spec={"size": 1})).ok(201)
    space.patch(widgets, "a", {"spec": {"size": 2}}).ok(200)
    space.delete(widgets, "a").ok(200)
    with space.watch(widgets, resourceVersion=start) as watch:
        events = watch.take(3)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [event["object"]["spec"]["size"] for event in events] == [1, 2, 2]


def test_a_watch_ends_its_kinds_last_objects_when_the_definition_goes(
    space: Space, cluster: Space, unique: str
) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    widgets = f"{group}/v1/widgets"
    start = version_of(space.create(widgets, custom(group, "a")).ok(201))
    with space.watch(widgets, resourceVersion=start) as watch:
        cluster.delete("customresourcedefinitions", f"widgets.{group}").ok(200)
        assert "DELETED" in [event["type"] for event in watch.until(lambda event: event["type"] == "DELETED")]
