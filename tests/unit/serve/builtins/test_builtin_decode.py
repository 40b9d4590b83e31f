"""Bodies of built-in kinds are brought into the form in which Kubernetes keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from kube_embedded.builtins.decode import conform, refusal

POD = "io.k8s.api.core.v1.Pod"
SECRET = "io.k8s.api.core.v1.Secret"
LEASE = "io.k8s.api.coordination.v1.Lease"


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    first = {"name": "c", "image": "i", **(container or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [first], **spec}}


def complaint(obj: dict[str, Any], component: str = POD) -> str:
    found = conform(obj, component)
    assert found.errors
    return found.errors[0]


def test_quantities_become_canonical_strings() -> None:
    obj = pod({"resources": {"limits": {"cpu": 2, "memory": "1024Mi"}, "requests": {"cpu": "1000m"}}})
    conform(obj, POD)
    assert obj["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "1"},
    }


def test_empty_values_that_go_leaves_out_are_dropped() -> None:
    obj = pod({"command": [], "tty": False, "workingDir": "", "env": None}, hostNetwork=False, nodeSelector={})
    conform(obj, POD)
    assert obj["spec"] == {"containers": [{"name": "c", "image": "i", "resources": {}}]}


def test_zero_behind_a_pointer_is_kept() -> None:
    obj = pod(terminationGracePeriodSeconds=0, automountServiceAccountToken=False)
    conform(obj, POD)
    assert obj["spec"]["terminationGracePeriodSeconds"] == 0
    assert obj["spec"]["automountServiceAccountToken"] is False


def test_values_that_go_always_writes_are_added() -> None:
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    conform(obj, "io.k8s.api.core.v1.Node")
    assert obj["spec"] == {}
    assert obj["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert obj["status"]["nodeInfo"]["kubeletVersion"] == ""


def test_times_are_kept_in_utc_without_fractions() -> None:
    obj = pod()
    obj["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05.678+01:00"
    conform(obj, POD)
    assert obj["metadata"]["creationTimestamp"] == "2026-01-02T02:04:05Z"


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (pod(hostNetwork="true"), "string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        (pod(priority=2**31), "number 2147483648 into Go struct field PodSpec.spec.priority of type int32"),
        (
            pod(activeDeadlineSeconds=1.5),
            "number 1.5 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64",
        ),
        (pod(volumes={"a": 1}), "object into Go struct field PodSpec.spec.volumes of type []v1.Volume"),
        (pod({"command": [1]}), "number into Go struct field Container.spec.containers.command of type string"),
        (
            pod({"livenessProbe": {"httpGet": {"port": True}}}),
            "bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port "
            "of type int32",
        ),
    ],
    ids=["bool", "int32", "fraction", "list", "item", "embedded"],
)
def test_a_wrong_type_is_named_as_go_names_it(obj: dict[str, Any], expected: str) -> None:
    assert complaint(obj) == f"json: cannot unmarshal {expected}"


def test_an_object_with_a_type_error_is_left_alone() -> None:
    obj = pod(hostNetwork="true", nodeSelector={})
    conform(obj, POD)
    assert obj == pod(hostNetwork="true", nodeSelector={})


def test_a_quantity_that_is_none_is_refused_with_the_grammar() -> None:
    assert complaint(pod({"resources": {"limits": {"cpu": "lots"}}})).startswith("quantities must match the regular")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
        ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
        ("2020-02-31T00:00:00Z", 'parsing time "2020-02-31T00:00:00Z": day out of range'),
        ("2020-01-01T00:00:00Zz", 'parsing time "2020-01-01T00:00:00Zz": extra text: "z"'),
    ],
)
def test_a_bad_time_is_refused_in_the_words_of_go(text: str, expected: str) -> None:
    obj = pod()
    obj["metadata"]["creationTimestamp"] = text
    assert complaint(obj) == expected


def test_a_micro_time_needs_its_micros() -> None:
    obj = {"metadata": {"name": "l"}, "spec": {"renewTime": "2020-01-01T00:00:00Z"}}
    assert 'cannot parse "Z" as ".000000"' in complaint(obj, LEASE)


def test_bytes_must_be_base64() -> None:
    assert complaint({"data": {"a": "%%%"}}, SECRET) == "illegal base64 data at input byte 0"


def test_unknown_fields_are_dropped_and_named_with_their_index() -> None:
    obj = pod({"wrong": 1}, nodeselector={})
    found = conform(obj, POD)
    assert found.unknown == ("spec.containers[0].wrong", "spec.nodeselector")
    assert obj["spec"] == {"containers": [{"name": "c", "image": "i", "resources": {}}]}


def test_unknown_fields_are_refused_only_when_asked() -> None:
    found = conform(pod({"wrong": 1}), POD)
    assert refusal(found, "v1", "Pod", strict=False) is None
    error = refusal(found, "v1", "Pod", strict=True)
    assert error is not None
    assert error.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.containers[0].wrong"'
    )


def test_a_null_in_a_list_is_an_empty_value() -> None:
    obj = pod({"env": [None]})
    conform(obj, POD)
    assert obj["spec"]["containers"][0]["env"] == [{"name": ""}]
