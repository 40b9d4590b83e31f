"""Derives the PodGroup of a pod from the pod and its owners.

Pure: the same chain over the same view gives the same answer. Never takes a pod out of a group that somebody else
put it into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from spinney.api.generated_names import kai_podgroup
from spinney.api.kinds.podgroup import PodGroupSpec, PodGroupTopologyConstraint
from spinney.api.labels import (
    GROVE_IGNORE,
    KAI_IGNORE_WORKLOAD_API,
    KAI_NODE_POOL,
    KAI_SKIP_PODGROUPER,
    KAI_TOP_OWNER_METADATA,
    MIRRORED,
    POD_GROUP_NAME,
    SKIP_PODGROUPER,
    SPINNEY_PREFIX,
    USER,
)
from spinney.core.grouping.group_shape import GroupShape, Lookups
from spinney.core.grouping.owner_chain import InvalidFieldError, Owner, OwnerChain, UserError
from spinney.core.grouping.owners import grove, ray
from spinney.core.grouping.owners.registry import effective, shape_of
from spinney.core.grouping.podgroups import DesiredPodGroup, Skip
from spinney.core.grouping.queue_and_priority import GrouperSettings, QueueAndPriority, queue_and_priority_of
from spinney.core.grouping.topology import BLOCKS, PLACES, constraint_of, doubts, places, segments_of, templates

_OPT_OUT = frozenset({GROVE_IGNORE, KAI_IGNORE_WORKLOAD_API, KAI_SKIP_PODGROUPER, SKIP_PODGROUPER})
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_REVISION = "deployment.kubernetes.io/revision"
_NOT_INHERITED = frozenset({_LAST_APPLIED, _REVISION, MIRRORED, POD_GROUP_NAME, KAI_TOP_OWNER_METADATA})
_OURS = "pg-"

Answer = DesiredPodGroup | Skip | UserError


def opts_out(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether an object opts out of grouping; the value `false` does not opt out."""
    declared = [*_OPT_OUT.intersection(labels), *_OPT_OUT.intersection(annotations)]
    return any(place.get(key, "false").lower() != "false" for key in declared for place in (labels, annotations))


def group(chain: OwnerChain, lookups: Lookups, settings: GrouperSettings) -> Answer:
    """The group of a pod, or a `UserError` that names what the user has to correct."""
    if opts_out(chain.pod.metadata.labels, chain.pod.metadata.annotations):
        return Skip("the pod opts out")
    if chain.gang is not None and _is_seen_to(chain.gang, lookups):
        return Skip(f"{chain.gang} has a PodGroup of its own")
    try:
        deciding = effective(chain)
        shape = shape_of(deciding)(deciding, lookups)
        if _is_placed_by_others(chain, shape, lookups):
            return Skip("the pod names a PodGroup that is not ours")
        return _wanted(chain, deciding, shape, lookups, settings)
    except InvalidFieldError as user_error:
        return UserError(str(user_error))


def _is_seen_to(gang: Owner, lookups: Lookups) -> bool:
    """Whether the gang opts out, or an operator writes its PodGroup."""
    if opts_out(gang.labels, gang.annotations):
        return True
    found = lookups.podgroup(gang.namespace, kai_podgroup(gang.name))
    owner = found.metadata.controller if found is not None else None
    return owner is not None and owner.uid == gang.uid


def _is_placed_by_others(chain: OwnerChain, shape: GroupShape, lookups: Lookups) -> bool:
    named = chain.pod.metadata.annotations.get(POD_GROUP_NAME)
    if not named or named == shape.name:
        return False
    if chain.is_bare:
        return True
    found = lookups.podgroup(chain.pod.metadata.namespace, named)
    is_ours = named.startswith(_OURS) if found is None else KAI_TOP_OWNER_METADATA in found.metadata.annotations
    return not is_ours


def _wanted(
    chain: OwnerChain, deciding: OwnerChain, shape: GroupShape, lookups: Lookups, settings: GrouperSettings
) -> DesiredPodGroup:
    source = _source(deciding, shape)
    source = replace(source, annotations={**source.annotations, **shape.annotations})
    constraint, segments = _topology(deciding, shape, source, lookups)
    # Read for its errors only: a segment on the pod that cannot be meant is told, though the owner's counts.
    segments_of(deciding.pod.metadata.annotations, chain.pod.title, lookups, source.annotations)
    rank = queue_and_priority_of(deciding, shape, lookups, settings)
    taken = {**_inherited(source.annotations), **segments}
    annotations = {**taken, KAI_TOP_OWNER_METADATA: _top_owner(chain.top)}
    warnings = (*_unread(chain), *rank.warnings, *doubts(source, constraint, lookups), *_overlooked(deciding))
    return DesiredPodGroup(
        chain.pod.metadata.namespace,
        shape.name,
        shape.owner.reference,
        _spec(shape, rank, constraint),
        _inherited({key: value for key, value in source.labels.items() if key != KAI_NODE_POOL}),
        annotations,
        _initial_labels(deciding),
        shape.part,
        rank.by_pod,
        shape.single,
        warnings,
    )


def _source(chain: OwnerChain, shape: GroupShape) -> Owner:
    """The owner whose labels and annotations the group inherits: the deciding owner, merged with the owner above it."""
    if shape.single or shape.owner.uid == chain.top.uid:
        return chain.top
    return shape.owner.under(chain.top)


def _topology(
    chain: OwnerChain, shape: GroupShape, source: Owner, lookups: Lookups
) -> tuple[PodGroupTopologyConstraint, dict[str, str]]:
    if chain.gang is not None and shape.owner.uid == chain.gang.uid:
        constraint = grove.root_constraint(chain, lookups)
    else:
        constraint = constraint_of(source.annotations, source, lookups, below=_levels_below(chain))
    return constraint, segments_of(source.annotations, source, lookups)


def _levels_below(chain: OwnerChain) -> Iterator[str]:
    """Topology levels in annotations of pods or pod templates: those of segments, and those of Ray groups."""
    keys = (*PLACES, *BLOCKS) if chain.top.group == ray.GROUP else BLOCKS
    for declared in (chain.pod.metadata.annotations, *templates(chain.top.part("spec"))):
        yield from (declared[key] for key in keys if declared.get(key))


def _spec(shape: GroupShape, rank: QueueAndPriority, constraint: PodGroupTopologyConstraint) -> PodGroupSpec:
    return PodGroupSpec(
        min_member=shape.min_member,
        queue=rank.queue,
        priority_class_name=rank.priority_class,
        preemptibility=rank.preemptibility,
        topology_constraint=constraint,
        sub_groups=shape.parts,
    )


def _inherited(found: Mapping[str, str]) -> dict[str, str]:
    """The labels or annotations that are inherited; our own records are not."""
    return {
        key: value for key, value in found.items() if key not in _NOT_INHERITED and not key.startswith(SPINNEY_PREFIX)
    }


def _initial_labels(chain: OwnerChain) -> dict[str, str]:
    """The node pool and user labels, from the first object that has them."""
    found = {}
    for key in (KAI_NODE_POOL, USER):
        declared = (chain.top.labels, chain.pod.metadata.labels, chain.top.annotations, chain.pod.metadata.annotations)
        if value := next((place[key] for place in declared if place.get(key)), ""):
            found[key] = value
    return found


def _top_owner(top: Owner) -> str:
    """The top owner as YAML (the top-owner metadata annotation)."""
    lines = {"name": top.name, "uid": top.uid, "group": top.group, "version": top.version, "kind": top.kind}
    return "".join(f"{key}: {value or chr(34) * 2}\n" for key, value in lines.items())


def _unread(chain: OwnerChain) -> tuple[str, ...]:
    """A warning if an owner cannot be read: its settings are unknown."""
    if not chain.hidden:
        return ()
    return (f"{chain.top}: metadata.ownerReferences: {chain.hidden} cannot be read, so it is not grouped by it",)


def _overlooked(chain: OwnerChain) -> tuple[str, ...]:
    """A warning if topology annotations that belong on the owner are on the pod template."""
    if chain.is_bare or chain.top.group == ray.GROUP or places(chain.top.annotations):
        return ()
    found = places(chain.pod.metadata.annotations)
    return (f"{chain.pod.title}: {', '.join(found)} on a pod is not read: annotate {chain.top}",) if found else ()
