"""PodGangs of a set: members, references, minima and constraints (G2-G4, G7, G12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spinney.api import naming
from spinney.api.changes import Change
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import (
    GangPodGroup,
    NamespacedName,
    PodGang,
    PodGangSpec,
    TopologyConstraintGroupConfig,
)
from spinney.api.labels import (
    COMPONENT_PODGANG,
    GROVE_PREFIX,
    PODCLIQUESET_REPLICA_INDEX,
    PODGANG,
    SCHEDULER_NAME,
    SPINNEY_PREFIX,
    TIED_TO,
    TOPOLOGY_NAME,
)
from spinney.core.expansion.backends import Backend
from spinney.core.expansion.objects import (
    amend,
    builtins,
    difference,
    managed_labels,
    metadata_patch,
    new_object,
    owner_reference,
    remembering,
)
from spinney.core.expansion.pod_state import Pod, is_gone
from spinney.core.expansion.resources import PODCLIQUESETS, PODGANGS
from spinney.core.expansion.shape import Gang
from spinney.core.expansion.translation import Translation

_NOT_MIRRORED = ("kubectl.kubernetes.io/last-applied-configuration",)


def create(
    podcliqueset: PodCliqueSet, gang: Gang, spec: PodGangSpec, translation: Translation, backend: Backend
) -> Change:
    """A gang that is not there yet."""
    metadata = podcliqueset.metadata
    return new_object(
        PODGANGS.at(gang.name, metadata.namespace),
        labels=_labels(podcliqueset, gang, backend),
        annotations=_annotations(podcliqueset, gang, spec, translation, backend),
        owner=owner_reference(PODCLIQUESETS, metadata),
        spec=builtins(spec),
    )


def refresh(
    podcliqueset: PodCliqueSet, gang: Gang, spec: PodGangSpec, translation: Translation, backend: Backend, live: PodGang
) -> tuple[Change, ...]:
    """What has changed. Keys that others put on the gang stay; those mirrored from the set follow it."""
    annotations = _annotations(podcliqueset, gang, spec, translation, backend)
    labels = _labels(podcliqueset, gang, backend)
    changed = metadata_patch(live.metadata, labels, annotations, (TOPOLOGY_NAME, TIED_TO))
    different = difference(builtins(live.spec), builtins(spec))
    return amend(PODGANGS, live.metadata, {"metadata": changed, "spec": different})


def spec_of(
    podcliqueset: PodCliqueSet,
    gang: Gang,
    translation: Translation,
    cliques: Mapping[str, PodClique],
    pods: Mapping[str, Sequence[Pod]],
) -> PodGangSpec:
    """`cliques` by name; `pods` by the uid of their clique."""
    groups = []
    for member in gang.members:
        live = cliques.get(member.name)
        listed = sorted(
            each.metadata.name
            for each in (pods.get(live.metadata.uid, ()) if live is not None else ())
            if not is_gone(each) and each.metadata.labels.get(PODGANG) == gang.name
        )
        references = tuple(NamespacedName(podcliqueset.metadata.namespace, name) for name in listed)
        constraint = translation.pack(member.template.topology_constraint)
        groups.append(
            GangPodGroup(
                name=member.name,
                pod_references=references,
                min_replicas=member.min_available,
                topology_constraint=constraint,
            )
        )
    template = podcliqueset.spec.template
    own = gang.group.config.topology_constraint if gang.group is not None else None
    return PodGangSpec(
        tuple(groups),
        translation.pack(own or template.topology_constraint),
        _group_configs(podcliqueset, gang, translation),
        template.priority_class_name,
    )


def _group_configs(
    podcliqueset: PodCliqueSet, gang: Gang, translation: Translation
) -> tuple[TopologyConstraintGroupConfig, ...]:
    """Of the base gang: one for each replica of a group with a constraint of its own that can be translated."""
    found = []
    for group in gang.groups:
        if group.config.topology_constraint is None:
            continue
        constraint = translation.pack(group.config.topology_constraint)
        if constraint is None:
            continue
        for group_replica in group.base_replicas:
            name = naming.scaling_group_replica(
                podcliqueset.metadata.name, gang.replica, group.config.name, group_replica
            )
            within = tuple(
                member.name
                for member in gang.members
                if member.group is not None
                and member.group.name == group.name
                and member.group_replica == group_replica
            )
            found.append(
                TopologyConstraintGroupConfig(name=name, pod_group_names=within, topology_constraint=constraint)
            )
    return tuple(found)


def _labels(podcliqueset: PodCliqueSet, gang: Gang, backend: Backend) -> dict[str, str]:
    return {
        **_mirrored(podcliqueset.metadata.labels),
        **backend.mark_gang(podcliqueset).labels,
        **managed_labels(podcliqueset.metadata.name, gang.name, COMPONENT_PODGANG),
        PODCLIQUESET_REPLICA_INDEX: str(gang.replica),
        SCHEDULER_NAME: backend.name,
    }


def _annotations(
    podcliqueset: PodCliqueSet, gang: Gang, spec: PodGangSpec, translation: Translation, backend: Backend
) -> dict[str, str]:
    metadata = podcliqueset.metadata
    marks = backend.mark_gang(podcliqueset)
    own = {**_mirrored(metadata.annotations), **marks.annotations}
    found = remembering(own, own, _mirrored(metadata.labels), marks.labels)
    if _is_constrained(spec):
        found[TOPOLOGY_NAME] = translation.name
    whole = translation.pack(podcliqueset.spec.template.topology_constraint)
    if gang.group is not None and whole is not None and whole.pack_constraint and whole.pack_constraint.required:
        base = naming.base_gang(metadata.name, gang.replica)
        found[TIED_TO] = f"{base},{whole.pack_constraint.required}"
    return found


def _is_constrained(spec: PodGangSpec) -> bool:
    inner: list[GangPodGroup | TopologyConstraintGroupConfig] = [*spec.topology_constraint_group_configs]
    inner += spec.podgroups
    return spec.topology_constraint is not None or any(part.topology_constraint is not None for part in inner)


def _mirrored(entries: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in entries.items()
        if not key.startswith((GROVE_PREFIX, SPINNEY_PREFIX)) and key not in _NOT_MIRRORED
    }
