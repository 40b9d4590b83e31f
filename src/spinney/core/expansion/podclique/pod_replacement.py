"""How pods follow a changed template: which are replaced now, and how far the update is (2.8).

RollingRecreate replaces what does not serve at once and then one serving pod after another; OnDelete leaves it to the
user.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kube_apimachinery.times import format_time
from spinney.api.changes import Json
from spinney.api.kinds.podclique import PodClique, PodCliqueUpdateProgress
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import POD_INDEX, POD_TEMPLATE_HASH
from spinney.core.expansion.objects import to_builtins
from spinney.core.expansion.podclique.pod_state import Pod, is_ready, is_scheduled, is_terminating
from spinney.core.expansion.podcliqueset.set_layout import Member, Revisions, index_label

ON_DELETE = "OnDelete"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Progress:
    """The update's status fields, and whether an update is running."""

    running: bool = False
    status: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replacement:
    """Names of pods to be replaced now."""

    remove: frozenset[str]
    progress: Progress


def waits_for_user(podcliqueset: PodCliqueSet) -> bool:
    strategy = podcliqueset.spec.update_strategy
    return strategy is not None and strategy.type == ON_DELETE


def is_updating(podcliqueset: PodCliqueSet, replica: int) -> bool:
    """Whether the rolling update has selected this replica."""
    progress = podcliqueset.status.update_progress
    if progress is None or progress.update_ended_at is not None:
        return False
    return any(each.replica_index == replica for each in progress.currently_updating)


def pods_to_replace(
    clique: PodClique,
    pods: Sequence[Pod],
    podcliqueset: PodCliqueSet,
    member: Member,
    revisions: Revisions,
    now_s: float,
) -> Replacement:
    target = clique.metadata.labels.get(POD_TEMPLATE_HASH, "")
    old = [each for each in pods if each.metadata.labels.get(POD_TEMPLATE_HASH) != target]
    by_hand = waits_for_user(podcliqueset)
    ready = sum(map(is_ready, pods))
    fresh = ready - sum(map(is_ready, old))
    awaited = min(_replaced(clique, target, pods), clique.spec.replicas - len(old))
    remove: frozenset[str] = frozenset()
    turn = bool(old) and member.group is None and is_updating(podcliqueset, member.replica) and not by_hand
    if turn:
        remove = _due(old, ready >= member.min_available and fresh >= awaited)
    serving = next((each.metadata.name for each in old if each.metadata.name in remove and is_ready(each)), "")
    # One write per reconcile: first the status names the pod, and only what is named is deleted, so that a restart in
    # between never takes a second one.
    if serving and serving != _chosen(clique, target):
        remove = frozenset()
    done = by_hand or (not old and fresh >= awaited)
    whole = revisions.whole if revisions.cliques.get(member.template.name) == target else ""
    if not turn and _is_updated(clique, target):
        return Replacement(remove, Progress(False, _current(clique, target, whole)))
    return Replacement(remove, _progress(clique, target, whole, serving, done, now_s))


def _due(old: Sequence[Pod], may_disrupt: bool) -> frozenset[str]:
    """All outdated pods that are not ready; else the oldest ready one, if a ready pod can be spared."""
    # Pods that do not serve cost nothing, so they go at once and need nobody in their place.
    idle = [each.metadata.name for each in old if not is_ready(each)]
    if idle:
        return frozenset(idle)
    return frozenset((min(old, key=_age).metadata.name,)) if may_disrupt else frozenset()


def _replaced(clique: PodClique, target: str, pods: Sequence[Pod]) -> int:
    """How many ready pods have been given up so far.

    As many new ones have to be ready before the next one goes: the clique never has more than one ready pod less than
    it began with, and pods that had no node to begin with keep nobody waiting. Nor do those that went because the
    clique was scaled in: there are never more new pods than the old ones leave room for.
    """
    known = clique.status.update_progress
    if known is None or not _goes_on(known, target) or known.ready_pods_selected_to_update is None:
        return 0
    chosen = known.ready_pods_selected_to_update
    return len(chosen.completed) + all(each.metadata.name != chosen.current for each in pods)


def _chosen(clique: PodClique, target: str) -> str:
    """The ready pod that the status names as next: the status is written before the pod is deleted."""
    known = clique.status.update_progress
    if known is None or not _goes_on(known, target) or known.ready_pods_selected_to_update is None:
        return ""
    return known.ready_pods_selected_to_update.current


def _age(pod: Pod) -> tuple[str, int, str]:
    """The oldest first. Times are whole seconds: among pods made together the index decides, names are random."""
    metadata = pod.metadata
    index = index_label(metadata, POD_INDEX)
    return metadata.creation_timestamp or "", index if index is not None else -1, metadata.name


def _is_updated(clique: PodClique, target: str) -> bool:
    """All pods are of the revision, and no update of them is to be ended, be it one that was taken back."""
    known = clique.status.update_progress
    over = known is None or known.update_ended_at is not None
    return over and clique.status.current_pod_template_hash in ("", target)


def _goes_on(known: PodCliqueUpdateProgress, target: str) -> bool:
    return known.pod_template_hash == target and known.update_ended_at is None


def _current(clique: PodClique, target: str, whole: str) -> Json:
    whole = whole or clique.status.current_pod_clique_set_generation_hash
    return {"currentPodTemplateHash": target, "currentPodCliqueSetGenerationHash": whole}


def _progress(clique: PodClique, target: str, whole: str, serving: str, done: bool, now_s: float) -> Progress:
    """`serving`: the ready pod selected to be replaced next."""
    current = _current(clique, target, whole)
    known = clique.status.update_progress
    begun = known is not None and _goes_on(known, target)
    progress: Json = to_builtins(known) if begun else {"updateStartedAt": format_time(now_s)}
    whole = current["currentPodCliqueSetGenerationHash"]
    progress |= {"podCliqueSetGenerationHash": whole, "podTemplateHash": target}
    if not done:
        if serving:
            chosen = known.ready_pods_selected_to_update if begun and known is not None else None
            before_it = [*chosen.completed, chosen.current] if chosen is not None else []
            completed = [name for name in before_it if name != serving]
            progress["readyPodsSelectedToUpdate"] = {"current": serving, "completed": completed}
        return Progress(True, {"updateProgress": progress})
    progress.pop("readyPodsSelectedToUpdate", None)
    return Progress(False, {**current, "updateProgress": {**progress, "updateEndedAt": format_time(now_s)}})


def deletion_order(pods: Iterable[Pod], clique: PodClique) -> list[Pod]:
    """The order in which pods are given up: leaving, unbound, pending, not ready, outdated, youngest, highest index."""
    target = clique.metadata.labels.get(POD_TEMPLATE_HASH, "")
    by_age = sorted(pods, key=_age, reverse=True)
    return sorted(
        by_age,
        key=lambda each: (
            not is_terminating(each),
            is_scheduled(each),
            _PHASES.get(each.status.phase, 3),
            is_ready(each),
            each.metadata.labels.get(POD_TEMPLATE_HASH) == target,
        ),
    )
