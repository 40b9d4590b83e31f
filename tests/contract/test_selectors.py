"""Label and field selectors."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import config, crd, custom, event, job, node, pod, secret
from cluster_kit.space import Space

LABELLED: dict[str, dict[str, str]] = {
    "none": {},
    "front": {"tier": "front", "env": "prod"},
    "back": {"tier": "back", "env": "prod"},
    "test": {"tier": "front", "env": "test", "empty": ""},
}
LABEL_SELECTORS = {
    "tier=front": ["front", "test"],
    "tier==front": ["front", "test"],
    "tier!=front": ["back", "none"],
    "tier in (front, back)": ["back", "front", "test"],
    "tier notin (front)": ["back", "none"],
    "tier": ["back", "front", "test"],
    "!tier": ["none"],
    "tier=front,env=prod": ["front"],
    "tier=front,env!=prod": ["test"],
    "env in (prod,test),!empty": ["back", "front"],
    "empty=": ["test"],
    "empty": ["test"],
    "example.com/none": [],
    "tier>5": [],
    "": ["back", "front", "none", "test"],
    " tier = front , env = prod ": ["front"],
}


@pytest.mark.parametrize("selector", LABEL_SELECTORS)
def test_label_selectors_choose(selector: str, space: Space) -> None:
    for name, labels in LABELLED.items():
        space.create("configmaps", config(name, labels=labels)).ok(201)
    assert space.names("configmaps", labelSelector=selector) == LABEL_SELECTORS[selector]


BAD_LABEL_SELECTORS = [
    "a=b=c",
    "a in b",
    "a in (b",
    "-a=b",
    "a=b c",
    "=b",
    "a,,b",
    "a>x",
    "a=has space",
    "!",
    "a in ()x",
]


@pytest.mark.parametrize("selector", BAD_LABEL_SELECTORS)
def test_label_selectors_that_cannot_be_read_are_refused(selector: str, space: Space) -> None:
    space.get("configmaps", labelSelector=selector).refused(400, "BadRequest")


POD_SELECTORS = {
    "metadata.name=bound": ["bound"],
    "metadata.name!=bound": ["done", "free"],
    "spec.nodeName=n1": ["bound", "done"],
    "spec.nodeName=": ["free"],
    "spec.nodeName!=": ["bound", "done"],
    "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed": ["bound"],
    "status.phase=Pending": ["bound", "free"],
    "status.phase=Succeeded": ["done"],
    "spec.restartPolicy=Never": ["done"],
    "spec.schedulerName=mine": ["free"],
    "spec.serviceAccountName=robot": ["free"],
    "status.podIP=10.0.0.9": ["done"],
    "spec.hostNetwork=false": ["bound", "done", "free"],
    "status.nominatedNodeName=n2": ["free"],
}


@pytest.mark.parametrize("selector", POD_SELECTORS)
def test_pods_are_selected_by_field(selector: str, space: Space) -> None:
    space.create("pods", pod("bound", {"nodeName": "n1"})).ok(201)
    space.create("pods", pod("free", {"schedulerName": "mine", "serviceAccountName": "robot"})).ok(201)
    space.create("pods", pod("done", {"nodeName": "n1", "restartPolicy": "Never"})).ok(201)
    space.patch("pods", "free", {"status": {"nominatedNodeName": "n2"}}, sub="status").ok(200)
    status = {"phase": "Succeeded", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}
    space.patch("pods", "done", {"status": status}, sub="status").ok(200)
    assert space.names("pods", fieldSelector=selector) == POD_SELECTORS[selector]


def test_a_field_selector_by_namespace(space: Space, cluster: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    listed = cluster.names("configmaps", fieldSelector=f"metadata.namespace={space.namespace}")
    assert listed == ["a"]


@pytest.mark.parametrize(
    ("plural", "selector"),
    [
        ("configmaps", "data.k=v"),
        ("pods", "spec.containers=x"),
        ("pods", "status.reason=x"),
        ("deployments", "spec.replicas=1"),
        ("secrets", "data=x"),
        ("jobs", "status.failed=1"),
    ],
)
def test_other_fields_are_not_selectable(plural: str, selector: str, space: Space) -> None:
    field = selector.split("=")[0]
    space.get(plural, fieldSelector=selector).refused(400, "BadRequest", field)


@pytest.mark.parametrize("selector", ["metadata.name", "metadata.name>a", "metadata.name in (a)"])
def test_field_selectors_that_cannot_be_read_are_refused(selector: str, space: Space) -> None:
    space.get("configmaps", fieldSelector=selector).refused(400, "BadRequest")


def test_secrets_are_selected_by_type(space: Space) -> None:
    space.create("secrets", secret("plain")).ok(201)
    space.create("secrets", secret("own", type="example.com/mine")).ok(201)
    assert space.names("secrets", fieldSelector="type=Opaque") == ["plain"]
    assert space.names("secrets", fieldSelector="type=example.com/mine") == ["own"]


def test_nodes_are_selected_by_unschedulable(cluster: Space, unique: str) -> None:
    cluster.create("nodes", node(f"{unique}-a", spec={"unschedulable": True})).ok(201)
    cluster.create("nodes", node(f"{unique}-b")).ok(201)
    cordoned = cluster.names("nodes", fieldSelector="spec.unschedulable=true")
    assert f"{unique}-a" in cordoned
    assert f"{unique}-b" not in cordoned
    assert f"{unique}-b" in cluster.names("nodes", fieldSelector="spec.unschedulable=false")


def test_namespaces_are_selected_by_phase(space: Space, cluster: Space) -> None:
    assert space.namespace in cluster.names("namespaces", fieldSelector="status.phase=Active")
    assert space.namespace not in cluster.names("namespaces", fieldSelector="status.phase=Terminating")


def test_jobs_are_selected_by_success(space: Space) -> None:
    space.create("jobs", job("j")).ok(201)
    assert space.names("jobs", fieldSelector="status.successful=0") == ["j"]
    assert space.names("jobs", fieldSelector="status.successful=1") == []


EVENT_SELECTORS = {
    "involvedObject.name=p": ["one"],
    "involvedObject.kind=Node": ["two"],
    "involvedObject.uid=u1": ["one"],
    "reason=Started": ["one"],
    "type=Warning": ["two"],
    "type!=Normal": ["two"],
    "source=robot": ["two"],
    "reportingComponent=robot": ["two"],
    "involvedObject.fieldPath=spec.x": ["one"],
    "involvedObject.apiVersion=v1": ["two"],
}


@pytest.mark.parametrize("selector", EVENT_SELECTORS)
def test_events_are_selected_by_what_they_are_about(selector: str, space: Space) -> None:
    about = {"kind": "Pod", "namespace": space.namespace, "name": "p", "uid": "u1", "fieldPath": "spec.x"}
    space.create("events", event("one", space.namespace, involvedObject=about)).ok(201)
    about = {"kind": "Node", "namespace": space.namespace, "name": "n", "apiVersion": "v1"}
    fields: dict[str, Any] = {
        "involvedObject": about,
        "reason": "Lost",
        "type": "Warning",
        "source": {"component": "robot"},
    }
    space.create("events", event("two", space.namespace, reportingComponent="robot", **fields)).ok(201)
    assert space.names("events", fieldSelector=selector) == EVENT_SELECTORS[selector]


def test_custom_objects_are_selected_by_name(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    for name in ("a", "b"):
        space.create(f"{group}/v1/widgets", custom(group, name)).ok(201)
    assert space.names(f"{group}/v1/widgets", fieldSelector="metadata.name=b") == ["b"]
    refused = space.get(f"{group}/v1/widgets", fieldSelector="spec.color=red")
    refused.refused(400, "BadRequest", "field label not supported: spec.color")


def test_custom_objects_are_selected_by_their_selectable_fields(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group, selectableFields=[{"jsonPath": ".spec.color"}]))
    widgets = f"{group}/v1/widgets"
    space.create(widgets, custom(group, "a", spec={"color": "red"})).ok(201)
    space.create(widgets, custom(group, "b", spec={"color": "blue"})).ok(201)
    assert space.names(widgets, fieldSelector="spec.color=red") == ["a"]
    assert space.names(widgets, fieldSelector="spec.color!=red") == ["b"]


def test_selectors_work_in_delete_of_a_collection(space: Space) -> None:
    for name, labels in LABELLED.items():
        space.create("configmaps", config(name, labels=labels)).ok(201)
    space.delete("configmaps", labelSelector="env=prod").ok(200)
    assert space.names("configmaps") == ["none", "test"]
