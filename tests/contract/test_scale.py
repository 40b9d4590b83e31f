"""The scale subresource."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import crd, custom, deployment, merged, replicaset, statefulset
from cluster_kit.space import Space

SCALED = {"deployments": deployment, "replicasets": replicaset, "statefulsets": statefulset}


@pytest.mark.parametrize("plural", SCALED)
def test_scale_shows_replicas_and_selector(plural: str, space: Space) -> None:
    made = space.create(plural, SCALED[plural]("a", replicas=3)).ok(201)
    space.patch(plural, "a", {"status": {"replicas": 2}}, sub="status").ok(200)
    scale = space.get(plural, "a", "scale").ok()
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 2, "selector": "app=a"}
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    assert scale["metadata"]["name"] == "a"
    assert scale["metadata"]["resourceVersion"] == space.get(plural, "a").ok()["metadata"]["resourceVersion"]


@pytest.mark.parametrize("plural", SCALED)
def test_scale_is_patched(plural: str, space: Space) -> None:
    space.create(plural, SCALED[plural]("a")).ok(201)
    scale = space.patch(plural, "a", {"spec": {"replicas": 5}}, sub="scale").ok(200)
    assert scale["spec"] == {"replicas": 5}
    now = space.get(plural, "a").ok()
    assert (now["spec"]["replicas"], now["metadata"]["generation"]) == (5, 2)


@pytest.mark.parametrize("plural", SCALED)
def test_scale_is_replaced(plural: str, space: Space) -> None:
    space.create(plural, SCALED[plural]("a", replicas=1)).ok(201)
    scale = space.get(plural, "a", "scale").ok()
    space.replace(plural, merged(scale, {"spec": {"replicas": 7}}), sub="scale").ok(200)
    assert space.get(plural, "a").ok()["spec"]["replicas"] == 7
    space.replace(plural, merged(scale, {"spec": {"replicas": 8}}), sub="scale").refused(409, "Conflict")


def test_scale_without_a_version_is_unconditional(space: Space) -> None:
    space.create("deployments", deployment("a")).ok(201)
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 2}}
    assert space.replace("deployments", body, sub="scale").ok(200)["spec"] == {"replicas": 2}


def test_scale_to_zero(space: Space) -> None:
    space.create("deployments", deployment("a", replicas=2)).ok(201)
    scale = space.patch("deployments", "a", {"spec": {"replicas": 0}}, sub="scale").ok(200)
    assert scale["spec"].get("replicas", 0) == 0
    assert space.get("deployments", "a").ok()["spec"]["replicas"] == 0


def test_negative_scale_is_refused(space: Space) -> None:
    space.create("deployments", deployment("a", replicas=2)).ok(201)
    refused = space.patch("deployments", "a", {"spec": {"replicas": -1}}, sub="scale").refused(422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", "spec.replicas")]
    assert space.get("deployments", "a").ok()["spec"]["replicas"] == 2


def test_another_kind_is_no_scale(space: Space) -> None:
    made = space.create("deployments", deployment("a")).ok(201)
    space.replace("deployments", made, sub="scale").refused(400, "BadRequest")


SCALE = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.seen",
    "labelSelectorPath": ".status.phase",
}


@pytest.fixture
def widgets(cluster: Space, unique: str) -> str:
    group = f"{unique}.example.com"
    cluster.establish(crd(group, subresources={"status": {}, "scale": SCALE}))
    return f"{group}/v1/widgets"


def widget(widgets: str, **fields: Any) -> Any:
    return custom(widgets.split("/")[0], "a", **fields)


def test_a_custom_kind_is_scaled(space: Space, widgets: str) -> None:
    space.create(widgets, widget(widgets, spec={"size": 2})).ok(201)
    space.patch(widgets, "a", {"status": {"seen": 1, "phase": "app=x"}}, sub="status").ok(200)
    scale = space.get(widgets, "a", "scale").ok()
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 1, "selector": "app=x"},
    )
    space.patch(widgets, "a", {"spec": {"replicas": 4}}, sub="scale").ok(200)
    now = space.get(widgets, "a").ok()
    assert (now["spec"], now["metadata"]["generation"]) == ({"size": 4}, 2)


def test_a_custom_kind_without_replicas_has_no_scale(space: Space, widgets: str) -> None:
    space.create(widgets, widget(widgets, spec={"color": "red"})).ok(201)
    reply = space.get(widgets, "a", "scale")
    reply.refused(500, "InternalError", ".spec.size")


def test_a_stale_custom_scale_is_refused(space: Space, widgets: str) -> None:
    space.create(widgets, widget(widgets, spec={"size": 2})).ok(201)
    scale = space.get(widgets, "a", "scale").ok()
    space.patch(widgets, "a", {"spec": {"color": "red"}}).ok(200)
    space.replace(widgets, merged(scale, {"spec": {"replicas": 3}}), sub="scale").refused(409, "Conflict")


def test_a_custom_kind_without_scale_has_no_such_door(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    space.create(f"{group}/v1/widgets", custom(group, "a", spec={"size": 2})).ok(201)
    assert space.get(f"{group}/v1/widgets", "a", "scale").status == 404


def test_scale_is_applied_as_its_own_fields(space: Space) -> None:
    space.create("deployments", deployment("a", replicas=1), fieldManager="author").ok(201)
    space.patch("deployments", "a", {"spec": {"replicas": 3}}, sub="scale", fieldManager="autoscaler").ok(200)
    entries = space.get("deployments", "a").ok()["metadata"]["managedFields"]
    entry = next(entry for entry in entries if entry["manager"] == "autoscaler")
    assert (entry["subresource"], entry["fieldsV1"]) == ("scale", {"f:spec": {"f:replicas": {}}})
