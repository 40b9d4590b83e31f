"""lightkube, unmodified."""

from __future__ import annotations

import pytest
from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Node, Pod
from lightkube.types import PatchType

from cluster_kit.objects import config, crd, pod
from cluster_kit.space import Space


@pytest.fixture
def client(space: Space) -> Client:
    return Client(
        config=KubeConfig.from_file(str(space.server.kubeconfig)), namespace=space.namespace, field_manager="lightkube"
    )


def test_objects_are_created_changed_listed_and_deleted(space: Space, client: Client) -> None:
    made = client.create(ConfigMap(metadata=ObjectMeta(name="a", labels={"x": "y"}), data={"k": "v"}))
    made.data = {"k": "w"}
    assert client.replace(made).data == {"k": "w"}
    with pytest.raises(ApiError) as stale:
        client.replace(made)
    assert (stale.value.status.code, stale.value.status.reason) == (409, "Conflict")
    assert client.patch(ConfigMap, "a", {"data": {"k": None, "n": "1"}}, patch_type=PatchType.MERGE).data == {"n": "1"}
    assert [item.metadata.name for item in client.list(ConfigMap, labels={"x": "y"})] == ["a"]
    client.delete(ConfigMap, "a")
    assert list(client.list(ConfigMap)) == []


def test_server_side_apply(space: Space, client: Client) -> None:
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"a": "b"}), spec=PodSpec(containers=[Container(name="c", image="i:1")])
    )
    spec = DeploymentSpec(selector=LabelSelector(matchLabels={"a": "b"}), template=template, replicas=1)
    body = Deployment(apiVersion="apps/v1", kind="Deployment", metadata=ObjectMeta(name="d"), spec=spec)
    assert client.apply(body).spec.replicas == 1
    body.spec.replicas = 3
    assert client.apply(body).spec.replicas == 3
    scale = client.get(Deployment.Scale, "d")
    scale.spec = ScaleSpec(replicas=5)
    client.replace(scale, name="d")
    assert client.get(Deployment, "d").spec.replicas == 5
    with pytest.raises(ApiError) as conflict:
        client.apply(body, field_manager="other")
    assert conflict.value.status.code == 409


def test_long_lists_come_in_chunks(space: Space, client: Client) -> None:
    for index in range(7):
        space.create("configmaps", config(f"c{index}")).ok(201)
    assert len(list(client.list(ConfigMap, chunk_size=3))) == 7


def test_changes_are_watched(space: Space, client: Client) -> None:
    space.create("configmaps", config("a")).ok(201)
    space.create("configmaps", config("b")).ok(201)
    start = client.get(ConfigMap, "a").metadata.resourceVersion
    watching = client.watch(ConfigMap, resource_version=start)
    kind, found = next(iter(watching))
    assert (kind, found.metadata.name) == ("ADDED", "b")


def test_pods_and_nodes(space: Space, cluster: Space, unique: str, client: Client) -> None:
    cluster.create("nodes", {"metadata": {"name": unique}, "status": {"capacity": {"cpu": 8}}}).ok(201)
    assert client.get(Node, unique).status.capacity == {"cpu": "8"}
    space.create("pods", pod("p")).ok(201)
    client.patch(Pod.Status, "p", {"status": {"phase": "Running"}}, patch_type=PatchType.MERGE)
    assert [item.metadata.name for item in client.list(Pod, fields={"status.phase": "Running"})] == ["p"]


def test_custom_objects(space: Space, cluster: Space, unique: str, client: Client) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group, subresources={"status": {}}))
    widget = create_namespaced_resource(group, "v1", "Widget", "widgets")
    client.create(widget(metadata=ObjectMeta(name="a"), spec={"size": 1}))
    client.patch(widget.Status, "a", {"status": {"seen": 2}}, patch_type=PatchType.MERGE)
    found = client.get(widget, "a")
    assert (found.spec, found.status) == ({"size": 1}, {"seen": 2})
