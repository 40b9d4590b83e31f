"""The status subresource: two doors to one object, each keeping what belongs to the other."""

from __future__ import annotations

import pytest

from cluster_kit.kinds import KINDS, Kind, body_of
from cluster_kit.objects import crd, custom, merged, pod
from cluster_kit.space import Space

STATUS_KINDS = [pytest.param(kind, id=kind.plural) for kind in KINDS if kind.status]


def contains(whole: object, part: object) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and contains(whole[key], value) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(contains(w, p) for w, p in zip(whole, part, strict=True))
    return whole == part


@pytest.mark.parametrize("kind", STATUS_KINDS)
def test_status_is_written_through_its_own_door_only(kind: Kind, space: Space, cluster: Space, unique: str) -> None:
    at = space if kind.namespaced else cluster
    made = at.create(kind.plural, body_of(kind, f"{unique}-x", space.namespace)).ok(201)
    name = made["metadata"]["name"]
    through_main = at.replace(kind.plural, merged(made, kind.status)).ok(200)
    assert not contains(through_main.get("status"), kind.status["status"])
    through_status = at.replace(kind.plural, merged(through_main, kind.status), sub="status").ok(200)
    assert contains(through_status["status"], kind.status["status"])
    assert contains(at.get(kind.plural, name).ok()["status"], kind.status["status"])


SPEC_CHANGES = {
    "pods": {"spec": {"activeDeadlineSeconds": 77}},
    "services": {"spec": {"sessionAffinity": "ClientIP"}},
    "deployments": {"spec": {"replicas": 9}},
    "replicasets": {"spec": {"replicas": 9}},
    "statefulsets": {"spec": {"replicas": 9}},
    "horizontalpodautoscalers": {"spec": {"maxReplicas": 9}},
    "persistentvolumeclaims": {"spec": {"volumeName": "v"}},
    "persistentvolumes": {"spec": {"persistentVolumeReclaimPolicy": "Recycle"}},
}


@pytest.mark.parametrize("plural", SPEC_CHANGES)
def test_the_status_door_leaves_the_spec_alone(plural: str, space: Space, cluster: Space, unique: str) -> None:
    kind = next(kind for kind in KINDS if kind.plural == plural)
    at = space if kind.namespaced else cluster
    made = at.create(plural, body_of(kind, unique, space.namespace)).ok(201)
    now = at.replace(plural, merged(merged(made, kind.status), SPEC_CHANGES[plural]), sub="status").ok(200)  # type: ignore[arg-type]
    assert now["spec"] == made["spec"]


@pytest.mark.parametrize("kind", STATUS_KINDS)
def test_a_merge_patch_of_status_through_the_main_door_changes_nothing(
    kind: Kind, space: Space, cluster: Space, unique: str
) -> None:
    at = space if kind.namespaced else cluster
    made = at.create(kind.plural, body_of(kind, f"{unique}-x", space.namespace)).ok(201)
    now = at.patch(kind.plural, made["metadata"]["name"], kind.status).ok(200)
    assert now.get("status") == made.get("status")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.plural)
        for kind in KINDS
        if kind.status and kind.plural not in ("nodes", "persistentvolumes")
    ],
)
def test_a_status_sent_at_creation_is_dropped(kind: Kind, space: Space, cluster: Space, unique: str) -> None:
    at = space if kind.namespaced else cluster
    made = at.create(kind.plural, merged(body_of(kind, f"{unique}-x", space.namespace), kind.status)).ok(201)
    assert not contains(made.get("status"), kind.status["status"])


def test_a_node_keeps_the_status_of_its_creation(cluster: Space, unique: str) -> None:
    body = {"metadata": {"name": unique}, "status": {"capacity": {"cpu": 8, "memory": "1024Mi"}}}
    made = cluster.create("nodes", body).ok(201)
    assert made["status"]["capacity"] == {"cpu": "8", "memory": "1Gi"}
    assert made["status"]["allocatable"] == {"cpu": "8", "memory": "1Gi"}


def test_a_new_pod_is_pending(space: Space) -> None:
    status = space.create("pods", merged(pod("p"), {"status": {"phase": "Running"}})).ok(201)["status"]
    assert status == {"phase": "Pending", "qosClass": "BestEffort"}


def test_labels_are_not_written_through_the_status_door_of_pods(space: Space) -> None:
    made = space.create("pods", pod("p")).ok(201)
    changed = merged(made, {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}})
    now = space.replace("pods", changed, sub="status").ok(200)
    assert now["status"]["phase"] == "Running"
    assert space.get("pods", "p").ok()["metadata"].get("labels") == now["metadata"].get("labels")


@pytest.fixture
def widgets(cluster: Space, unique: str) -> str:
    group = f"{unique}.example.com"
    cluster.establish(crd(group, subresources={"status": {}}))
    return f"{group}/v1/widgets"


def test_custom_status_and_spec_are_kept_apart(space: Space, widgets: str) -> None:
    group = widgets.split("/")[0]
    made = space.create(widgets, custom(group, "a", spec={"size": 1}, status={"seen": 9})).ok(201)
    assert "status" not in made
    now = space.replace(widgets, merged(made, {"spec": {"size": 2}, "status": {"seen": 1}}), sub="status").ok(200)
    assert (now["spec"], now["status"]) == ({"size": 1}, {"seen": 1})
    now = space.replace(widgets, merged(now, {"spec": {"size": 3}, "status": {"seen": 5}})).ok(200)
    assert (now["spec"], now["status"]) == ({"size": 3}, {"seen": 1})


def test_custom_metadata_is_not_written_through_the_status_door(space: Space, widgets: str) -> None:
    group = widgets.split("/")[0]
    made = space.create(widgets, custom(group, "a")).ok(201)
    change = {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"], "annotations": {"a": "b"}},
        "status": {"seen": 1},
    }
    now = space.replace(widgets, merged(made, change), sub="status").ok(200)
    assert not {"labels", "finalizers", "annotations"} & set(now["metadata"])


def test_a_stale_custom_status_write_is_refused(space: Space, widgets: str) -> None:
    group = widgets.split("/")[0]
    made = space.create(widgets, custom(group, "a")).ok(201)
    space.patch(widgets, "a", {"spec": {"size": 3}}).ok(200)
    space.replace(widgets, merged(made, {"status": {"seen": 1}}), sub="status").refused(409, "Conflict")


def test_a_custom_status_is_validated(space: Space, widgets: str) -> None:
    group = widgets.split("/")[0]
    space.create(widgets, custom(group, "a")).ok(201)
    refused = space.patch(widgets, "a", {"status": {"seen": "often"}}, sub="status").refused(422, "Invalid")
    assert refused.causes == [("FieldValueTypeInvalid", "status.seen")]


def test_without_the_subresource_there_is_no_status_door(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    widgets = f"{group}/v1/widgets"
    made = space.create(widgets, custom(group, "a", status={"seen": 9})).ok(201)
    assert made["status"] == {"seen": 9}
    assert space.get(widgets, "a", "status").status == 404
    assert space.patch(widgets, "a", {"status": {"seen": 1}}, sub="status").status == 404


@pytest.mark.parametrize("plural", ["configmaps", "secrets", "leases", "priorityclasses"])
def test_kinds_without_status_have_no_such_door(plural: str, space: Space, cluster: Space, unique: str) -> None:
    kind = next(kind for kind in KINDS if kind.plural == plural)
    at = space if kind.namespaced else cluster
    at.create(plural, body_of(kind, unique, space.namespace)).ok(201)
    at.get(plural, unique, "status").refused(404, "NotFound", "the server could not find the requested resource")
