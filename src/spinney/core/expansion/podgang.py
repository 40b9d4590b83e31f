"""PodGangs: what the gangs of a set contain (G2-G4, G7, G12), and what becomes of one: its PodGroup and its status
(S3).

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kube_apimachinery.quantity import read_number
from spinney.api import generated_names, scaled_gangs
from spinney.api.changes import Change, ChangeSet, Json
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
    PLACEMENT_SCORE,
    PODCLIQUESET_REPLICA_INDEX,
    PODGANG,
    REPLICAS,
    SCALED_GANGS,
    SCHEDULER_NAME,
    SPINNEY_PREFIX,
    TIED_TO,
    TOPOLOGY_NAME,
)
from spinney.api.scaled_gangs import ScaledGangs
from spinney.core.expansion.backends import Backend, Find
from spinney.core.expansion.objects import (
    FALSE,
    PODCLIQUESETS,
    PODGANGS,
    PODGROUPS,
    TRUE,
    ConditionChange,
    conditions,
    difference,
    holds,
    managed_labels,
    metadata_patch,
    new_object,
    owner_reference,
    patch_object,
    status_update,
    to_builtins,
    with_mirrored_keys,
)
from spinney.core.expansion.podclique.pod_state import Pod, is_disrupted, is_gone, is_ready, is_scheduled
from spinney.core.expansion.podcliqueset.set_layout import Gang
from spinney.core.expansion.podcliqueset.topology_resolution import ResolvedTopology

_NOT_MIRRORED = ("kubectl.kubernetes.io/last-applied-configuration",)


def create(
    podcliqueset: PodCliqueSet,
    gang: Gang,
    spec: PodGangSpec,
    resolved_topology: ResolvedTopology,
    backend: Backend,
    scaled: Mapping[str, int] = {},
) -> Change:
    """The creation of a PodGang. `scaled`: pods of the cliques that have another number than their templates say."""
    metadata = podcliqueset.metadata
    annotations = _annotations(podcliqueset, gang, spec, resolved_topology, backend)
    return new_object(
        PODGANGS.at(gang.name, metadata.namespace),
        labels=_labels(podcliqueset, gang, backend),
        annotations=annotations | _noted(scaled),
        owner=owner_reference(PODCLIQUESETS, metadata),
        spec=to_builtins(spec),
    )


def refresh(
    podcliqueset: PodCliqueSet,
    gang: Gang,
    spec: PodGangSpec,
    resolved_topology: ResolvedTopology,
    backend: Backend,
    live: PodGang,
    scaled: Mapping[str, int],
) -> tuple[Change, ...]:
    """The patch of an existing PodGang. Keys that others set stay; keys mirrored from the set follow it."""
    annotations = _annotations(podcliqueset, gang, spec, resolved_topology, backend) | _noted(scaled)
    labels = _labels(podcliqueset, gang, backend)
    changed = metadata_patch(live.metadata, labels, annotations, (TOPOLOGY_NAME, TIED_TO, SCALED_GANGS, REPLICAS))
    different = difference(to_builtins(live.spec), to_builtins(spec))
    return patch_object(PODGANGS, live.metadata, {"metadata": changed, "spec": different})


def _noted(scaled: Mapping[str, int]) -> dict[str, str]:
    return {REPLICAS: ",".join(f"{name}={scaled[name]}" for name in sorted(scaled))} if scaled else {}


def scaled_cliques(gang: PodGang) -> dict[str, int]:
    """The numbers of pods that cliques had been scaled to, by name: they outlive a termination of the gang."""
    parts = [part.partition("=") for part in gang.metadata.annotations.get(REPLICAS, "").split(",")]
    found = {name: read_number(count) for name, _, count in parts}
    return {name: count for name, count in found.items() if name and count is not None}


def spec_of(
    podcliqueset: PodCliqueSet,
    gang: Gang,
    resolved_topology: ResolvedTopology,
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
        constraint = resolved_topology.pack(member.template.topology_constraint)
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
        resolved_topology.pack(own or template.topology_constraint),
        _group_configs(podcliqueset, gang, resolved_topology),
        template.priority_class_name,
    )


def _group_configs(
    podcliqueset: PodCliqueSet, gang: Gang, resolved_topology: ResolvedTopology
) -> tuple[TopologyConstraintGroupConfig, ...]:
    """Of the base gang: one for each replica of a group with a constraint of its own that can be translated."""
    found = []
    for group in gang.groups:
        if group.config.topology_constraint is None:
            continue
        constraint = resolved_topology.pack(group.config.topology_constraint)
        if constraint is None:
            continue
        for group_replica in group.base_replicas:
            name = generated_names.scaling_group_replica(
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
    podcliqueset: PodCliqueSet, gang: Gang, spec: PodGangSpec, resolved_topology: ResolvedTopology, backend: Backend
) -> dict[str, str]:
    metadata = podcliqueset.metadata
    marks = backend.mark_gang(podcliqueset)
    own = {**_mirrored(metadata.annotations), **marks.annotations}
    found = with_mirrored_keys(own, own, _mirrored(metadata.labels), marks.labels)
    if _is_constrained(spec):
        found[TOPOLOGY_NAME] = resolved_topology.name
    whole = resolved_topology.pack(podcliqueset.spec.template.topology_constraint)
    if gang.group is not None and whole is not None and whole.pack_constraint and whole.pack_constraint.required:
        base = generated_names.base_gang(metadata.name, gang.replica)
        found[TIED_TO] = f"{base},{whole.pack_constraint.required}"
    if gang.group is None and whole is not None and whole.pack_constraint and whole.pack_constraint.required:
        scaled = tuple(_scaled_gangs(podcliqueset, gang, resolved_topology, whole.pack_constraint.required))
        if scaled:
            found[SCALED_GANGS] = scaled_gangs.encode(scaled)
    return found


def _scaled_gangs(
    podcliqueset: PodCliqueSet, gang: Gang, resolved_topology: ResolvedTopology, level: str
) -> Iterator[ScaledGangs]:
    """The gangs that are tied to a base gang, by group: each is made of the cliques of one group replica (G12)."""
    for group in gang.groups:
        cliques = [each.name for each in gang.members if each.group is group and each.group_replica == 0]
        if not group.scaled_replicas or not cliques:
            continue
        pack = resolved_topology.pack(
            group.config.topology_constraint or podcliqueset.spec.template.topology_constraint
        )
        required = pack.pack_constraint.required if pack is not None and pack.pack_constraint is not None else None
        yield ScaledGangs(group.name, len(group.scaled_replicas), level, tuple(cliques), required)


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


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state of one gang: its cliques by name, and their pods by the uid of the clique."""

    cliques: Mapping[str, PodClique]
    pods: Mapping[str, Sequence[Pod]]
    backend: Backend
    find: Find
    now_s: float


def expand(gang: PodGang, observed: Observed) -> ChangeSet:
    if gang.metadata.deletion_timestamp is not None:
        return ChangeSet()
    return ChangeSet((*observed.backend.sync_gang(gang, observed.find), *_status(gang, observed)))


def _status(gang: PodGang, observed: Observed) -> tuple[Change, ...]:
    before = gang.status
    pods = {group.name: _pods_of(gang, group.name, observed) for group in gang.spec.podgroups}
    scheduled = _short_of(gang, {name: sum(map(is_scheduled, found)) for name, found in pods.items()})
    ready = _short_of(gang, {name: sum(map(is_ready, found)) for name, found in pods.items()})
    podgroup = _podgroup(gang, observed)
    was_ready = holds(before.conditions, "Ready") or holds(before.conditions, "Unhealthy")
    findings = [
        _initialized(gang, observed),
        _minimum("Scheduled", scheduled, "scheduled", _refusal(podgroup)),
        _minimum("Ready", ready, "ready"),
        _unhealthy(was_ready and bool(ready), ready),
        _disrupted([each.metadata.name for found in pods.values() for each in found if is_disrupted(each)]),
    ]
    status: Json = {
        "phase": "Pending" if scheduled else "Starting" if ready else "Running",
        "conditions": conditions(before.conditions, findings, observed.now_s, gang.metadata.generation),
        "placementScore": _score(podgroup),
    }
    return status_update(PODGANGS, gang.metadata, before, status)


def _podgroup(gang: PodGang, observed: Observed) -> Json:
    """The PodGroup of the gang; empty if there is none."""
    if PODGROUPS not in observed.backend.watches:
        return {}
    found = observed.find(PODGROUPS, gang.metadata.namespace, generated_names.kai_podgroup(gang.metadata.name)) or {}
    owners = (found.get("metadata") or {}).get("ownerReferences") or ()
    return found if gang.metadata.uid in (owner.get("uid") for owner in owners) else {}


def _refusal(podgroup: Json) -> str:
    """The first line of the scheduler's last message about not placing it; further lines hold changing figures."""
    reported = (podgroup.get("status") or {}).get("schedulingConditions") or ()
    return str(reported[-1].get("message") or "").partition("\n")[0] if reported else ""


def _score(podgroup: Json) -> float | None:
    """The placement score that the scheduler wrote, if it is valid."""
    annotations = (podgroup.get("metadata") or {}).get("annotations") or {}
    try:
        score = float(annotations.get(PLACEMENT_SCORE, ""))
    except ValueError:
        return None
    return score if 0 <= score <= 1 else None


def _pods_of(gang: PodGang, clique: str, observed: Observed) -> list[Pod]:
    live = observed.cliques.get(clique)
    found = observed.pods.get(live.metadata.uid, ()) if live is not None else ()
    return [each for each in found if not is_gone(each) and each.metadata.labels.get(PODGANG) == gang.metadata.name]


def _short_of(gang: PodGang, counts: Mapping[str, int]) -> str:
    """The pod groups that have fewer than their minimum, with figures; empty if none has."""
    short = [group for group in gang.spec.podgroups if counts[group.name] < group.min_replicas]
    return ", ".join(f"{group.name} {counts[group.name]}/{group.min_replicas}" for group in short[:10])


def _initialized(gang: PodGang, observed: Observed) -> ConditionChange:
    """Whether every member has all its pods and the gang lists them."""
    for group in gang.spec.podgroups:
        live = observed.cliques.get(group.name)
        wanted = live.spec.replicas if live is not None else group.min_replicas
        if live is None or len(group.pod_references) < wanted:
            message = f"{group.name}: {len(group.pod_references)} of {wanted} pods are listed"
            return ConditionChange("Initialized", FALSE, "PodGangPodsCreationPending", message)
    return ConditionChange("Initialized", TRUE, "PodGangPodsCreated", "all pods are listed")


def _minimum(kind: str, short: str, word: str, why: str = "") -> ConditionChange:
    if short:
        message = f"fewer pods {word} than the minimum: {short}"
        return ConditionChange(kind, FALSE, f"MinimumNot{kind}", f"{message}. {why}" if why else message)
    return ConditionChange(kind, TRUE, f"Minimum{kind}", f"every pod group has its minimum of pods {word}")


def _unhealthy(lost: bool, short: str) -> ConditionChange:
    if lost:
        return ConditionChange("Unhealthy", TRUE, "ReadyPodsLost", f"was ready, and has fewer pods ready now: {short}")
    return ConditionChange("Unhealthy", FALSE, "NoPodsLost", "nothing that was ready has been lost")


def _disrupted(names: list[str]) -> ConditionChange:
    if names:
        message = f"about to be disrupted: {', '.join(sorted(names)[:10])}"
        return ConditionChange("DisruptionTarget", TRUE, "PodsDisrupted", message)
    return ConditionChange("DisruptionTarget", FALSE, "NoPodsDisrupted", "no pod is about to be disrupted")
