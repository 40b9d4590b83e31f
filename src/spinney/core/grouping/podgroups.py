"""The PodGroup that a pod should be in, as a value, and the changes that make it so: the PodGroup, and the pod as its
member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from spinney.api.changes import Change, Create, Delete, Json, Patch
from spinney.api.kinds.podgroup import PodGroup, PodGroupSpec
from spinney.api.labels import KAI_SUBGROUP_NAME, KAI_TOP_OWNER_METADATA, POD_GROUP_NAME
from spinney.core.expansion.objects import (
    delete,
    difference,
    metadata_patch,
    patch_object,
    to_builtins,
    with_mirrored_keys,
)
from spinney.core.expansion.resource_kinds import PODGROUPS, PODS
from spinney.core.grouping.group_shape import Lookups
from spinney.core.grouping.pods import Pod
from spinney.core.grouping.user_errors import UserError


@dataclass(frozen=True, slots=True)
class DesiredPodGroup:
    """`by_pod`: fields of the spec that count only where the PodGroup has none. `part`: the sub-group of the pod.

    `initial_labels`: labels that are given once and are others' to change from then on.
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
    """Somebody else sees to the group of this pod."""

    why: str


def keep(wanted: DesiredPodGroup, live: PodGroup | None, lookups: Lookups) -> tuple[Change, ...] | UserError:
    """What makes the PodGroup right; nothing while an older one of its name is on its way out."""
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
    """The pod as a member, whatever else is written to it meanwhile."""
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
    """The group that a pod had for itself before it joined this one."""
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
    """With a note of what was taken over, so that it can go with its origin."""
    return with_mirrored_keys(wanted.annotations, wanted.labels, wanted.annotations)


def _spec(wanted: DesiredPodGroup, live: PodGroupSpec, lookups: Lookups) -> PodGroupSpec:
    """The wanted spec with what others decide. A queue that does not exist gives way to the one that is wanted."""
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
