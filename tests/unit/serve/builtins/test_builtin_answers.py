"""Every recorded object is kept, refused and shown as a real kube-apiserver did."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kube_apimachinery.admission import Object
from kube_apimachinery.times import seconds
from kube_embedded.base import errors
from kube_embedded.base.errors import ApiError
from kube_embedded.base.resource import Context, Resource
from kube_embedded.builtins import builtin_resources, decode
from kube_embedded.builtins.kinds.services import assign_cluster_ip
from unit.serve.builtins.record_answers import merged

CASES = [json.loads(line) for line in Path(__file__).with_name("answers.jsonl").read_text().splitlines()]
RESOURCES = {(one.group_version, one.kind): one for one in builtin_resources()}
NAMESPACE = "recorded"
UID = "recorded-uid"
STAMPED = ("creationTimestamp", "uid", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
ADMITTED = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
# Where Kubernetes prints its internal Go values or a diff of them, only the part before them is the same.
INTERNAL = ("pod updates may not change", "is immutable after creation", "field is immutable", "only additions are")


def named(case: dict[str, Any]) -> str:
    return str(case["name"])


def created(resource: Resource, obj: Object, now_s: float) -> Object:
    """What the write path does with a new object, without admission."""
    refuse_misfits(resource, obj)
    meta = obj["metadata"]
    meta["uid"] = UID
    if resource.namespaced:
        meta["namespace"] = NAMESPACE
    strategy = resource.strategy
    strategy.default(obj)
    strategy.prepare_create(obj, Context(now_s))
    refuse(resource, obj, strategy.validate_create(obj))
    if resource.kind == "Service":
        assign_cluster_ip(obj, lambda address: False)
    return obj


def changed(resource: Resource, obj: Object, old: Object, status: bool) -> Object:
    refuse_misfits(resource, obj)
    strategy, context = resource.strategy, Context(0.0)
    strategy.default(obj)
    obj["metadata"].update({key: old["metadata"][key] for key in STAMPED if key in old["metadata"]})
    if status:
        strategy.prepare_status_update(obj, old, context)
        refuse(resource, obj, strategy.validate_status_update(obj, old))
        return obj
    strategy.prepare_update(obj, old, context)
    if strategy.generation_changes(obj, old):
        obj["metadata"]["generation"] += 1
    refuse(resource, obj, strategy.validate_update(obj, old))
    return obj


def refuse_misfits(resource: Resource, obj: Object) -> None:
    found = decode.conform(obj, resource.schema_name)
    error = decode.refusal(found, resource.version, resource.kind, strict=True)
    if error is not None:
        raise error


def refuse(resource: Resource, obj: Object, found: list[Any]) -> None:
    if found:
        group = "" if resource.kind == "Event" else resource.group
        raise errors.invalid(group, resource.kind, obj["metadata"].get("name", ""), found)


def comparable(obj: Object) -> Object:
    """Without what admission, allocation and the server itself put in."""
    obj = copy.deepcopy(obj)
    for key in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        obj["metadata"].pop(key, None)
    spec = obj.get("spec") or {}
    if obj["kind"] == "DaemonSet":
        obj["metadata"].pop("annotations", None)  # the count of its templates, deprecated
    if obj["kind"] == "Pod":
        spec.pop("priority", None)
        spec.pop("preemptionPolicy", None)
        spec["tolerations"] = [one for one in spec.get("tolerations", ()) if one.get("key") not in ADMITTED]
    if obj["kind"] == "Service":
        for key in ("clusterIP", "clusterIPs"):
            spec.pop(key, None)
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)
    return obj


def as_refusal(error: ApiError) -> dict[str, Any]:
    causes = (error.details or {}).get("causes", [])
    return {"code": error.code, "reason": error.reason, "message": error.message, "causes": causes}


def answer(case: dict[str, Any]) -> Object | dict[str, Any]:
    resource = RESOURCES[case["create"]["apiVersion"], case["create"]["kind"]]
    made = case.get("stored") or case.get("old") or {"metadata": {}}
    now_s = seconds(made["metadata"].get("creationTimestamp", "2026-01-01T00:00:00Z"))
    try:
        if "change" not in case:
            return created(resource, copy.deepcopy(case["create"]), now_s)
        new = copy.deepcopy(merged(case["old"], case["change"]))
        return changed(resource, new, case["old"], "subresource" in case)
    except ApiError as error:
        return as_refusal(error)


@pytest.mark.parametrize("case", [case for case in CASES if "stored" in case], ids=named)
def test_what_kubernetes_keeps_is_kept_the_same_way(case: dict[str, Any]) -> None:
    found = answer(case)
    assert "reason" not in found or "metadata" in found, found
    assert comparable(found) == comparable(case["stored"])


@pytest.mark.parametrize("case", [case for case in CASES if "refused" in case], ids=named)
def test_what_kubernetes_refuses_is_refused_in_the_same_words(case: dict[str, Any]) -> None:
    found, expected = answer(case), case["refused"]
    assert {"code", "message"} <= found.keys(), found
    if any(words in expected["message"] for words in INTERNAL):
        assert (found["code"], found["reason"]) == (expected["code"], expected["reason"])
        assert [one["field"] for one in found["causes"]] == [one["field"] for one in expected["causes"]]
    else:
        assert found == expected


@pytest.mark.parametrize("case", [case for case in CASES if "cells" in case], ids=named)
def test_a_row_shows_what_kubectl_shows(case: dict[str, Any]) -> None:
    stored = case["stored"]
    resource = RESOURCES[stored["apiVersion"], stored["kind"]]
    now_s = seconds(stored["metadata"]["creationTimestamp"])
    assert ageless(resource.strategy.row(stored, Context(now_s))) == ageless(case["cells"])


def ageless(cells: list[Any]) -> list[Any]:
    """A recording takes a moment, and the past moves away."""
    return [_ageless(cell) for cell in cells]


def _ageless(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    if cell in ("0s", "1s", "2s"):
        return "just now"
    return "long ago" if cell.endswith(("d", "d ago)")) and cell[0].isdigit() else cell
