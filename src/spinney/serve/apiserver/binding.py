"""Bind a pod to a node, by the rules of a real API server: once, while it lives, without gates.

Whether the pod fits on the node is nobody's business here; that is the scheduler's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spinney.api.field_errors import not_supported, required
from spinney.serve.apiserver.errors import conflict, invalid
from spinney.serve.apiserver.kernel import Call, Kernel
from spinney.serve.apiserver.resource import Object

_NODE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def bind(kernel: Kernel, call: Call, name: str, binding: Object) -> Object:
    """Set the node; returns the Status that answers the request."""
    meta: dict[str, Any] = binding.get("metadata") or {}
    target: dict[str, Any] = binding.get("target") or {}
    _check_target(name, target)
    namespace = call.target.namespace
    record = kernel.existing(call.resource, namespace, name)
    pod: Object = msgspec.json.decode(record.body)
    _check_pod(name, pod, meta)
    if not call.dry_run:
        _assign(kernel, pod, target["name"], meta)
        kernel.save(call.resource, pod)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _check_target(name: str, target: dict[str, Any]) -> None:
    errors = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    if errors:
        raise invalid("", "Binding", name, errors)


def _check_pod(name: str, pod: Object, meta: dict[str, Any]) -> None:
    held = pod["metadata"]
    uid, version = meta.get("uid"), meta.get("resourceVersion")
    if uid and uid != held["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {held['uid']}"
        raise _refused(name, why)
    if version and version != held["resourceVersion"]:
        why = (
            f"Precondition failed: ResourceVersion in precondition: {version}, "
            f"ResourceVersion in object meta: {held['resourceVersion']}"
        )
        raise _refused(name, why)
    if "deletionTimestamp" in held:
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise _refused(name, f"pod {name} is already assigned to node \"{pod['spec']['nodeName']}\"")
    if pod["spec"].get("schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")


def _refused(name: str, why: str) -> Exception:
    return conflict("", "pods/binding", name, why)


def _assign(kernel: Kernel, pod: Object, node: str, meta: dict[str, Any]) -> None:
    pod["spec"]["nodeName"] = node
    if meta.get("annotations"):
        pod["metadata"].setdefault("annotations", {}).update(meta["annotations"])
    found = kernel.store.get("/nodes", "", node)
    if found is not None:
        for key in _NODE_LABELS:
            if key in found.labels:
                pod["metadata"].setdefault("labels", {})[key] = found.labels[key]
    status = pod.setdefault("status", {})
    conditions = [one for one in status.get("conditions") or () if one["type"] != "PodScheduled"]
    now = kernel.timestamp()
    conditions.append({"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now})
    status["conditions"] = conditions
