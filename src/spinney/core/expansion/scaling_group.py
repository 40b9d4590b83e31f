"""PodCliqueScalingGroup: the cliques of each of its replicas, their replacement, and its status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kube_apimachinery.times import format_time, seconds
from spinney.api.changes import Change, ChangeSet, EmitEvent, Json
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import (
    PodCliqueScalingGroup,
    PodCliqueScalingGroupUpdateProgress,
    ReplicaIndicesSelectedToUpdate,
)
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import (
    APP_MANAGED_BY,
    APP_PART_OF,
    FINALIZER_SCALING_GROUP,
    MANAGED_BY_OPERATOR,
    SCALING_GROUP,
    SCALING_GROUP_REPLICA_INDEX,
)
from spinney.api.meta import condition
from spinney.core.expansion import gang_termination
from spinney.core.expansion.components import resource_claims
from spinney.core.expansion.objects import (
    FALSE,
    PODCLIQUES,
    SCALING_GROUPS,
    TRUE,
    UNKNOWN,
    ConditionChange,
    conditions,
    delete,
    holds,
    owner_reference,
    status_update,
    to_builtins,
    with_finalizer,
    without_finalizer,
)
from spinney.core.expansion.podclique import desired_podclique as cliques
from spinney.core.expansion.podclique.pod_replacement import is_updating, waits_for_user
from spinney.core.expansion.podclique.podclique import BREACHED, SCHEDULED, Claims, all_pods_lost
from spinney.core.expansion.podcliqueset.set_layout import (
    Group,
    Member,
    Revisions,
    Size,
    group_members,
    index_label,
    pod_count,
)


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state of one scaling group: its set, its place in the set, and the PodCliques it owns."""

    podcliqueset: PodCliqueSet
    group: Group
    cliques: Sequence[PodClique]
    revisions: Revisions
    claims: Claims
    now_s: float
    mnnvl: bool = False


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of the group: its expected members, and the existing ones."""

    index: int
    members: tuple[Member, ...]
    live: tuple[PodClique, ...]
    updated: bool

    @property
    def complete(self) -> bool:
        whole = [each for each in self.live if each.metadata.deletion_timestamp is None]
        return len(whole) == len(self.members)

    @property
    def scheduled(self) -> bool:
        return self.complete and all(holds(each.status.conditions, SCHEDULED) for each in self.live)

    @property
    def available(self) -> bool:
        return self.complete and all(
            each.status.ready_replicas >= (each.spec.min_available or each.spec.replicas) for each in self.live
        )

    @property
    def breached(self) -> bool:
        """Whether it is incomplete, or a member is below its minimum or has not reported yet."""
        breaches = [condition(each.status.conditions, BREACHED) for each in self.live]
        return not self.complete or any(each is None or each.status == TRUE for each in breaches)


def expand(group: PodCliqueScalingGroup, observed: Observed) -> ChangeSet:
    if group.metadata.deletion_timestamp is not None:
        return ChangeSet(finalize(group, observed.cliques))
    # First and alone: whoever deletes the group from now on finds the finalizer, which ends its PodCliques in order.
    if unfinished := with_finalizer(SCALING_GROUPS, group.metadata, FINALIZER_SCALING_GROUP):
        return ChangeSet(unfinished)
    if excess := _size(observed).excess:
        return ChangeSet((_refuse_size(group, excess),))
    replicas = _replicas(observed)
    wanted = {member.name for replica in replicas for member in replica.members}
    surplus = [each for each in observed.cliques if each.metadata.name not in wanted]
    outdated = _to_replace(group, observed, replicas)
    failed, reported, requeue_at_s = _to_terminate(group, observed, replicas)
    to_delete = {each.metadata.name for each in (*outdated, *failed)}
    changes: list[Change] = [*reported, *_delete(surplus), *_delete([*outdated, *failed]), *_claims(group, observed)]
    for replica in replicas:
        changes += _members(group, observed, replica, to_delete)
    changes += _status(group, observed, replicas)
    return ChangeSet(tuple(changes), requeue_at_s)


def _size(observed: Observed) -> Size:
    """The size of the group, computed without listing its members."""
    found = observed.group
    members = group_members(observed.podcliqueset, found, 0)
    return Size(found.replicas * len(members), found.replicas * sum(pod_count(each.template) for each in members))


def _refuse_size(group: PodCliqueScalingGroup, excess: str) -> EmitEvent:
    metadata = group.metadata
    message = f"PodCliqueScalingGroup {metadata.namespace}/{metadata.name} would have {excess}: nothing is done for it"
    target, occasion = SCALING_GROUPS.of(metadata), str(metadata.generation)
    return EmitEvent(target, metadata.uid, "TooLarge", message, occasion, warning=True)


def finalize(group: PodCliqueScalingGroup, owned: Sequence[PodClique]) -> tuple[Change, ...]:
    """Finish the deletion of a group: its PodCliques first, unless they are orphaned."""
    gone = () if "orphan" in group.metadata.finalizers else _delete(owned)
    return (*gone, *without_finalizer(SCALING_GROUPS, group.metadata, FINALIZER_SCALING_GROUP))


def _claims(group: PodCliqueScalingGroup, observed: Observed) -> list[Change]:
    entries = observed.group.config.resource_sharing
    owner = (SCALING_GROUPS, group.metadata)
    live, template = observed.claims
    return resource_claims.expand(observed.podcliqueset, entries, owner, range(group.spec.replicas), live, template)


def _delete(found: Sequence[PodClique]) -> tuple[Change, ...]:
    return tuple(change for each in found for change in delete(PODCLIQUES, each.metadata))


def _replicas(observed: Observed) -> list[Replica]:
    by_name = {each.metadata.name: each for each in observed.cliques}
    found = []
    for index in range(observed.group.replicas):
        members = group_members(observed.podcliqueset, observed.group, index)
        live = tuple(by_name[member.name] for member in members if member.name in by_name)
        updated = len(live) == len(members) and all(
            cliques.is_updated(by_name[member.name], member, observed.revisions) for member in members
        )
        found.append(Replica(index, members, live, updated))
    return found


def _members(group: PodCliqueScalingGroup, observed: Observed, replica: Replica, to_delete: set[str]) -> list[Change]:
    """Create missing PodCliques; existing ones follow the template where that replaces no pod."""
    by_name = {each.metadata.name: each for each in replica.live}
    by_hand = waits_for_user(observed.podcliqueset)
    owner = owner_reference(SCALING_GROUPS, group.metadata)
    changes: list[Change] = []
    for member in replica.members:
        live = by_name.get(member.name)
        if live is None:
            changes.append(cliques.clique(observed.podcliqueset, member, observed.revisions, owner, observed.mnnvl))
        elif member.name not in to_delete:
            changes += cliques.refresh(observed.podcliqueset, member, observed.revisions, live, by_hand, observed.mnnvl)
    return changes


def _to_replace(group: PodCliqueScalingGroup, observed: Observed, replicas: Sequence[Replica]) -> list[PodClique]:
    """All outdated replicas that do not serve; else the serving one that the status has already named as next."""
    if not _may_replace(observed):
        return []
    old = [replica for replica in replicas if _is_old(replica, observed.revisions)]
    idle = [each for replica in old if not replica.available for each in replica.live]
    chosen = _chosen(group, observed)
    if idle or chosen is None or not _may_disrupt(group, replicas):
        return idle
    return [each for replica in old if replica.index == chosen.current for each in replica.live]


def _may_replace(observed: Observed) -> bool:
    return not waits_for_user(observed.podcliqueset) and is_updating(observed.podcliqueset, observed.group.replica)


def _may_disrupt(group: PodCliqueScalingGroup, replicas: Sequence[Replica]) -> bool:
    well = sum(replica.available for replica in replicas)
    return well >= min(group.spec.min_available, group.spec.replicas)


def _chosen(group: PodCliqueScalingGroup, observed: Observed) -> ReplicaIndicesSelectedToUpdate | None:
    known = group.status.update_progress
    return known.ready_replica_indices_selected_to_update if known and _goes_on(known, observed) else None


def _goes_on(known: PodCliqueScalingGroupUpdateProgress, observed: Observed) -> bool:
    return known.pod_clique_set_generation_hash == observed.revisions.whole and known.update_ended_at is None


def _is_old(replica: Replica, revisions: Revisions) -> bool:
    """Of an earlier revision, or with pods of one that users were to delete."""
    by_name = {member.name: member for member in replica.members}
    return any(
        not cliques.is_current(each, by_name[each.metadata.name], revisions) or not cliques.has_only_updated_pods(each)
        for each in replica.live
    )


def _to_terminate(
    group: PodCliqueScalingGroup, observed: Observed, replicas: Sequence[Replica]
) -> tuple[list[PodClique], list[EmitEvent], float | None]:
    """Replicas with a clique in breach for too long, while the group as a whole is not and no update runs (2.7 a)."""
    breaches = condition(group.status.conditions, BREACHED)
    if breaches is not None and breaches.status != FALSE:
        return [], [], None
    delay = gang_termination.delay_s(observed.podcliqueset)
    found: list[PodClique] = []
    reported: list[EmitEvent] = []
    later: list[float] = []
    for replica in replicas:
        due = gang_termination.earliest(gang_termination.clique_due_s(each, delay) for each in replica.live)
        if due is None:
            continue
        if due <= observed.now_s:
            found += gang_termination.cliques_to_delete(replica.live, due)
            target = SCALING_GROUPS.of(group.metadata)
            reported.append(gang_termination.deletion_event(target, group.metadata.uid, replica.index, due))
        else:
            later.append(due)
    return found, reported, gang_termination.earliest(later)


def _status(group: PodCliqueScalingGroup, observed: Observed, replicas: Sequence[Replica]) -> tuple[Change, ...]:
    before, set_name = group.status, observed.podcliqueset.metadata.name
    present = {index_label(each.metadata, SCALING_GROUP_REPLICA_INDEX) for each in observed.cliques}
    status: Json = {
        "observedGeneration": group.metadata.generation,
        "replicas": len(present),
        "scheduledReplicas": sum(replica.scheduled for replica in replicas),
        "availableReplicas": sum(replica.available for replica in replicas),
        "updatedReplicas": sum(
            replica.updated and all(map(cliques.has_only_updated_pods, replica.live)) for replica in replicas
        ),
        "selector": _selector(set_name, group.metadata.name),
    }
    progress, running = _progress(group, observed, replicas)
    status |= progress
    findings = [_breach(group, replicas, running)]
    healthy = findings[0].status == FALSE
    if healthy and condition(before.conditions, gang_termination.FIRST_AVAILABLE) is None and replicas:
        message = "the group has had its replicas"
        if all(replica.scheduled for replica in replicas[: group.spec.min_available]):
            reason = "SufficientAvailablePodCliqueScalingGroupReplicas"
            findings.append(ConditionChange(gang_termination.FIRST_AVAILABLE, TRUE, reason, message))
    gone = [gang_termination.TERMINATING] if healthy and not _is_going_down(group, observed) else []
    status["conditions"] = conditions(before.conditions, findings, observed.now_s, group.metadata.generation, gone)
    taken = running or condition(before.conditions, gang_termination.TERMINATING) is not None
    lost = before.scheduled_replicas if replicas and not status["scheduledReplicas"] and not taken else 0
    return (
        *all_pods_lost(SCALING_GROUPS, group.metadata, before.conditions, lost, "replicas"),
        *status_update(SCALING_GROUPS, group.metadata, before, status),
    )


def _is_going_down(group: PodCliqueScalingGroup, observed: Observed) -> bool:
    """Whether an announced termination has PodCliques left to delete: a group may be healthy when its set is not."""
    reported = condition(group.status.conditions, gang_termination.TERMINATING)
    return reported is not None and bool(
        gang_termination.cliques_to_delete(observed.cliques, seconds(reported.last_transition_time))
    )


def _breach(group: PodCliqueScalingGroup, replicas: Sequence[Replica], running: bool) -> ConditionChange:
    if running:
        return ConditionChange(BREACHED, UNKNOWN, "UpdateInProgress", "replicas are being replaced")
    well = sum(not replica.breached for replica in replicas)
    least = min(group.spec.min_available, group.spec.replicas)
    message = f"{well} replicas are complete and not in breach, at least {least} are needed"
    if well < least:
        return ConditionChange(BREACHED, TRUE, "InsufficientAvailablePodCliqueScalingGroupReplicas", message)
    return ConditionChange(BREACHED, FALSE, "SufficientAvailablePodCliqueScalingGroupReplicas", message)


def _progress(group: PodCliqueScalingGroup, observed: Observed, replicas: Sequence[Replica]) -> tuple[Json, bool]:
    """What the status says about an update, and whether one is under way here."""
    before, whole = group.status, observed.revisions.whole
    known = before.update_progress
    begun = known is not None and _goes_on(known, observed)
    unended = known is not None and known.update_ended_at is None
    rolls = _may_replace(observed) and any(_is_old(replica, observed.revisions) for replica in replicas)
    if before.current_pod_clique_set_generation_hash in ("", whole) and not (unended or rolls):
        follows: Json = {"updateProgress": to_builtins(known) | _counts(observed, replicas)} if known else {}
        return {"currentPodCliqueSetGenerationHash": whole} | follows, False
    chosen = _turn(group, observed, replicas)
    done = all(replica.updated for replica in replicas) and not rolls and _are_replaced(chosen, replicas)
    by_hand = waits_for_user(observed.podcliqueset)
    if not (_may_replace(observed) or done or by_hand):
        return {}, False
    progress: Json = to_builtins(known) if begun else {"updateStartedAt": format_time(observed.now_s)}
    progress |= {"podCliqueSetGenerationHash": whole} | _counts(observed, replicas)
    progress.pop("readyReplicaIndicesSelectedToUpdate", None)
    if not (done or by_hand):
        if chosen is not None:
            progress["readyReplicaIndicesSelectedToUpdate"] = to_builtins(chosen)
        return {"updateProgress": progress}, True
    # With OnDelete nothing is rolled out: an update is over when it begins, and users delete pods as they like.
    progress["updateEndedAt"] = progress["updateStartedAt"] if by_hand else format_time(observed.now_s)
    return {"currentPodCliqueSetGenerationHash": whole, "updateProgress": progress}, False


def _counts(observed: Observed, replicas: Sequence[Replica]) -> Json:
    """How many PodCliques there are to be, and how many have pods of the current revision only."""
    updated = 0
    for replica in replicas:
        live = {each.metadata.name: each for each in replica.live}
        for member in replica.members:
            found = live.get(member.name)
            if found is not None and cliques.is_updated(found, member, observed.revisions):
                updated += cliques.has_only_updated_pods(found)
    return {"updatedPodCliquesCount": updated, "totalPodCliquesCount": sum(len(each.members) for each in replicas)}


def _turn(
    group: PodCliqueScalingGroup, observed: Observed, replicas: Sequence[Replica]
) -> ReplicaIndicesSelectedToUpdate | None:
    """The serving replica selected for update, and those already updated."""
    chosen = _chosen(group, observed)
    old = [replica for replica in replicas if _is_old(replica, observed.revisions)]
    serving = [replica for replica in old if replica.available]
    reported = chosen is not None and any(replica.index == chosen.current for replica in serving)
    if reported or not old or len(serving) < len(old):
        return chosen
    if not _may_disrupt(group, replicas) or not _are_replaced(chosen, replicas):
        return chosen
    had = (*chosen.completed, chosen.current) if chosen is not None else ()
    current = serving[0].index
    return ReplicaIndicesSelectedToUpdate(current, tuple(index for index in had if index != current))


def _are_replaced(chosen: ReplicaIndicesSelectedToUpdate | None, replicas: Sequence[Replica]) -> bool:
    """Whether as many new replicas serve as have been replaced: the group never has more than one serving replica less
    than at the start of the update, and replicas that were not scheduled at the start do not block it."""
    given_up = len(chosen.completed) + 1 if chosen is not None else 0
    fresh = sum(replica.updated and replica.available for replica in replicas)
    return fresh >= min(given_up, len(replicas))


def _selector(podcliqueset: str, group: str) -> str:
    pairs = {APP_MANAGED_BY: MANAGED_BY_OPERATOR, APP_PART_OF: podcliqueset, SCALING_GROUP: group}
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items()))
