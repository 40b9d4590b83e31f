"""PodClique: creates its number of pods, removes their gates when their gang lists them, and writes its status.

Pure. Bound pods are never removed for the sake of a changed topology.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spinney.api.changes import Change, ChangeSet, Delete, EmitEvent, Json, Resource
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import (
    APP_MANAGED_BY,
    APP_PART_OF,
    FINALIZER_PODCLIQUE,
    GATE_PODGANG_PENDING,
    MANAGED_BY_OPERATOR,
    NODE_KEYS,
    POD_TEMPLATE_HASH,
    PODCLIQUE,
    PODGANG,
)
from spinney.api.meta import Condition, ObjectMeta, PartialObject, condition
from spinney.core.expansion.components import initc_rbac, resource_claims
from spinney.core.expansion.objects import (
    FALSE,
    PODCLIQUES,
    PODS,
    TRUE,
    UNKNOWN,
    ConditionChange,
    conditions,
    delete,
    patch_object,
    status_update,
    with_finalizer,
    without_finalizer,
)
from spinney.core.expansion.podclique import desired_pod, pod_replacement
from spinney.core.expansion.podclique.desired_pod import PodInput, free_indices, pod, taken_indices
from spinney.core.expansion.podclique.pod_state import (
    Pod,
    has_failed,
    is_gone,
    is_ready,
    is_scheduled,
    is_started,
    is_terminating,
)
from spinney.core.expansion.podcliqueset.set_layout import Member, Revisions
from spinney.core.expansion.podcliqueset.topology_resolution import ResolvedTopology
from spinney.core.expansion.settings import Settings

SCHEDULED = "PodCliqueScheduled"
BREACHED = "MinAvailableBreached"
FIRST_SCHEDULED = "FirstScheduled"

Claims = tuple[Sequence[PartialObject], resource_claims.FindTemplate]
"""The claims that an owner has, and where templates are found."""

NewName = Callable[[str], str]
"""From a prefix to a fresh name."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state of one PodClique. `base_scheduled`: whether the base gang of a scaled gang is scheduled."""

    podcliqueset: PodCliqueSet
    member: Member
    resolved_topology: ResolvedTopology
    pods: Sequence[Pod]
    gang: PodGang | None
    base_scheduled: bool
    revisions: Revisions
    settings: Settings
    now_s: float
    new_name: NewName
    claims: Claims


def expand(clique: PodClique, observed: Observed) -> ChangeSet:
    if clique.metadata.deletion_timestamp is not None:
        return ChangeSet(finalize(clique, observed.pods))
    keys = observed.resolved_topology.node_keys(observed.podcliqueset, observed.member)
    here = [each for each in observed.pods if not is_gone(each)]
    # A pod that has no node and was made for other levels is made again; one that has a node keeps it.
    fit = [each for each in here if is_scheduled(each) or _keys_of(each) == ",".join(keys)]
    update = pod_replacement.pods_to_replace(
        clique, fit, observed.podcliqueset, observed.member, observed.revisions, observed.now_s
    )
    staying = [each for each in fit if each.metadata.name not in update.remove]
    names = {each.metadata.name for each in staying}
    unfit = [each for each in here if each.metadata.name not in names]
    finished = [each for each in observed.pods if is_gone(each) and each.metadata.deletion_timestamp is None]
    changes: list[Change] = [
        *with_finalizer(PODCLIQUES, clique.metadata, FINALIZER_PODCLIQUE),
        *_remove([*unfit, *finished]),
        *_claims(clique, here, observed),
        *_scale(clique, staying, observed, keys),
        *_ungate(clique, staying, observed),
        *_status(clique, here, observed, update.progress),
    ]
    return ChangeSet(tuple(changes))


def finalize(clique: PodClique, pods: Sequence[Pod]) -> tuple[Change, ...]:
    """Finish the deletion of a PodClique: its pods first, unless they are orphaned."""
    orphaned = "orphan" in clique.metadata.finalizers
    gone = () if orphaned else _remove(pods)
    return (*gone, *without_finalizer(PODCLIQUES, clique.metadata, FINALIZER_PODCLIQUE))


def _claims(clique: PodClique, here: Sequence[Pod], observed: Observed) -> list[Change]:
    """One for each index that a pod has or will have: those that stay after scaling in need not be the lowest."""
    entries = observed.member.template.resource_sharing
    indices = sorted({*range(clique.spec.replicas), *taken_indices(here)})
    owner = (PODCLIQUES, clique.metadata)
    live, template = observed.claims
    return resource_claims.expand(observed.podcliqueset, entries, owner, indices, live, template)


def _remove(pods: Sequence[Pod]) -> tuple[Delete, ...]:
    return tuple(change for each in pods for change in delete(PODS, each.metadata))


def _keys_of(each: Pod) -> str:
    return each.metadata.annotations.get(NODE_KEYS, "")


def _scale(clique: PodClique, pods: Sequence[Pod], observed: Observed, keys: tuple[str, ...]) -> list[Change]:
    missing = clique.spec.replicas - len(pods)
    if missing < 0:
        return [*_remove(pod_replacement.deletion_order(pods, clique)[:-missing])]
    backend = observed.settings.backend_of(observed.podcliqueset)
    settings = observed.settings
    image, mnnvl = settings.init_image, settings.mnnvl_enabled
    parents = _parents(observed) if missing else ()
    pod_input = PodInput(observed.podcliqueset, clique, observed.member, backend, keys, image, mnnvl, parents)
    indices = free_indices(pods, missing)
    return [*([initc_rbac.token(observed.podcliqueset)] if parents else []), *_new_pods(pod_input, indices, observed)]


def _parents(observed: Observed) -> tuple[desired_pod.Parent, ...]:
    """The parents that the gang lists, so that pods do not wait for a clique scaled to zero. A gang that does not list
    the member itself yet is not used."""
    parents = desired_pod.parents_of(observed.podcliqueset, observed.member)
    counted = {group.name for group in observed.gang.spec.podgroups} if observed.gang is not None else set()
    return tuple(each for each in parents if each.clique in counted or observed.member.name not in counted)


def _new_pods(pod_input: PodInput, indices: Sequence[int], observed: Observed) -> list[Change]:
    return [pod(pod_input, index, observed.new_name(f"{pod_input.clique.metadata.name}-")) for index in indices]


def _ungate(clique: PodClique, pods: Sequence[Pod], observed: Observed) -> list[Change]:
    """The pods that their gang lists; those of a scaled gang wait for the base gang to have its nodes.

    A clique begins with all its pods, so that a domain is chosen for all of them; without those that were refused.
    """
    gang, name = observed.gang, observed.member.name
    if gang is None or (observed.member.base_gang and not observed.base_scheduled):
        return []
    listed = {ref.name for group in gang.spec.podgroups if group.name == name for ref in group.pod_references}
    # Errors stand for pods that the API server refused: the gang is not held up for those that will never be there.
    begun = any(not each.spec.scheduling_gates for each in pods) or bool(clique.status.last_errors)
    if not begun and len(listed) < clique.spec.replicas:
        return []
    changes: list[Change] = []
    for each in pods:
        gates = [gate.name for gate in each.spec.scheduling_gates]
        right = each.metadata.labels.get(PODGANG) == gang.metadata.name and each.metadata.name in listed
        if right and GATE_PODGANG_PENDING in gates and each.metadata.deletion_timestamp is None:
            left = [{"name": gate} for gate in gates if gate != GATE_PODGANG_PENDING]
            changes += patch_object(PODS, each.metadata, {"spec": {"schedulingGates": left or None}})
    return changes


def _status(
    clique: PodClique, pods: Sequence[Pod], observed: Observed, progress: pod_replacement.Progress
) -> tuple[Change, ...]:
    before, current = clique.status, clique.metadata.labels.get(POD_TEMPLATE_HASH, "")
    here = [each for each in pods if not is_terminating(each)]
    scheduled = [each for each in here if is_scheduled(each)]
    status: Json = {
        "observedGeneration": clique.metadata.generation,
        "replicas": len(here),
        "readyReplicas": sum(map(is_ready, here)),
        "updatedReplicas": sum(each.metadata.labels.get(POD_TEMPLATE_HASH) == current for each in here),
        "scheduleGatedReplicas": sum(bool(each.spec.scheduling_gates) for each in here),
        "scheduledReplicas": len(scheduled),
        "conditions": conditions(
            before.conditions,
            _findings(clique, scheduled, _least(clique, observed.member), progress.running),
            observed.now_s,
            clique.metadata.generation,
        ),
        **progress.status,
    }
    if observed.member.group is None:
        status["hpaPodSelector"] = _selector(observed.podcliqueset.metadata.name, clique.metadata.name)
    lost = before.scheduled_replicas if clique.spec.replicas and not scheduled and not progress.running else 0
    return (
        *all_pods_lost(PODCLIQUES, clique.metadata, before.conditions, lost, "pods"),
        *status_update(PODCLIQUES, clique.metadata, before, status),
    )


def all_pods_lost(
    resource: Resource, metadata: ObjectMeta, before: tuple[Condition, ...], lost: int, what: str
) -> tuple[EmitEvent, ...]:
    """An event when nothing is scheduled any more of what was; once for each time that it was."""
    if not lost:
        return ()
    held = condition(before, SCHEDULED) or condition(before, BREACHED)
    message = (
        f"All scheduled {what} lost (was {lost}): the gang is terminated after terminationDelay unless enough of them "
        "come back; look at nodes and capacity"
    )
    occasion = held.last_transition_time if held is not None else ""
    return (
        EmitEvent(resource.of(metadata), metadata.uid, "AllScheduledReplicasLost", message, occasion, warning=True),
    )


def _least(clique: PodClique, member: Member) -> int:
    """How many pods are missed where there are fewer; of a clique that was scaled to none, none."""
    return member.min_available if clique.spec.replicas else 0


def _findings(clique: PodClique, scheduled: Sequence[Pod], least: int, updating: bool) -> list[ConditionChange]:
    count = len(scheduled)
    enough = count >= least
    shortage = f"{count} pods are scheduled, at least {least} are needed"
    reason = "SufficientScheduledPods" if enough else "InsufficientScheduledPods"
    found = [
        ConditionChange(SCHEDULED, TRUE if enough else FALSE, reason, shortage),
        _breach(scheduled, least, updating),
    ]
    first = condition(clique.status.conditions, FIRST_SCHEDULED)
    if enough and count and first is None:
        found.append(ConditionChange(FIRST_SCHEDULED, TRUE, "SufficientScheduledPods", "the clique has had its nodes"))
    return found


def _breach(scheduled: Sequence[Pod], least: int, updating: bool) -> ConditionChange:
    """Starting pods count as well: only what failed, or started and is not ready, is missing."""
    if updating:
        return ConditionChange(BREACHED, UNKNOWN, "UpdateInProgress", "pods are being replaced")
    if len(scheduled) < least:
        message = f"{len(scheduled)} pods are scheduled, at least {least} are needed"
        return ConditionChange(BREACHED, TRUE, "ScheduledReplicasBelowMinAvailable", message)
    bad = [each for each in scheduled if has_failed(each) or (is_started(each) and not is_ready(each))]
    well = len(scheduled) - len(bad)
    message = f"{well} pods are ready or starting, at least {least} are needed"
    if well < least:
        return ConditionChange(BREACHED, TRUE, "InsufficientReadyPods", message)
    return ConditionChange(BREACHED, FALSE, "SufficientReadyPods", message)


def _selector(podcliqueset: str, clique: str) -> str:
    pairs = {APP_MANAGED_BY: MANAGED_BY_OPERATOR, APP_PART_OF: podcliqueset, PODCLIQUE: clique}
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items()))
