"""Garbage collection by ownerReferences: background, foreground, orphan."""

from __future__ import annotations

import time
from typing import Any

import pytest

from cluster_kit.objects import config, crd, custom, job, pod, replicaset
from cluster_kit.server import eventually
from cluster_kit.space import Space


def owner(of: Any, **more: Any) -> dict[str, Any]:
    meta = of["metadata"]
    return {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": meta["name"], "uid": meta["uid"], **more}


@pytest.fixture
def parent(space: Space) -> Any:
    return space.create("configmaps", config("parent")).ok(201)


def child(space: Space, name: str, *owners: Any) -> Any:
    return space.create("configmaps", config(name, ownerReferences=list(owners))).ok(201)


def settled(space: Space, **kept: bool) -> None:
    """After some time of the collector, exactly these still exist."""
    eventually(lambda: all(space.exists("configmaps", name) == is_kept for name, is_kept in kept.items()), str(kept))


@pytest.mark.parametrize("options", [None, {"propagationPolicy": "Background"}], ids=["by default", "by name"])
def test_dependents_follow_their_owner_in_the_background(options: Any, space: Space, parent: Any) -> None:
    child(space, "child", owner(parent))
    space.delete("configmaps", "parent", options).ok(200)
    assert not space.exists("configmaps", "parent")
    space.gone("configmaps", "child")


def test_dependents_of_dependents_follow(space: Space, parent: Any) -> None:
    middle = child(space, "middle", owner(parent))
    child(space, "leaf", owner(middle))
    space.delete("configmaps", "parent").ok(200)
    settled(space, middle=False, leaf=False)


def test_orphans_lose_the_reference_and_stay(space: Space, parent: Any) -> None:
    child(space, "child", owner(parent))
    space.delete("configmaps", "parent", {"propagationPolicy": "Orphan"}).ok(200)
    space.gone("configmaps", "parent")
    left = space.get("configmaps", "child").ok()
    assert "ownerReferences" not in left["metadata"]
    time.sleep(0.2)
    assert space.exists("configmaps", "child")


def test_the_old_way_to_orphan(space: Space, parent: Any) -> None:
    child(space, "child", owner(parent))
    space.delete("configmaps", "parent", {"orphanDependents": True}).ok(200)
    space.gone("configmaps", "parent")
    assert "ownerReferences" not in space.get("configmaps", "child").ok()["metadata"]


def test_foreground_waits_for_blocking_dependents(space: Space, parent: Any) -> None:
    blocking = owner(parent, blockOwnerDeletion=True)
    space.create("configmaps", config("child", ownerReferences=[blocking], finalizers=["example.com/hold"])).ok(201)
    space.delete("configmaps", "parent", {"propagationPolicy": "Foreground"}).ok(200)
    eventually(lambda: "deletionTimestamp" in space.get("configmaps", "child").ok()["metadata"], "the child is deleted")
    assert space.get("configmaps", "parent").ok()["metadata"]["finalizers"] == ["foregroundDeletion"]
    space.patch("configmaps", "child", {"metadata": {"finalizers": None}}).ok(200)
    settled(space, parent=False, child=False)


def test_foreground_does_not_wait_for_others(space: Space, parent: Any) -> None:
    space.create("configmaps", config("child", ownerReferences=[owner(parent)], finalizers=["example.com/hold"])).ok(
        201
    )
    space.delete("configmaps", "parent", {"propagationPolicy": "Foreground"}).ok(200)
    space.gone("configmaps", "parent")
    assert space.exists("configmaps", "child")


def test_one_living_owner_is_enough(space: Space, parent: Any) -> None:
    second = space.create("configmaps", config("second")).ok(201)
    child(space, "child", owner(parent), owner(second))
    space.delete("configmaps", "parent").ok(200)

    def only_the_second_is_left() -> bool:
        references = space.get("configmaps", "child").ok()["metadata"]["ownerReferences"]
        return [reference["name"] for reference in references] == ["second"]

    eventually(only_the_second_is_left, "the dead owner is dropped from the references")
    space.delete("configmaps", "second").ok(200)
    space.gone("configmaps", "child")


def test_an_owner_that_never_was_takes_its_dependent_along(space: Space) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "11111111-2222-3333-4444-555555555555"}
    child(space, "child", ghost)
    space.gone("configmaps", "child")


def test_an_owner_with_the_same_name_and_another_uid_is_no_owner(space: Space, parent: Any) -> None:
    other = {**owner(parent), "uid": "11111111-2222-3333-4444-555555555555"}
    child(space, "child", other)
    space.gone("configmaps", "child")
    assert space.exists("configmaps", "parent")


def test_an_owner_in_another_namespace_is_no_owner(space: Space, cluster: Space, unique: str, parent: Any) -> None:
    other = f"{unique}-other"
    cluster.create("namespaces", {"metadata": {"name": other}}).ok(201)
    elsewhere = Space(space.server, other)
    child(elsewhere, "child", owner(parent))
    elsewhere.gone("configmaps", "child")


def test_a_living_owner_keeps_its_dependent(space: Space, parent: Any) -> None:
    child(space, "child", owner(parent))
    child(space, "stray", {**owner(parent), "uid": "11111111-2222-3333-4444-555555555555"})
    space.gone("configmaps", "stray")
    assert space.exists("configmaps", "child")


def test_dependents_of_other_kinds_follow(space: Space) -> None:
    parent = space.create("replicasets", replicaset("r", replicas=0)).ok(201)
    space.create("pods", pod("p", labels={"app": "b"}, ownerReferences=[owner(parent)])).ok(201)
    space.delete("replicasets", "r").ok(200)
    space.gone("pods", "p")


def test_a_cluster_scoped_owner(space: Space, cluster: Space, unique: str) -> None:
    parent = cluster.create("priorityclasses", {"metadata": {"name": unique}, "value": 5}).ok(201)
    child(space, "child", owner(parent))
    time.sleep(0.2)
    assert space.exists("configmaps", "child")
    cluster.delete("priorityclasses", unique).ok(200)
    space.gone("configmaps", "child")


def test_custom_objects_own_and_are_owned(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    widgets = f"{group}/v1/widgets"
    parent = space.create(widgets, custom(group, "top")).ok(201)
    body = custom(group, "below")
    body["metadata"]["ownerReferences"] = [owner(parent)]
    middle = space.create(widgets, body).ok(201)
    child(space, "leaf", owner(middle))
    # The real collector learns of new kinds every 30 seconds; foreground deletion makes it look at once or refuse.
    space.delete(widgets, "top").ok(200)
    eventually(lambda: not space.exists("configmaps", "leaf") and not space.exists(widgets, "below"), "", 60)


def test_a_held_dependent_stays_until_it_is_freed(space: Space, parent: Any) -> None:
    space.create("configmaps", config("child", ownerReferences=[owner(parent)], finalizers=["example.com/hold"])).ok(
        201
    )
    space.delete("configmaps", "parent").ok(200)
    eventually(lambda: "deletionTimestamp" in space.get("configmaps", "child").ok()["metadata"])
    space.patch("configmaps", "child", {"metadata": {"finalizers": None}}).ok(200)
    assert not space.exists("configmaps", "child")


def test_a_job_deleted_without_a_word_about_its_pods_leaves_them_with_a_warning(space: Space) -> None:
    made = space.create("jobs", job("j")).ok(201)
    space.create("pods", pod("p", {"restartPolicy": "Never"}, ownerReferences=[owner(made)])).ok(201)
    reply = space.delete("jobs", "j")
    assert reply.ok(200)["metadata"]["finalizers"] == ["orphan"]
    assert reply.warnings[0].startswith("child pods are preserved by default when jobs are deleted")
    space.gone("jobs", "j")
    assert "ownerReferences" not in space.get("pods", "p").ok()["metadata"]


def test_a_job_takes_its_pods_along_when_told(space: Space) -> None:
    made = space.create("jobs", job("j")).ok(201)
    space.create("pods", pod("p", {"restartPolicy": "Never"}, ownerReferences=[owner(made)])).ok(201)
    assert space.delete("jobs", "j", {"propagationPolicy": "Background"}).warnings == []
    space.gone("pods", "p")


def test_nobody_knows_whether_an_owner_of_an_unserved_kind_lives(space: Space, parent: Any) -> None:
    stranger = {
        "apiVersion": "example.org/v1",
        "kind": "Stranger",
        "name": "s",
        "uid": "0b5a1c9e-0000-4000-8000-000000000000",
    }
    child(space, "of-a-stranger", stranger)
    child(space, "of-both", stranger, owner(parent))
    child(space, "of-the-parent", owner(parent))
    space.delete("configmaps", "parent").ok(200)
    settled(space, **{"of-a-stranger": True, "of-both": True, "of-the-parent": False})
