"""Built-in kinds: what is filled in, what is refused, what cannot change later."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit import objects as o
from cluster_kit.kinds import BY_PLURAL, body_of
from cluster_kit.objects import merged
from cluster_kit.space import Space

Json = dict[str, Any]


def at(plural: str, space: Space, cluster: Space) -> Space:
    return space if BY_PLURAL[plural].namespaced else cluster


def contained(part: Any, whole: Any, where: str = "") -> list[str]:
    """Paths at which `part` is not in `whole`."""
    if isinstance(part, dict):
        if not isinstance(whole, dict):
            return [f"{where}: found {whole!r}"]
        return [path for key, value in part.items() for path in contained(value, whole.get(key), f"{where}.{key}")]
    return [] if part == whole else [f"{where}: expected {part!r}, found {whole!r}"]


DEFAULTS: dict[str, tuple[str, Json, Json]] = {
    "secret type": ("secrets", o.secret("x"), {"type": "Opaque"}),
    "secret text becomes data": (
        "secrets",
        {"metadata": {"name": "x"}, "stringData": {"a": "b"}},
        {"data": {"a": "Yg=="}, "stringData": None},
    ),
    "service": (
        "services",
        o.service("x"),
        {
            "spec": {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            },
            "status": {"loadBalancer": {}},
        },
    ),
    "headless service": (
        "services",
        o.service("x", clusterIP="None"),
        {"spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
    ),
    "client affinity": (
        "services",
        o.service("x", sessionAffinity="ClientIP"),
        {"spec": {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}},
    ),
    "deployment": (
        "deployments",
        o.deployment("x"),
        {
            "spec": {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            },
            "status": {},
        },
    ),
    "deployment template": (
        "deployments",
        o.deployment("x"),
        {
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Always",
                        "dnsPolicy": "ClusterFirst",
                        "terminationGracePeriodSeconds": 30,
                    }
                }
            }
        },
    ),
    "replica set": ("replicasets", o.replicaset("x"), {"spec": {"replicas": 1}, "status": {"replicas": 0}}),
    "stateful set": (
        "statefulsets",
        o.statefulset("x"),
        {
            "spec": {
                "replicas": 1,
                "podManagementPolicy": "OrderedReady",
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            },
        },
    ),
    "job": (
        "jobs",
        o.job("x"),
        {
            "spec": {
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "completions": 1,
                "parallelism": 1,
                "podReplacementPolicy": "TerminatingOrFailed",
            }
        },
    ),
    "work queue job": ("jobs", o.job("x", parallelism=3), {"spec": {"parallelism": 3, "completions": None}}),
    "budget": ("poddisruptionbudgets", o.budget("x"), {"spec": {"minAvailable": 1}}),
    "autoscaler": (
        "horizontalpodautoscalers",
        o.autoscaler("x"),
        {
            "spec": {
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                    }
                ]
            }
        },
    ),
    "autoscaler minimum": (
        "horizontalpodautoscalers",
        merged(o.autoscaler("x"), {"spec": {"minReplicas": None}}),
        {"spec": {"minReplicas": 1}},
    ),
    "claim": (
        "persistentvolumeclaims",
        o.claim("x"),
        {"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}},
    ),
    "volume": (
        "persistentvolumes",
        o.volume("x"),
        {
            "spec": {
                "persistentVolumeReclaimPolicy": "Retain",
                "volumeMode": "Filesystem",
                "hostPath": {"path": "/data", "type": ""},
            },
            "status": {"phase": "Pending"},
        },
    ),
    "storage class": (
        "storageclasses",
        o.storage_class("x"),
        {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    ),
    "priority class": (
        "priorityclasses",
        o.priority_class("x"),
        {"preemptionPolicy": "PreemptLowerPriority", "globalDefault": None},
    ),
    "resource claim": (
        "resourceclaims",
        o.resource_claim("x"),
        {
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "gpu",
                            "exactly": {
                                "allocationMode": "ExactCount",
                                "count": 1,
                                "deviceClassName": "gpu.example.com",
                            },
                        }
                    ]
                }
            }
        },
    ),
    "node": ("nodes", o.node("x"), {"spec": {}}),
    "node quantities": (
        "nodes",
        o.node("x", status={"capacity": {"cpu": 4, "memory": "2048Ki", "example.com/gpu": 8}}),
        {"status": {"capacity": {"cpu": "4", "memory": "2Mi", "example.com/gpu": "8"}}},
    ),
    "role binding": (
        "rolebindings",
        {
            "metadata": {"name": "x"},
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}],
        },
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
        },
    ),
}


@pytest.mark.parametrize("row", DEFAULTS)
def test_defaults_are_filled_in(row: str, space: Space, cluster: Space, unique: str) -> None:
    plural, body, expected = DEFAULTS[row]
    made = at(plural, space, cluster).create(plural, merged(body, {"metadata": {"name": unique}})).ok(201)
    assert contained(expected, made) == []


def test_a_service_gets_an_address(space: Space) -> None:
    spec = space.create("services", o.service("s")).ok(201)["spec"]
    assert spec["clusterIP"].startswith("10.96.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]


def test_an_address_is_given_once(space: Space) -> None:
    addresses = {space.create("services", o.service(f"s{i}")).ok(201)["spec"]["clusterIP"] for i in range(3)}
    assert len(addresses) == 3


def test_a_job_gets_its_selector_and_labels(space: Space) -> None:
    made = space.create("jobs", o.job("j")).ok(201)
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert labels == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }


def spec(plural: str, **change: Any) -> tuple[str, Json]:
    return plural, {"spec": change}


INVALID: dict[str, tuple[str, Json, str, str]] = {
    "config map key": ("configmaps", {"data": {"b a d": ""}}, "FieldValueInvalid", "data[b a d]"),
    "config map twin keys": (
        "configmaps",
        {"data": {"a": ""}, "binaryData": {"a": ""}},
        "FieldValueInvalid",
        "data[a]",
    ),
    "secret key": ("secrets", {"data": {"b a d": ""}}, "FieldValueInvalid", "data[b a d]"),
    "secret of a known type": ("secrets", {"type": "kubernetes.io/tls"}, "FieldValueRequired", "data[tls.crt]"),
    "service without ports": ("services", {"spec": {"ports": []}}, "FieldValueRequired", "spec.ports"),
    "service port": ("services", {"spec": {"ports": [{"port": 0}]}}, "FieldValueInvalid", "spec.ports[0].port"),
    "service nameless ports": (
        "services",
        {"spec": {"ports": [{"port": 1}, {"port": 2}]}},
        "FieldValueRequired",
        "spec.ports[0].name",
    ),
    "service twin ports": (
        "services",
        {"spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 1}]}},
        "FieldValueDuplicate",
        "spec.ports[1]",
    ),
    "service type": ("services", {"spec": {"type": "Magic"}}, "FieldValueNotSupported", "spec.type"),
    "service name": ("services", {"metadata": {"name": "a.b"}}, "FieldValueInvalid", "metadata.name"),
    "service affinity": (
        "services",
        {"spec": {"sessionAffinity": "Deep"}},
        "FieldValueNotSupported",
        "spec.sessionAffinity",
    ),
    "deployment without selector": ("deployments", {"spec": {"selector": None}}, "FieldValueRequired", "spec.selector"),
    "deployment selector mismatch": (
        "deployments",
        {"spec": {"selector": {"matchLabels": {"app": "other"}}}},
        "FieldValueInvalid",
        "spec.template.metadata.labels",
    ),
    "deployment empty selector": (
        "deployments",
        {"spec": {"selector": {"matchLabels": None}}},
        "FieldValueInvalid",
        "spec.selector",
    ),
    "deployment replicas": ("deployments", {"spec": {"replicas": -1}}, "FieldValueInvalid", "spec.replicas"),
    "deployment restart policy": (
        "deployments",
        {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}},
        "FieldValueNotSupported",
        "spec.template.spec.restartPolicy",
    ),
    "deployment template containers": (
        "deployments",
        {"spec": {"template": {"spec": {"containers": []}}}},
        "FieldValueRequired",
        "spec.template.spec.containers",
    ),
    "deployment strategy": (
        "deployments",
        {"spec": {"strategy": {"type": "Hope"}}},
        "FieldValueNotSupported",
        "spec.strategy",
    ),
    "deployment deadline": (
        "deployments",
        {"spec": {"minReadySeconds": 600, "progressDeadlineSeconds": 600}},
        "FieldValueInvalid",
        "spec.progressDeadlineSeconds",
    ),
    "replica set selector": (
        "replicasets",
        {"spec": {"selector": {"matchLabels": {"app": "b"}}}},
        "FieldValueInvalid",
        "spec.template.metadata.labels",
    ),
    "stateful set policy": (
        "statefulsets",
        {"spec": {"podManagementPolicy": "Chaos"}},
        "FieldValueInvalid",
        "spec.podManagementPolicy",
    ),
    "stateful set replicas": ("statefulsets", {"spec": {"replicas": -1}}, "FieldValueInvalid", "spec.replicas"),
    "job restart policy": (
        "jobs",
        {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}},
        "FieldValueRequired",
        "spec.template.spec.restartPolicy",
    ),
    "job parallelism": ("jobs", {"spec": {"parallelism": -1}}, "FieldValueInvalid", "spec.parallelism"),
    "job completion mode": (
        "jobs",
        {"spec": {"completionMode": "Half"}},
        "FieldValueNotSupported",
        "spec.completionMode",
    ),
    "job selector by hand": (
        "jobs",
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        "FieldValueInvalid",
        "spec.selector",
    ),
    "indexed job without completions": (
        "jobs",
        {"spec": {"completionMode": "Indexed", "completions": None, "parallelism": 2}},
        "FieldValueRequired",
        "spec.completions",
    ),
    "budget with both": ("poddisruptionbudgets", {"spec": {"maxUnavailable": 1}}, "FieldValueInvalid", "spec"),
    "budget negative": (
        "poddisruptionbudgets",
        {"spec": {"minAvailable": -1}},
        "FieldValueInvalid",
        "spec.minAvailable",
    ),
    "budget percent": (
        "poddisruptionbudgets",
        {"spec": {"minAvailable": "many"}},
        "FieldValueInvalid",
        "spec.minAvailable",
    ),
    "autoscaler order": (
        "horizontalpodautoscalers",
        {"spec": {"minReplicas": 9}},
        "FieldValueInvalid",
        "spec.maxReplicas",
    ),
    "autoscaler maximum": (
        "horizontalpodautoscalers",
        {"spec": {"maxReplicas": 0}},
        "FieldValueInvalid",
        "spec.maxReplicas",
    ),
    "autoscaler target": (
        "horizontalpodautoscalers",
        {"spec": {"scaleTargetRef": {"name": ""}}},
        "FieldValueRequired",
        "spec.scaleTargetRef.name",
    ),
    "claim without modes": (
        "persistentvolumeclaims",
        {"spec": {"accessModes": []}},
        "FieldValueRequired",
        "spec.accessModes",
    ),
    "claim mode": (
        "persistentvolumeclaims",
        {"spec": {"accessModes": ["Sometimes"]}},
        "FieldValueNotSupported",
        "spec.accessModes",
    ),
    "claim without size": (
        "persistentvolumeclaims",
        {"spec": {"resources": None}},
        "FieldValueRequired",
        "spec.resources[storage]",
    ),
    "volume without capacity": (
        "persistentvolumes",
        {"spec": {"capacity": None}},
        "FieldValueRequired",
        "spec.capacity",
    ),
    "volume without source": ("persistentvolumes", {"spec": {"hostPath": None}}, "FieldValueRequired", "spec"),
    "storage class provisioner": ("storageclasses", {"provisioner": ""}, "FieldValueRequired", "provisioner"),
    "storage class policy": ("storageclasses", {"reclaimPolicy": "Burn"}, "FieldValueNotSupported", "reclaimPolicy"),
    "priority too high": ("priorityclasses", {"value": 1_000_000_001}, "FieldValueForbidden", "value"),
    "priority policy": ("priorityclasses", {"preemptionPolicy": "Maybe"}, "FieldValueNotSupported", "preemptionPolicy"),
    "system priority name": (
        "priorityclasses",
        {"metadata": {"name": "system-mine"}},
        "FieldValueForbidden",
        "metadata.name",
    ),
    "node taint effect": (
        "nodes",
        {"spec": {"taints": [{"key": "a", "effect": "Scare"}]}},
        "FieldValueNotSupported",
        "metadata.taints[0].effect",
    ),
    "node twin taints": (
        "nodes",
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}},
        "FieldValueDuplicate",
        "metadata.taints[1]",
    ),
    "claim device class": (
        "resourceclaims",
        {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": ""}}]}}},
        "FieldValueRequired",
        "spec.devices.requests[0].exactly.deviceClassName",
    ),
    "claim request name": (
        "resourceclaims",
        {"spec": {"devices": {"requests": [{"name": "G P U", "exactly": {"deviceClassName": "a"}}]}}},
        "FieldValueInvalid",
        "spec.devices.requests[0].name",
    ),
    "slice without driver": ("resourceslices", {"spec": {"driver": ""}}, "FieldValueRequired", "spec.driver"),
    "slice twin devices": (
        "resourceslices",
        {"spec": {"devices": [{"name": "a"}, {"name": "a"}]}},
        "FieldValueDuplicate",
        "spec.devices[1]",
    ),
    "slice for nobody": ("resourceslices", {"spec": {"nodeName": None}}, "FieldValueRequired", "spec"),
    "device class selector": (
        "deviceclasses",
        {"spec": {"selectors": [{"cel": {"expression": "nonsense("}}]}},
        "FieldValueInvalid",
        "spec.selectors[0].cel.expression",
    ),
}


@pytest.mark.parametrize("row", INVALID)
def test_what_makes_no_sense_is_refused(row: str, space: Space, cluster: Space, unique: str) -> None:
    plural, change, reason, field = INVALID[row]
    kind = BY_PLURAL[plural]
    body = merged(body_of(kind, unique, space.namespace), change)
    refused = at(plural, space, cluster).create(plural, body).refused(422, "Invalid")
    assert (reason, field) in refused.causes, refused.causes
    at(plural, space, cluster).get(plural, body["metadata"]["name"]).refused(404, "NotFound")


FROZEN: dict[str, tuple[str, Json, str]] = {
    "deployment selector": (
        "deployments",
        {
            "spec": {
                "selector": {"matchLabels": {"app": "a", "b": "c"}},
                "template": {"metadata": {"labels": {"b": "c"}}},
            }
        },
        "spec.selector",
    ),
    "replica set selector": (
        "replicasets",
        {
            "spec": {
                "selector": {"matchLabels": {"app": "a", "b": "c"}},
                "template": {"metadata": {"labels": {"b": "c"}}},
            }
        },
        "spec.selector",
    ),
    "stateful set service": ("statefulsets", {"spec": {"serviceName": "other"}}, "spec"),
    "job completions": ("jobs", {"spec": {"completions": 5}}, "spec.completions"),
    "job completion mode": ("jobs", {"spec": {"completionMode": "Indexed"}}, "spec.completionMode"),
    "secret type": ("secrets", {"type": "example.com/other"}, "type"),
    "service address": (
        "services",
        {"spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}},
        "spec.clusterIPs[0]",
    ),
    "claim modes": ("persistentvolumeclaims", {"spec": {"accessModes": ["ReadWriteMany"]}}, "spec"),
    "volume source": ("persistentvolumes", {"spec": {"hostPath": {"path": "/other"}}}, "spec.persistentvolumesource"),
    "storage class provisioner": ("storageclasses", {"provisioner": "other.example.com/x"}, "provisioner"),
    "priority value": ("priorityclasses", {"value": 7}, "value"),
    "resource claim": (
        "resourceclaims",
        {"spec": {"devices": {"requests": [{"name": "other", "exactly": {"deviceClassName": "x"}}]}}},
        "spec",
    ),
}


@pytest.mark.parametrize("row", FROZEN)
def test_what_is_settled_cannot_be_changed(row: str, space: Space, cluster: Space, unique: str) -> None:
    plural, change, field = FROZEN[row]
    place = at(plural, space, cluster)
    made = place.create(plural, body_of(BY_PLURAL[plural], unique, space.namespace)).ok(201)
    refused = place.patch(plural, made["metadata"]["name"], change).refused(422, "Invalid")
    assert field in [each for _, each in refused.causes], refused.causes


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
def test_an_immutable_map_stays_as_it_is(plural: str, space: Space) -> None:
    body = {**BY_PLURAL[plural].make("x"), "immutable": True}
    space.create(plural, body).ok(201)
    refused = space.patch(plural, "x", {"data": {"k": "eA=="}}).refused(
        422, "Invalid", "field is immutable when `immutable` is set"
    )
    assert ("FieldValueForbidden", "data") in refused.causes
    space.patch(plural, "x", {"immutable": False}).refused(422, "Invalid")
    space.patch(plural, "x", {"metadata": {"labels": {"a": "b"}}}).ok(200)


def test_binary_data_is_kept(space: Space) -> None:
    made = space.create("configmaps", {"metadata": {"name": "x"}, "binaryData": {"b": "AAEC"}}).ok(201)
    assert made["binaryData"] == {"b": "AAEC"}


def test_string_data_wins_over_data(space: Space) -> None:
    made = space.create("secrets", {"metadata": {"name": "x"}, "data": {"a": "b2xk"}, "stringData": {"a": "new"}}).ok(
        201
    )
    assert made["data"] == {"a": "bmV3"}
    assert "stringData" not in made


def test_a_suspended_job_may_be_resumed(space: Space) -> None:
    space.create("jobs", o.job("j")).ok(201)
    assert space.patch("jobs", "j", {"spec": {"suspend": False}}).ok(200)["spec"]["suspend"] is False


def test_a_template_may_be_changed_and_counts(space: Space) -> None:
    space.create("deployments", o.deployment("d")).ok(201)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "example.com/app:2"}]}}}}
    assert space.patch("deployments", "d", patch, "strategic").ok(200)["metadata"]["generation"] == 2


def test_a_node_can_be_tainted_and_cordoned(cluster: Space, unique: str) -> None:
    cluster.create("nodes", o.node(unique)).ok(201)
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    now = cluster.patch("nodes", unique, {"spec": {"unschedulable": True, "taints": [taint]}}).ok(200)
    assert taint in now["spec"]["taints"]
    assert now["spec"]["unschedulable"] is True


def test_only_one_priority_class_is_the_default(cluster: Space, space: Space, unique: str) -> None:
    cluster.create("priorityclasses", o.priority_class(f"{unique}-a", 11, globalDefault=True), dryRun="All").ok(201)


def test_quantities_of_a_budget_may_be_percentages(space: Space) -> None:
    made = space.create("poddisruptionbudgets", o.budget("b", maxUnavailable="30%")).ok(201)
    assert made["spec"]["maxUnavailable"] == "30%"


def test_a_claim_keeps_its_status(space: Space) -> None:
    space.create("resourceclaims", o.resource_claim("c")).ok(201)
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}}
    now = space.patch("resourceclaims", "c", {"status": status}, sub="status").ok(200)
    assert now["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"


def test_slices_are_selected_by_node_and_driver(cluster: Space, unique: str) -> None:
    cluster.create("resourceslices", o.resource_slice(f"{unique}-a", unique)).ok(201)
    assert cluster.names("resourceslices", fieldSelector=f"spec.nodeName={unique}") == [f"{unique}-a"]
    assert f"{unique}-a" in cluster.names("resourceslices", fieldSelector="spec.driver=gpu.example.com")


@pytest.mark.parametrize("address", [None, "None"])
def test_a_service_keeps_its_address_when_a_write_leaves_it_out(address: str | None, space: Space) -> None:
    made = space.create("services", o.service("s", **({"clusterIP": address} if address else {}))).ok(201)
    body = o.service("s", sessionAffinity="ClientIP")
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    now = space.replace("services", body).ok(200)
    assert now["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    assert now["spec"]["sessionAffinity"] == "ClientIP"
