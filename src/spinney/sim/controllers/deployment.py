"""Deployment: one ReplicaSet per template, moved from old to new by its strategy.

Pure. Never takes more pods away, or adds more, than maxUnavailable and maxSurge allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kube_apimachinery.times import format_time
from spinney.sim.controllers.children import count_of, owner_reference, template_hash
from spinney.sim.controllers.effects import Create, Decision, Delete, Effect, Patch, ref_of, report, state_of
from spinney.sim.objects import DEPLOYMENTS, REPLICASETS, Json

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


@dataclass(frozen=True, slots=True)
class Sets:
    """The ReplicaSets of a Deployment: that of the present template, and the others, oldest first."""

    new: Json | None
    old: tuple[Json, ...]

    @property
    def all(self) -> tuple[Json, ...]:
        return (*self.old, self.new) if self.new is not None else self.old


def decide(deployment: Json, replicasets: Sequence[Json], pods_left: int, now_s: float) -> Decision:
    """`pods_left`: pods of old ReplicaSets that still exist, also terminating ones; Recreate waits for them."""
    if deployment["metadata"].get("deletionTimestamp"):
        return Decision()
    sets = _sort(deployment, replicasets)
    renumbered = _number(deployment, sets)
    if renumbered:
        return Decision(tuple(renumbered))
    effects: list[Effect] = []
    if not deployment["spec"].get("paused"):
        if sets.new is None and not (_recreates(deployment) and (pods_left or any(_size(each) for each in sets.old))):
            effects.append(_create(deployment, sets))
        sizes = _recreate(deployment, sets) if _recreates(deployment) else _roll(deployment, sets)
        effects += [_resize(each, size) for each, size in zip(sets.all, sizes, strict=True) if _size(each) != size]
        effects += _forget_old(deployment, sets)
    effects += report(DEPLOYMENTS, deployment, _status(deployment, sets, now_s))
    return Decision(tuple(effects))


def _sort(deployment: Json, replicasets: Sequence[Json]) -> Sets:
    mine = sorted(replicasets, key=lambda each: (_revision(each), each["metadata"]["name"]))
    current = template_hash(deployment["spec"]["template"])
    new = next((each for each in mine if each["metadata"]["labels"].get(HASH_LABEL) == current), None)
    return Sets(new, tuple(each for each in mine if each is not new))


def _create(deployment: Json, sets: Sets) -> Create:
    spec, template = deployment["spec"], deployment["spec"]["template"]
    mark = {HASH_LABEL: template_hash(template)}
    name = f"{deployment['metadata']['name']}-{mark[HASH_LABEL]}"
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **mark}
    selector = spec["selector"]
    first = spec.get("replicas", 1) if not sets.old or _recreates(deployment) else 0
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": deployment["metadata"]["namespace"],
            "labels": labels,
            "annotations": {REVISION: str(_last_revision(sets) + 1)},
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": first,
            "minReadySeconds": spec.get("minReadySeconds") or 0,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **mark}},
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }
    return Create(REPLICASETS.ref(name, deployment["metadata"]["namespace"]), body)


def _roll(deployment: Json, sets: Sets) -> list[int]:
    """Sizes in the order of `Sets.all`: the new grows into the room there is, the old shrink as far as allowed."""
    wanted = deployment["spec"].get("replicas", 1)
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = count_of(rolling.get("maxSurge", "25%"), wanted, round_up=True)
    missing = count_of(rolling.get("maxUnavailable", "25%"), wanted, round_up=False)
    if surge == 0 and missing == 0:
        missing = 1
    if sets.new is None:
        return [_size(each) for each in sets.old]
    others = sum(_size(each) for each in sets.old)
    grown = max(_size(sets.new), min(wanted, wanted + surge - others))
    new = wanted if not others else min(grown, wanted)
    least = wanted - missing
    available = sum(_count(each, "availableReplicas") for each in sets.all)
    most = others + new - least - max(0, new - _count(sets.new, "availableReplicas"))
    return [*_shrink(sets.old, most, available - least), new]


def _shrink(old: Sequence[Json], most: int, excess: int) -> list[int]:
    """At most `most` in all: unavailable pods first, then available ones while there are some to spare."""
    sizes = []
    for each in old:
        size = _size(each)
        dead = max(0, min(size - _count(each, "availableReplicas"), most))
        alive = max(0, min(size - dead, most - dead, excess))
        most -= dead + alive
        excess -= alive
        sizes.append(size - dead - alive)
    return sizes


def _recreate(deployment: Json, sets: Sets) -> list[int]:
    new = [deployment["spec"].get("replicas", 1)] if sets.new is not None else []
    return [0] * len(sets.old) + new


def _resize(replicaset: Json, size: int) -> Patch:
    return Patch(ref_of(REPLICASETS, replicaset), {"spec": {"replicas": size}}, state_of(replicaset))


def _forget_old(deployment: Json, sets: Sets) -> list[Effect]:
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    empty = [each for each in sets.old if not _size(each) and not _count(each, "replicas")]
    surplus = empty[: max(0, len(empty) - limit)]
    return [Delete(ref_of(REPLICASETS, each), each["metadata"]["uid"]) for each in surplus]


def _number(deployment: Json, sets: Sets) -> list[Effect]:
    """The revision: counted up when an old template comes back, and shown on the Deployment. A pass of its own, for
    what else is written to these objects is decided on their state."""
    if sets.new is None:
        return []
    effects: list[Effect] = []
    revision = _revision(sets.new)
    highest_old = max((_revision(each) for each in sets.old), default=0)
    if revision <= highest_old:
        revision = highest_old + 1
        patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
        effects.append(Patch(ref_of(REPLICASETS, sets.new), patch, state_of(sets.new)))
    shown = (deployment["metadata"].get("annotations") or {}).get(REVISION)
    if shown != str(revision):
        patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
        # Through the status, as the real one writes it: an annotation on the main way would raise the generation.
        effects.append(Patch(ref_of(DEPLOYMENTS, deployment), patch, state_of(deployment), "status"))
    return effects[:1]


def _status(deployment: Json, sets: Sets, now_s: float) -> Json:
    wanted = deployment["spec"].get("replicas", 1)
    total = sum(_count(each, "replicas") for each in sets.all)
    available = sum(_count(each, "availableReplicas") for each in sets.all)
    updated = _count(sets.new, "replicas")
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    missing = 0 if _recreates(deployment) else count_of(rolling.get("maxUnavailable", "25%"), wanted, round_up=False)
    enough = available >= wanted - missing
    done = updated == wanted == total == available
    name = sets.new["metadata"]["name"] if sets.new is not None else deployment["metadata"]["name"]
    conditions = {
        "Available": (enough, "MinimumReplicasAvailable", "MinimumReplicasUnavailable", ""),
        "Progressing": (
            True,
            "NewReplicaSetAvailable" if done else "ReplicaSetUpdated",
            "",
            f'ReplicaSet "{name}" {"has successfully progressed" if done else "is progressing"}.',
        ),
    }
    return {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": sum(_count(each, "readyReplicas") for each in sets.all),
        "availableReplicas": available,
        "unavailableReplicas": max(0, wanted - available),
        "conditions": [_condition(deployment, kind, *words, now_s) for kind, words in conditions.items()],
    }


def _condition(deployment: Json, kind: str, met: bool, good: str, bad: str, message: str, now_s: float) -> Json:
    status, reason = ("True", good) if met else ("False", bad)
    text = message or f"Deployment {'has' if met else 'does not have'} minimum availability."
    known = (deployment.get("status") or {}).get("conditions") or ()
    before: Json = next((each for each in known if each["type"] == kind), {})
    if (before.get("status"), before.get("reason"), before.get("message")) == (status, reason, text):
        return before
    stamp = format_time(now_s)
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    times = {"lastTransitionTime": since or stamp, "lastUpdateTime": stamp}
    return {"type": kind, "status": status, "reason": reason, "message": text, **times}


def _recreates(deployment: Json) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type") == "Recreate")


def _size(replicaset: Json) -> int:
    return int(replicaset["spec"].get("replicas", 1))


def _count(replicaset: Json | None, field: str) -> int:
    return int((replicaset.get("status") or {}).get(field, 0)) if replicaset is not None else 0


def _revision(replicaset: Json) -> int:
    text = (replicaset["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def _last_revision(sets: Sets) -> int:
    return max((_revision(each) for each in sets.old), default=0)
