"""Kinds of others (Kubeflow, JobSet, LeaderWorkerSet, Ray, Knative): definitions, and controllers as far as pods go.

Pure. The pods are those that a plan expects of the kind, with the names and labels that upstream's controllers give;
an owner between them (the Jobs of a JobSet, the cluster of a RayJob, the revision of a Knative Service) is made as an
object of its own, and its own controller makes the pods. Services, secrets and queues of upstream are not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kube_apimachinery.times import format_time
from spinney.api.labels import JOBSET_REPLICATED_JOB, KUBEFLOW_JOB_ROLE
from spinney.drive.client.paths import ResourcePath
from spinney.sim.controllers.effects import Create, Decision, Delete, Effect, ref_of, report
from spinney.sim.objects import JOBS, PODS, Json, Pod
from spinney.whatif.expected.expected_pods import BadTemplate, ExpectedPods, Registry
from spinney.whatif.expected.workloads import expected_pods_of

_LAUNCHER = "launcher"


@dataclass(frozen=True, slots=True)
class Workload:
    """`versions`: those that are served, the last one is stored. `end`: the condition of one that has run to its end,
    and "" if it runs until it is deleted. `through`: what it makes where it does not make pods."""

    group: str
    kind: str
    plural: str
    versions: tuple[str, ...] = ("v1",)
    end: str = ""
    through: ResourcePath | None = None

    @property
    def name(self) -> str:
        return self.kind.lower() if self.group != "serving.knative.dev" else f"knative-{self.kind.lower()}"

    @property
    def resource(self) -> ResourcePath:
        return ResourcePath(self.group, self.versions[-1], self.plural)


_KUBEFLOW, _RAY, _KNATIVE = "kubeflow.org", "ray.io", "serving.knative.dev"
_RAY_CLUSTER = Workload(_RAY, "RayCluster", "rayclusters")
_REVISION = Workload(_KNATIVE, "Revision", "revisions")

WORKLOADS: tuple[Workload, ...] = (
    Workload(_KUBEFLOW, "JAXJob", "jaxjobs", end="Succeeded"),
    Workload(_KUBEFLOW, "MPIJob", "mpijobs", ("v1", "v2beta1"), end="Succeeded"),
    Workload(_KUBEFLOW, "PyTorchJob", "pytorchjobs", end="Succeeded"),
    Workload(_KUBEFLOW, "TFJob", "tfjobs", end="Succeeded"),
    Workload(_KUBEFLOW, "XGBoostJob", "xgboostjobs", end="Succeeded"),
    Workload("jobset.x-k8s.io", "JobSet", "jobsets", ("v1alpha2",), end="Completed", through=JOBS),
    Workload("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets"),
    _RAY_CLUSTER,
    Workload(_RAY, "RayJob", "rayjobs", through=_RAY_CLUSTER.resource),
    Workload(_RAY, "RayService", "rayservices", through=_RAY_CLUSTER.resource),
    _REVISION,
    Workload(_KNATIVE, "Service", "services", through=_REVISION.resource),
)


def definitions() -> list[Json]:
    """Their CRDs, which take any spec: what they check is upstream's to say."""
    return [_definition(each) for each in WORKLOADS]


def _definition(workload: Workload) -> Json:
    opaque = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    subresources = {"status": {}, **({"scale": scale} if workload.kind == "LeaderWorkerSet" else {})}
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == workload.versions[-1],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": opaque, "status": opaque}}},
            "subresources": subresources,
        }
        for version in workload.versions
    ]
    names = {"kind": workload.kind, "plural": workload.plural, "singular": workload.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{workload.plural}.{workload.group}"},
        "spec": {
            "group": workload.group,
            "scope": "Namespaced",
            "names": {**names, "listKind": f"{workload.kind}List"},
            "versions": versions,
        },
    }


def decide(workload: Workload, owner: Json, pods: Sequence[Pod], children: Sequence[Json], now_s: float) -> Decision:
    """`pods` and `children`: what the object owns; children only where it makes pods through them."""
    if owner["metadata"].get("deletionTimestamp") or _has_ended(owner):
        return Decision()
    try:
        expected = expected_pods_of(owner, Registry()) or []
    except BadTemplate as error:
        return Decision(report(workload.resource, owner, {"message": str(error)}))
    end = _end(workload, expected, pods, children)
    if not end:
        through = workload.through
        effects = _pods(workload, expected, pods) if through is None else _children(through, expected, children)
        return Decision((*effects, *report(workload.resource, owner, _counts(pods, children))))
    condition = {"type": end, "status": "True", "reason": end, "lastTransitionTime": format_time(now_s)}
    status = {**_counts(pods, children), "conditions": [condition]}
    left = [pod for pod in pods if not pod.finished and not pod.leaving]
    return Decision((*map(_delete, left), *report(workload.resource, owner, status)))


def _has_ended(owner: Json) -> bool:
    conditions = (owner.get("status") or {}).get("conditions") or ()
    return any(each.get("type") in ("Succeeded", "Completed", "Failed") for each in conditions)


def _pods(workload: Workload, expected: Iterable[ExpectedPods], pods: Sequence[Pod]) -> list[Effect]:
    """Pods that are missing, wave after wave: later ones are made once those before them are ready."""
    there = {pod.metadata.name: pod for pod in pods}
    effects: list[Effect] = []
    wanted: set[str] = set()
    is_ready = True
    for each in expected:
        bodies = {body["metadata"]["name"]: body for body in each.pods}
        wanted |= bodies.keys()
        if not each.wave or is_ready:
            effects += [_create(workload, body) for name, body in bodies.items() if name not in there]
        is_ready = all(name in there and (there[name].ready or there[name].finished) for name in bodies)
    over = [pod for name, pod in there.items() if name not in wanted or (pod.finished and not workload.end)]
    return [*effects, *(_delete(pod) for pod in over if not pod.leaving)]


def _create(workload: Workload, body: Json) -> Create:
    metadata = {key: value for key, value in body["metadata"].items() if key != "uid"}
    spec = {"restartPolicy": "Never", **body["spec"]} if workload.end else body["spec"]
    return Create(PODS.ref(metadata["name"], metadata["namespace"]), {**body, "metadata": metadata, "spec": spec})


def _children(resource: ResourcePath, expected: Iterable[ExpectedPods], there: Sequence[Json]) -> list[Effect]:
    """Owners below, by name; a child that is not asked for any more goes with its pods."""
    wanted = {each.owners[0]["metadata"]["name"]: _labelled(each) for each in expected}
    known = {each["metadata"]["name"]: each for each in there}
    effects: list[Effect] = []
    for name, body in wanted.items():
        if name not in known:
            metadata = {key: value for key, value in body["metadata"].items() if key != "uid"}
            effects.append(Create(resource.ref(name, metadata["namespace"]), {**body, "metadata": metadata}))
    gone = [
        each for name, each in known.items() if name not in wanted and not each["metadata"].get("deletionTimestamp")
    ]
    return [*effects, *(Delete(ref_of(resource, each), each["metadata"]["uid"], None, "Background") for each in gone)]


def _labelled(expected: ExpectedPods) -> Json:
    """The child, whose pods carry the label of a JobSet's part."""
    child = expected.owners[0]
    part = expected.pods[0]["metadata"]["labels"].get(JOBSET_REPLICATED_JOB) if expected.pods else None
    if part is None:
        return child
    template = child["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels: Mapping[str, str] = {**(metadata.get("labels") or {}), JOBSET_REPLICATED_JOB: part}
    return {
        **child,
        "spec": {**child["spec"], "template": {**template, "metadata": {**metadata, "labels": labels}}},
    }


def _delete(pod: Pod) -> Delete:
    return Delete(PODS.ref(pod.metadata.name, pod.metadata.namespace), pod.metadata.uid)


def _end(workload: Workload, expected: Sequence[ExpectedPods], pods: Sequence[Pod], children: Sequence[Json]) -> str:
    """The condition of a workload that is through: with its launcher if it has one, else with all its pods or Jobs."""
    if not workload.end:
        return ""
    if workload.through is not None:
        states = [_state_of(child) for child in children]
        count = len(expected)
    else:
        leading = [pod for pod in pods if pod.metadata.labels.get(KUBEFLOW_JOB_ROLE) == _LAUNCHER]
        names = [body["metadata"] for each in expected for body in each.pods]
        states = [pod.status.phase for pod in leading or pods]
        count = sum(not leading or name["labels"].get(KUBEFLOW_JOB_ROLE) == _LAUNCHER for name in names)
    if "Failed" in states:
        return "Failed"
    return workload.end if count and states.count("Succeeded") >= count else ""


def _state_of(job: Json) -> str:
    found = {each["type"] for each in (job.get("status") or {}).get("conditions") or () if each["status"] == "True"}
    return "Failed" if "Failed" in found else "Succeeded" if "Complete" in found else ""


def _counts(pods: Sequence[Pod], children: Sequence[Json]) -> Json:
    here = [pod for pod in pods if not pod.leaving]
    return {"replicas": len(here) or len(children), "readyReplicas": sum(pod.ready for pod in here)}
