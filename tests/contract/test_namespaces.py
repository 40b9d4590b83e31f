"""Namespaces: what they must be there for, and how they end."""

from __future__ import annotations

from cluster_kit.objects import config, crd, custom, pod
from cluster_kit.server import eventually
from cluster_kit.space import Space

NAMESPACE_END_S = 60.0
"""The real controller waits five seconds before it lets a namespace go, and has those of other tests to end too."""


def test_a_new_namespace_is_active(cluster: Space, unique: str) -> None:
    made = cluster.create("namespaces", {"metadata": {"name": unique}}).ok(201)
    assert made["status"] == {"phase": "Active"}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": unique}


def test_the_name_label_cannot_be_taken_away(cluster: Space, unique: str) -> None:
    cluster.create("namespaces", {"metadata": {"name": unique, "labels": {"kubernetes.io/metadata.name": "x"}}}).ok(201)
    now = cluster.patch("namespaces", unique, {"metadata": {"labels": None}}).ok(200)
    assert now["metadata"]["labels"] == {"kubernetes.io/metadata.name": unique}


def test_the_namespaces_of_every_cluster_are_there(cluster: Space) -> None:
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= set(cluster.names("namespaces"))


def test_nothing_is_created_in_a_namespace_that_is_not_there(cluster: Space, unique: str) -> None:
    nowhere = Space(cluster.server, unique)
    nowhere.create("configmaps", config("a")).refused(404, "NotFound", f'namespaces "{unique}" not found')
    nowhere.create("pods", pod("a")).refused(404, "NotFound", f'namespaces "{unique}" not found')


def test_a_namespace_that_is_not_there_lists_as_empty(cluster: Space, unique: str) -> None:
    assert Space(cluster.server, unique).names("pods") == []


def test_custom_objects_need_their_namespace_too(cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    Space(cluster.server, unique).create(f"{group}/v1/widgets", custom(group, "a")).refused(404, "NotFound")


def test_a_bad_namespace_name_is_refused(cluster: Space) -> None:
    for name in ("a.b", "A", "x" * 64):
        refused = cluster.create("namespaces", {"metadata": {"name": name}}).refused(422, "Invalid")
        assert ("FieldValueInvalid", "metadata.name") in refused.causes


def test_the_end_of_a_namespace(cluster: Space, unique: str) -> None:
    cluster.create("namespaces", {"metadata": {"name": unique}}).ok(201)
    space = Space(cluster.server, unique)
    space.create("configmaps", config("plain")).ok(201)
    space.create("configmaps", config("held", finalizers=["example.com/hold"])).ok(201)
    space.create("pods", pod("p")).ok(201)
    answer = cluster.delete("namespaces", unique).ok(200)
    assert answer["status"]["phase"] == "Terminating"
    assert answer["metadata"]["deletionTimestamp"]
    refused = space.create("configmaps", config("late")).refused(403, "Forbidden", "because it is being terminated")
    assert refused.causes == [("NamespaceTerminating", "metadata.namespace")]
    assert refused.message == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {unique} '
        "because it is being terminated"
    )
    assert cluster.delete("namespaces", unique).ok(200)["status"]["phase"] == "Terminating"
    eventually(lambda: space.names("configmaps") == ["held"], "the content goes", NAMESPACE_END_S)
    assert space.names("pods") == []
    assert cluster.exists("namespaces", unique)
    held = space.get("configmaps", "held").ok()
    assert held["metadata"]["deletionTimestamp"]
    space.patch("configmaps", "held", {"metadata": {"finalizers": None}}).ok(200)
    eventually(lambda: cluster.get("namespaces", unique).status == 404, "the namespace goes", 2 * NAMESPACE_END_S)


def test_an_existing_object_of_an_ending_namespace_can_be_changed(cluster: Space, unique: str) -> None:
    cluster.create("namespaces", {"metadata": {"name": unique}}).ok(201)
    space = Space(cluster.server, unique)
    space.create("configmaps", config("held", finalizers=["example.com/hold"])).ok(201)
    cluster.delete("namespaces", unique).ok(200)
    space.patch("configmaps", "held", {"data": {"k": "late"}}).ok(200)
    space.patch("configmaps", "held", {"metadata": {"finalizers": None}}).ok(200)


def test_default_and_system_namespaces_stay(cluster: Space) -> None:
    for name in ("default", "kube-system", "kube-public"):
        cluster.delete("namespaces", name).refused(403, "Forbidden", "this namespace may not be deleted")


def test_a_namespace_finalizer_of_others_is_honoured(cluster: Space, unique: str) -> None:
    cluster.create("namespaces", {"metadata": {"name": unique, "finalizers": ["example.com/hold"]}}).ok(201)
    cluster.delete("namespaces", unique).ok(200)

    def emptied() -> bool:
        return "finalizers" not in cluster.get("namespaces", unique).ok()["spec"]

    eventually(emptied, "the content is gone", NAMESPACE_END_S)
    cluster.patch("namespaces", unique, {"metadata": {"finalizers": None}}).ok(200)
    eventually(lambda: cluster.get("namespaces", unique).status == 404)
