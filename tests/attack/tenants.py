"""Who lives on the attacked cluster: a team with gangs that run, a bystander who comes now and then, and the attacker.

The attacker may do what item 8 of the cluster's requirements grants a tenant, in one namespace and nowhere else.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from attack.installation import RACK, TENANT, ZONE, Installation
from cluster_kit.objects import cluster_role, cluster_role_binding, job, named, role_binding
from cluster_kit.server import PATCH_TYPES, Reply, eventually
from cluster_kit.space import Space
from unit.operator.operator_world import clique, podcliqueset
from unit.scheduler.scheduler_world import GPU, pod, podgroup

Json = dict[str, Any]

VICTIMS, BYSTANDER, ATTACKER = "victims", "bystander", "attacker"
GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
QUEUES = "scheduling.run.ai/v2/queues"
SETS = "grove.io/v1alpha1/podcliquesets"
CLIQUES = "grove.io/v1alpha1/podcliques"
SCALED = "grove.io/v1alpha1/podcliquescalinggroups"
GANGS = "scheduler.grove.io/v1alpha1/podgangs"
SERVING, DECODING, TRAINING = "serving-0", "decoding", "training"
"""The gangs of the victims: of a PodGroup alone, of a PodCliqueSet, of a Job."""
CLIQUE = f"{DECODING}-0-a"
MANAGED = {
    "app.kubernetes.io/managed-by": "grove-operator",
    "app.kubernetes.io/part-of": DECODING,
    "grove.io/podgang": f"{DECODING}-0",
    "grove.io/podclique": CLIQUE,
    "grove.io/podcliqueset-replica-index": "0",
}
"""What the operator writes on pods of the victims' PodCliqueSet."""
FULL = tuple(f"full-{number}" for number in range(3))
FREE = tuple(f"free-{number}" for number in range(3))
TAINTED, LABELLED = "tainted", "labelled"
BOUND_WITHIN_S = 30.0
_SIZE = 8
_VERBS = ("create", "get", "list", "watch", "update", "patch", "delete")
_counter = itertools.count()


def rights() -> list[Json]:
    """Pods, Jobs, PodCliqueSets and PodGroups: what a tenant needs to run gangs."""
    kinds = {"": ["pods"], "batch": ["jobs"], "grove.io": ["podcliquesets"], "scheduling.run.ai": ["podgroups"]}
    return [{"apiGroups": [group], "resources": each, "verbs": list(_VERBS)} for group, each in kinds.items()]


def too_many_rights() -> list[Json]:
    """What some administrators grant beside that, and should not."""
    status = {"apiGroups": ["scheduling.run.ai"], "resources": ["podgroups/status"], "verbs": ["update", "patch"]}
    gangs = {"apiGroups": ["scheduler.grove.io"], "resources": ["podgangs", "podgangs/status"], "verbs": list(_VERBS)}
    parts_of_sets = ["podcliques", "podcliquescalinggroups"]
    cliques = {"apiGroups": ["grove.io"], "resources": parts_of_sets, "verbs": list(_VERBS)}
    told = [f"{each}/status" for each in ("podcliquesets", *parts_of_sets)]
    states = {"apiGroups": ["grove.io"], "resources": told, "verbs": ["update", "patch"]}
    parts = ["pods/status", "pods/resize", "pods/ephemeralcontainers"]
    pods = {"apiGroups": [""], "resources": parts, "verbs": ["update", "patch"]}
    jobs = {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["update", "patch"]}
    counts = ["podcliquesets/scale", "podcliques/scale", "podcliquescalinggroups/scale"]
    scales = {"apiGroups": ["grove.io"], "resources": counts, "verbs": ["update", "patch"]}
    return [status, gangs, cliques, states, pods, jobs, scales]


@contextmanager
def right_to_queues(cluster: Space) -> Iterator[None]:
    """The tenant may read queues, and write their status: a right in the whole cluster."""
    group = {"apiGroups": ["scheduling.run.ai"]}
    reads = {**group, "resources": ["queues"], "verbs": ["get", "list"]}
    writes = {**group, "resources": ["queues/status"], "verbs": ["update", "patch"]}
    cluster.create("clusterroles", cluster_role("tenant-of-queues", reads, writes)).ok(201)
    cluster.create("clusterrolebindings", cluster_role_binding("tenant-of-queues", "tenant-of-queues", TENANT)).ok(201)
    try:
        yield
    finally:
        for each in ("clusterrolebindings", "clusterroles"):
            cluster.delete(each, "tenant-of-queues").ok(200)


def settle(found: Installation) -> None:
    """Nodes, namespaces, the attacker's rights, and the gangs of the victims, all bound."""
    server, cluster = found.server, found.cluster
    for name in (VICTIMS, BYSTANDER, ATTACKER):
        cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).ok(201)
    home = Space(server, ATTACKER)
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": named("tenant")}
    home.create("roles", {**role, "rules": rights()}).ok(201)
    home.create("rolebindings", role_binding("tenant", "tenant", TENANT)).ok(201)
    _limit_priority(home)
    for name in FULL:
        _create_node(cluster, name)
    victims = Space(server, VICTIMS)
    _settle_group(victims)
    _settle_set(victims)
    _settle_job(victims)
    eventually(lambda: _all_told(victims), "all is said of the victims' gangs", 60)
    for name in (*FREE, TAINTED, LABELLED):
        _create_node(cluster, name)


def _limit_priority(home: Space) -> None:
    """No pod of the attacker's may be of a priority class: the administrator's usual means against claims to be urgent.

    Nobody keeps the count of a quota here, and none is needed: the first pod is one too many.
    """
    scopes = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": named("no-classes")}
    home.create("resourcequotas", {**body, "spec": {"hard": {"pods": "0"}, "scopeSelector": scopes}}).ok(201)
    status = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    home.patch("resourcequotas", "no-classes", {"status": status}, sub="status").ok(200)


def _create_node(cluster: Space, name: str) -> None:
    labels = {"kubernetes.io/hostname": name, ZONE: "z", RACK: name.split("-")[0]}
    if name == LABELLED:
        labels["example.com/for"] = "others"
    taints = [{"key": "example.com/closed", "value": "yes", "effect": "NoSchedule"}] if name == TAINTED else []
    room = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": named(name, labels=labels), "spec": {"taints": taints}}
    cluster.create("nodes", node).ok(201)
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.patch("nodes", name, {"status": status}, sub="status").ok(200)


# The gangs of the victims. Each has eight pods of one GPU: together they fill the nodes that are there at first.


def _settle_group(space: Space) -> None:
    space.create(GROUPS, without_namespace(podgroup(SERVING, _SIZE, priorityClassName="train"))).ok(201)
    make(space, [pod(f"{SERVING}-{number}", SERVING, 1) for number in range(_SIZE)])
    _settle_pods(space, f"{SERVING}-")


def _settle_set(space: Space) -> None:
    """The operator makes the rest."""
    limits = {GPU: "1"}
    containers = [{"name": "main", "image": "serve", "resources": {"limits": limits, "requests": limits}}]
    template = clique("a", replicas=_SIZE, podSpec={"schedulerName": "kai-scheduler", "containers": containers})
    made = podcliqueset(DECODING, [template], priorityClassName="train")
    space.create(SETS, without_namespace(made)).ok(201)
    _settle_pods(space, f"{CLIQUE}-")


def _settle_job(space: Space) -> None:
    uid = create_job(space, TRAINING, _SIZE)
    make(space, [pod_of_job(f"{TRAINING}-{number}", TRAINING, uid, 1) for number in range(_SIZE)])
    _settle_pods(space, f"{TRAINING}-")


def _settle_pods(space: Space, prefix: str) -> None:
    """They are bound, and run."""

    def all_bound() -> list[str]:
        found = [each for each in space.list("pods")["items"] if each["metadata"]["name"].startswith(prefix)]
        assert len(found) == _SIZE
        assert all(each["spec"].get("nodeName") for each in found)
        return [each["metadata"]["name"] for each in found]

    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    for name in eventually(all_bound, f"the pods {prefix} are bound", 60):
        space.patch("pods", name, running, "strategic", sub="status").ok(200)


def _all_told(space: Space) -> bool:
    """What is said of them later is an attack's doing."""
    used = {GPU: str(_SIZE)}
    for group in space.list(GROUPS)["items"]:
        assert group["status"]["resourcesStatus"] == {"requested": used, "allocated": used}
    clique_status = space.get(CLIQUES, CLIQUE).ok(200)["status"]
    assert clique_status["readyReplicas"] == clique_status["scheduledReplicas"] == _SIZE
    assert space.get(SETS, DECODING).ok(200)["status"]["availableReplicas"] == 1
    return True


def create_job(space: Space, name: str, size: int) -> str:
    """A Job whose pods are one gang, since it asks for topology; its uid."""
    body = job(name, suspend=False, parallelism=size, completions=size, completionMode="Indexed")
    body["metadata"]["annotations"] = {
        "kai.scheduler/topology": "grove-topology",
        "kai.scheduler/topology-preferred-placement": RACK,
    }
    return str(space.create("jobs", body).ok(201)["metadata"]["uid"])


def pod_of_job(name: str, job_name: str, uid: str, gpus: int) -> Json:
    """As the Job's controller would make it; none runs here."""
    made = owned(grouped(pod(name, "", gpus)), "Job", "batch/v1", job_name, uid)
    made["metadata"]["labels"] = {"batch.kubernetes.io/job-name": job_name, "batch.kubernetes.io/controller-uid": uid}
    return made


def owned(made: Json, kind: str, version: str, name: str, uid: str) -> Json:
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [reference]}}


def grouped(made: Json, **annotations: str) -> Json:
    """For the pod-grouper: without the annotations of a pod that somebody has put into a group already."""
    return {**made, "metadata": {"name": made["metadata"]["name"], "annotations": annotations}}


def without_namespace(manifest: Json) -> Json:
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    return {**manifest, "metadata": metadata}


def make(space: Space, pods: list[Json]) -> list[Reply]:
    """Many at once; all are accepted."""
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda each: space.create("pods", without_namespace(each)), pods))
    for reply in replies:
        reply.ok(201)
    return replies


@dataclass
class Attempt:
    """The attacker at work: every request it sends is timed."""

    home: Space
    """As the attacker: pods, PodGroups, Jobs and PodCliqueSets of its namespace."""
    admin: Space
    """The same namespace as its administrator sees it."""
    found: Installation
    taken_s: list[tuple[int, float]] = field(default_factory=list)
    """The status of each answer and how long it took."""

    def send(self, method: str, path: str, body: Any = None, **how: Any) -> Reply:
        began = time.monotonic()
        reply = self.home.server.http(method, path, body, user=self.home.user, **how)
        self.taken_s.append((reply.status, time.monotonic() - began))
        return reply

    def create(self, collection: str, body: Json, namespace: str = ATTACKER, **how: Any) -> Reply:
        return self.send("POST", Space(self.home.server, namespace).path(collection), without_namespace(body), **how)

    def patch(self, collection: str, name: str, body: Any, kind: str = "merge", sub: str = "", **how: Any) -> Reply:
        headers = {"Content-Type": PATCH_TYPES[kind]}
        return self.send("PATCH", self.home.path(collection, name, sub), body, headers=headers, **how)

    def replace(self, collection: str, body: Json, sub: str = "") -> Reply:
        return self.send("PUT", self.home.path(collection, body["metadata"]["name"], sub), body)

    def annotate(self, name: str, collection: str = GROUPS, **annotations: str) -> Reply:
        return self.patch(collection, name, {"metadata": {"annotations": annotations}})


def fresh_name(what: str) -> str:
    return f"{what}-{next(_counter)}"
