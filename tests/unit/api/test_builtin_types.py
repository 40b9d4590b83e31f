"""Slim types of built-in kinds: every field exists upstream, and what a server sends can be read."""

from __future__ import annotations

import gc
import importlib
import json
import types
import typing
from typing import Any

import msgspec
import pytest
from lightkube.models import (
    autoscaling_v2,
    batch_v1,
    coordination_v1,
    core_v1,
    meta_v1,
    policy_v1,
    resource_v1,
    scheduling_v1,
    storage_v1,
)

from spinney.api import builtin, meta
from spinney.api.builtin import to_selector
from spinney.api.builtin.pod import Pod, PodCondition
from spinney.api.meta import Slim

MODELS: dict[str, tuple[types.ModuleType, str]] = {
    "HorizontalPodAutoscaler": (autoscaling_v2, ""),
    "Job": (batch_v1, ""),
    "Lease": (coordination_v1, ""),
    "PodDisruptionBudget": (policy_v1, ""),
    "PriorityClass": (scheduling_v1, ""),
    "ResourceClaim": (resource_v1, ""),
    "ResourceSlice": (resource_v1, ""),
    "DeviceClass": (resource_v1, ""),
    "StorageClass": (storage_v1, ""),
    "CSINode": (storage_v1, ""),
}
DERIVED = {"Pod.spec.configMaps"}
"""What a type keeps in the place of fields that are too long to keep."""
KINDS = [
    name
    for name in builtin.__all__
    if isinstance(getattr(builtin, name), type) and "metadata" in getattr(builtin, name).__struct_fields__
]


def slim_parts(annotation: Any) -> list[type[Slim]]:
    if isinstance(annotation, type) and issubclass(annotation, Slim):
        return [annotation]
    return [part for inner in typing.get_args(annotation) for part in slim_parts(inner)]


def model_parts(annotation: Any) -> list[type]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return [annotation]
    return [part for inner in typing.get_args(annotation) for part in model_parts(inner)]


def unknown_fields(slim: type[Slim], model: type, path: str) -> list[str]:
    hints = typing.get_type_hints(model, vars(importlib.import_module(model.__module__)))
    found: list[str] = []
    for one in msgspec.structs.fields(slim):
        upstream = hints.get(one.encode_name, hints.get(f"{one.encode_name}_"))
        if upstream is None:
            found.append(f"{path}.{one.encode_name}")
            continue
        for part in slim_parts(one.type):
            models = model_parts(upstream)
            found += unknown_fields(part, models[0], f"{path}.{one.encode_name}") if models else []
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_slim_type_exists_in_kubernetes(kind: str) -> None:
    module, _ = MODELS.get(kind, (core_v1, ""))
    assert set(unknown_fields(getattr(builtin, kind), getattr(module, kind), kind)) <= DERIVED


def test_every_field_of_slim_metadata_exists_in_kubernetes() -> None:
    assert unknown_fields(meta.ObjectMeta, meta_v1.ObjectMeta, "metadata") == []
    assert unknown_fields(meta.Condition, meta_v1.Condition, "condition") == []


def test_a_misspelt_field_would_be_found() -> None:
    class Wrong(Slim, frozen=True):
        node_nam: str = ""

    assert unknown_fields(Wrong, core_v1.PodSpec, "spec") == ["spec.nodeNam"]


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "n", "labels": {"a": "b"}, "managedFields": [{"manager": "x"}]},
    "spec": {
        "containers": [{"name": "c", "ports": [{"hostIP": "10.0.0.1"}], "resources": {"requests": {"cpu": "1"}}}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]
                }
            }
        },
        "schedulingGates": [{"name": "g"}],
    },
    "status": {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": None}],
    },
}


def test_a_pod_as_a_server_sends_it_is_read() -> None:
    pod = msgspec.json.decode(json.dumps(POD), type=Pod)
    assert pod.spec.containers[0].resources.requests == {"cpu": "1"}
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.node_affinity is not None
    required = pod.spec.affinity.node_affinity.required
    assert required is not None
    assert required.node_selector_terms[0].match_expressions[0].to_requirement().matches({"rack": "r"})
    assert pod.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    scheduled = pod.condition("PodScheduled")
    assert scheduled is not None
    assert scheduled.status == "False"
    assert pod.condition("Ready") is None


def test_slim_objects_leave_no_trace_in_the_garbage_collector() -> None:
    pod = msgspec.json.decode(json.dumps(POD), type=Pod)
    assert not gc.is_tracked(pod)
    assert not gc.is_tracked(pod.spec)
    assert not gc.is_tracked(pod.metadata.labels)


def conditions_of(*kinds: str) -> tuple[PodCondition, ...]:
    body = {"metadata": {}, "status": {"conditions": [{"type": kind, "status": "True"} for kind in kinds]}}
    return msgspec.json.decode(json.dumps(body), type=Pod).status.conditions


def test_words_that_pods_share_are_kept_once() -> None:
    first, second = conditions_of("Ready", "Ready")
    assert first.type is second.type
    assert first.status is second.status


@pytest.mark.parametrize("kind", ["Ready", "example.com/Unheard"])
def test_a_word_is_the_string_it_stands_for(kind: str) -> None:
    (found,) = conditions_of(kind)
    assert (found.type, f"{found.type}", repr(found.type), {kind: 1}[found.type]) == (kind, kind, repr(kind), 1)
    assert found == PodCondition(type=kind, status="True")
    assert json.loads(msgspec.json.encode(found)) == json.loads(json.dumps({"type": found.type, "status": "True"}))


def test_a_word_nobody_knew_is_learned() -> None:
    first, second = conditions_of("example.com/New", "example.com/New")
    assert first.type is second.type


def test_events_with_null_times_are_read() -> None:
    raw = b'{"metadata":{"name":"e"},"eventTime":null,"firstTimestamp":null,"involvedObject":{"kind":"Pod"}}'
    assert msgspec.json.decode(raw, type=builtin.Event).involved_object.kind == "Pod"


def test_the_controlling_owner_is_found() -> None:
    owners = (meta.OwnerReference(name="a"), meta.OwnerReference(name="b", controller=True))
    found = meta.ObjectMeta(owner_references=owners).controller
    assert found is not None
    assert found.name == "b"
    assert meta.ObjectMeta().controller is None


def test_an_absent_label_selector_selects_nothing() -> None:
    assert not to_selector(None).matches({})
    assert to_selector(builtin.LabelSelector(match_labels={"a": "b"})).matches({"a": "b"})
