"""A wanted group as changes: the PodGroup made or put right, the pod marked as its member.

Never overwrites what belongs to others: queue, marking, backoff and node pool of a PodGroup that is there.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from spinney.api.changes import Amend, Change, Create, Delete, Json
from spinney.api.kinds.podgroup import PodGroup, PodGroupSpec
from spinney.api.labels import KAI_SUBGROUP_NAME, KAI_TOP_OWNER_METADATA, POD_GROUP_NAME
from spinney.core.expansion.objects import amend, builtins, delete, difference, metadata_patch, remembering
from spinney.core.expansion.resources import PODGROUPS, PODS
from spinney.core.grouping.mistakes import Mistake
from spinney.core.grouping.pods import Pod
from spinney.core.grouping.shape import Lookups
from spinney.core.grouping.wanted import Wanted


def keep(wanted: Wanted, live: PodGroup | None, lookups: Lookups) -> tuple[Change, ...] | Mistake:
    """What makes the PodGroup right; nothing while an older one of its name is on its way out."""
    if live is None:
        return (_create(wanted),)
    if KAI_TOP_OWNER_METADATA not in live.metadata.annotations:
        return Mistake(f"PodGroup {wanted.namespace}/{wanted.name} is not of the pod-grouper and is left alone")
    if live.metadata.deletion_timestamp is not None:
        return ()
    labels = {**wanted.labels, **{key: live.metadata.labels.get(key, value) for key, value in wanted.at_birth.items()}}
    patch: Json = {
        "metadata": metadata_patch(live.metadata, labels, _annotations(wanted)),
        "spec": difference(builtins(live.spec), builtins(_spec(wanted, live.spec, lookups))),
    }
    return amend(PODGROUPS, live.metadata, patch)


def mark(wanted: Wanted, pod: Pod) -> tuple[Amend, ...]:
    """The pod as a member, whatever else is written to it meanwhile."""
    labels: Json = {}
    if wanted.part and pod.metadata.labels.get(KAI_SUBGROUP_NAME) != wanted.part:
        labels = {KAI_SUBGROUP_NAME: wanted.part}
    annotations: Json = {}
    if pod.metadata.annotations.get(POD_GROUP_NAME) != wanted.name:
        annotations = {POD_GROUP_NAME: wanted.name}
    found: Mapping[str, Json] = {"labels": labels, "annotations": annotations}
    patch = {key: value for key, value in found.items() if value}
    return (Amend(PODS.of(pod.metadata), {"metadata": patch}, pod.metadata.uid, ""),) if patch else ()


def abandoned(wanted: Wanted, pod: Pod, lookups: Lookups) -> tuple[Delete, ...]:
    """The group that a pod had for itself before it joined this one."""
    named = pod.metadata.annotations.get(POD_GROUP_NAME, "")
    found = lookups.podgroup(wanted.namespace, named) if named not in ("", wanted.name) else None
    if found is None or all(owner.uid != pod.metadata.uid for owner in found.metadata.owner_references):
        return ()
    return delete(PODGROUPS, found.metadata)


def _create(wanted: Wanted) -> Create:
    target = PODGROUPS.at(wanted.name, wanted.namespace)
    metadata = {
        "name": wanted.name,
        "namespace": wanted.namespace,
        "labels": {**wanted.labels, **wanted.at_birth},
        "annotations": _annotations(wanted),
        "ownerReferences": [wanted.owner],
    }
    resource = target.resource
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return Create(target, {**body, "spec": builtins(wanted.spec)})


def _annotations(wanted: Wanted) -> dict[str, str]:
    """With a note of what was taken over, so that it can go with its origin."""
    return remembering(wanted.annotations, wanted.labels, wanted.annotations)


def _spec(wanted: Wanted, live: PodGroupSpec, lookups: Lookups) -> PodGroupSpec:
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
