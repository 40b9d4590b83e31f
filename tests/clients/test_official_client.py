"""The official Python client, unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, dynamic, watch
from kubernetes import config as kubeconfig
from kubernetes.client.exceptions import ApiException

from cluster_kit.objects import SPEC_AND_STATUS, budget, config, crd, custom, pod
from cluster_kit.space import Space


@pytest.fixture
def api(space: Space) -> Iterator[client.ApiClient]:
    settings = client.Configuration()
    kubeconfig.load_kube_config(str(space.server.kubeconfig), client_configuration=settings)
    with client.ApiClient(settings) as made:
        yield made


def test_objects_are_created_changed_and_deleted(space: Space, api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"), data={"k": "v"})
    made = core.create_namespaced_config_map(space.namespace, body)
    assert made.metadata.uid
    made.data = {"k": "w"}
    assert core.replace_namespaced_config_map("a", space.namespace, made).data == {"k": "w"}
    assert core.patch_namespaced_config_map("a", space.namespace, {"data": {"k": "x"}}).data == {"k": "x"}
    with pytest.raises(ApiException) as stale:
        core.replace_namespaced_config_map("a", space.namespace, made)
    assert (stale.value.status, stale.value.reason) == (409, "Conflict")
    core.delete_namespaced_config_map("a", space.namespace)
    with pytest.raises(ApiException) as gone:
        core.read_namespaced_config_map("a", space.namespace)
    assert gone.value.status == 404


def test_pods_and_nodes_are_read_into_models(space: Space, cluster: Space, unique: str, api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    cluster.create("nodes", {"metadata": {"name": unique}, "status": {"capacity": {"cpu": 8, "memory": "1Gi"}}}).ok(201)
    assert core.read_node(unique).status.capacity == {"cpu": "8", "memory": "1Gi"}
    container = {"name": "c", "image": "i:1", "resources": {"limits": {"cpu": 2}}}
    space.create("pods", pod("p", {"containers": [container]})).ok(201)
    (found,) = core.list_namespaced_pod(space.namespace).items
    assert found.spec.containers[0].resources.limits == {"cpu": "2"}
    assert found.status.phase == "Pending"
    target = client.V1ObjectReference(kind="Node", name=unique)
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="p"), target=target)
    core.create_namespaced_pod_binding("p", space.namespace, binding, _preload_content=False)
    assert core.read_namespaced_pod("p", space.namespace).spec.node_name == unique


def test_lists_are_paged(space: Space, api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    for index in range(5):
        space.create("configmaps", config(f"c{index}")).ok(201)
    first = core.list_namespaced_config_map(space.namespace, limit=3)
    rest = core.list_namespaced_config_map(space.namespace, _continue=first.metadata._continue)
    assert [item.metadata.name for item in [*first.items, *rest.items]] == [f"c{index}" for index in range(5)]


def test_changes_are_watched(space: Space, api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    start = core.list_namespaced_config_map(space.namespace).metadata.resource_version
    space.create("configmaps", config("a")).ok(201)
    space.patch("configmaps", "a", {"data": {"k": "w"}}).ok(200)
    space.delete("configmaps", "a").ok(200)
    seen = []
    watching = watch.Watch()
    for event in watching.stream(
        core.list_namespaced_config_map, space.namespace, resource_version=start, timeout_seconds=10
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            watching.stop()
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_workloads_scale_and_evict(space: Space, api: client.ApiClient) -> None:
    apps, core, policy = client.AppsV1Api(api), client.CoreV1Api(api), client.PolicyV1Api(api)
    space.create("poddisruptionbudgets", budget("b")).ok(201)
    assert policy.read_namespaced_pod_disruption_budget("b", space.namespace).spec.min_available == 1
    labels = {"app": "x"}
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i:1")]),
    )
    spec = client.V1DeploymentSpec(selector=client.V1LabelSelector(match_labels=labels), template=template, replicas=2)
    apps.create_namespaced_deployment(
        space.namespace, client.V1Deployment(metadata=client.V1ObjectMeta(name="d"), spec=spec)
    )
    scale = apps.read_namespaced_deployment_scale("d", space.namespace)
    assert scale.spec.replicas == 2
    apps.patch_namespaced_deployment_scale("d", space.namespace, {"spec": {"replicas": 4}})
    assert apps.read_namespaced_deployment("d", space.namespace).spec.replicas == 4
    space.create("pods", pod("p")).ok(201)
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p"))
    core.create_namespaced_pod_eviction("p", space.namespace, eviction, _preload_content=False)
    assert not space.exists("pods", "p")


def test_custom_objects(space: Space, cluster: Space, unique: str, api: client.ApiClient) -> None:
    group = f"{unique}.example.com"
    definitions = client.ApiextensionsV1Api(api)
    cluster.establish(crd(group, SPEC_AND_STATUS, subresources={"status": {}}))
    read = definitions.read_custom_resource_definition(f"widgets.{group}")
    assert read.spec.names.kind == "Widget"
    objects = client.CustomObjectsApi(api)
    at = (group, "v1", space.namespace, "widgets")
    objects.create_namespaced_custom_object(*at, custom(group, "a", spec={"size": 1}))
    objects.patch_namespaced_custom_object(*at, "a", {"spec": {"size": 2}})
    objects.patch_namespaced_custom_object_status(*at, "a", {"status": {"seen": 1}})
    found: Any = objects.get_namespaced_custom_object(*at, "a")
    assert (found["spec"], found["status"]) == ({"size": 2}, {"seen": 1})
    assert len(objects.list_namespaced_custom_object(*at)["items"]) == 1
    objects.delete_namespaced_custom_object(*at, "a")
    assert not space.exists(f"{group}/v1/widgets", "a")


def test_the_dynamic_client_discovers_and_applies(
    space: Space, cluster: Space, unique: str, api: client.ApiClient
) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    found = dynamic.DynamicClient(api, cache_file=str(space.server.scratch / f"{unique}.json"))
    widgets = found.resources.get(api_version=f"{group}/v1", kind="Widget")
    body = custom(group, "a", spec={"size": 3})
    widgets.server_side_apply(body=body, namespace=space.namespace, field_manager="me")
    assert widgets.get(name="a", namespace=space.namespace).spec.size == 3


def test_reviews_and_versions(api: client.ApiClient) -> None:
    access = client.AuthorizationV1Api(api)
    attributes = client.V1ResourceAttributes(verb="create", resource="pods", namespace="default")
    review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    assert access.create_self_subject_access_review(review).status.allowed is True
    assert client.VersionApi(api).get_code().git_version.startswith("v1.36")
    assert "apps" in [group.name for group in client.ApisApi(api).get_api_versions().groups]


def test_events_leases_and_classes(space: Space, cluster: Space, unique: str, api: client.ApiClient) -> None:
    leases = client.CoordinationV1Api(api)
    spec = client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15)
    leases.create_namespaced_lease(space.namespace, client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=spec))
    assert leases.read_namespaced_lease("l", space.namespace).spec.holder_identity == "me"
    assert "system-node-critical" in [
        item.metadata.name for item in client.SchedulingV1Api(api).list_priority_class().items
    ]
    reference = client.V1ObjectReference(kind="Pod", namespace=space.namespace, name="p")
    event = client.CoreV1Event(
        metadata=client.V1ObjectMeta(name="e"), involved_object=reference, reason="R", message="m", type="Normal"
    )
    client.CoreV1Api(api).create_namespaced_event(space.namespace, event)
    assert space.names("events") == ["e"]
