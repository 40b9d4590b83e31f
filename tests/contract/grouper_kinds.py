"""Other people's kinds as far as the pod-grouper needs them: any content, and the pods that their controllers make."""

from __future__ import annotations

from typing import Any

from cluster_kit.space import Space
from spinney.api.crds import crd

Json = dict[str, Any]

OURS = ("ClusterTopology", "PodClique", "PodCliqueSet", "PodGang", "PodGroup", "Queue", "Topology")
FOREIGN = {
    "Workflow": ("argoproj.io", "v1alpha1", "workflows"),
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
    "PyTorchJob": ("kubeflow.org", "v1", "pytorchjobs"),
    "TFJob": ("kubeflow.org", "v1", "tfjobs"),
    "MPIJob": ("kubeflow.org", "v2beta1", "mpijobs"),
    "RayCluster": ("ray.io", "v1", "rayclusters"),
    "RayJob": ("ray.io", "v1", "rayjobs"),
    "Invention": ("invented.example.com", "v1", "inventions"),
}
BUILT_IN = {
    "CronJob": "cronjobs",
    "Deployment": "deployments",
    "Job": "jobs",
    "Pod": "pods",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
}


def foreign_definition(kind: str) -> Json:
    group, version, plural = FOREIGN[kind]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def install(server: Any) -> None:
    """All kinds, served. Definitions are shared by all tests of a server and stay."""
    cluster = Space(server, "")
    for definition in [*map(crd, OURS), *map(foreign_definition, FOREIGN)]:
        cluster.apply("customresourcedefinitions", definition, force="true").ok(200, 201)
    for definition in [*map(crd, OURS), *map(foreign_definition, FOREIGN)]:
        cluster.established(definition["metadata"]["name"])


def collection_of(manifest: Json) -> str:
    kind, api_version = manifest["kind"], manifest["apiVersion"]
    if kind in BUILT_IN:
        return BUILT_IN[kind]
    plural = FOREIGN[kind][2] if kind in FOREIGN else crd(kind)["spec"]["names"]["plural"]
    return f"{api_version}/{plural}"


def owned_by(made: Json, controller: bool = True) -> list[Json]:
    metadata = made["metadata"]
    reference = {
        "apiVersion": made["apiVersion"],
        "kind": made["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return [{**reference, "controller": controller}]
