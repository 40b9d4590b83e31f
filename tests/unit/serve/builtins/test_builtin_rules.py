"""Rules of built-in kinds that no recording of a real server shows."""

from __future__ import annotations

from typing import Any

import pytest

from kube_embedded.base.errors import ApiError
from kube_embedded.base.resource import Context
from kube_embedded.builtins import builtin_converters, builtin_resources, decode
from kube_embedded.builtins.common.metadata import LABEL, SUBDOMAIN, validate_metadata, validate_metadata_update
from kube_embedded.builtins.common.printing import human_duration
from kube_embedded.builtins.kinds import autoscaling, events, services

KINDS = {(one.group, one.kind): one for one in reversed(builtin_resources())}
NOW = Context(now_s=1_000_000.0)


def made(group: str, kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    resource = KINDS[group, kind]
    decode.conform(obj, resource.schema_name)
    resource.strategy.default(obj)
    resource.strategy.prepare_create(obj, NOW)
    return obj


@pytest.mark.parametrize(
    ("span_s", "shown"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (3600, "60m"),
        (4 * 3600 + 60, "4h1m"),
        (9 * 3600 + 60, "9h"),
        (3 * 86400 + 7200, "3d2h"),
        (9 * 86400 + 7200, "9d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_a_duration_is_shown_in_the_units_that_matter(span_s: int, shown: str) -> None:
    assert human_duration(span_s) == shown


def test_the_same_service_gets_the_same_address_and_no_taken_one() -> None:
    def service() -> dict[str, Any]:
        return made("", "Service", {"metadata": {"name": "s", "namespace": "n"}, "spec": {"ports": [{"port": 80}]}})

    first, second, third = service(), service(), service()
    services.assign_cluster_ip(first, lambda address: False)
    services.assign_cluster_ip(second, lambda address: False)
    services.assign_cluster_ip(third, lambda address: address == first["spec"]["clusterIP"])
    assert first["spec"]["clusterIPs"] == [first["spec"]["clusterIP"]] == second["spec"]["clusterIPs"]
    assert third["spec"]["clusterIP"] != first["spec"]["clusterIP"]


def test_an_address_that_is_taken_is_refused() -> None:
    spec = {"ports": [{"port": 80}], "clusterIP": "10.96.0.10"}
    service = made("", "Service", {"metadata": {"name": "s", "namespace": "n"}, "spec": spec})
    with pytest.raises(ApiError, match="provided IP is already allocated"):
        services.assign_cluster_ip(service, lambda address: True)


def test_a_headless_service_gets_no_address() -> None:
    service = made("", "Service", {"metadata": {"name": "s", "namespace": "n"}, "spec": {"clusterIP": "None"}})
    services.assign_cluster_ip(service, lambda address: False)
    assert service["spec"]["clusterIPs"] == ["None"]


def test_every_port_of_a_node_port_service_gets_its_own_port() -> None:
    ports = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]
    service = made("", "Service", {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}})
    services.assign_node_ports(service, lambda port: port % 2 == 0)
    given = [port["nodePort"] for port in service["spec"]["ports"]]
    assert len(set(given)) == 2
    assert all(30000 <= port <= 32767 and port % 2 for port in given)


def test_an_event_of_the_new_group_keeps_everything_as_a_core_event() -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "note": "text",
        "regarding": {"kind": "Pod", "name": "p"},
        "reportingController": "c",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    core = events.convert(event, "v1")
    assert core["apiVersion"] == "v1"
    assert core["message"] == "text"
    assert core["involvedObject"] == {"kind": "Pod", "name": "p"}
    unused: dict[str, Any] = {"deprecatedSource": {}, "deprecatedFirstTimestamp": None, "deprecatedLastTimestamp": None}
    assert events.convert(core, "events.k8s.io/v1") == {**event, **unused}


def test_an_autoscaler_survives_the_way_through_the_old_version() -> None:
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "maxReplicas": 3,
        "metrics": [
            {"type": "Pods", "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "5"}}}
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 3}},
    }
    scaler = made("autoscaling", "HorizontalPodAutoscaler", {"metadata": {"name": "h"}, "spec": spec})
    scaler["apiVersion"] = "autoscaling/v2"
    convert = builtin_converters()["autoscaling", "horizontalpodautoscalers"]
    assert convert(convert(scaler, "autoscaling/v1"), "autoscaling/v2") == scaler


def test_a_cpu_target_is_a_field_of_its_own_in_the_old_version() -> None:
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3}
    scaler = made("autoscaling", "HorizontalPodAutoscaler", {"metadata": {"name": "h"}, "spec": spec})
    assert autoscaling.from_v2(scaler)["spec"]["targetCPUUtilizationPercentage"] == 80


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        ({}, {}, "BestEffort"),
        ({"nvidia.com/gpu": "8"}, {}, "BestEffort"),
        ({}, {"cpu": "1"}, "Burstable"),
        ({"cpu": "1", "memory": "1Gi"}, {}, "Guaranteed"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "500m"}, "Burstable"),
    ],
    ids=["nothing", "devices only", "request only", "limits only", "less than the limit"],
)
def test_the_quality_of_service_follows_requests_and_limits(
    limits: dict[str, str], requests: dict[str, str], expected: str
) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": requests}}
    pod = made("", "Pod", {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    assert pod["status"]["qosClass"] == expected


def test_a_status_brought_along_by_a_create_is_dropped() -> None:
    pod = made(
        "",
        "Pod",
        {"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"phase": "Running", "podIP": "1.2.3.4"}},
    )
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_too_much_configuration_is_refused() -> None:
    strategy = KINDS["", "ConfigMap"].strategy
    config = made("", "ConfigMap", {"metadata": {"name": "c", "namespace": "n"}, "data": {"a": "x" * 1_100_000}})
    [error] = strategy.validate_create(config)
    assert str(error) == "[]: Too long: may not be more than 1048576 bytes"


def test_too_many_annotations_are_refused() -> None:
    meta = {"name": "c", "namespace": "n", "annotations": {"a": "x" * 270_000}}
    [error] = validate_metadata({"metadata": meta}, True, SUBDOMAIN)
    assert str(error) == "metadata.annotations: Too long: may not be more than 262144 bytes"


def test_a_generated_name_may_end_in_a_hyphen() -> None:
    meta = {"generateName": "web-", "name": "web-x7k2q", "namespace": "n"}
    assert validate_metadata({"metadata": meta}, True, LABEL) == []


def test_no_finalizer_is_added_to_an_object_that_goes_away() -> None:
    old = {"metadata": {"name": "c", "namespace": "n", "deletionTimestamp": "t", "finalizers": ["a/b"]}}
    new = {"metadata": {**old["metadata"], "finalizers": ["a/b", "c/d"]}}
    [error] = validate_metadata_update(new, old, True, SUBDOMAIN)
    assert str(error) == (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"c/d"}'
    )


def test_the_identity_of_an_object_never_changes() -> None:
    old = {"metadata": {"name": "c", "namespace": "n", "uid": "1"}}
    new = {"metadata": {"name": "c", "namespace": "n", "uid": "2"}}
    [error] = validate_metadata_update(new, old, True, SUBDOMAIN)
    assert str(error) == 'metadata.uid: Invalid value: "2": field is immutable'


def test_a_volume_that_changes_its_phase_is_stamped() -> None:
    strategy = KINDS["", "PersistentVolume"].strategy
    old = made("", "PersistentVolume", {"metadata": {"name": "v"}, "spec": {}})
    bound = {**old, "status": {"phase": "Bound"}}
    strategy.prepare_status_update(bound, old, Context(now_s=2_000_000.0))
    assert bound["status"] == {"phase": "Bound", "lastPhaseTransitionTime": "1970-01-24T03:33:20Z"}


def test_a_status_update_changes_nothing_but_the_status() -> None:
    strategy = KINDS["apps", "Deployment"].strategy
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": []}}}
    old = made("apps", "Deployment", {"metadata": {"name": "d", "labels": {"a": "b"}}, "spec": spec})
    new = {**old, "metadata": {"name": "d", "labels": {"c": "d"}}, "spec": {}, "status": {"replicas": 3}}
    strategy.prepare_status_update(new, old, NOW)
    assert new["status"] == {"replicas": 3}
    assert new["spec"] == old["spec"]
    assert new["metadata"]["labels"] == {"a": "b"}


def test_pods_are_selected_by_node_phase_and_scheduler() -> None:
    resource = KINDS["", "Pod"]
    pod = made(
        "", "Pod", {"metadata": {"name": "p"}, "spec": {"containers": [], "nodeName": "n", "schedulerName": "s"}}
    )
    fields = resource.strategy.selectable(pod)
    assert (fields["spec.nodeName"], fields["status.phase"], fields["spec.schedulerName"]) == ("n", "Pending", "s")
