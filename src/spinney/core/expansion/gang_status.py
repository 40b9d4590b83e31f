"""What becomes of a gang: its scheduler's form of it, and how far it is (S3). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spinney.api import naming
from spinney.api.changes import Change, Expansion, Json
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import PLACEMENT_SCORE, PODGANG
from spinney.core.expansion.backends import Backend, Find
from spinney.core.expansion.conditions import FALSE, TRUE, Finding, conditions, holds
from spinney.core.expansion.objects import report
from spinney.core.expansion.pod_state import Pod, is_disrupted, is_gone, is_ready, is_scheduled
from spinney.core.expansion.resources import PODGANGS, PODGROUPS


@dataclass(frozen=True, slots=True)
class Observed:
    """What counts for one gang: its cliques by name, and their pods by the uid of the clique."""

    cliques: Mapping[str, PodClique]
    pods: Mapping[str, Sequence[Pod]]
    backend: Backend
    find: Find
    now_s: float


def expand(gang: PodGang, observed: Observed) -> Expansion:
    if gang.metadata.deletion_timestamp is not None:
        return Expansion()
    return Expansion((*observed.backend.sync_gang(gang, observed.find), *_status(gang, observed)))


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
    return report(PODGANGS, gang.metadata, before, status)


def _podgroup(gang: PodGang, observed: Observed) -> Json:
    """The scheduler's form of the gang; empty where there is none."""
    if PODGROUPS not in observed.backend.watches:
        return {}
    found = observed.find(PODGROUPS, gang.metadata.namespace, naming.kai_podgroup(gang.metadata.name)) or {}
    owners = (found.get("metadata") or {}).get("ownerReferences") or ()
    return found if gang.metadata.uid in (owner.get("uid") for owner in owners) else {}


def _refusal(podgroup: Json) -> str:
    """The first line of what the scheduler last said about not placing it; the others hold figures that change."""
    told = (podgroup.get("status") or {}).get("schedulingConditions") or ()
    return str(told[-1].get("message") or "").partition("\n")[0] if told else ""


def _score(podgroup: Json) -> float | None:
    """What the scheduler wrote, if it is a score."""
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


def _initialized(gang: PodGang, observed: Observed) -> Finding:
    """Whether every member has all its pods and the gang lists them."""
    for group in gang.spec.podgroups:
        live = observed.cliques.get(group.name)
        wanted = live.spec.replicas if live is not None else group.min_replicas
        if live is None or len(group.pod_references) < wanted:
            message = f"{group.name}: {len(group.pod_references)} of {wanted} pods are listed"
            return Finding("Initialized", FALSE, "PodGangPodsCreationPending", message)
    return Finding("Initialized", TRUE, "PodGangPodsCreated", "all pods are listed")


def _minimum(kind: str, short: str, word: str, why: str = "") -> Finding:
    if short:
        message = f"fewer pods {word} than the minimum: {short}"
        return Finding(kind, FALSE, f"MinimumNot{kind}", f"{message}. {why}" if why else message)
    return Finding(kind, TRUE, f"Minimum{kind}", f"every pod group has its minimum of pods {word}")


def _unhealthy(lost: bool, short: str) -> Finding:
    if lost:
        return Finding("Unhealthy", TRUE, "ReadyPodsLost", f"was ready, and has fewer pods ready now: {short}")
    return Finding("Unhealthy", FALSE, "NoPodsLost", "nothing that was ready has been lost")


def _disrupted(names: list[str]) -> Finding:
    if names:
        message = f"about to be disrupted: {', '.join(sorted(names)[:10])}"
        return Finding("DisruptionTarget", TRUE, "PodsDisrupted", message)
    return Finding("DisruptionTarget", FALSE, "NoPodsDisrupted", "no pod is about to be disrupted")
