"""Bind a pod to a node, by the rules of a real API server: once, while it lives, without gates.

Whether the pod fits on the node is nobody's business here; that is the scheduler's. Binding is the hottest write of
all, so the stored bytes are cut and joined where nothing else has to be looked at.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spinney.api.field_errors import aggregate, not_supported, required
from spinney.serve.apiserver.errors import ApiError, conflict
from spinney.serve.apiserver.http import decode_json, encode_json
from spinney.serve.apiserver.kernel import Call, Kernel
from spinney.serve.apiserver.resource import Object
from spinney.serve.apiserver.store import Record

PODS = "/pods"
_USUAL = frozenset({"apiVersion", "kind", "metadata", "target"})
_GIVEN = frozenset({"name", "namespace", "uid", "resourceVersion", "annotations"})
_TARGET = frozenset({"apiVersion", "kind", "name"})
_NODE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
BOUND: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class _Pod(msgspec.Struct):
    metadata: msgspec.Raw
    spec: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Gates(msgspec.Struct):
    schedulingGates: list[msgspec.Raw] | None = None


_pod = msgspec.json.Decoder(_Pod)
_gates = msgspec.json.Decoder(_Gates)


def bind(kernel: Kernel, call: Call, name: str, binding: Object) -> None:
    """Set the node of a pod, or say why not."""
    given: dict[str, Any] = binding.get("metadata") or {}
    target: dict[str, Any] = binding.get("target") or {}
    node = target.get("name") or ""
    if not node or target.get("kind") not in (None, "", "Node"):
        raise _bad_target(target)
    record = kernel.existing(call.resource, call.target.namespace, name)
    pod = _pod.decode(record.body)
    _check(record, pod, given)
    if not call.dry_run:
        annotations = given.get("annotations") or {}
        kernel.store.write(call.resource.collection, _bound(kernel, record, pod, node, annotations))


def bind_at_once(kernel: Kernel, namespace: str, name: str, body: bytes) -> bool:
    """The bind that every scheduler sends, without the way that every request takes; whether it was done.

    Anything unusual in it, or about the pod, is left to the usual way, which also knows the words of a refusal.
    """
    record = kernel.store.get(PODS, namespace, name)
    if record is None or record.deleting or record.fields["spec.nodeName"] or b'"schedulingGates"' in record.body:
        return False
    try:
        binding = decode_json(body)
        given, target = binding["metadata"], binding["target"]
        annotations = given.get("annotations") or {}
        keys = len(binding) + len(given) + len(target) + len(annotations)
        if keys != body.count(b'":') or not (binding.keys() <= _USUAL and given.keys() <= _GIVEN):
            return False
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return False
    if (binding.get("kind"), binding.get("apiVersion"), target.get("kind")) != ("Binding", "v1", "Node"):
        return False
    if given.get("name") != name or given.get("namespace", namespace) != namespace or not target.keys() <= _TARGET:
        return False
    if given.get("uid", record.uid) != record.uid or given.get("resourceVersion") not in (None, str(record.revision)):
        return False
    node = target.get("name")
    if type(node) is not str or not node or not all(type(one) is str for one in annotations.values()):
        return False
    kernel.store.write(PODS, _bound(kernel, record, _pod.decode(record.body), node, annotations))
    return True


def _bad_target(target: dict[str, Any]) -> ApiError:
    errors = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    return ApiError(500, "", aggregate(errors), None)


def _check(record: Record, pod: _Pod, given: dict[str, Any]) -> None:
    name, node = record.name, record.fields["spec.nodeName"]
    uid, version = given.get("uid"), given.get("resourceVersion")
    if uid and uid != record.uid:
        raise _failed_precondition(record, "UID", uid, record.uid)
    if version and version != str(record.revision):
        raise _failed_precondition(record, "ResourceVersion", version, str(record.revision))
    if record.deleting:
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if node:
        raise _refused(name, f'pod {name} is already assigned to node "{node}"')
    if b'"schedulingGates"' in record.body and _gates.decode(pod.spec).schedulingGates:
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")


def _failed_precondition(pod: Record, what: str, wanted: str, found: str) -> ApiError:
    """In the words of the storage of a real server."""
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/pods/{pod.namespace}/{pod.name}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
    )
    return conflict("", "pods", pod.name, why)


def _refused(name: str, why: str) -> ApiError:
    return conflict("", "pods/binding", name, why)


def _bound(kernel: Kernel, record: Record, pod: _Pod, node: str, annotations: dict[str, str]) -> Record:
    """The next version of a pod's record, with its node."""
    labels = _labels_of(kernel, node)
    revision = kernel.store.next_revision()
    old_version, version = b'{"resourceVersion":"%d",' % record.revision, b'{"resourceVersion":"%d",' % revision
    metadata = bytes(pod.metadata)
    if labels or annotations or not metadata.startswith(old_version):
        metadata = _changed_metadata(metadata, revision, labels, annotations)
    else:
        metadata = version + metadata[len(old_version) :]
    spec = b'%s,"nodeName":%s}' % (bytes(pod.spec)[:-1], encode_json(node))
    status = encode_json(_scheduled(decode_json(pod.status), kernel.timestamp()))
    body = b'{"apiVersion":"v1","kind":"Pod","metadata":%s,"spec":%s,"status":%s}' % (metadata, spec, status)
    return Record(
        body=body,
        revision=revision,
        uid=record.uid,
        namespace=record.namespace,
        name=record.name,
        labels=record.labels | labels if labels else record.labels,
        fields=record.fields | {"spec.nodeName": node},
        owners=record.owners,
        deleting=record.deleting,
    )


def _labels_of(kernel: Kernel, node: str) -> dict[str, str]:
    """A pod learns the zone and region of its node, where the node says them."""
    found = kernel.store.get("/nodes", "", node)
    if found is None:
        return {}
    return {key: found.labels[key] for key in _NODE_LABELS if key in found.labels}


def _changed_metadata(raw: bytes, revision: int, labels: dict[str, str], annotations: dict[str, str]) -> bytes:
    metadata: Object = decode_json(raw)
    metadata["resourceVersion"] = str(revision)
    if labels:
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return encode_json(metadata)


def _scheduled(status: Object, now: str) -> Object:
    conditions = [one for one in status.get("conditions") or () if one["type"] != "PodScheduled"]
    conditions.append({"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now})
    status["conditions"] = conditions
    return status
