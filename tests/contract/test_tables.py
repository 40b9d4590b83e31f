"""Tables: what `kubectl get` prints is made by the server."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.kinds import BY_PLURAL, body_of
from cluster_kit.objects import binding, config, crd, custom, node, pod, service
from cluster_kit.space import Space

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
COLUMNS = {
    "pods": ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"],
    "nodes": [
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
        "Internal-IP",
        "External-IP",
        "OS-Image",
        "Kernel-Version",
        "Container-Runtime",
    ],
    "namespaces": ["Name", "Status", "Age"],
    "services": ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"],
    "configmaps": ["Name", "Data", "Age"],
    "secrets": ["Name", "Type", "Data", "Age"],
    "serviceaccounts": ["Name", "Age"],
    "events": [
        "Last Seen",
        "Type",
        "Reason",
        "Object",
        "Subobject",
        "Source",
        "Message",
        "First Seen",
        "Count",
        "Name",
    ],
    "leases": ["Name", "Holder", "Age"],
    "priorityclasses": ["Name", "Value", "Global-Default", "Age", "PreemptionPolicy"],
    "poddisruptionbudgets": ["Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"],
    "horizontalpodautoscalers": ["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"],
    "jobs": ["Name", "Status", "Completions", "Duration", "Age", "Containers", "Images", "Selector"],
    "replicasets": ["Name", "Desired", "Current", "Ready", "Age", "Containers", "Images", "Selector"],
    "deployments": ["Name", "Ready", "Up-to-date", "Available", "Age", "Containers", "Images", "Selector"],
    "statefulsets": ["Name", "Ready", "Age", "Containers", "Images"],
    "persistentvolumes": [
        "Name",
        "Capacity",
        "Access Modes",
        "Reclaim Policy",
        "Status",
        "Claim",
        "StorageClass",
        "VolumeAttributesClass",
        "Reason",
        "Age",
        "VolumeMode",
    ],
    "persistentvolumeclaims": [
        "Name",
        "Status",
        "Volume",
        "Capacity",
        "Access Modes",
        "StorageClass",
        "VolumeAttributesClass",
        "Age",
        "VolumeMode",
    ],
    "storageclasses": ["Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"],
    "resourceclaims": ["Name", "State", "Age"],
    "resourceslices": ["Name", "Node", "Driver", "Pool", "Age"],
    "deviceclasses": ["Name", "Age"],
    "roles": ["Name", "Created At"],
    "rolebindings": ["Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"],
    "clusterroles": ["Name", "Created At"],
    "clusterrolebindings": ["Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"],
    "customresourcedefinitions": ["Name", "Created At"],
}


@pytest.mark.parametrize("plural", COLUMNS)
def test_every_kind_has_its_columns(plural: str, space: Space, cluster: Space, unique: str) -> None:
    kind = BY_PLURAL[plural]
    at = space if kind.namespaced else cluster
    name = at.create(plural, body_of(kind, f"{unique}-x", space.namespace)).ok(201)["metadata"]["name"]
    table = at.get(plural, name, accept=TABLE).ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == COLUMNS[plural]
    (row,) = table["rows"]
    assert len(row["cells"]) == len(COLUMNS[plural])
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == name


def cells(space: Space, plural: str, name: str) -> dict[str, Any]:
    table = space.get(plural, name, accept=TABLE).ok()
    return dict(zip((column["name"] for column in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))


def test_a_table_of_many_has_one_header(space: Space) -> None:
    for name in ("b", "a"):
        space.create("configmaps", config(name)).ok(201)
    table = space.get("configmaps", accept=TABLE).ok()
    assert [row["cells"][0] for row in table["rows"]] == ["a", "b"]
    assert table["metadata"]["resourceVersion"]
    assert [(column["name"], column["type"], column["priority"]) for column in table["columnDefinitions"]] == [
        ("Name", "string", 0),
        ("Data", "string", 0),
        ("Age", "string", 0),
    ]


def test_wide_columns_have_a_priority(space: Space) -> None:
    table = space.get("pods", accept=TABLE).ok()
    priorities = {column["name"]: column["priority"] for column in table["columnDefinitions"]}
    assert priorities["Status"] == 0
    assert priorities["Node"] == 1


def test_an_empty_table_still_has_its_header(space: Space) -> None:
    table = space.get("pods", accept=TABLE).ok()
    assert table["rows"] == []
    assert table["columnDefinitions"][0]["name"] == "Name"


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap")]
)
def test_rows_carry_what_is_asked_for(include: str, kind: str | None, space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    (row,) = space.get("configmaps", accept=TABLE, includeObject=include).ok()["rows"]
    assert (row.get("object") or {}).get("kind") == kind
    if include == "Object":
        assert row["object"]["data"] == {"k": "v"}


def test_tables_are_paged(space: Space) -> None:
    for index in range(3):
        space.create("configmaps", config(f"c{index}")).ok(201)
    table = space.get("configmaps", accept=TABLE, limit=2).ok()
    assert len(table["rows"]) == 2
    assert table["metadata"]["remainingItemCount"] == 1
    rest = space.get("configmaps", accept=TABLE, **{"continue": table["metadata"]["continue"]}).ok()
    assert [row["cells"][0] for row in rest["rows"]] == ["c2"]


def status(space: Space, name: str, **fields: Any) -> None:
    space.patch("pods", name, {"status": fields}, "strategic", "status").ok(200)


def state(name: str, ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state, "image": "i", "imageID": ""}


def test_a_pending_pod(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    seen = cells(space, "pods", "p")
    assert (seen["Ready"], seen["Status"], seen["Restarts"], seen["Node"]) == ("0/1", "Pending", "0", "<none>")


def test_a_running_pod(space: Space, cluster: Space, unique: str) -> None:
    cluster.create("nodes", node(unique)).ok(201)
    space.create("pods", pod("p")).ok(201)
    space.create("pods", binding("p", unique), name="p", sub="binding").ok(201)
    running = state("main", True, 2, running={"startedAt": "2026-01-01T00:00:00Z"})
    status(space, "p", phase="Running", podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}], containerStatuses=[running])
    seen = cells(space, "pods", "p")
    assert (seen["Ready"], seen["Status"], seen["Restarts"]) == ("1/1", "Running", "2")
    assert (seen["IP"], seen["Node"]) == ("10.0.0.1", unique)
    space.delete("pods", "p").ok(200)
    assert cells(space, "pods", "p")["Status"] == "Terminating"


POD_STATES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "gated": ({"schedulingGates": [{"name": "a"}]}, {}, "SchedulingGated"),
    "waiting": ({}, {"containerStatuses": [state("main", waiting={"reason": "ImagePullBackOff"})]}, "ImagePullBackOff"),
    "crashing": (
        {},
        {"phase": "Running", "containerStatuses": [state("main", restarts=3, waiting={"reason": "CrashLoopBackOff"})]},
        "CrashLoopBackOff",
    ),
    "completed": (
        {"restartPolicy": "Never"},
        {"phase": "Succeeded", "containerStatuses": [state("main", terminated={"exitCode": 0, "reason": "Completed"})]},
        "Completed",
    ),
    "failed": (
        {"restartPolicy": "Never"},
        {"phase": "Failed", "containerStatuses": [state("main", terminated={"exitCode": 1, "reason": "Error"})]},
        "Error",
    ),
    "exit code": (
        {"restartPolicy": "Never"},
        {"phase": "Failed", "containerStatuses": [state("main", terminated={"exitCode": 7})]},
        "ExitCode:7",
    ),
    "evicted": ({}, {"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    "initialising": (
        {"initContainers": [{"name": "init", "image": "i:1"}]},
        {"initContainerStatuses": [state("init", running={})]},
        "Init:0/1",
    ),
    "init failed": (
        {"initContainers": [{"name": "init", "image": "i:1"}], "restartPolicy": "Never"},
        {"phase": "Failed", "initContainerStatuses": [state("init", terminated={"exitCode": 1, "reason": "Error"})]},
        "Init:Error",
    ),
}


@pytest.mark.parametrize("row", POD_STATES)
def test_the_status_of_a_pod_in_one_word(row: str, space: Space) -> None:
    spec, fields, word = POD_STATES[row]
    space.create("pods", pod("p", spec)).ok(201)
    if fields:
        status(space, "p", **fields)
    assert cells(space, "pods", "p")["Status"] == word


def test_a_node(cluster: Space, unique: str) -> None:
    labels = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/gpu": ""}
    info = {"kubeletVersion": "v1.36.3", "osImage": "Linux", "kernelVersion": "6", "containerRuntimeVersion": "c://2"}
    cluster.create(
        "nodes",
        {
            "metadata": {"name": unique, "labels": labels},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": info,
                "addresses": [{"type": "InternalIP", "address": "10.0.0.5"}],
            },
        },
    ).ok(201)
    seen = cells(cluster, "nodes", unique)
    assert (seen["Status"], seen["Roles"], seen["Version"]) == ("Ready,SchedulingDisabled", "gpu,worker", "v1.36.3")
    assert (seen["Internal-IP"], seen["External-IP"], seen["OS-Image"]) == ("10.0.0.5", "<none>", "Linux")


def test_a_node_that_is_not_ready(cluster: Space, unique: str) -> None:
    cluster.create("nodes", node(unique, status={"conditions": [{"type": "Ready", "status": "False"}]})).ok(201)
    assert cells(cluster, "nodes", unique)["Status"] == "NotReady"
    seen = cells(cluster, "nodes", unique)
    assert (seen["Roles"], seen["Internal-IP"]) == ("<none>", "<none>")


def test_a_node_that_was_never_heard_of(cluster: Space, unique: str) -> None:
    cluster.create("nodes", node(unique)).ok(201)
    assert cells(cluster, "nodes", unique)["Status"] == "Unknown"


def test_a_service(space: Space) -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]
    space.create("services", service("s", clusterIP="None", ports=ports)).ok(201)
    seen = cells(space, "services", "s")
    assert (seen["Type"], seen["Cluster-IP"], seen["External-IP"]) == ("ClusterIP", "None", "<none>")
    assert (seen["Port(s)"], seen["Selector"]) == ("80/TCP,53/UDP", "app=a")


def test_workloads(space: Space) -> None:
    kinds = BY_PLURAL
    for plural in ("deployments", "replicasets", "statefulsets"):
        space.create(plural, kinds[plural].make("x")).ok(201)
        space.patch(plural, "x", {"spec": {"replicas": 3}}).ok(200)
        space.patch(plural, "x", {"status": {"replicas": 3, "readyReplicas": 2}}, sub="status").ok(200)
    assert cells(space, "deployments", "x")["Ready"] == "2/3"
    assert cells(space, "statefulsets", "x")["Ready"] == "2/3"
    seen = cells(space, "replicasets", "x")
    assert (seen["Desired"], seen["Current"], seen["Ready"]) == (3, 3, 2)
    assert (seen["Containers"], seen["Images"], seen["Selector"]) == ("main", "example.com/app:1", "app=a")


def test_others(space: Space, cluster: Space, unique: str) -> None:
    space.create("poddisruptionbudgets", BY_PLURAL["poddisruptionbudgets"].make("x")).ok(201)
    seen = cells(space, "poddisruptionbudgets", "x")
    assert (seen["Min Available"], seen["Max Unavailable"]) == ("1", "N/A")
    space.create("horizontalpodautoscalers", BY_PLURAL["horizontalpodautoscalers"].make("x")).ok(201)
    seen = cells(space, "horizontalpodautoscalers", "x")
    assert (seen["Reference"], seen["Targets"], seen["MinPods"], seen["MaxPods"]) == (
        "Deployment/d",
        "cpu: <unknown>/80%",
        "1",
        3,
    )
    space.create("jobs", BY_PLURAL["jobs"].make("x")).ok(201)
    seen = cells(space, "jobs", "x")
    assert (seen["Completions"], seen["Duration"]) == ("0/1", "")
    cluster.create("priorityclasses", BY_PLURAL["priorityclasses"].make(unique)).ok(201)
    seen = cells(cluster, "priorityclasses", unique)
    assert (seen["Value"], seen["Global-Default"], seen["PreemptionPolicy"]) == (1000, False, "PreemptLowerPriority")
    space.create("persistentvolumeclaims", BY_PLURAL["persistentvolumeclaims"].make("x")).ok(201)
    assert cells(space, "persistentvolumeclaims", "x")["Status"] == "Pending"
    space.create("rolebindings", BY_PLURAL["rolebindings"].make("x")).ok(201)
    assert (cells(space, "rolebindings", "x")["Role"], cells(space, "rolebindings", "x")["Users"]) == ("Role/r", "u")


def test_a_fresh_object_is_seconds_old(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    assert cells(space, "configmaps", "a")["Age"] in {f"{seconds}s" for seconds in range(20)}


PRINTED = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large."},
    {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
    {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "First", "type": "string", "jsonPath": ".spec.tags[0]"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag"},
]


def test_custom_columns(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    schema = {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    cluster.establish(crd(group, schema, additionalPrinterColumns=PRINTED))
    widgets = f"{group}/v1/widgets"
    conditions = [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]
    spec = {"size": 3, "color": "red", "tags": ["x", "y"], "flag": True}
    space.create(widgets, custom(group, "a", spec=spec, status={"conditions": conditions})).ok(201)
    space.create(widgets, custom(group, "b", spec={})).ok(201)
    table = space.get(widgets, accept=TABLE).ok()
    columns = [(column["name"], column["type"], column["priority"]) for column in table["columnDefinitions"]]
    assert columns == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Color", "string", 1),
        ("Born", "date", 0),
        ("First", "string", 0),
        ("Ready", "string", 0),
        ("Flag", "boolean", 0),
    ]
    assert table["columnDefinitions"][1]["description"] == "How large."
    first, second = (row["cells"] for row in table["rows"])
    assert (first[0], first[1], first[2], first[4], first[5], first[6]) == ("a", 3, "red", "x", "True", True)
    assert (second[0], second[1], second[2], second[4]) == ("b", None, None, None)


def test_custom_objects_have_name_and_age_by_default(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    space.create(f"{group}/v1/widgets", custom(group, "a")).ok(201)
    table = space.get(f"{group}/v1/widgets", accept=TABLE).ok()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    assert table["rows"][0]["cells"][0] == "a"
