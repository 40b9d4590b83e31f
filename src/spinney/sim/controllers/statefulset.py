"""StatefulSet: pods with names and volumes that stay, one after another or all at once.

Pure. A claim is never deleted: it outlives its pod.
"""

from __future__ import annotations

from collections.abc import Sequence

from spinney.sim.controllers.children import pod_for, template_hash
from spinney.sim.controllers.effects import Create, Decision, Delete, Effect, report
from spinney.sim.controllers.replicaset import available
from spinney.sim.objects import CLAIMS, PODS, STATEFULSETS, Json, Pod

REVISION_LABEL = "controller-revision-hash"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"


def decide(statefulset: Json, pods: Sequence[Pod], claims: frozenset[str], now_s: float) -> Decision:
    """`claims`: the names of the claims in the namespace."""
    if statefulset["metadata"].get("deletionTimestamp"):
        return Decision()
    by_ordinal = {number: pod for pod in pods if (number := ordinal_of(statefulset, pod)) is not None}
    ripe = available(list(by_ordinal.values()), statefulset["spec"].get("minReadySeconds") or 0, now_s)
    effects = _steps(statefulset, by_ordinal, claims)
    status = _status(statefulset, by_ordinal, ripe.available)
    return Decision((*effects, *report(STATEFULSETS, statefulset, status)), ripe.again_s)


def revision(statefulset: Json) -> str:
    return f"{statefulset['metadata']['name']}-{template_hash(statefulset['spec']['template'])}"


def _steps(statefulset: Json, pods: dict[int, Pod], claims: frozenset[str]) -> list[Effect]:
    """First what is missing from below, then what is too much from above, then what is out of date from above."""
    spec = statefulset["spec"]
    parallel = spec.get("podManagementPolicy") == "Parallel"
    first = (spec.get("ordinals") or {}).get("start", 0)
    wanted = range(first, first + spec.get("replicas", 1))
    effects: list[Effect] = []
    for ordinal in wanted:
        pod = pods.get(ordinal)
        if pod is None:
            effects += _create(statefulset, ordinal, claims)
        elif pod.finished and not pod.leaving:
            effects.append(_remove(pod))
        if not parallel and (pod is None or not _is_ready(pod)):
            return effects
    surplus = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
    leaving = [_remove(pods[ordinal]) for ordinal in surplus if not pods[ordinal].leaving]
    if surplus:
        return effects + (leaving if parallel else leaving[: 1 if len(leaving) == len(surplus) else 0])
    return effects or _update(statefulset, pods)


def _update(statefulset: Json, pods: dict[int, Pod]) -> list[Effect]:
    """The highest pod that is out of date goes, if all above it are well."""
    strategy = statefulset["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    current = revision(statefulset)
    for ordinal in sorted(pods, reverse=True):
        pod = pods[ordinal]
        if ordinal < partition:
            break
        if pod.leaving or pod.metadata.labels.get(REVISION_LABEL) != current:
            return [] if pod.leaving else [_remove(pod)]
        if not _is_ready(pod):
            return []
    return []


def _create(statefulset: Json, ordinal: int, claims: frozenset[str]) -> list[Effect]:
    metadata, spec = statefulset["metadata"], statefulset["spec"]
    name = f"{metadata['name']}-{ordinal}"
    templates = spec.get("volumeClaimTemplates") or []
    effects: list[Effect] = [
        _claim(statefulset, each, name) for each in templates if _claim_name(each, name) not in claims
    ]
    labels = {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal), REVISION_LABEL: revision(statefulset)}
    added: Json = {"hostname": name}
    if spec.get("serviceName"):
        added["subdomain"] = spec["serviceName"]
    if templates:
        given = [
            {"name": each["metadata"]["name"], "persistentVolumeClaim": {"claimName": _claim_name(each, name)}}
            for each in templates
        ]
        names = {each["name"] for each in given}
        others = [each for each in spec["template"]["spec"].get("volumes") or () if each["name"] not in names]
        added["volumes"] = [*others, *given]
    ref = PODS.ref(name, metadata["namespace"])
    return [*effects, Create(ref, pod_for(statefulset, name, labels, spec=added))]


def _claim(statefulset: Json, template: Json, pod_name: str) -> Create:
    name = _claim_name(template, pod_name)
    namespace = statefulset["metadata"]["namespace"]
    labels = (statefulset["spec"]["selector"].get("matchLabels") or {}) | (template["metadata"].get("labels") or {})
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": template["spec"],
    }
    return Create(CLAIMS.ref(name, namespace), body)


def _claim_name(template: Json, pod_name: str) -> str:
    return f"{template['metadata']['name']}-{pod_name}"


def _remove(pod: Pod) -> Delete:
    return Delete(PODS.ref(pod.metadata.name, pod.metadata.namespace), pod.metadata.uid)


def _is_ready(pod: Pod) -> bool:
    return pod.ready and not pod.leaving


def ordinal_of(statefulset: Json, pod: Pod) -> int | None:
    """The number of a pod by its name; None: it has none in this set."""
    prefix, _, number = pod.metadata.name.rpartition("-")
    return int(number) if prefix == statefulset["metadata"]["name"] and number.isdecimal() else None


def _status(statefulset: Json, pods: dict[int, Pod], ripe: int) -> Json:
    current = revision(statefulset)
    before = statefulset.get("status") or {}
    here = [pod for pod in pods.values() if not pod.leaving]
    updated = sum(pod.metadata.labels.get(REVISION_LABEL) == current for pod in here)
    replicas = statefulset["spec"].get("replicas", 1)
    rolled = updated == len(here) == replicas and all(pod.ready for pod in here)
    was = current if rolled else before.get("currentRevision") or current
    return {
        "observedGeneration": statefulset["metadata"].get("generation", 0),
        "replicas": len(pods),
        "readyReplicas": sum(pod.ready for pod in here),
        "availableReplicas": ripe,
        "currentReplicas": sum(pod.metadata.labels.get(REVISION_LABEL) == was for pod in here),
        "updatedReplicas": updated,
        "currentRevision": was,
        "updateRevision": current,
        "collisionCount": 0,
    }
