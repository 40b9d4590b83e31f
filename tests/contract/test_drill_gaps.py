"""Races that are made, not waited for: a webhook writes while it is asked. And owners that are named late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster_kit.objects import config, merged
from cluster_kit.space import Space
from cluster_kit.webhook import Judge, Webhooks


def meanwhile(operation: str, act: Callable[[], Any]) -> Judge:
    """Acts during the first request of this operation; what it does itself is judged too, and let through."""
    acted: list[Any] = []

    def judge(request: Any) -> Any:
        if not acted and request["operation"] == operation:
            acted.append(request)
            act()
        return {"allowed": True}

    return judge


def write_meanwhile(space: Space) -> Judge:
    return meanwhile("UPDATE", lambda: space.patch("configmaps", "a", {"data": {"theirs": "x"}}).ok(200))


def test_a_patch_that_lost_a_race_is_run_again(space: Space, webhooks: Webhooks) -> None:
    space.create("configmaps", config("a")).ok(201)
    webhooks.mutating({"judge": write_meanwhile(space)})
    now = space.patch("configmaps", "a", {"data": {"ours": "x"}}).ok(200)
    assert now["data"] == {"k": "v", "theirs": "x", "ours": "x"}
    assert space.get("configmaps", "a").ok() == now


def test_a_replace_that_lost_a_race_is_refused(space: Space, webhooks: Webhooks) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    webhooks.validating({"judge": write_meanwhile(space)})
    space.replace("configmaps", merged(made, {"data": {"ours": "x"}})).refused(409, "Conflict")
    assert space.get("configmaps", "a").ok()["data"] == {"k": "v", "theirs": "x"}


def test_a_name_that_was_taken_meanwhile_is_taken(space: Space, webhooks: Webhooks) -> None:
    theirs = config("a", {"theirs": "x"})
    webhooks.validating({"judge": meanwhile("CREATE", lambda: space.create("configmaps", theirs).ok(201))})
    space.create("configmaps", config("a", {"ours": "x"})).refused(409, "AlreadyExists")
    assert space.get("configmaps", "a").ok()["data"] == {"theirs": "x"}


def test_an_owner_that_is_named_later_takes_its_dependent_along(space: Space) -> None:
    parent = space.create("configmaps", config("parent")).ok(201)
    space.create("configmaps", config("child")).ok(201)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": parent["metadata"]["uid"]}
    space.patch("configmaps", "child", {"metadata": {"ownerReferences": [owner]}}).ok(200)
    space.delete("configmaps", "parent").ok(200)
    space.gone("configmaps", "child")
