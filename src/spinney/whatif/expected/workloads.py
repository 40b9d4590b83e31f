"""Pods that third-party controllers would create from their kinds: the same number, names and labels for grouping.

Contains only what affects placement: no service volumes, no environment, no submitters. Never creates a running pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kube_apimachinery.quantity import read_number
from spinney.api.changes import Json
from spinney.api.labels import (
    JOB_COMPLETION_INDEX,
    JOB_NAME,
    JOBSET_REPLICATED_JOB,
    KNATIVE_MIN_SCALE,
    KUBEFLOW_JOB_ROLE,
    KUBEFLOW_REPLICA_INDEX,
    KUBEFLOW_REPLICA_TYPE,
    LWS_GROUP_INDEX,
    LWS_WORKER_INDEX,
    RAY_GROUP,
    RAY_NODE_TYPE,
)
from spinney.whatif.expected.expected_pods import MOST_PODS, BadTemplate, ExpectedPods, Registry, owner_reference

__all__ = ["KINDS", "BadTemplate", "expected_pods_of"]

Make = Callable[[Json, Registry], Iterator[ExpectedPods]]


def expected_pods_of(body: Json, registry: Registry) -> list[ExpectedPods] | None:
    """The expected pods of an owner; None if its kind is not known to create pods."""
    group = str(body["apiVersion"]).rpartition("/")[0]
    make = KINDS.get((group, str(body["kind"])))
    if make is None:
        return None
    _metadata(body, body, "")
    if not isinstance(body.get("spec"), dict):
        raise _wrong(body, "spec", body.get("spec"), "an object")
    expected_pods: list[ExpectedPods] = []
    pods = 0
    for expected in make(registry.adopt(body), registry):
        expected_pods.append(expected)
        pods += len(expected.pods)
        registry.require(body, pods)
    registry.pods += pods
    return expected_pods


def _pods(owner: Json, registry: Registry) -> Iterator[ExpectedPods]:
    """Bare pods, without an owner."""
    yield ExpectedPods((owner,))


def _job(owner: Json, registry: Registry, above: tuple[Json, ...] = ()) -> Iterator[ExpectedPods]:
    spec = _part(owner, "spec")
    if spec.get("suspend") is True:
        return
    wanted, completions = _count(owner, spec, "parallelism", 1), _count(owner, spec, "completions", None)
    registry.require(owner, _least(wanted, completions))
    indexed = spec.get("completionMode") == "Indexed"
    marks = {JOB_NAME: owner["metadata"]["name"]}
    pods = []
    for index in range(_least(wanted, completions)):
        name = f"{owner['metadata']['name']}-{index}"
        note = {JOB_COMPLETION_INDEX: str(index)} if indexed else {}
        pods.append(_pod(owner, spec, "spec", name, registry, {**marks, **note}, note))
    if pods:
        yield ExpectedPods(tuple(pods), owners=(owner, *above))


def _cron_job(owner: Json, registry: Registry) -> Iterator[ExpectedPods]:
    """One run of a CronJob."""
    template = _part(owner, "spec", "jobTemplate")
    run = _child(owner, "batch/v1", "Job", f"{owner['metadata']['name']}-run", template, registry)
    yield from _job(run, registry, (owner,))


def _replicas(owner: Json, registry: Registry) -> Iterator[ExpectedPods]:
    spec = _part(owner, "spec")
    name = owner["metadata"]["name"]
    owners: tuple[Json, ...] = (owner,)
    if owner["kind"] == "Deployment":
        owners = (_child(owner, "apps/v1", "ReplicaSet", f"{name}-{PLANNED_REVISION}", owner, registry), owner)
    nearest = owners[0]
    wanted = _count(owner, spec, "replicas", 1) or 0
    pods = [_pod(nearest, spec, "spec", f"{nearest['metadata']['name']}-{index}", registry) for index in range(wanted)]
    if pods:
        yield ExpectedPods(tuple(pods), owners=owners)


PLANNED_REVISION = "new"
"""Placeholder for the hash of a ReplicaSet that does not exist."""


def _stateful_set(owner: Json, registry: Registry) -> Iterator[ExpectedPods]:
    spec = _part(owner, "spec")
    first = _count(owner, _part(owner, "spec", "ordinals"), "start", 0) or 0
    pods, claims = [], []
    for ordinal in range(first, first + (_count(owner, spec, "replicas", 1) or 0)):
        name = f"{owner['metadata']['name']}-{ordinal}"
        pod = _pod(owner, spec, "spec", name, registry)
        pods.append(_with_claims(pod, spec.get("volumeClaimTemplates") or ()))
        claims += [_claim(pod, template) for template in spec.get("volumeClaimTemplates") or ()]
    if pods:
        yield ExpectedPods(tuple(pods), owners=(owner,), volume_claims=tuple(claims))


def _claim(pod: Json, template: Json) -> Json:
    metadata = template.get("metadata") or {}
    named = {"name": f"{metadata.get('name')}-{pod['metadata']['name']}", "namespace": pod["metadata"]["namespace"]}
    return {"metadata": {**metadata, **named}, "spec": template.get("spec") or {}}


def _with_claims(pod: Json, templates: Any) -> Json:
    own = [
        {"name": one["metadata"]["name"], "persistentVolumeClaim": {"claimName": _claim(pod, one)["metadata"]["name"]}}
        for one in templates
    ]
    names = {one["name"] for one in own}
    others = [one for one in pod["spec"].get("volumes") or () if one.get("name") not in names]
    return {**pod, "spec": {**pod["spec"], "volumes": [*others, *own]}}


def _job_set(owner: Json, registry: Registry) -> Iterator[ExpectedPods]:
    if _part(owner, "spec").get("suspend") is True:
        return
    for index, job in enumerate(_list(owner, "spec", "replicatedJobs")):
        where = f"spec.replicatedJobs[{index}]"
        template = _inner(owner, job, "template", where)
        label = {JOBSET_REPLICATED_JOB: str(job.get("name", ""))}
        for replica in range(_count(owner, job, "replicas", 1) or 0):
            name = f"{owner['metadata']['name']}-{job.get('name')}-{replica}"
            child = _child(owner, "batch/v1", "Job", name, template, registry)
            for expected in _job(child, registry, (owner,)):
                yield ExpectedPods(tuple(_labelled(pod, label) for pod in expected.pods), owners=expected.owners)


def _leader_worker_set(owner: Json, registry: Registry) -> Iterator[ExpectedPods]:
    template = _part(owner, "spec", "leaderWorkerTemplate")
    size = max(_count(owner, template, "size", 1) or 1, 1)
    waits = _part(owner, "spec").get("startupPolicy") == "LeaderReady"
    leader = "leaderTemplate" if template.get("leaderTemplate") else "workerTemplate"
    for group in range(_count(owner, _part(owner, "spec"), "replicas", 1) or 0):
        base = f"{owner['metadata']['name']}-{group}"
        pods = []
        for worker in range(size):
            labels = {LWS_GROUP_INDEX: str(group), LWS_WORKER_INDEX: str(worker)}
            key, name = (leader, base) if worker == 0 else ("workerTemplate", f"{base}-{worker}")
            pods.append(_pod_of(owner, template, key, "spec.leaderWorkerTemplate", name, registry, labels))
        if waits:
            yield ExpectedPods((pods[0],), owners=(owner,))
            if pods[1:]:
                yield ExpectedPods(tuple(pods[1:]), owners=(owner,), wave=1)
        else:
            yield ExpectedPods(tuple(pods), owners=(owner,))


_KUBEFLOW = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}


def _kubeflow(owner: Json, registry: Registry) -> Iterator[ExpectedPods]:
    field = _KUBEFLOW[owner["kind"]]
    late = _part(owner, "spec").get("launcherCreationPolicy") == "WaitForWorkersReady"
    waves: dict[int, list[Json]] = {0: [], 1: []}
    for role, asked in _part(owner, "spec", field).items():
        where = f"spec.{field}.{role}"
        if not isinstance(asked, dict):
            raise _wrong(owner, where, asked, "the replicas of that role")
        kind = role.lower()
        labels = {KUBEFLOW_REPLICA_TYPE: kind, KUBEFLOW_JOB_ROLE: "master" if kind in ("master", "chief") else kind}
        for index in range(_count(owner, asked, "replicas", 1) or 0):
            name = f"{owner['metadata']['name']}-{kind}-{index}"
            pod = _pod(owner, asked, where, name, registry, {**labels, KUBEFLOW_REPLICA_INDEX: str(index)})
            waves[int(late and kind == "launcher")].append(pod)
    for wave, pods in waves.items():
        if pods:
            yield ExpectedPods(tuple(pods), owners=(owner,), wave=wave)


_RAY = {"RayCluster": (), "RayJob": ("rayClusterSpec",), "RayService": ("rayClusterConfig",)}


def _ray(owner: Json, registry: Registry) -> Iterator[ExpectedPods]:
    path = ("spec", *_RAY[owner["kind"]])
    spec, where, name = _part(owner, *path), ".".join(path), owner["metadata"]["name"]
    owners: tuple[Json, ...] = (owner,)
    if owner["kind"] != "RayCluster":
        owners = (_child(owner, owner["apiVersion"], "RayCluster", name, {"spec": spec}, registry), owner)
    head = _inner(owner, spec, "headGroupSpec", where)
    pods = [_pod(owners[0], head, f"{where}.headGroupSpec", f"{name}-head", registry, {RAY_NODE_TYPE: "head"})]
    for index, group in enumerate(_list(owner, *path, "workerGroupSpecs")):
        if group.get("suspend") is True:
            continue
        labels = {RAY_NODE_TYPE: "worker", RAY_GROUP: str(group.get("groupName", ""))}
        many = (_count(owner, group, "replicas", None) or _count(owner, group, "minReplicas", 0) or 0) * (
            _count(owner, group, "numOfHosts", 1) or 1
        )
        registry.require(owner, len(pods) + many)
        at = f"{where}.workerGroupSpecs[{index}]"
        pods += [
            _pod(owners[0], group, at, f"{name}-{group.get('groupName')}-{number}", registry, labels)
            for number in range(many)
        ]
    yield ExpectedPods(tuple(pods), owners=owners)


def _knative_service(owner: Json, registry: Registry) -> Iterator[ExpectedPods]:
    """The pods of its newest revision."""
    template = _inner(owner, _part(owner, "spec"), "template", "spec")
    name = f"{owner['metadata']['name']}-{owner['metadata'].get('generation', 1):05}"
    revision = _child(owner, owner["apiVersion"], "Revision", name, template, registry)
    for expected in _knative_revision(revision, registry):
        yield ExpectedPods(expected.pods, owners=(revision, owner))


def _knative_revision(owner: Json, registry: Registry) -> Iterator[ExpectedPods]:
    """As many pods as its minimum scale says; there is no traffic to ask for more."""
    stated = str((owner["metadata"].get("annotations") or {}).get(KNATIVE_MIN_SCALE, "1"))
    least = max(read_number(stated) or 1, 1)
    registry.require(owner, least)
    holder = {"template": {"spec": owner["spec"]}}
    names = [f"{owner['metadata']['name']}-deployment-{index}" for index in range(least)]
    yield ExpectedPods(tuple(_pod(owner, holder, "spec", name, registry) for name in names), owners=(owner,))


KINDS: Mapping[tuple[str, str], Make] = {
    ("", "Pod"): _pods,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("apps", "Deployment"): _replicas,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _stateful_set,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    **{("kubeflow.org", kind): _kubeflow for kind in _KUBEFLOW},
    **{("ray.io", kind): _ray for kind in _RAY},
    ("serving.knative.dev", "Revision"): _knative_revision,
    ("serving.knative.dev", "Service"): _knative_service,
}
"""Third-party kinds by API group and kind, in any version."""


def _pod(
    owner: Json,
    holder: Json,
    where: str,
    name: str,
    registry: Registry,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    return _pod_of(owner, holder, "template", where, name, registry, labels, annotations)


def _pod_of(
    owner: Json,
    holder: Json,
    key: str,
    where: str,
    name: str,
    registry: Registry,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """A pod from the template under `key`; `where` is its path in the owner, for error messages."""
    template = _inner(owner, holder, key, where)
    spec = _inner(owner, template, "spec", f"{where}.{key}")
    metadata = _metadata(owner, template, f"{where}.{key}.")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "uid": registry.uid_below(owner),
            "labels": {**(metadata.get("labels") or {}), **(labels or {})},
            "annotations": {**(metadata.get("annotations") or {}), **(annotations or {})},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": spec,
    }


def _labelled(pod: Json, labels: Mapping[str, str]) -> Json:
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}}


def _child(owner: Json, api_version: str, kind: str, name: str, template: Json, registry: Registry) -> Json:
    """An object that the owner would create from a template."""
    own = _metadata(owner, template, "template.") if template is not owner else {}
    metadata = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "uid": registry.uid_below(owner),
        "labels": dict(own.get("labels") or {}),
        "annotations": dict(own.get("annotations") or {}),
        "ownerReferences": [owner_reference(owner)],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": template.get("spec") or {}}


def _metadata(owner: Json, holder: Json, where: str) -> Json:
    """The metadata of a template; labels and annotations must be strings because grouping rules read them."""
    found = holder.get("metadata") or {}
    if not isinstance(found, dict):
        raise _wrong(owner, f"{where}metadata", found, "an object")
    for part in ("labels", "annotations"):
        texts = found.get(part) or {}
        if not isinstance(texts, dict):
            raise _wrong(owner, f"{where}metadata.{part}", texts, "an object")
        for key, value in texts.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise _wrong(owner, f"{where}metadata.{part}[{key}]", value, "a text")
    return found


def _part(owner: Json, *path: str) -> Json:
    found: Any = owner
    for index, key in enumerate(path):
        found = found.get(key)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise _wrong(owner, ".".join(path[: index + 1]), found, "an object")
    return dict(found)


def _inner(owner: Json, holder: Json, key: str, where: str) -> Json:
    found = holder.get(key)
    if not isinstance(found, dict):
        raise _wrong(owner, f"{where}.{key}", found, "an object")
    return found


def _list(owner: Json, *path: str) -> list[Json]:
    found = _part(owner, *path[:-1]).get(path[-1]) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise _wrong(owner, ".".join(path), found, "a list of objects")
    return found


def _count(owner: Json, holder: Json, key: str, otherwise: int | None) -> int | None:
    found = holder.get(key)
    if found is None:
        return otherwise
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise _wrong(owner, key, found, "a whole number of 0 or more")
    if found > MOST_PODS and key in _NUMBERS_OF_PODS:
        raise _wrong(owner, key, found, f"no more than {MOST_PODS}, the most pods that are planned")
    return found


_NUMBERS_OF_PODS = ("replicas", "size", "minReplicas", "numOfHosts")
"""Fields that are limited by the number of pods. Other numbers may be larger: completions and the first ordinal create
no pods, and parallelism no more than completions.
"""


def _least(wanted: int | None, completions: int | None) -> int:
    most = 1 if wanted is None else wanted
    return most if completions is None else min(most, completions)


def _wrong(owner: Json, field: str, found: object, expected: str) -> BadTemplate:
    return BadTemplate(f"{owner['kind']} {owner['metadata']['name']}: {field}: found {found!r}, expected {expected}")
