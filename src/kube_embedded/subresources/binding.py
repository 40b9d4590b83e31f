"""Bind a pod to a node, by the rules of a real API server: once, while it lives, without gates.

Whether the pod fits on the node is nobody's business here; that is the scheduler's. Binding is the hottest write of
all, so the stored bytes are cut and joined where nothing else has to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import msgspec

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import aggregate, not_supported, required
from kube_embedded.base.errors import ApiError, conflict
from kube_embedded.base.http import decode_json, encode_json
from kube_embedded.base.store import Record
from kube_embedded.requests.kernel import Call, Kernel

PODS = "/pods"
_START = b'{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"%d",'
_STATUS = b'},"status":'
_MAX_KEPT_BYTES = 1024
_NODE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
BOUND: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class _Pod(msgspec.Struct):
    metadata: msgspec.Raw
    spec: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Gates(msgspec.Struct):
    schedulingGates: list[msgspec.Raw] | None = None


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}

    def keys(self) -> int:
        given = 1 + bool(self.namespace) + bool(self.uid) + bool(self.resourceVersion)
        return given + sum([1 + len(some) for some in (self.annotations, self.labels) if some])


class _Target(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["Node"]
    name: str
    apiVersion: str = ""


class _Binding(msgspec.Struct, forbid_unknown_fields=True):
    """A binding as schedulers send it."""

    apiVersion: Literal["v1"]
    kind: Literal["Binding"]
    metadata: _Given
    target: _Target

    def keys(self) -> int:
        """How many keys are set to something: as many as there are, unless one is there twice or empty."""
        return 6 + bool(self.target.apiVersion) + self.metadata.keys()


_binding = msgspec.json.Decoder(_Binding)
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
        annotations, labels = given.get("annotations") or {}, given.get("labels") or {}
        kernel.store.write(call.resource.collection, _bound(kernel, record, node, annotations, labels))


def bind_fast(kernel: Kernel, namespace: str, name: str, body: bytes, passes: Callable[[Object], bool]) -> bool:
    """The bind that every scheduler sends, without the way that every request takes; whether it was done.

    `passes`: whether nobody wants to judge the labels and annotations that it brings.
    Anything unusual in it, or about the pod, is left to the usual way, which also knows the words of a refusal.
    """
    record = kernel.store.get(PODS, namespace, name)
    if record is None or record.deleting or record.fields["spec.nodeName"] or b'"schedulingGates"' in record.body:
        return False
    try:
        binding = _binding.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    given, node = binding.metadata, binding.target.name
    # As many keys as were read: another one was unknown, empty or there twice, and the usual way says what of it.
    if not node or binding.keys() != body.count(b'":') or given.name != name:
        return False
    if (given.namespace or namespace) != namespace or (given.uid or record.uid) != record.uid:
        return False
    if given.resourceVersion and given.resourceVersion != str(record.revision):
        return False
    marks: Object = {"annotations": given.annotations, "labels": given.labels}
    if (given.annotations or given.labels) and not passes(marks):
        return False
    kernel.store.write(PODS, _bound(kernel, record, node, given.annotations, given.labels))
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


def _bound(
    kernel: Kernel, record: Record, node: str, annotations: dict[str, str], given_labels: dict[str, str]
) -> Record:
    """The next version of a pod's record, with its node; what the node says outranks labels of the binding."""
    labels = given_labels | _labels_of(kernel, node)
    revision, now = kernel.store.next_revision(), kernel.timestamp()
    known, status = _cut(record)
    scheduled = _scheduled(status, now)
    if labels or annotations or not scheduled:
        known, status = _rebuilt(record, labels, annotations)
        scheduled = _scheduled(status, now)
    body = b'%s%s,"nodeName":%s%s%s}' % (_START % revision, known, encode_json(node), _STATUS, scheduled)
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


def _cut(record: Record) -> tuple[bytes, bytes]:
    """A pod from behind its version to before the end of its spec, and its status.

    Both empty where the bytes are not in the usual order; a status that is none is for `_scheduled` to find out.
    """
    body, start = record.body, _START % record.revision
    end = body.rfind(_STATUS + b"{")
    if end < 0 or not body.startswith(start):
        return b"", b""
    return body[len(start) : end], body[end + len(_STATUS) : -1]


def _rebuilt(record: Record, labels: dict[str, str], annotations: dict[str, str]) -> tuple[bytes, bytes]:
    """As `_cut`, of any pod, with more labels and annotations."""
    pod = _pod.decode(record.body)
    metadata: Object = decode_json(pod.metadata)
    del metadata["resourceVersion"]
    if labels:
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return b'%s,"spec":%s' % (encode_json(metadata)[1:], bytes(pod.spec)[:-1]), bytes(pod.status)


def _scheduled(status: bytes, now: str) -> bytes:
    """The status of a pod that has a node from now on. Empty where it is no status."""
    return _kept_scheduled(status, now) if len(status) <= _MAX_KEPT_BYTES else _with_condition(status, now)


def _with_condition(status: bytes, now: str) -> bytes:
    try:
        parsed: Object = decode_json(status)
    except msgspec.DecodeError:
        return b""
    conditions = [one for one in parsed.get("conditions") or () if one["type"] != "PodScheduled"]
    conditions.append({"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now})
    return encode_json({**parsed, "conditions": conditions})


_kept_scheduled = lru_cache(maxsize=256)(_with_condition)
"""Pods that wait have few different statuses."""
