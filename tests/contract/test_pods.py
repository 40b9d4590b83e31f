"""Pods: defaults, what may change later, scheduling gates, priority."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import CONTAINER, binding, merged, pod, priority_class
from cluster_kit.server import eventually
from cluster_kit.space import Space


def test_a_pod_is_defaulted(space: Space) -> None:
    spec = space.create("pods", pod("p")).ok(201)["spec"]
    (container,) = spec.pop("containers")
    assert spec == {
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
    }
    assert container == {
        **CONTAINER,
        "imagePullPolicy": "IfNotPresent",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }


DEFAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "latest is always pulled": ({"image": "example.com/app"}, {"imagePullPolicy": "Always"}),
    "latest by tag is always pulled": ({"image": "example.com/app:latest"}, {"imagePullPolicy": "Always"}),
    "a digest is not": ({"image": f"example.com/app@sha256:{'a' * 64}"}, {"imagePullPolicy": "IfNotPresent"}),
    "limits are requests": (
        {"resources": {"limits": {"cpu": "1", "example.com/gpu": "2"}}},
        {
            "resources": {
                "limits": {"cpu": "1", "example.com/gpu": "2"},
                "requests": {"cpu": "1", "example.com/gpu": "2"},
            }
        },
    ),
    "requests are kept": (
        {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}},
        {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}},
    ),
    "quantities become texts in canonical form": (
        {"resources": {"requests": {"cpu": 2, "memory": "1024Mi"}, "limits": {"cpu": "2000m", "memory": "2048Mi"}}},
        {"resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}},
    ),
    "a port is tcp": ({"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
    "a probe": (
        {"readinessProbe": {"httpGet": {"port": 80}}},
        {
            "readinessProbe": {
                "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                "timeoutSeconds": 1,
                "periodSeconds": 10,
                "successThreshold": 1,
                "failureThreshold": 3,
            }
        },
    ),
    "a field reference": (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]},
    ),
}


@pytest.mark.parametrize("row", DEFAULTS)
def test_a_container_is_defaulted(row: str, space: Space) -> None:
    given, expected = DEFAULTS[row]
    (container,) = space.create("pods", pod("p", {"containers": [{**CONTAINER, **given}]})).ok(201)["spec"][
        "containers"
    ]
    assert {key: container[key] for key in expected} == expected


def test_volumes_are_defaulted(space: Space) -> None:
    volumes = [
        {"name": "e", "emptyDir": {}},
        {"name": "n"},
        {"name": "c", "configMap": {"name": "x"}},
        {"name": "s", "secret": {"secretName": "x"}},
        {"name": "h", "hostPath": {"path": "/x"}},
        {"name": "d", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    made = {
        each["name"]: each for each in space.create("pods", pod("p", {"volumes": volumes})).ok(201)["spec"]["volumes"]
    }
    assert made["n"] == {"name": "n", "emptyDir": {}}
    assert made["c"]["configMap"] == {"name": "x", "defaultMode": 420}
    assert made["s"]["secret"] == {"secretName": "x", "defaultMode": 420}
    assert made["h"]["hostPath"] == {"path": "/x", "type": ""}
    assert made["d"]["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"


QOS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "nothing": ([{}], "BestEffort"),
    "limits": ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
    "some": ([{"requests": {"cpu": "1"}}], "Burstable"),
    "half": ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
    "only devices": ([{"limits": {"example.com/gpu": "1"}}], "BestEffort"),
}


@pytest.mark.parametrize("row", QOS)
def test_quality_of_service(row: str, space: Space) -> None:
    resources, expected = QOS[row]
    containers = [{"name": f"c{i}", "image": "i:1", "resources": each} for i, each in enumerate(resources)]
    assert space.create("pods", pod("p", {"containers": containers})).ok(201)["status"]["qosClass"] == expected


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{**CONTAINER, **fields}]}


C0 = "spec.containers[0]"
INVALID: dict[str, tuple[dict[str, Any], str, str]] = {
    "no containers": ({"containers": []}, "FieldValueRequired", "spec.containers"),
    "no image": (container(image=""), "FieldValueRequired", f"{C0}.image"),
    "no container name": (container(name=""), "FieldValueRequired", f"{C0}.name"),
    "bad container name": (container(name="A_B"), "FieldValueInvalid", f"{C0}.name"),
    "twin containers": ({"containers": [CONTAINER, CONTAINER]}, "FieldValueDuplicate", "spec.containers[1].name"),
    "pull policy": (container(imagePullPolicy="Sometimes"), "FieldValueNotSupported", f"{C0}.imagePullPolicy"),
    "restart policy": ({"restartPolicy": "Perhaps"}, "FieldValueNotSupported", "spec.restartPolicy"),
    "dns policy": ({"dnsPolicy": "Magic"}, "FieldValueNotSupported", "spec.dnsPolicy"),
    "deadline of zero": ({"activeDeadlineSeconds": 0}, "FieldValueInvalid", "spec.activeDeadlineSeconds"),
    "port too high": (container(ports=[{"containerPort": 70000}]), "FieldValueInvalid", f"{C0}.ports[0].containerPort"),
    "port missing": (container(ports=[{}]), "FieldValueRequired", f"{C0}.ports[0].containerPort"),
    "port protocol": (
        container(ports=[{"containerPort": 1, "protocol": "X"}]),
        "FieldValueNotSupported",
        f"{C0}.ports[0].protocol",
    ),
    "port name": (
        container(ports=[{"containerPort": 1, "name": "Not_Good"}]),
        "FieldValueInvalid",
        f"{C0}.ports[0].name",
    ),
    "variable name": (container(env=[{"name": ""}]), "FieldValueRequired", f"{C0}.env[0].name"),
    "value and source": (
        container(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        "FieldValueInvalid",
        f"{C0}.env[0].valueFrom",
    ),
    "unknown field path": (
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nothing"}}}]),
        "FieldValueInvalid",
        f"{C0}.env[0].valueFrom.fieldRef.fieldPath",
    ),
    "mount without volume": (
        container(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
        "FieldValueNotFound",
        f"{C0}.volumeMounts[0].name",
    ),
    "requests over limits": (
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        "FieldValueInvalid",
        f"{C0}.resources.requests",
    ),
    "negative request": (
        container(resources={"requests": {"cpu": "-1"}}),
        "FieldValueInvalid",
        f"{C0}.resources.requests[cpu]",
    ),
    "fraction of a device": (
        container(resources={"limits": {"example.com/gpu": "500m"}}),
        "FieldValueInvalid",
        f"{C0}.resources.limits[example.com/gpu]",
    ),
    "device request without limit": (
        container(resources={"requests": {"example.com/gpu": "1"}}),
        "FieldValueRequired",
        f"{C0}.resources.limits",
    ),
    "unknown standard resource": (
        container(resources={"limits": {"speed": "1"}}),
        "FieldValueInvalid",
        f"{C0}.resources.limits[speed]",
    ),
    "two handlers in a probe": (
        container(livenessProbe={"httpGet": {"port": 80}, "exec": {"command": ["x"]}}),
        "FieldValueForbidden",
        f"{C0}.livenessProbe.httpGet",
    ),
    "no handler in a probe": (
        container(livenessProbe={"periodSeconds": 5}),
        "FieldValueRequired",
        f"{C0}.livenessProbe",
    ),
    "twin volumes": ({"volumes": [{"name": "v"}, {"name": "v"}]}, "FieldValueDuplicate", "spec.volumes[1].name"),
    "two volume sources": (
        {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
        "FieldValueForbidden",
        "spec.volumes[0].hostPath",
    ),
    "volume name": ({"volumes": [{"name": "V"}]}, "FieldValueInvalid", "spec.volumes[0].name"),
    "node name": ({"nodeName": "Not A Node"}, "FieldValueInvalid", "spec.nodeName"),
    "hostname": ({"hostname": "Not_A_Host"}, "FieldValueInvalid", "spec.hostname"),
    "node selector key": ({"nodeSelector": {"b a d": "x"}}, "FieldValueInvalid", "spec.nodeSelector"),
    "toleration operator": (
        {"tolerations": [{"key": "a", "operator": "Like"}]},
        "FieldValueNotSupported",
        "spec.tolerations[0].operator",
    ),
    "toleration effect": (
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "Hmm"}]},
        "FieldValueNotSupported",
        "spec.tolerations[0].effect",
    ),
    "affinity operator": (
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near", "values": ["x"]}]}]
                    }
                }
            }
        },
        "FieldValueInvalid",
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
        ".matchExpressions[0].operator",
    ),
    "spread skew": (
        {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
        "FieldValueInvalid",
        "spec.topologySpreadConstraints[0].maxSkew",
    ),
    "gate with node": ({"nodeName": "n", "schedulingGates": [{"name": "a"}]}, "FieldValueForbidden", "spec.nodeName"),
    "twin gates": (
        {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
        "FieldValueDuplicate",
        "spec.schedulingGates[1]",
    ),
    "bad gate": ({"schedulingGates": [{"name": "b a d"}]}, "FieldValueInvalid", "spec.schedulingGates[0]"),
    "claim that is not there": (
        container(resources={"claims": [{"name": "c"}]}),
        "FieldValueNotFound",
        f"{C0}.resources.claims[0]",
    ),
    "init container name taken": (
        {"initContainers": [CONTAINER]},
        "FieldValueDuplicate",
        "spec.initContainers[0].name",
    ),
    "service account name": ({"serviceAccountName": "Not A Name"}, "FieldValueInvalid", "spec.serviceAccountName"),
    "host network ports": (
        {"hostNetwork": True, "containers": [{**CONTAINER, "ports": [{"containerPort": 1, "hostPort": 2}]}]},
        "FieldValueInvalid",
        f"{C0}.ports[0].hostPort",
    ),
}


@pytest.mark.parametrize("row", INVALID)
def test_a_pod_that_makes_no_sense_is_refused(row: str, space: Space) -> None:
    spec, reason, field = INVALID[row]
    refused = space.create("pods", pod("p", spec)).refused(422, "Invalid", 'Pod "p" is invalid')
    assert (reason, field) in refused.causes, refused.causes
    assert space.names("pods") == []


def test_a_negative_grace_becomes_one_second(space: Space) -> None:
    made = space.create("pods", pod("p", {"terminationGracePeriodSeconds": -1})).ok(201)
    assert made["spec"]["terminationGracePeriodSeconds"] == 1


FROZEN: dict[str, dict[str, Any]] = {
    "restart policy": {"restartPolicy": "Never"},
    "node selector": {"nodeSelector": {"a": "b"}},
    "scheduler": {"schedulerName": "other"},
    "service account": {"serviceAccountName": "other"},
    "volumes": {"volumes": [{"name": "v", "emptyDir": {}}]},
    "command": container(command=["x"]),
    "environment": container(env=[{"name": "A", "value": "x"}]),
    "one more container": {"containers": [CONTAINER, {"name": "two", "image": "i:1"}]},
    "resources": container(resources={"requests": {"cpu": "9"}}),
    "priority": {"priority": 5},
    "gates": {"schedulingGates": [{"name": "late"}]},
}


@pytest.mark.parametrize("row", FROZEN)
def test_most_of_a_pod_cannot_be_changed(row: str, space: Space) -> None:
    made = space.create("pods", pod("p")).ok(201)
    space.replace("pods", merged(made, {"spec": FROZEN[row]})).refused(422, "Invalid")
    assert space.get("pods", "p").ok() == made


def test_the_message_says_what_may_be_changed(space: Space) -> None:
    made = space.create("pods", pod("p")).ok(201)
    refused = space.replace("pods", merged(made, {"spec": {"hostname": "other"}}))
    refused.refused(422, "Invalid", "spec: Forbidden: pod updates may not change fields other than")


def test_the_image_can_be_changed(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    patch = {"spec": {"containers": [{"name": "main", "image": "example.com/app:2"}]}}
    now = space.patch("pods", "p", patch, "strategic").ok(200)
    assert now["spec"]["containers"][0]["image"] == "example.com/app:2"
    assert now["metadata"]["generation"] == 2


def test_the_deadline_can_only_be_shortened(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    space.patch("pods", "p", {"spec": {"activeDeadlineSeconds": 50}}).ok(200)
    space.patch("pods", "p", {"spec": {"activeDeadlineSeconds": 20}}).ok(200)
    refused = space.patch("pods", "p", {"spec": {"activeDeadlineSeconds": 90}}).refused(422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", "spec.activeDeadlineSeconds")]


def test_tolerations_can_only_grow(space: Space) -> None:
    made = space.create("pods", pod("p")).ok(201)
    more = [*made["spec"]["tolerations"], {"key": "a", "operator": "Exists"}]
    space.patch("pods", "p", {"spec": {"tolerations": more}}).ok(200)
    space.patch("pods", "p", {"spec": {"tolerations": []}}).refused(
        422, "Invalid", "existing toleration can not be modified"
    )


def test_gates_can_only_be_removed(space: Space) -> None:
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    made = space.create("pods", pod("p", {"schedulingGates": gates})).ok(201)
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    space.patch("pods", "p", {"spec": {"schedulingGates": gates[1:]}}).ok(200)
    refused = space.patch("pods", "p", {"spec": {"schedulingGates": gates}}).refused(422, "Invalid")
    assert refused.causes == [("FieldValueForbidden", "spec.schedulingGates[0].name")]
    now = space.patch("pods", "p", {"spec": {"schedulingGates": None}}).ok(200)
    assert "schedulingGates" not in now["spec"]


def test_a_gated_pod_may_narrow_its_node_selector(space: Space) -> None:
    gated = {"schedulingGates": [{"name": "example.com/a"}], "nodeSelector": {"a": "1"}}
    space.create("pods", pod("p", gated)).ok(201)
    now = space.patch("pods", "p", {"spec": {"nodeSelector": {"b": "2"}}}).ok(200)
    assert now["spec"]["nodeSelector"] == {"a": "1", "b": "2"}
    space.patch("pods", "p", {"spec": {"nodeSelector": {"a": "9"}}}).refused(422, "Invalid")


def test_labels_of_a_bound_pod_can_be_changed(space: Space) -> None:
    space.create("pods", pod("p")).ok(201)
    space.create("pods", binding("p", "n"), name="p", sub="binding").ok(201)
    now = space.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}}).ok(200)
    assert now["metadata"]["labels"] == {"a": "b"}


def test_a_template_uid_and_status_cannot_be_smuggled_in(space: Space) -> None:
    body = merged(
        pod("p"),
        {"status": {"phase": "Running", "podIP": "1.2.3.4", "conditions": [{"type": "Ready", "status": "True"}]}},
    )
    status = space.create("pods", body).ok(201)["status"]
    assert status["phase"] == "Pending"
    assert "podIP" not in status
    assert "conditions" not in status


def test_a_priority_class_gives_the_priority(space: Space, cluster: Space, unique: str) -> None:
    cluster.create("priorityclasses", priority_class(unique, 4242, preemptionPolicy="Never")).ok(201)

    def made() -> Any:
        reply = space.create("pods", pod("p", {"priorityClassName": unique}))
        return reply.body if reply.status == 201 else None

    spec = eventually(made, "the class is known")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"], spec["priorityClassName"]) == (4242, "Never", unique)


def test_an_unknown_priority_class_is_refused(space: Space, unique: str) -> None:
    refused = space.create("pods", pod("p", {"priorityClassName": unique}))
    refused.refused(403, "Forbidden", f"no PriorityClass with name {unique} was found")
    assert not space.exists("pods", "p")


def test_a_priority_without_a_class_is_refused(space: Space) -> None:
    refused = space.create("pods", pod("p", {"priority": 7}))
    refused.refused(403, "Forbidden", "the integer value of priority (7) must not be provided in pod spec")


def test_the_system_classes_are_there(space: Space, cluster: Space) -> None:
    classes = {item["metadata"]["name"]: item["value"] for item in cluster.list("priorityclasses")["items"]}
    assert classes["system-cluster-critical"] == 2_000_000_000
    assert classes["system-node-critical"] == 2_000_001_000
    spec = space.create("pods", pod("p", {"priorityClassName": "system-node-critical"})).ok(201)["spec"]
    assert spec["priority"] == 2_000_001_000
