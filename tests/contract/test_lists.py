"""Lists: pages of one moment, and what a resourceVersion in a read means."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import config
from cluster_kit.server import eventually
from cluster_kit.space import Space

FORGET_S = 25.0
"""kube-apiserver looks every 15 seconds whether etcd was compacted."""
ALONE = pytest.mark.usefixtures("history_to_forget")
KEPT = pytest.mark.usefixtures("history_to_keep")


def fill(space: Space, count: int) -> list[str]:
    names = [f"c{index}" for index in range(count)]
    for name in names:
        space.create("configmaps", config(name, labels={"even": str(int(name[1:]) % 2 == 0)})).ok(201)
    return names


def names(page: Any) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


def test_an_empty_list_has_no_items(space: Space) -> None:
    listed = space.list("configmaps")
    assert (listed["kind"], listed["apiVersion"], listed["items"]) == ("ConfigMapList", "v1", [])
    assert int(listed["metadata"]["resourceVersion"]) > 0


def test_items_are_in_the_order_of_their_names(space: Space) -> None:
    for name in ("b", "a-b", "c", "a", "ab"):
        space.create("configmaps", config(name)).ok(201)
    assert space.names("configmaps") == ["a", "a-b", "ab", "b", "c"]


def test_a_list_of_all_namespaces_is_in_the_order_of_namespace_and_name(space: Space, cluster: Space) -> None:
    fill(space, 2)
    keys = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in cluster.list("configmaps")["items"]]
    assert keys == sorted(keys, key="/".join)
    assert (space.namespace, "c1") in keys


def test_items_of_a_list_do_not_repeat_their_kind(space: Space) -> None:
    fill(space, 1)
    (item,) = space.list("configmaps")["items"]
    assert "kind" not in item
    assert "apiVersion" not in item


@KEPT
def test_pages_are_cut_by_limit(space: Space) -> None:
    made = fill(space, 7)
    first = space.list("configmaps", limit=3)
    assert (names(first), first["metadata"]["remainingItemCount"]) == (made[:3], 4)
    second = space.list("configmaps", limit=3, **{"continue": first["metadata"]["continue"]})
    assert (names(second), second["metadata"]["remainingItemCount"]) == (made[3:6], 1)
    third = space.list("configmaps", limit=3, **{"continue": second["metadata"]["continue"]})
    assert names(third) == made[6:]
    assert not {"continue", "remainingItemCount"} & set(third["metadata"])


@KEPT
def test_all_pages_are_of_the_moment_of_the_first(space: Space) -> None:
    made = fill(space, 4)
    first = space.list("configmaps", limit=2)
    space.create("configmaps", config("c25")).ok(201)
    space.delete("configmaps", "c3").ok(200)
    space.patch("configmaps", "c2", {"data": {"k": "changed"}}).ok(200)
    rest = space.list("configmaps", **{"continue": first["metadata"]["continue"]})
    assert names(first) + names(rest) == made
    assert rest["items"][0]["data"] == {"k": "v"}
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@KEPT
def test_a_page_with_a_selector_has_no_remaining_count(space: Space) -> None:
    fill(space, 7)
    first = space.list("configmaps", limit=2, labelSelector="even=True")
    assert names(first) == ["c0", "c2"]
    assert "remainingItemCount" not in first["metadata"]
    rest = space.list("configmaps", labelSelector="even=True", **{"continue": first["metadata"]["continue"]})
    assert names(rest) == ["c4", "c6"]


def test_a_limit_that_is_never_reached_has_no_continue(space: Space) -> None:
    fill(space, 2)
    assert "continue" not in space.list("configmaps", limit=2)["metadata"]
    assert "continue" not in space.list("configmaps", limit=500)["metadata"]


@KEPT
def test_pages_of_all_namespaces(space: Space, cluster: Space, unique: str) -> None:
    for name in ("x", "y", "z"):
        space.create("configmaps", config(name, labels={"run": unique})).ok(201)
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2, "labelSelector": f"run={unique}"}
    while True:
        page = cluster.list("configmaps", **query)
        seen += names(page)
        if "continue" not in page["metadata"]:
            break
        query["continue"] = page["metadata"]["continue"]
    assert seen == ["x", "y", "z"]


@KEPT
def test_an_exact_version_shows_the_past(space: Space) -> None:
    first = space.create("configmaps", config("a", {"k": "old"})).ok(201)["metadata"]["resourceVersion"]
    space.patch("configmaps", "a", {"data": {"k": "new"}}).ok(200)
    space.create("configmaps", config("b")).ok(201)
    past = space.list("configmaps", resourceVersion=first, resourceVersionMatch="Exact")
    assert [item["data"] for item in past["items"]] == [{"k": "old"}]
    assert past["metadata"]["resourceVersion"] == first


@KEPT
def test_a_limited_list_of_a_version_without_match_is_exact(space: Space) -> None:
    first = space.create("configmaps", config("a")).ok(201)["metadata"]["resourceVersion"]
    space.create("configmaps", config("b")).ok(201)
    page = space.list("configmaps", resourceVersion=first, limit=5)
    assert (names(page), page["metadata"]["resourceVersion"]) == (["a"], first)


@pytest.mark.parametrize("match", ["NotOlderThan", None])
def test_a_version_without_exact_is_a_lower_bound(match: str | None, space: Space) -> None:
    fill(space, 1)
    version = space.create("configmaps", config("a")).ok(201)["metadata"]["resourceVersion"]
    query = {"resourceVersionMatch": match} if match else {}
    listed = space.list("configmaps", resourceVersion=version, **query)
    assert "a" in names(listed)
    assert int(listed["metadata"]["resourceVersion"]) >= int(version)


def test_version_zero_is_any_state(space: Space) -> None:
    fill(space, 2)
    assert set(space.names("configmaps", resourceVersion=0)) <= {"c0", "c1"}


def test_a_read_without_a_version_is_the_latest_state(space: Space) -> None:
    for index in range(10):
        space.create("configmaps", config(f"x{index}")).ok(201)
        assert len(space.names("configmaps")) == index + 1
        space.get("configmaps", f"x{index}").ok(200)


def test_a_version_from_the_future_is_not_there_yet(space: Space) -> None:
    space.get("configmaps", resourceVersion=10**15, resourceVersionMatch="NotOlderThan").refused(
        504, "Timeout", "Too large resource version"
    )


def test_a_get_of_a_version_from_the_future_is_not_there_yet(space: Space) -> None:
    fill(space, 1)
    space.get("configmaps", "c0", resourceVersion=10**15).refused(504, "Timeout", "Too large resource version")


BAD_QUERIES: dict[str, tuple[dict[str, Any], int, str]] = {
    "match without version": ({"resourceVersionMatch": "Exact"}, 422, "Invalid"),
    "exact match of zero": ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, "Invalid"),
    "unknown match": ({"resourceVersionMatch": "Roughly", "resourceVersion": "5"}, 422, "Invalid"),
    "version that is no number": ({"resourceVersion": "abc"}, 400, "BadRequest"),
    "limit that is no number": ({"limit": "few"}, 400, "BadRequest"),
    "continue that is not ours": ({"continue": "bogus"}, 400, "BadRequest"),
    "initial events on a list": ({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, 422, "Invalid"),
    "label selector": ({"labelSelector": "a in b"}, 400, "BadRequest"),
    "field selector": ({"fieldSelector": "spec.nothing=x"}, 400, "BadRequest"),
}


@pytest.mark.parametrize("row", BAD_QUERIES)
def test_a_list_that_cannot_be_read_is_refused(row: str, space: Space) -> None:
    query, code, reason = BAD_QUERIES[row]
    space.get("configmaps", **query).refused(code, reason)


@KEPT
def test_continue_with_a_version_is_refused(space: Space) -> None:
    fill(space, 3)
    token = space.list("configmaps", limit=1)["metadata"]["continue"]
    refused = space.get("configmaps", resourceVersion="7", **{"continue": token})
    refused.refused(400, "BadRequest", "specifying resource version is not allowed when using continue")


@ALONE
def test_a_forgotten_moment_is_expired_and_a_continue_offers_another(space: Space) -> None:
    made = fill(space, 4)
    first = space.list("configmaps", limit=2)["metadata"]
    later = space.create("configmaps", config("d")).ok(201)
    space.server.expire_history(int(later["metadata"]["resourceVersion"]))
    page = {"continue": first["continue"]}
    refused = eventually(lambda: space.get("configmaps", **page).refused(410, "Expired"), "it is forgotten", FORGET_S)
    assert refused.message.startswith("The provided continue parameter is too old to display a consistent list")
    rest = space.list("configmaps", **{"continue": refused.body["metadata"]["continue"]})
    assert names(rest) == [*made[2:], "d"]
    exact = {"resourceVersion": first["resourceVersion"], "resourceVersionMatch": "Exact"}
    space.get("configmaps", **exact).refused(410, "Expired")


def test_metadata_only_lists(space: Space) -> None:
    fill(space, 2)
    listed = space.get("configmaps", accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").ok()
    assert listed["kind"] == "PartialObjectMetadataList"
    assert [set(item) for item in listed["items"]] == [{"kind", "apiVersion", "metadata"}] * 2


def test_unknown_query_parameters_are_ignored(space: Space) -> None:
    fill(space, 1)
    assert names(space.list("configmaps", nonsense="1")) == ["c0"]
