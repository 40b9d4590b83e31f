"""Dry run: everything is checked and answered, nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.kinds import KINDS, Kind, body_of
from cluster_kit.objects import binding, config, deployment, eviction, pod
from cluster_kit.space import Space

ALL = {"dryRun": "All"}


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural) for kind in KINDS])
def test_a_dry_create_stores_nothing(kind: Kind, space: Space, cluster: Space, unique: str) -> None:
    at = space if kind.namespaced else cluster
    made = at.create(kind.plural, body_of(kind, f"{unique}-x", space.namespace), **ALL).ok(201)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    at.get(kind.plural, made["metadata"]["name"]).refused(404, "NotFound")


WRITES: dict[str, Any] = {
    "replace": lambda s: s.replace("configmaps", config("a", {"k": "new"}), **ALL),
    "json patch": lambda s: s.patch(
        "configmaps", "a", [{"op": "add", "path": "/data/k", "value": "new"}], "json", **ALL
    ),
    "merge patch": lambda s: s.patch("configmaps", "a", {"data": {"k": "new"}}, "merge", **ALL),
    "strategic patch": lambda s: s.patch("configmaps", "a", {"data": {"k": "new"}}, "strategic", **ALL),
    "apply": lambda s: s.apply("configmaps", config("a", {"k": "new"}), force="true", **ALL),
}


@pytest.mark.parametrize("row", WRITES)
def test_a_dry_write_answers_with_the_result_and_stores_nothing(row: str, space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    answer = WRITES[row](space).ok(200)
    assert answer["data"] == {"k": "new"}
    assert answer["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert space.get("configmaps", "a").ok() == made


@pytest.mark.parametrize("how", ["query", "body"])
def test_a_dry_delete_keeps_the_object(how: str, space: Space) -> None:
    made = space.create("configmaps", config("a")).ok(201)
    body, query = ({"dryRun": ["All"]}, {}) if how == "body" else (None, ALL)
    space.delete("configmaps", "a", body, **query).ok(200)
    assert space.get("configmaps", "a").ok() == made


def test_a_dry_delete_of_a_collection_keeps_all(space: Space) -> None:
    for name in ("a", "b"):
        space.create("configmaps", config(name)).ok(201)
    space.delete("configmaps", **ALL).ok(200)
    assert space.names("configmaps") == ["a", "b"]


def test_a_dry_delete_of_a_held_object_does_not_mark_it(space: Space) -> None:
    space.create("configmaps", config("a", finalizers=["example.com/hold"])).ok(201)
    space.delete("configmaps", "a", **ALL).ok(200)
    now = space.get("configmaps", "a").ok()
    assert "deletionTimestamp" not in now["metadata"]
    space.patch("configmaps", "a", {"metadata": {"finalizers": None}}).ok(200)


def test_a_dry_apply_creates_nothing(space: Space) -> None:
    answer = space.apply("configmaps", config("a"), **ALL).ok(201)
    assert answer["data"] == {"k": "v"}
    assert not space.exists("configmaps", "a")


def test_a_dry_status_write_stores_nothing(space: Space) -> None:
    made = space.create("deployments", deployment("d")).ok(201)
    answer = space.patch("deployments", "d", {"status": {"replicas": 5}}, sub="status", **ALL).ok(200)
    assert answer["status"]["replicas"] == 5
    assert space.get("deployments", "d").ok() == made


def test_a_dry_scale_stores_nothing(space: Space) -> None:
    made = space.create("deployments", deployment("d")).ok(201)
    answer = space.patch("deployments", "d", {"spec": {"replicas": 5}}, sub="scale", **ALL).ok(200)
    assert answer["spec"]["replicas"] == 5
    assert space.get("deployments", "d").ok() == made


def test_a_dry_binding_binds_nothing(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    space.create("pods", binding("p", "n"), name="p", sub="binding", **ALL).ok(201)
    assert "nodeName" not in space.get("pods", "p").ok()["spec"]


def test_a_dry_eviction_evicts_nobody(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    space.create("pods", eviction("p", dryRun=["All"]), name="p", sub="eviction").ok(201)
    assert "deletionTimestamp" not in space.get("pods", "p").ok()["metadata"]


def test_a_dry_create_is_validated(space: Space) -> None:
    space.create("configmaps", config("a", {"b a d": ""}), **ALL).refused(422, "Invalid")
    space.create("configmaps", config("a")).ok(201)
    space.create("configmaps", config("a"), **ALL).refused(409, "AlreadyExists")


def test_a_dry_generate_name_is_a_name(space: Space) -> None:
    answer = space.create("configmaps", {"metadata": {"generateName": "x-"}}, **ALL).ok(201)
    assert answer["metadata"]["name"].startswith("x-")


@pytest.mark.parametrize("value", ["Some", "true", "all"])
def test_an_unknown_dry_run_is_refused(value: str, space: Space) -> None:
    space.create("configmaps", config("a"), dryRun=value).refused(422, "Invalid", "dryRun: Unsupported value")
    assert not space.exists("configmaps", "a")
