"""How pods follow a changed template: which are replaced now, and how far the update is (2.8).

RollingRecreate replaces what does not serve at once and then one serving pod after another; OnDelete leaves it to the
user.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spinney.api.changes import Json
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import POD_TEMPLATE_HASH
from spinney.core.expansion.objects import builtins, stamp
from spinney.core.expansion.pod_state import Pod, is_ready, is_scheduled, leaves
from spinney.core.expansion.revision import Revisions
from spinney.core.expansion.shape import Member

ON_DELETE = "OnDelete"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Progress:
    """What the status says about the update, and whether one is under way."""

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
    """Whether it is this replica's turn."""
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
    remove: frozenset[str] = frozenset()
    if old and not by_hand:
        remove = _due(old, pods, clique.spec.replicas, ready >= member.min_available)
    done = by_hand or (not old and ready >= min(member.min_available, clique.spec.replicas))
    whole = revisions.whole if revisions.cliques.get(member.template.name) == target else ""
    return Replacement(remove, _progress(clique, target, whole, done, now_s))


def _due(old: Sequence[Pod], pods: Sequence[Pod], wanted: int, enough: bool) -> frozenset[str]:
    """Everything old that is not ready; else the oldest ready one, if the one before it has been replaced well."""
    idle = [each.metadata.name for each in old if not is_ready(each)]
    if idle:
        return frozenset(idle)
    if not enough or len(pods) < wanted or not all(map(is_ready, pods)):
        return frozenset()
    first = min(old, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))
    return frozenset((first.metadata.name,))


def _progress(clique: PodClique, target: str, whole: str, done: bool, now_s: float) -> Progress:
    before = clique.status
    whole = whole or before.current_pod_clique_set_generation_hash
    current: Json = {"currentPodTemplateHash": target, "currentPodCliqueSetGenerationHash": whole}
    if before.current_pod_template_hash in ("", target):
        return Progress(False, current)
    known = before.update_progress
    begun = known is not None and known.pod_template_hash == target
    progress: Json = builtins(known) if begun else {"updateStartedAt": stamp(now_s)}
    progress |= {"podCliqueSetGenerationHash": whole, "podTemplateHash": target}
    if not done:
        return Progress(True, {"updateProgress": progress})
    return Progress(False, {**current, "updateProgress": {**progress, "updateEndedAt": stamp(now_s)}})


def expendable_first(pods: Iterable[Pod], clique: PodClique) -> list[Pod]:
    """The order in which pods are given up: leaving, unbound, pending, not ready, outdated, youngest; then by name."""
    target = clique.metadata.labels.get(POD_TEMPLATE_HASH, "")
    by_name = sorted(pods, key=lambda each: each.metadata.name)
    by_age = sorted(by_name, key=lambda each: each.metadata.creation_timestamp or "", reverse=True)
    return sorted(
        by_age,
        key=lambda each: (
            not leaves(each),
            is_scheduled(each),
            _PHASES.get(each.status.phase, 3),
            is_ready(each),
            each.metadata.labels.get(POD_TEMPLATE_HASH) == target,
        ),
    )
