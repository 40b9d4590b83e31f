"""PodCliques as their owners make them: by a set for standalone ones, by a scaling group for its members."""

from __future__ import annotations

from spinney.api.changes import Change, Create, Json
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import (
    BASE_PODGANG,
    COMPONENT_PODCLIQUE,
    COMPONENT_SCALING_GROUP_PODCLIQUE,
    FINALIZER_PODCLIQUE,
    POD_TEMPLATE_HASH,
    PODCLIQUESET_REPLICA_INDEX,
    PODGANG,
    SCALING_GROUP,
    SCALING_GROUP_REPLICA_INDEX,
    TOPOLOGY_NAME,
)
from spinney.api.reserved_keys import without_reserved
from spinney.core.expansion.components import compute_domains
from spinney.core.expansion.objects import (
    PODCLIQUES,
    difference,
    managed_labels,
    metadata_patch,
    new_object,
    patch_object,
    to_builtins,
    with_mirrored_keys,
)
from spinney.core.expansion.podclique import desired_pod
from spinney.core.expansion.podcliqueset.set_layout import Member, Revisions, pod_count


def clique(
    podcliqueset: PodCliqueSet,
    member: Member,
    revisions: Revisions,
    owner: Json,
    mnnvl: bool,
    replicas: int | None = None,
) -> Create:
    """The creation of a PodClique. `replicas`: what it had been scaled to; None: as its template says."""
    metadata = podcliqueset.metadata
    count = pod_count(member.template) if replicas is None else replicas
    return new_object(
        PODCLIQUES.at(member.name, metadata.namespace),
        labels=_labels(podcliqueset, member, revisions),
        annotations=_annotations(member),
        owner=owner,
        finalizers=[FINALIZER_PODCLIQUE],
        spec=_spec(podcliqueset, member, mnnvl) | {"replicas": count},
    )


def refresh(
    podcliqueset: PodCliqueSet, member: Member, revisions: Revisions, live: PodClique, may_update: bool, mnnvl: bool
) -> tuple[Change, ...]:
    """The patch that follows the template. Replicas are kept; a new revision is applied only if `may_update`."""
    if live.metadata.deletion_timestamp is not None or not (may_update or is_current(live, member, revisions)):
        return ()
    spec = _spec(podcliqueset, member, mnnvl) | {"replicas": live.spec.replicas}
    metadata = metadata_patch(live.metadata, _labels(podcliqueset, member, revisions), _annotations(member))
    patch = {"metadata": metadata, "spec": difference(_as_written(live), spec)}
    return patch_object(PODCLIQUES, live.metadata, patch)


def is_current(live: PodClique, member: Member, revisions: Revisions) -> bool:
    """Whether it is of the revision that the set has now."""
    return live.metadata.labels.get(POD_TEMPLATE_HASH) == revisions.cliques[member.template.name]


def is_updated(live: PodClique, member: Member, revisions: Revisions) -> bool:
    """Whether the PodClique and its pods are of the current revision."""
    return (
        is_current(live, member, revisions)
        and live.status.current_pod_template_hash == revisions.cliques[member.template.name]
    )


def has_only_updated_pods(live: PodClique) -> bool:
    """Whether users have deleted all pods of earlier revisions, where that is left to them."""
    return live.status.updated_replicas >= live.status.replicas


def _labels(podcliqueset: PodCliqueSet, member: Member, revisions: Revisions) -> dict[str, str]:
    component = COMPONENT_PODCLIQUE if member.group is None else COMPONENT_SCALING_GROUP_PODCLIQUE
    labels = {
        **without_reserved(member.template.labels),
        **managed_labels(podcliqueset.metadata.name, member.name, component),
        PODGANG: member.gang,
        PODCLIQUESET_REPLICA_INDEX: str(member.replica),
        POD_TEMPLATE_HASH: revisions.cliques[member.template.name],
    }
    if member.base_gang:
        labels[BASE_PODGANG] = member.base_gang
    if member.group is not None:
        labels[SCALING_GROUP] = member.group.name
        labels[SCALING_GROUP_REPLICA_INDEX] = str(member.group_replica)
    return labels


def _annotations(member: Member) -> dict[str, str]:
    own = {key: value for key, value in without_reserved(member.template.annotations).items() if key != TOPOLOGY_NAME}
    return with_mirrored_keys(own, own, without_reserved(member.template.labels))


def _spec(podcliqueset: PodCliqueSet, member: Member, mnnvl: bool) -> Json:
    parents = desired_pod.parents_of(podcliqueset, member)
    spec: Json = to_builtins(member.template.spec)
    spec.pop("startsAfter", None)
    spec["minAvailable"] = member.min_available
    if mnnvl:
        spec["podSpec"] = compute_domains.with_claim(podcliqueset, member, spec["podSpec"])
    if parents:
        spec["startsAfter"] = [parent.clique for parent in parents]
    return spec


def _as_written(live: PodClique) -> Json:
    """The spec with what stands for a default written out."""
    written: Json = to_builtins(live.spec)
    return written | {"replicas": live.spec.replicas}
