"""Discovery and OpenAPI: what a client learns before it asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster_kit.kinds import KINDS, Kind
from cluster_kit.objects import crd
from cluster_kit.server import eventually
from cluster_kit.space import PREFIX, Space

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def group_of(kind: Kind) -> tuple[str, str]:
    parts = PREFIX[kind.plural].strip("/").split("/")
    return ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])


def legacy(cluster: Space, prefix: str) -> dict[str, Any]:
    return {each["name"]: each for each in cluster.server.http("GET", prefix).ok()["resources"]}


def aggregated(cluster: Space, path: str) -> Any:
    reply = cluster.server.http("GET", path, headers={"Accept": f"{AGGREGATED}, application/json"})
    assert reply.headers["Content-Type"] == AGGREGATED
    return reply.ok()


SHORT = {
    "configmaps": ["cm"],
    "services": ["svc"],
    "serviceaccounts": ["sa"],
    "pods": ["po"],
    "nodes": ["no"],
    "namespaces": ["ns"],
    "events": ["ev"],
    "persistentvolumes": ["pv"],
    "persistentvolumeclaims": ["pvc"],
    "deployments": ["deploy"],
    "replicasets": ["rs"],
    "statefulsets": ["sts"],
    "horizontalpodautoscalers": ["hpa"],
    "poddisruptionbudgets": ["pdb"],
    "storageclasses": ["sc"],
    "priorityclasses": ["pc"],
    "customresourcedefinitions": ["crd", "crds"],
}
IN_ALL = {"pods", "services", "deployments", "replicasets", "statefulsets", "jobs", "horizontalpodautoscalers"}
VERBS = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural) for kind in KINDS])
def test_every_kind_is_discovered(kind: Kind, cluster: Space) -> None:
    found = legacy(cluster, PREFIX[kind.plural])[kind.plural]
    assert (found["kind"], found["namespaced"]) == (kind.kind, kind.namespaced)
    assert found["singularName"] == kind.kind.lower()
    assert set(found["verbs"]) == VERBS - ({"deletecollection"} if kind.plural == "namespaces" else set())
    assert found.get("shortNames", []) == SHORT.get(kind.plural, [])
    assert ("all" in found.get("categories", [])) == (kind.plural in IN_ALL)


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural) for kind in KINDS])
def test_every_kind_is_discovered_in_one_go(kind: Kind, cluster: Space) -> None:
    group, version = group_of(kind)
    document = aggregated(cluster, "/apis" if group else "/api")
    assert document["kind"] == "APIGroupDiscoveryList"
    item = next(item for item in document["items"] if item["metadata"].get("name", "") == group)
    resources = next(each for each in item["versions"] if each["version"] == version)["resources"]
    found = next(each for each in resources if each["resource"] == kind.plural)
    assert found["responseKind"]["kind"] == kind.kind
    assert found["scope"] == ("Namespaced" if kind.namespaced else "Cluster")
    assert found["singularResource"] == kind.kind.lower()
    assert found.get("shortNames", []) == SHORT.get(kind.plural, [])
    if kind.status:
        assert "status" in [sub["subresource"] for sub in found["subresources"]]


SUBRESOURCES = {
    ("/api/v1", "pods/binding"): ("Binding", {"create"}),
    ("/api/v1", "pods/eviction"): ("Eviction", {"create"}),
    ("/api/v1", "pods/status"): ("Pod", {"get", "patch", "update"}),
    ("/api/v1", "pods/log"): ("Pod", {"get"}),
    ("/api/v1", "nodes/status"): ("Node", {"get", "patch", "update"}),
    ("/api/v1", "namespaces/finalize"): ("Namespace", {"update"}),
    ("/apis/apps/v1", "deployments/scale"): ("Scale", {"get", "patch", "update"}),
    ("/apis/apps/v1", "replicasets/scale"): ("Scale", {"get", "patch", "update"}),
    ("/apis/apps/v1", "statefulsets/scale"): ("Scale", {"get", "patch", "update"}),
    ("/apis/batch/v1", "jobs/status"): ("Job", {"get", "patch", "update"}),
}


@pytest.mark.parametrize(("prefix", "name"), SUBRESOURCES)
def test_subresources_are_discovered(prefix: str, name: str, cluster: Space) -> None:
    kind, verbs = SUBRESOURCES[prefix, name]
    found = legacy(cluster, prefix)[name]
    assert (found["kind"], set(found["verbs"])) == (kind, verbs)


def test_an_eviction_is_known_by_its_group(cluster: Space) -> None:
    found = legacy(cluster, "/api/v1")["pods/eviction"]
    assert (found["group"], found["version"]) == ("policy", "v1")


def test_the_core_versions(cluster: Space) -> None:
    found = cluster.server.http("GET", "/api").ok()
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


def test_the_groups(cluster: Space) -> None:
    found = cluster.server.http("GET", "/apis").ok()
    assert found["kind"] == "APIGroupList"
    groups = {group["name"]: group for group in found["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert {"batch", "policy", "autoscaling", "coordination.k8s.io", "rbac.authorization.k8s.io"} <= set(groups)
    assert {"scheduling.k8s.io", "storage.k8s.io", "resource.k8s.io", "apiextensions.k8s.io"} <= set(groups)
    assert {"admissionregistration.k8s.io", "authorization.k8s.io", "authentication.k8s.io"} <= set(groups)


def test_one_group(cluster: Space) -> None:
    found = cluster.server.http("GET", "/apis/apps").ok()
    assert (found["kind"], found["name"]) == ("APIGroup", "apps")
    assert found["versions"] == [{"groupVersion": "apps/v1", "version": "v1"}]


def test_a_custom_kind_is_discovered_and_forgotten(cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    definition = crd(group, subresources={"status": {}, "scale": SCALE})
    definition["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all", "things"]}
    cluster.establish(definition)
    found = legacy(cluster, f"/apis/{group}/v1")
    assert set(found) == {"widgets", "widgets/status", "widgets/scale"}
    widgets = found["widgets"]
    assert (widgets["kind"], widgets["singularName"], widgets["namespaced"]) == ("Widget", "widget", True)
    assert (widgets["shortNames"], widgets["categories"]) == (["wd"], ["all", "things"])
    assert set(widgets["verbs"]) == VERBS
    assert (found["widgets/scale"]["kind"], found["widgets/scale"]["group"]) == ("Scale", "autoscaling")

    def is_aggregated() -> bool:
        return group in [item["metadata"].get("name") for item in aggregated(cluster, "/apis")["items"]]

    eventually(is_aggregated, "the group is in the aggregated document")
    cluster.delete("customresourcedefinitions", f"widgets.{group}").ok(200)
    eventually(lambda: cluster.server.http("GET", f"/apis/{group}/v1").status == 404, "the group is gone")
    eventually(lambda: not is_aggregated(), "the group left the aggregated document")


SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.seen"}


def test_versions_of_a_custom_group_are_ordered_by_stability(cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    definition = crd(group)
    (first,) = definition["spec"]["versions"]
    names = ["v1alpha1", "v2", "v1beta1", "v1", "v10", "odd"]
    definition["spec"]["versions"] = [{**first, "name": name, "storage": name == "v1"} for name in names]
    cluster.establish(definition)
    expected = ["v10", "v2", "v1", "v1beta1", "v1alpha1", "odd"]

    def listed() -> bool:
        found = cluster.server.http("GET", f"/apis/{group}").ok()
        assert [each["version"] for each in found["versions"]] == expected
        return found["preferredVersion"]["version"] == "v10"

    eventually(listed)


def openapi(cluster: Space, part: str) -> Any:
    index = json.loads(cluster.server.http("GET", "/openapi/v3").raw)["paths"]
    return json.loads(cluster.server.http("GET", index[part]["serverRelativeURL"]).raw)


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural) for kind in KINDS])
def test_openapi_tells_that_patches_are_validated(kind: Kind, cluster: Space) -> None:
    group, version = group_of(kind)
    prefix = PREFIX[kind.plural]
    document = openapi(cluster, prefix.strip("/"))
    within = "/namespaces/{namespace}" if kind.namespaced else ""
    operation = document["paths"][f"{prefix}{within}/{kind.plural}/{{name}}"]["patch"]
    assert "fieldValidation" in [parameter.get("name") for parameter in operation["parameters"]]
    assert operation["x-kubernetes-group-version-kind"] == {"group": group, "version": version, "kind": kind.kind}


def test_openapi_v2_is_there_for_clients_that_ask_for_it(cluster: Space) -> None:
    found = json.loads(cluster.server.http("GET", "/openapi/v2").raw)
    assert (found["swagger"], found["info"]["title"]) == ("2.0", "Kubernetes")
    form = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    reply = cluster.server.http("GET", "/openapi/v2", headers={"Accept": form})
    assert reply.status == 200
    assert reply.raw.startswith(b"\x0a\x032.0\x12")


EXPLAINED = {
    ("api/v1", "io.k8s.api.core.v1.PodSpec"): {"containers", "nodeName", "schedulingGates", "priorityClassName"},
    ("api/v1", "io.k8s.api.core.v1.Container"): {"image", "env", "resources", "readinessProbe"},
    ("apis/apps/v1", "io.k8s.api.apps.v1.DeploymentSpec"): {"replicas", "selector", "template", "strategy"},
    ("apis/batch/v1", "io.k8s.api.batch.v1.JobSpec"): {"completions", "parallelism", "suspend"},
    ("api/v1", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"): {"name", "labels", "ownerReferences", "finalizers"},
}


@pytest.mark.parametrize(("part", "schema"), EXPLAINED, ids=[schema.rpartition(".")[2] for _, schema in EXPLAINED])
def test_openapi_describes_built_in_fields(part: str, schema: str, cluster: Space) -> None:
    found = openapi(cluster, part)["components"]["schemas"][schema]
    assert EXPLAINED[part, schema] <= set(found["properties"])
    if cluster.server.kind == "real":  # built-in kinds have no texts on the embedded server
        assert all(found["properties"][name].get("description") for name in EXPLAINED[part, schema])


def test_openapi_describes_custom_fields(cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    size = {"type": "integer", "description": "How large it is."}
    cluster.establish(crd(group, {"spec": {"type": "object", "properties": {"size": size}}}))

    def described() -> bool:
        index = json.loads(cluster.server.http("GET", "/openapi/v3").raw)["paths"]
        assert f"apis/{group}/v1" in index
        schemas = openapi(cluster, f"apis/{group}/v1")["components"]["schemas"]
        widget = next(schema for name, schema in schemas.items() if name.endswith(".Widget"))
        assert widget["properties"]["spec"]["properties"]["size"] == size
        return widget["x-kubernetes-group-version-kind"] == [{"group": group, "version": "v1", "kind": "Widget"}]

    eventually(described)


def test_the_version(cluster: Space) -> None:
    found = cluster.server.http("GET", "/version").ok()
    assert (found["major"], found["minor"]) == ("1", "36")
    assert found["gitVersion"].startswith("v1.36.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health(path: str, cluster: Space) -> None:
    reply = cluster.server.http("GET", path)
    assert (reply.status, reply.raw) == (200, b"ok")


def test_the_root_lists_paths(cluster: Space) -> None:
    assert {"/api", "/apis", "/apis/apps/v1", "/openapi/v3", "/version"} <= set(
        cluster.server.http("GET", "/").ok()["paths"]
    )
