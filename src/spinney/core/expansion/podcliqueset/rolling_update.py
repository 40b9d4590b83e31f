"""The update of a set: one replica after another, and what the status says about it (2.8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from kube_apimachinery.times import format_time
from spinney.api.changes import Json
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import PODCLIQUESET_REPLICA_INDEX
from spinney.core.expansion.objects import holds, to_builtins
from spinney.core.expansion.podclique.desired_podclique import has_only_updated_pods, is_current, is_updated
from spinney.core.expansion.podclique.pod_replacement import waits_for_user
from spinney.core.expansion.podclique.podclique import BREACHED
from spinney.core.expansion.podcliqueset.set_layout import (
    Group,
    Member,
    Revisions,
    group_members,
    index_label,
    standalone_members,
)


@dataclass(frozen=True, slots=True)
class UpdateState:
    """How far each replica of a set is.

    `outdated`: some PodClique has pods that are not of its revision. `behind`: some PodClique was made for another
    revision than the set has now.
    """

    updated: frozenset[int]
    outdated: bool
    behind: bool
    cliques_updated: int
    cliques_total: int
    groups_updated: int
    groups_total: int


def update_state(
    podcliqueset: PodCliqueSet,
    groups: Callable[[int], Sequence[Group]],
    cliques: Sequence[PodClique],
    live_groups: Sequence[PodCliqueScalingGroup],
    revisions: Revisions,
) -> UpdateState:
    """Compare existing PodCliques with the current revision of the set; missing ones count as not updated."""
    by_name = {each.metadata.name: each for each in cliques}
    through = {each.metadata.name for each in live_groups if _is_through(each, revisions)}

    def done(member: Member) -> bool:
        live = by_name.get(member.name)
        return live is not None and is_updated(live, member, revisions) and has_only_updated_pods(live)

    def late(member: Member) -> bool:
        live = by_name.get(member.name)
        return live is not None and not is_current(live, member, revisions)

    updated: set[int] = set()
    behind = False
    numbers = [0, 0, 0, 0]
    for replica in range(podcliqueset.spec.replicas):
        alone = standalone_members(podcliqueset, replica)
        of_replica = groups(replica)
        in_groups = [
            [member for index in range(group.replicas) for member in group_members(podcliqueset, group, index)]
            for group in of_replica
        ]
        behind = behind or any(map(late, chain(alone, *in_groups)))
        grouped = [[done(member) for member in members] for members in in_groups]
        flat = [*map(done, alone), *chain(*grouped)]
        if all(flat) and all(group.name in through for group in of_replica):
            updated.add(replica)
        counts = (sum(flat), len(flat), sum(map(all, grouped)), len(grouped))
        numbers = [have + more for have, more in zip(numbers, counts, strict=True)]
    return UpdateState(frozenset(updated), not all(map(has_only_updated_pods, cliques)), behind, *numbers)


def _is_through(group: PodCliqueScalingGroup, revisions: Revisions) -> bool:
    """Whether no replica of the group is left to be replaced, and the replaced ones serve again."""
    progress = group.status.update_progress
    ended = progress is None or progress.update_ended_at is not None
    return ended and group.status.current_pod_clique_set_generation_hash == revisions.whole


def update_status(
    podcliqueset: PodCliqueSet, revisions: Revisions, now: UpdateState, cliques: Sequence[PodClique], now_s: float
) -> Json:
    """The status fields of the update; a new revision during an update restarts it.

    A set may be changed before its first revision was written to the status: its PodCliques show that there was one.
    """
    before, time = podcliqueset.status, format_time(now_s)
    if not before.current_generation_hash and not now.behind:
        return {"currentGenerationHash": revisions.whole}
    if before.current_generation_hash != revisions.whole or _was_left_to_users(podcliqueset, now):
        progress: Json = {"updateStartedAt": time}
        known = None
    elif before.update_progress is None:
        return {}
    else:
        known = before.update_progress
        progress = to_builtins(known)
        progress.pop("currentlyUpdating", None)
    progress |= {
        "updatedPodCliquesCount": now.cliques_updated,
        "totalPodCliquesCount": now.cliques_total,
        "updatedPodCliqueScalingGroupsCount": now.groups_updated,
        "totalPodCliqueScalingGroupsCount": now.groups_total,
    }
    if "updateEndedAt" not in progress:
        progress |= _step(podcliqueset, now, cliques, progress["updateStartedAt"], time)
    return {"currentGenerationHash": revisions.whole, "updateProgress": progress}


def _was_left_to_users(podcliqueset: PodCliqueSet, now: UpdateState) -> bool:
    """An update that ended with old pods, because users were to delete them; now it is ours again."""
    known = podcliqueset.status.update_progress
    ended = known is not None and known.update_ended_at is not None
    return ended and now.outdated and not waits_for_user(podcliqueset)


def _step(podcliqueset: PodCliqueSet, now: UpdateState, cliques: Sequence[PodClique], started: str, time: str) -> Json:
    """The replica to update next, or the end of the update."""
    if waits_for_user(podcliqueset):
        return {"updateEndedAt": started}
    left = [replica for replica in range(podcliqueset.spec.replicas) if replica not in now.updated]
    if not left:
        return {"updateEndedAt": time}
    known = podcliqueset.status.update_progress
    current = next((each for each in known.currently_updating if each.replica_index in left), None) if known else None
    if current is not None:
        return {"currentlyUpdating": [{"replicaIndex": current.replica_index, **to_builtins(current)}]}
    chosen = min(left, key=lambda replica: (*_worth(cliques, replica), replica))
    return {"currentlyUpdating": [{"replicaIndex": chosen, "updateStartedAt": time}]}


def _worth(cliques: Sequence[PodClique], replica: int) -> tuple[bool, bool]:
    """Replicas without any scheduled pod first, then those that are in breach."""
    own = [each for each in cliques if index_label(each.metadata, PODCLIQUESET_REPLICA_INDEX) == replica]
    scheduled = any(each.status.scheduled_replicas for each in own)
    breached = any(holds(each.status.conditions, BREACHED) for each in own)
    return scheduled, not breached
