"""Multi-node NVLink: a ComputeDomain for each group of GPU cliques in a set replica, and the claim of its pods (2.11).

A domain that its set needs is never released; an unneeded one loses its finalizer before it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spinney.api import generated_names
from spinney.api.changes import Change, Json
from spinney.api.kinds.podcliqueset import PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueTemplate
from spinney.api.labels import (
    COMPONENT_COMPUTE_DOMAIN,
    FINALIZER_COMPUTE_DOMAIN,
    GPU_RESOURCE,
    MNNVL_CLAIM,
    MNNVL_GROUP,
    PODCLIQUESET_REPLICA_INDEX,
)
from spinney.api.meta import ObjectMeta, PartialObject
from spinney.core.expansion.objects import (
    COMPUTE_DOMAINS,
    PODCLIQUESETS,
    delete,
    entries_patch,
    is_owned_by,
    managed_labels,
    new_object,
    owner_reference,
    patch_object,
    without_finalizer,
)
from spinney.core.expansion.podcliqueset.set_layout import Member

_NONE = "none"
_LABEL_LIMIT = 63


def expand(podcliqueset: PodCliqueSet, live: Sequence[PartialObject], enabled: bool) -> list[Change]:
    """Create missing domains while enabled; delete those that belong to no replica or group any more."""
    if not enabled and not live:
        return []
    wanted = {
        generated_names.compute_domain(podcliqueset.metadata.name, replica, group): (replica, group)
        for replica in range(podcliqueset.spec.replicas)
        for group in groups_of(podcliqueset)
    }
    changes: list[Change] = []
    for each in live:
        place = wanted.pop(each.metadata.name, None)
        if not is_owned_by(each.metadata, podcliqueset.metadata):
            changes += drop_finalizer(each)
        elif place is None:
            changes += release(each)
        elif each.metadata.deletion_timestamp is None:
            changes += _put_right(podcliqueset, each, *place)
    if enabled:
        changes += [_domain(podcliqueset, name, *place) for name, place in wanted.items()]
    return changes


def finalize(owner: ObjectMeta, live: Sequence[PartialObject]) -> list[Change]:
    """Finish the deletion of a set: its domains are deleted with it, unless they are orphaned."""
    left_behind = "orphan" in owner.finalizers
    changes: list[Change] = []
    for each in live:
        changes += drop_finalizer(each) if left_behind or not is_owned_by(each.metadata, owner) else release(each)
    return changes


def release(domain: PartialObject) -> tuple[Change, ...]:
    """Delete an unneeded domain and remove our finalizer."""
    return (
        *without_finalizer(COMPUTE_DOMAINS, domain.metadata, FINALIZER_COMPUTE_DOMAIN),
        *delete(COMPUTE_DOMAINS, domain.metadata),
    )


def drop_finalizer(domain: PartialObject) -> tuple[Change, ...]:
    """A domain that we do not own: not deleted by us, but our finalizer must not block its deletion."""
    if domain.metadata.deletion_timestamp is None:
        return ()
    return without_finalizer(COMPUTE_DOMAINS, domain.metadata, FINALIZER_COMPUTE_DOMAIN)


def groups_of(podcliqueset: PodCliqueSet) -> list[str]:
    """The groups that have any GPU clique in them, in order."""
    template = podcliqueset.spec.template
    by_clique = {name: group for group in template.pod_clique_scaling_groups for name in group.clique_names}
    found = {
        _group(podcliqueset, clique, by_clique.get(clique.name)) for clique in template.cliques if asks_for_gpu(clique)
    }
    return sorted(found - {""})


def with_claim(podcliqueset: PodCliqueSet, member: Member, spec: Mapping[str, Any]) -> Json:
    """The spec of the pods of a member with the claim of its group, which the containers with GPUs get.

    It is as it was where there is no group, no GPU, or the claim already.
    """
    config = member.group.config if member.group is not None else None
    group = _group(podcliqueset, member.template, config) if asks_for_gpu(member.template) else ""
    if not group or MNNVL_CLAIM in _claimed(spec):
        return {**spec}
    name = generated_names.compute_domain(podcliqueset.metadata.name, member.replica, group)
    claim = {"name": MNNVL_CLAIM, "resourceClaimTemplateName": name}
    claiming = {
        kind: [_claiming(each) if wants_gpu(_mapping(each)) else each for each in found]
        for kind in ("initContainers", "containers")
        if isinstance(found := spec.get(kind), list | tuple)
    }
    return {**spec, **claiming, "resourceClaims": [*(spec.get("resourceClaims") or ()), claim]}


def _claiming(container: Mapping[str, Any]) -> Json:
    resources = container["resources"]
    claims = [*(resources.get("claims") or ()), {"name": MNNVL_CLAIM}]
    return {**container, "resources": {**resources, "claims": claims}}


def wants_gpu(container: Mapping[str, Any]) -> bool:
    """Whether a container asks for GPUs, by request or by limit; whatever stands there."""
    resources = _mapping(container.get("resources"))
    amounts = [_mapping(resources.get(kind)).get(GPU_RESOURCE) for kind in ("requests", "limits")]
    return any(str(amount) not in ("None", "", "0") for amount in amounts)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _group(podcliqueset: PodCliqueSet, clique: PodCliqueTemplate, group: PodCliqueScalingGroupConfig | None) -> str:
    """What the nearest layer says; empty for no group."""
    layers = (clique.annotations, group.annotations if group is not None else {}, podcliqueset.metadata.annotations)
    found = next((layer[MNNVL_GROUP] for layer in layers if MNNVL_GROUP in layer), "")
    return "" if found == _NONE else found


def asks_for_gpu(clique: PodCliqueTemplate) -> bool:
    """Whether any container of its pods does."""
    return any(map(wants_gpu, _containers(clique.spec.pod_spec)))


def _containers(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for kind in ("initContainers", "containers"):
        found = spec.get(kind)
        yield from map(_mapping, found if isinstance(found, list | tuple) else ())


def _claimed(spec: Mapping[str, Any]) -> set[str]:
    return {each.get("name", "") for each in spec.get("resourceClaims") or ()}


def _labels(podcliqueset: PodCliqueSet, name: str, replica: int, group: str) -> dict[str, str]:
    labels = managed_labels(podcliqueset.metadata.name, name[:_LABEL_LIMIT].rstrip("-."), COMPONENT_COMPUTE_DOMAIN)
    return labels | {PODCLIQUESET_REPLICA_INDEX: str(replica), MNNVL_GROUP: group}


def _domain(podcliqueset: PodCliqueSet, name: str, replica: int, group: str) -> Change:
    metadata = podcliqueset.metadata
    return new_object(
        COMPUTE_DOMAINS.at(name, metadata.namespace),
        labels=_labels(podcliqueset, name, replica, group),
        owner=owner_reference(PODCLIQUESETS, metadata),
        finalizers=[FINALIZER_COMPUTE_DOMAIN],
        spec={"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}},
    )


def _put_right(podcliqueset: PodCliqueSet, live: PartialObject, replica: int, group: str) -> tuple[Change, ...]:
    """Labels and finalizer; the spec of a domain never changes."""
    metadata = live.metadata
    labels = entries_patch(metadata.labels, _labels(podcliqueset, metadata.name, replica, group))
    changed: Json = {"labels": labels} if labels else {}
    if FINALIZER_COMPUTE_DOMAIN not in metadata.finalizers:
        changed["finalizers"] = [*metadata.finalizers, FINALIZER_COMPUTE_DOMAIN]
    return patch_object(COMPUTE_DOMAINS, metadata, {"metadata": changed})
