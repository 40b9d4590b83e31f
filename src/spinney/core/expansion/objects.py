"""Common parts of the objects that the operator reads and writes: kinds, metadata, patches, conditions, times.

Never shares a part of an observed object with a written one: changed parts are copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kube_apimachinery.generated_names import spelled
from kube_apimachinery.times import format_time
from spinney.api.changes import (
    Change,
    ChangeSet,
    Create,
    Delete,
    Json,
    Patch,
    Resource,
    SetStatus,
    Target,
    resource_of,
)
from spinney.api.kinds.clustertopology import ClusterTopology, ClusterTopologyBinding, Topology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import APP_COMPONENT, APP_MANAGED_BY, APP_NAME, APP_PART_OF, MANAGED_BY_OPERATOR, MIRRORED
from spinney.api.meta import Condition, ObjectMeta, condition

# The kinds of objects that the operator makes and reads.

PODCLIQUESETS = resource_of(PodCliqueSet)
PODCLIQUES = resource_of(PodClique)
SCALING_GROUPS = resource_of(PodCliqueScalingGroup)
PODGANGS = resource_of(PodGang)
CLUSTERTOPOLOGIES = resource_of(ClusterTopology)
TOPOLOGY_BINDINGS = resource_of(ClusterTopologyBinding)
PODGROUPS = resource_of(PodGroup)
KAI_TOPOLOGIES = resource_of(Topology)

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service")
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS = Resource("", "v1", "events", "Event")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
COMPUTE_DOMAINS = Resource("resource.nvidia.com", "v1beta1", "computedomains", "ComputeDomain")


def managed_labels(part_of: str, name: str, component: str) -> dict[str, str]:
    """The labels of every object that the operator creates."""
    return {
        APP_MANAGED_BY: MANAGED_BY_OPERATOR,
        APP_PART_OF: part_of,
        APP_NAME: name,
        APP_COMPONENT: component,
    }


def owner_reference(resource: Resource, owner: ObjectMeta) -> Json:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def new_object(
    target: Target,
    *,
    labels: Mapping[str, str],
    owner: Json,
    annotations: Mapping[str, str] | None = None,
    finalizers: Iterable[str] = (),
    **content: Any,
) -> Create:
    """The creation of an object with an owner reference."""
    metadata: Json = {"name": target.name, "labels": dict(labels), "ownerReferences": [owner]}
    if target.namespace:
        metadata["namespace"] = target.namespace
    if annotations:
        metadata["annotations"] = dict(annotations)
    finalizers = list(finalizers)
    if finalizers:
        metadata["finalizers"] = finalizers
    body = {"apiVersion": target.resource.api_version, "kind": target.resource.kind, "metadata": metadata, **content}
    return Create(target, body)


def is_owned_by(metadata: ObjectMeta, owner: ObjectMeta) -> bool:
    found = metadata.controller
    return found is not None and found.uid == owner.uid


def adopting(changes: ChangeSet, orphan: Callable[[Target], ObjectMeta | None]) -> ChangeSet:
    """What is to be made and is there without an owner is taken over instead, as it is. `orphan`: finds it by name."""
    return replace(changes, changes=tuple([_adopted(change, orphan) for change in changes.changes]))


def _adopted(change: Change, orphan: Callable[[Target], ObjectMeta | None]) -> Change:
    found = orphan(change.target) if isinstance(change, Create) else None
    if found is None or not isinstance(change, Create):
        return change
    owners = {"ownerReferences": change.body["metadata"]["ownerReferences"]}
    return Patch(change.target, {"metadata": owners}, found.uid, found.resource_version)


def to_builtins(value: Any) -> Any:
    """A typed value as plain JSON values."""
    return msgspec.json.decode(msgspec.json.encode(value))


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """The merge patch from `before` to `after`; empty if they are equal."""
    if before == after:
        return {}
    patch: Json = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := difference(old, value):
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch


def entries_patch(live: Mapping[str, str], wanted: Mapping[str, str]) -> Json:
    """The patch that adds or corrects the wanted entries of a map and keeps all others."""
    return {key: value for key, value in wanted.items() if live.get(key) != value}


def with_mirrored_keys(annotations: Mapping[str, str], *mirrored: Mapping[str, str]) -> dict[str, str]:
    """The annotations with a record of the keys mirrored from another object, so that they can be removed with them."""
    keys = sorted({key for each in mirrored for key in each})
    return {**annotations, MIRRORED: ",".join(keys)} if keys else dict(annotations)


def metadata_patch(
    live: ObjectMeta, labels: Mapping[str, str], annotations: Mapping[str, str], ours: Iterable[str] = ()
) -> Json:
    """The patch that corrects labels and annotations. Keys of others stay; keys once mirrored may be removed."""
    if live.labels == labels and live.annotations == annotations:
        return {}
    removable = {MIRRORED, *ours, *live.annotations.get(MIRRORED, "").split(",")}
    pairs = {"labels": (live.labels, labels), "annotations": (live.annotations, annotations)}
    patch = {}
    for name, (found, wanted) in pairs.items():
        judged = {key: value for key, value in found.items() if key in wanted or key in removable}
        if changed := difference(judged, wanted):
            patch[name] = changed
    return patch


def patch_object(resource: Resource, metadata: ObjectMeta, patch: Json) -> tuple[Patch, ...]:
    """The patch unless it is empty: a reconciled object causes no writes."""
    cleaned = {key: value for key, value in patch.items() if value != {}}
    if not cleaned:
        return ()
    return (Patch(resource.of(metadata), cleaned, metadata.uid, metadata.resource_version),)


def status_update(resource: Resource, metadata: ObjectMeta, before: Any, status: Json) -> tuple[SetStatus, ...]:
    """A status write, if it would change anything. Fields that `status` does not name are kept.

    Both sides are compared as typed values: a zero and a missing field are equal.
    """
    kind = type(before)
    wanted: Json = to_builtins(msgspec.json.decode(msgspec.json.encode(status), type=kind))
    known = {key: value for key, value in to_builtins(before).items() if key in status}
    patch = difference(known, wanted)
    if not patch:
        return ()
    patch = (
        status if before == kind() else {key: status[key] if value is None else value for key, value in patch.items()}
    )
    return (SetStatus(resource.of(metadata), patch, metadata.uid, metadata.resource_version),)


def delete(resource: Resource, metadata: ObjectMeta) -> tuple[Delete, ...]:
    """A deletion, unless the object is terminating already."""
    if metadata.deletion_timestamp is not None:
        return ()
    return (Delete(resource.of(metadata), metadata.uid),)


def without_finalizer(resource: Resource, metadata: ObjectMeta, finalizer: str) -> tuple[Patch, ...]:
    if finalizer not in metadata.finalizers:
        return ()
    left = [each for each in metadata.finalizers if each != finalizer]
    return patch_object(resource, metadata, {"metadata": {"finalizers": left or None}})


def with_finalizer(resource: Resource, metadata: ObjectMeta, finalizer: str) -> tuple[Patch, ...]:
    if finalizer in metadata.finalizers or metadata.deletion_timestamp is not None:
        return ()
    return patch_object(resource, metadata, {"metadata": {"finalizers": [*metadata.finalizers, finalizer]}})


def short_hash(value: Any) -> str:
    """A short hash of a value that is stable across processes and versions."""
    encoded = msgspec.json.encode(value, order="deterministic")
    number = int.from_bytes(hashlib.sha256(encoded).digest()[:8], "big")
    return spelled(number, 10)


TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """The desired state of a condition."""

    type: str
    status: str
    reason: str
    message: str


def conditions(
    before: tuple[Condition, ...],
    findings: Iterable[ConditionChange],
    now_s: float,
    generation: int,
    gone: Sequence[str] = (),
) -> list[Json]:
    """The whole list: findings replace conditions of their type, `gone` types are removed, others are kept."""
    by_type = {finding.type: finding for finding in findings}
    result: list[Json] = []
    for old in before:
        finding = by_type.pop(old.type, None)
        if finding is not None:
            result.append(_condition_body(finding, old, now_s, generation))
        elif old.type not in gone:
            result.append(to_builtins(old))
    result += [_condition_body(finding, None, now_s, generation) for finding in by_type.values()]
    return result


def holds(before: tuple[Condition, ...], kind: str) -> bool:
    found = condition(before, kind)
    return found is not None and found.status == TRUE


def _condition_body(finding: ConditionChange, old: Condition | None, now_s: float, generation: int) -> Json:
    same = old is not None and old.status == finding.status
    fields: Json = {
        "type": finding.type,
        "status": finding.status,
        "lastTransitionTime": old.last_transition_time if same and old is not None else format_time(now_s),
        "reason": finding.reason,
        "message": finding.message,
    }
    if generation:
        fields["observedGeneration"] = generation
    return fields
