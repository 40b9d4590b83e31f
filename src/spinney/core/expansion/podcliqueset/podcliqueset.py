"""PodCliqueSet: everything that follows from one set, in order, and its status. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kube_apimachinery.times import seconds
from spinney.api.builtin.surroundings import Service
from spinney.api.builtin.workloads import HorizontalPodAutoscaler
from spinney.api.changes import Change, ChangeSet, EmitEvent, Json, SetStatus
from spinney.api.kinds.clustertopology import AnyTopology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podcliqueset import PodCliqueScalingGroupConfig, PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import (
    APP_MANAGED_BY,
    APP_PART_OF,
    COMPONENT_SCALING_GROUP,
    FINALIZER_PODCLIQUESET,
    FINALIZER_SCALING_GROUP,
    MANAGED_BY_OPERATOR,
    PODCLIQUESET_REPLICA_INDEX,
    TOPOLOGY_NAME,
)
from spinney.api.meta import PartialObject, condition
from spinney.core.expansion import gang_termination, podgang
from spinney.core.expansion.components import autoscalers, compute_domains, resource_claims, services
from spinney.core.expansion.components import initc_rbac as access
from spinney.core.expansion.components.initc_rbac import Access
from spinney.core.expansion.objects import (
    FALSE,
    PODCLIQUES,
    PODCLIQUESETS,
    PODGANGS,
    SCALING_GROUPS,
    TRUE,
    ConditionChange,
    conditions,
    delete,
    difference,
    is_owned_by,
    managed_labels,
    metadata_patch,
    new_object,
    owner_reference,
    patch_object,
    status_update,
    to_builtins,
    with_mirrored_keys,
    without_finalizer,
)
from spinney.core.expansion.podclique import desired_podclique as cliques
from spinney.core.expansion.podclique.pod_replacement import is_updating, waits_for_user
from spinney.core.expansion.podclique.pod_state import Pod, has_scheduled
from spinney.core.expansion.podclique.podclique import Claims
from spinney.core.expansion.podcliqueset import rolling_update
from spinney.core.expansion.podcliqueset.set_layout import (
    Gang,
    Group,
    Member,
    Revisions,
    Size,
    gangs_of,
    groups_of,
    index_label,
    pod_count,
    size_of,
    standalone_members,
    without_empty_members,
)
from spinney.core.expansion.podcliqueset.topology_resolution import (
    TOPOLOGY_LEVELS_UNAVAILABLE,
    ResolvedTopology,
    resolve_topology,
)
from spinney.core.expansion.settings import Settings
from spinney.core.topology_constraints import constraints_of, effective_topology

Child = TypeVar("Child", PodClique, PodCliqueScalingGroup)


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state of one set. `cliques` are its own and those of its groups.

    `pods` are listed under the uid of their PodClique, `topology` finds a ClusterTopology by name.
    """

    cliques: Sequence[PodClique]
    groups: Sequence[PodCliqueScalingGroup]
    gangs: Sequence[PodGang]
    services: Sequence[Service]
    autoscalers: Sequence[HorizontalPodAutoscaler]
    access: Access
    claims: Claims
    compute_domains: Sequence[PartialObject]
    pods: Mapping[str, Sequence[Pod]]
    topology: Callable[[str], AnyTopology | None]
    revisions: Revisions
    settings: Settings
    now_s: float


def expand(podcliqueset: PodCliqueSet, observed: Observed) -> ChangeSet:
    """1. its own metadata, 2. what pods need, 3. PodCliques, 4. groups, 5. gangs, 6. termination, 7. status."""
    if podcliqueset.metadata.deletion_timestamp is not None:
        return ChangeSet(_leave(podcliqueset, observed))
    scheduled = has_scheduled(observed.cliques, observed.pods.values())
    effective = effective_topology(podcliqueset, observed.settings.default_topology, scheduled)
    # Nothing else in this round: the write comes back as an event, with the defaults and labels of the webhook.
    if own := _own_metadata(podcliqueset, observed.settings, effective):
        return ChangeSet(own)
    if excess := size_now(podcliqueset, observed.groups).excess:
        return ChangeSet((_refuse_size(podcliqueset, excess),))
    name, ignored = _topology_name(podcliqueset, observed, effective, scheduled)
    resolved_topology = resolve_topology(podcliqueset, observed.topology(name), name, observed.settings)
    ends, requeue_at_s = _terminate(podcliqueset, observed)
    changes: list[Change] = [
        *ignored,
        *services.expand(podcliqueset, observed.services),
        *access.expand(podcliqueset, observed.access),
        *autoscalers.expand(podcliqueset, observed.autoscalers),
        *_claims(podcliqueset, observed),
        *compute_domains.expand(podcliqueset, observed.compute_domains, observed.settings.mnnvl_enabled),
        *_cliques(podcliqueset, observed),
        *_groups(podcliqueset, observed),
        *_gangs(podcliqueset, observed, resolved_topology),
        *ends,
        *_status(podcliqueset, observed, resolved_topology),
    ]
    return ChangeSet(tuple(changes), requeue_at_s)


def _refuse_size(podcliqueset: PodCliqueSet, excess: str) -> EmitEvent:
    """The event for a set that is too large: nothing of it is created or changed, existing pods continue."""
    metadata = podcliqueset.metadata
    message = f"PodCliqueSet {metadata.namespace}/{metadata.name} would have {excess}: nothing is done for it"
    return EmitEvent(
        PODCLIQUESETS.of(metadata), metadata.uid, "TooLarge", message, str(metadata.generation), warning=True
    )


def _leave(podcliqueset: PodCliqueSet, observed: Observed) -> tuple[Change, ...]:
    """Finish the deletion of a set: owned objects are garbage-collected, except those with a finalizer of ours.

    Orphaned objects keep what they depend on.
    """
    metadata = podcliqueset.metadata
    released = compute_domains.finalize(metadata, observed.compute_domains)
    return (*released, *without_finalizer(PODCLIQUESETS, metadata, FINALIZER_PODCLIQUESET))


def _claims(podcliqueset: PodCliqueSet, observed: Observed) -> list[Change]:
    entries = podcliqueset.spec.template.resource_sharing
    owner = (PODCLIQUESETS, podcliqueset.metadata)
    live, template = observed.claims
    return resource_claims.expand(podcliqueset, entries, owner, range(podcliqueset.spec.replicas), live, template)


def _own_metadata(podcliqueset: PodCliqueSet, settings: Settings, topology: str) -> tuple[Change, ...]:
    """The finalizer, and the label of the topology that counts where constraints ask for one (P8).

    The webhook writes the same label; anything else here would be undone by it, and the set would never get further.
    """
    metadata = podcliqueset.metadata
    patch: Json = {}
    if FINALIZER_PODCLIQUESET not in metadata.finalizers:
        patch["finalizers"] = [*metadata.finalizers, FINALIZER_PODCLIQUESET]
    if constraints_of(podcliqueset) and settings.topology_enabled and metadata.labels.get(TOPOLOGY_NAME) != topology:
        patch["labels"] = {TOPOLOGY_NAME: topology}
    return patch_object(PODCLIQUESETS, metadata, {"metadata": patch})


def _topology_name(
    podcliqueset: PodCliqueSet, observed: Observed, name: str, scheduled: bool
) -> tuple[str, tuple[EmitEvent, ...]]:
    """The topology that is applied: the effective one, but pods that got their nodes under another one keep that.

    A pod may be bound between the admission of a change and now.
    """
    if not scheduled or not observed.settings.topology_enabled:
        return name, ()
    used = sorted({each.metadata.annotations.get(TOPOLOGY_NAME, "") for each in observed.gangs} - {""})
    if not used or name in used:
        return name, ()
    message = f'topology stays "{used[0]}" instead of "{name}": pods are scheduled already'
    generation = str(podcliqueset.metadata.generation)
    target = PODCLIQUESETS.of(podcliqueset.metadata)
    uid = podcliqueset.metadata.uid
    return used[0], (EmitEvent(target, uid, "TopologyChangeIgnored", message, generation, warning=True),)


def live_groups(
    podcliqueset: PodCliqueSet, groups: Sequence[PodCliqueScalingGroup]
) -> Callable[[int], tuple[Group, ...]]:
    """The groups of each replica with the number of replicas they have now."""
    by_name = {each.metadata.name: each for each in groups if is_owned_by(each.metadata, podcliqueset.metadata)}

    def live(name: str, config: PodCliqueScalingGroupConfig) -> int:
        found = by_name.get(name)
        return found.spec.replicas if found is not None else config.replicas

    return lambda replica: groups_of(podcliqueset, replica, live)


def size_now(podcliqueset: PodCliqueSet, groups: Sequence[PodCliqueScalingGroup]) -> Size:
    """The size including replicas that groups have gained since creation; scaling them bypasses admission."""
    grown: Counter[str] = Counter()
    for each in groups:
        if (group := group_of(podcliqueset, each)) is not None:
            grown[group.config.name] += max(0, group.replicas - group.config.replicas)
    return size_of(podcliqueset, grown)


def group_of(podcliqueset: PodCliqueSet, group: PodCliqueScalingGroup) -> Group | None:
    """What a scaling group is in its set, by its label and its exact name."""
    replica = _replica_of(group)
    if replica is None:
        return None
    found = groups_of(podcliqueset, replica, lambda name, config: group.spec.replicas)
    return next((each for each in found if each.name == group.metadata.name), None)


def _cliques(podcliqueset: PodCliqueSet, observed: Observed) -> list[Change]:
    """Standalone PodCliques: create missing ones, refresh existing ones, delete surplus ones."""
    owner = owner_reference(PODCLIQUESETS, podcliqueset.metadata)
    own = {each.metadata.name: each for each in observed.cliques if is_owned_by(each.metadata, podcliqueset.metadata)}
    by_hand, mnnvl = waits_for_user(podcliqueset), observed.settings.mnnvl_enabled
    scaled = {name: count for each in observed.gangs for name, count in podgang.scaled_cliques(each).items()}
    changes: list[Change] = []
    for replica in range(podcliqueset.spec.replicas):
        may_update = by_hand or is_updating(podcliqueset, replica)
        for member in standalone_members(podcliqueset, replica):
            live = own.pop(member.name, None)
            if live is None:
                count = scaled.get(member.name)
                changes.append(cliques.clique(podcliqueset, member, observed.revisions, owner, mnnvl, count))
            else:
                changes += cliques.refresh(podcliqueset, member, observed.revisions, live, may_update, mnnvl)
    surplus = [change for each in own.values() for change in delete(PODCLIQUES, each.metadata)]
    return [*surplus, *changes]


def _groups(podcliqueset: PodCliqueSet, observed: Observed) -> list[Change]:
    """Scaling groups. The number of replicas is only given at the start."""
    metadata = podcliqueset.metadata
    own = {each.metadata.name: each for each in observed.groups}
    changes: list[Change] = []
    of_replica = live_groups(podcliqueset, observed.groups)
    for replica in range(podcliqueset.spec.replicas):
        for group in of_replica(replica):
            live = own.pop(group.name, None)
            labels = managed_labels(metadata.name, group.name, COMPONENT_SCALING_GROUP)
            labels[PODCLIQUESET_REPLICA_INDEX] = str(replica)
            spec: Json = {"minAvailable": group.config.min_available, "cliqueNames": list(group.config.clique_names)}
            if live is None:
                changes.append(
                    new_object(
                        SCALING_GROUPS.at(group.name, metadata.namespace),
                        labels=labels,
                        annotations=with_mirrored_keys(group.config.annotations, group.config.annotations),
                        owner=owner_reference(PODCLIQUESETS, metadata),
                        finalizers=[FINALIZER_SCALING_GROUP],
                        spec=spec | {"replicas": group.config.replicas},
                    )
                )
            elif live.metadata.deletion_timestamp is None:
                changes += _put_group_right(live, labels, group.config, spec)
    surplus = [change for each in own.values() for change in delete(SCALING_GROUPS, each.metadata)]
    return [*surplus, *changes]


def _put_group_right(
    live: PodCliqueScalingGroup, labels: Mapping[str, str], config: PodCliqueScalingGroupConfig, spec: Json
) -> tuple[Change, ...]:
    known = {"minAvailable": live.spec.min_available, "cliqueNames": list(live.spec.clique_names)}
    changed = metadata_patch(live.metadata, labels, with_mirrored_keys(config.annotations, config.annotations))
    return patch_object(SCALING_GROUPS, live.metadata, {"metadata": changed, "spec": difference(known, spec)})


def _gangs(podcliqueset: PodCliqueSet, observed: Observed, resolved_topology: ResolvedTopology) -> list[Change]:
    """Delete unexpected gangs first; then write all base gangs, then the scaled ones."""
    own = {each.metadata.name: each for each in observed.gangs}
    by_name = {each.metadata.name: each for each in observed.cliques}
    backend = observed.settings.backend_of(podcliqueset)
    pods_of = {name: each.spec.replicas for name, each in by_name.items()}
    of_replica = live_groups(podcliqueset, observed.groups)
    base: list[Change] = []
    scaled: list[Change] = []
    for replica in range(podcliqueset.spec.replicas):
        for gang in gangs_of(podcliqueset, replica, of_replica(replica)):
            members = without_empty_members(gang, pods_of)
            spec = podgang.spec_of(podcliqueset, members, resolved_topology, by_name, observed.pods)
            live = own.pop(gang.name, None)
            changes = scaled if gang.group is not None else base
            counts = _scaled_cliques(gang, live, pods_of)
            if live is None:
                changes.append(podgang.create(podcliqueset, gang, spec, resolved_topology, backend, counts))
            elif live.metadata.deletion_timestamp is None:
                changes += podgang.refresh(podcliqueset, gang, spec, resolved_topology, backend, live, counts)
    surplus = [change for each in own.values() for change in delete(PODGANGS, each.metadata)]
    return [*surplus, *base, *scaled]


def _scaled_cliques(gang: Gang, live: PodGang | None, pods_of: Mapping[str, int]) -> dict[str, int]:
    """Numbers of pods that standalone cliques were scaled to; of one that is being made again the number that it had.

    Those of a group are made as their template says: the group is what is scaled.
    """
    known = podgang.scaled_cliques(live) if live is not None else {}
    alone = [member for member in gang.members if member.group is None]
    counts = {member.name: pods_of.get(member.name, known.get(member.name)) for member in alone}
    asked = {member.name: pod_count(member.template) for member in alone}
    return {name: count for name, count in counts.items() if count is not None and count != asked[name]}


def _terminate(podcliqueset: PodCliqueSet, observed: Observed) -> tuple[list[Change], float | None]:
    """Replicas of which a group, or a clique that stands alone, has been in breach for too long (2.7 b)."""
    delay = gang_termination.delay_s(podcliqueset)
    changes: list[Change] = []
    later: list[float | None] = []
    groups_of_replica, cliques_of_replica = _by_replica(observed.groups), _by_replica(observed.cliques)
    for replica in range(podcliqueset.spec.replicas):
        groups, within = groups_of_replica.get(replica, []), cliques_of_replica.get(replica, [])
        alone = [each for each in within if is_owned_by(each.metadata, podcliqueset.metadata)]
        # While cliques are missing, because they are made or made again, a replica is not judged.
        whole = len(alone) >= len(standalone_members(podcliqueset, replica))
        due = gang_termination.earliest(
            [
                *(gang_termination.clique_due_s(each, delay) for each in alone if whole),
                *(gang_termination.group_due_s(each, delay) for each in groups if whole),
            ]
        )
        if due is not None and due <= observed.now_s:
            target = PODCLIQUESETS.of(podcliqueset.metadata)
            changes.append(gang_termination.deletion_event(target, podcliqueset.metadata.uid, replica, due))
            changes += [_announce(each, observed.now_s) for each in groups]
            changes += _take_down(within, observed.now_s)
        else:
            later.append(due)
            changes += _go_on(groups, within)
    return changes, gang_termination.earliest(later)


def _announce(group: PodCliqueScalingGroup, now_s: float) -> SetStatus:
    message = "the gang was below its minimum for too long"
    finding = ConditionChange(gang_termination.TERMINATING, TRUE, "GangTerminationActive", message)
    found = conditions(group.status.conditions, [finding], now_s, group.metadata.generation)
    metadata = group.metadata
    return SetStatus(SCALING_GROUPS.of(metadata), {"conditions": found}, metadata.uid, metadata.resource_version)


def _go_on(groups: Sequence[PodCliqueScalingGroup], within: Sequence[PodClique]) -> list[Change]:
    """Resume a termination that was announced but not completed."""
    found = [condition(each.status.conditions, gang_termination.TERMINATING) for each in groups]
    times = [seconds(each.last_transition_time) for each in found if each is not None]
    return _take_down(within, max(times)) if times else []


def _take_down(within: Sequence[PodClique], since_s: float) -> list[Change]:
    return [
        change
        for each in gang_termination.cliques_to_delete(within, since_s)
        for change in delete(PODCLIQUES, each.metadata)
    ]


def _replica_of(child: PodClique | PodCliqueScalingGroup) -> int | None:
    return index_label(child.metadata, PODCLIQUESET_REPLICA_INDEX)


def _by_replica(children: Sequence[Child]) -> dict[int | None, list[Child]]:
    found: dict[int | None, list[Child]] = {}
    for each in children:
        found.setdefault(_replica_of(each), []).append(each)
    return found


def _status(podcliqueset: PodCliqueSet, observed: Observed, resolved_topology: ResolvedTopology) -> list[Change]:
    before, metadata = podcliqueset.status, podcliqueset.metadata
    replicas = range(podcliqueset.spec.replicas)
    now = rolling_update.update_state(
        podcliqueset,
        live_groups(podcliqueset, observed.groups),
        observed.cliques,
        observed.groups,
        observed.revisions,
    )
    selector = {APP_MANAGED_BY: MANAGED_BY_OPERATOR, APP_PART_OF: metadata.name}
    finding = resolved_topology.finding
    findings = [finding] if finding is not None else []
    gone = [] if findings else [TOPOLOGY_LEVELS_UNAVAILABLE]
    present = {_replica_of(each) for each in observed.cliques} | {_replica_of(each) for each in observed.groups}
    status: Json = {
        "observedGeneration": metadata.generation,
        "replicas": sum(replica in present for replica in replicas),
        "updatedReplicas": len(now.updated),
        "availableReplicas": sum(map(_availability(podcliqueset, observed), replicas)),
        "hpaPodSelector": ",".join(f"{key}={value}" for key, value in sorted(selector.items())),
        "podGangStatuses": [_summary(each) for each in sorted(observed.gangs, key=lambda each: each.metadata.name)],
        "conditions": conditions(before.conditions, findings, observed.now_s, metadata.generation, gone),
        **rolling_update.update_status(podcliqueset, observed.revisions, now, observed.cliques, observed.now_s),
    }
    return [
        *_topology_event(podcliqueset, finding),
        *status_update(PODCLIQUESETS, metadata, before, status),
    ]


def _summary(gang: PodGang) -> Json:
    return {"name": gang.metadata.name, "phase": gang.status.phase, "conditions": to_builtins(gang.status.conditions)}


def _availability(podcliqueset: PodCliqueSet, observed: Observed) -> Callable[[int], bool]:
    """Of a replica every standalone clique has its minimum ready unless it was scaled to none; so has every group its
    replicas.
    """
    by_name = {each.metadata.name: each for each in observed.cliques}
    groups = {each.metadata.name: each for each in observed.groups}
    of_replica = live_groups(podcliqueset, observed.groups)

    def is_ready(member: Member) -> bool:
        live = by_name.get(member.name)
        return live is not None and (not live.spec.replicas or live.status.ready_replicas >= member.min_available)

    def has_enough(group: Group) -> bool:
        known = groups.get(group.name)
        least = min(group.config.min_available, group.replicas)
        return known is not None and known.status.available_replicas >= least

    return lambda replica: (
        all(map(is_ready, standalone_members(podcliqueset, replica))) and all(map(has_enough, of_replica(replica)))
    )


def _topology_event(podcliqueset: PodCliqueSet, finding: ConditionChange | None) -> list[Change]:
    """On each transition of the topology condition (S4)."""
    old = condition(podcliqueset.status.conditions, TOPOLOGY_LEVELS_UNAVAILABLE)
    if finding is None or (old is not None and old.reason == finding.reason):
        return []
    good = finding.status == FALSE
    occasion = old.last_transition_time if old is not None else "first"
    reason = "TopologyConstraintsApplied" if good else finding.reason
    target = PODCLIQUESETS.of(podcliqueset.metadata)
    return [EmitEvent(target, podcliqueset.metadata.uid, reason, finding.message, occasion, warning=not good)]
