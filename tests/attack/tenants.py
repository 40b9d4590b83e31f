"""Who lives on the attacked cluster: a team with gangs that run, a bystander who comes now and then, and the attacker.

The attacker may do what item 8 of the cluster's requirements grants a tenant, in one namespace and nowhere else.
"""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from attack.installation import RACK, TENANT, ZONE, Installation
from cluster_kit.objects import named, role_binding
from cluster_kit.server import PATCH_TYPES, Reply, eventually
from cluster_kit.space import Space
from unit.scheduler.scheduler_world import GPU, pod, podgroup

Json = dict[str, Any]

VICTIMS, BYSTANDER, ATTACKER = "victims", "bystander", "attacker"
GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
QUEUES = "scheduling.run.ai/v2/queues"
SETS = "grove.io/v1alpha1/podcliquesets"
CLIQUES = "grove.io/v1alpha1/podcliques"
GANGS = "scheduler.grove.io/v1alpha1/podgangs"
FULL = tuple(f"full-{number}" for number in range(3))
FREE = tuple(f"free-{number}" for number in range(3))
TAINTED, LABELLED = "tainted", "labelled"
BOUND_WITHIN_S = 30.0
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
    cliques = {"apiGroups": ["grove.io"], "resources": ["podcliques"], "verbs": list(_VERBS)}
    parts = ["pods/status", "pods/resize", "pods/ephemeralcontainers"]
    pods = {"apiGroups": [""], "resources": parts, "verbs": ["update", "patch"]}
    jobs = {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["update", "patch"]}
    counts = ["podcliquesets/scale", "podcliques/scale", "podcliquescalinggroups/scale"]
    scales = {"apiGroups": ["grove.io"], "resources": counts, "verbs": ["update", "patch"]}
    return [status, gangs, cliques, pods, jobs, scales]


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
    for number in range(len(FULL)):
        _settle_gang(Space(server, VICTIMS), f"serving-{number}")
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


def _settle_gang(space: Space, name: str) -> None:
    """Eight pods; three such gangs fill the nodes that are there at first."""
    space.create(GROUPS, without_namespace(podgroup(name, 8, priorityClassName="train"))).ok(201)
    make(space, [pod(f"{name}-{number}", name, 1) for number in range(8)])

    def all_there() -> bool:
        found = [each for each in space.list("pods")["items"] if each["metadata"]["name"].startswith(name)]
        return len(found) == 8 and all(each["spec"].get("nodeName") for each in found)

    eventually(all_there, f"{name} is bound", 60)
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    for number in range(8):
        space.patch("pods", f"{name}-{number}", running, sub="status").ok(200)


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
