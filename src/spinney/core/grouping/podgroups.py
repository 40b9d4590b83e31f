"""The desired PodGroup of a pod as a value, and the changes that establish it: the PodGroup and the pod's membership
marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from spinney.api.changes import Change, Create, Delete, Json, Patch
from spinney.api.kinds.podgroup import PodGroup, PodGroupSpec
from spinney.api.labels import KAI_SUBGROUP_NAME, KAI_TOP_OWNER_METADATA, POD_GROUP_NAME
from spinney.core.expansion.objects import (
    PODGROUPS,
    PODS,
    delete,
    difference,
    metadata_patch,
    patch_object,
    to_builtins,
    with_mirrored_keys,
)
from spinney.core.grouping.group_shape import Lookups
from spinney.core.grouping.owner_chain import Pod, UserError


@dataclass(frozen=True, slots=True)
class DesiredPodGroup:
    """`by_pod`: spec fields that apply only if the PodGroup has none. `part`: the sub-group of the pod.

    `initial_labels`: labels that are set at creation only and may be changed by others afterwards.
    """

    namespace: str
    name: str
    owner: Json
    spec: PodGroupSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    initial_labels: Mapping[str, str]
    part: str = ""
    by_pod: frozenset[str] = frozenset()
    single: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skip:
    """The pod is not grouped by us: it opts out, or another component writes its PodGroup."""

    why: str


def keep(wanted: DesiredPodGroup, live: PodGroup | None, lookups: Lookups) -> tuple[Change, ...] | UserError:
    """The changes that create or correct the PodGroup; none while an older one of its name is terminating."""
    if live is None:
        return (_create(wanted),)
    if KAI_TOP_OWNER_METADATA not in live.metadata.annotations:
        return UserError(f"PodGroup {wanted.namespace}/{wanted.name} is not of the pod-grouper and is left alone")
    if live.metadata.deletion_timestamp is not None:
        return ()
    labels = {
        **wanted.labels,
        **{key: live.metadata.labels.get(key, value) for key, value in wanted.initial_labels.items()},
    }
    patch: Json = {
        "metadata": metadata_patch(live.metadata, labels, _annotations(wanted)),
        "spec": difference(to_builtins(live.spec), to_builtins(_spec(wanted, live.spec, lookups))),
    }
    return patch_object(PODGROUPS, live.metadata, patch)


def mark(wanted: DesiredPodGroup, pod: Pod) -> tuple[Patch, ...]:
    """The patch that marks the pod as a member; without a version, so that concurrent writes do not conflict."""
    labels: Json = {}
    if wanted.part and pod.metadata.labels.get(KAI_SUBGROUP_NAME) != wanted.part:
        labels = {KAI_SUBGROUP_NAME: wanted.part}
    annotations: Json = {}
    if pod.metadata.annotations.get(POD_GROUP_NAME) != wanted.name:
        annotations = {POD_GROUP_NAME: wanted.name}
    found: Mapping[str, Json] = {"labels": labels, "annotations": annotations}
    patch = {key: value for key, value in found.items() if value}
    return (Patch(PODS.of(pod.metadata), {"metadata": patch}, pod.metadata.uid, ""),) if patch else ()


def abandoned(wanted: DesiredPodGroup, pod: Pod, lookups: Lookups) -> tuple[Delete, ...]:
    """Delete the single-pod group that the pod owned before it joined this one."""
    named = pod.metadata.annotations.get(POD_GROUP_NAME, "")
    found = lookups.podgroup(wanted.namespace, named) if named not in ("", wanted.name) else None
    if found is None or all(owner.uid != pod.metadata.uid for owner in found.metadata.owner_references):
        return ()
    return delete(PODGROUPS, found.metadata)


def _create(wanted: DesiredPodGroup) -> Create:
    target = PODGROUPS.at(wanted.name, wanted.namespace)
    metadata = {
        "name": wanted.name,
        "namespace": wanted.namespace,
        "labels": {**wanted.labels, **wanted.initial_labels},
        "annotations": _annotations(wanted),
        "ownerReferences": [wanted.owner],
    }
    resource = target.resource
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return Create(target, {**body, "spec": to_builtins(wanted.spec)})


def _annotations(wanted: DesiredPodGroup) -> dict[str, str]:
    """The annotations with a record of inherited keys, so that they can be removed together with their origin."""
    return with_mirrored_keys(wanted.annotations, wanted.labels, wanted.annotations)


def _spec(wanted: DesiredPodGroup, live: PodGroupSpec, lookups: Lookups) -> PodGroupSpec:
    """The wanted spec with live fields that others own. A queue that does not exist is replaced by the wanted one."""
    spec = wanted.spec
    own = {
        "queue": live.queue if live.queue and lookups.has_queue(live.queue) else spec.queue,
        "mark_unschedulable": live.mark_unschedulable,
        "scheduling_backoff": live.scheduling_backoff,
        "parallelism": live.parallelism,
        "completions": live.completions,
        "backoff_limit": live.backoff_limit,
    }
    own |= {field: found for field in wanted.by_pod if (found := getattr(live, field))}
    return msgspec.structs.replace(spec, **own)
