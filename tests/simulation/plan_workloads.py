"""Workloads of all kinds by seed: small and large, with constraints at any level, some of which cannot be met."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

from spinney.sim.objects import RUN_SECONDS

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
ZONE, BLOCK, RACK = (f"topology.kubernetes.io/{name}" for name in ("zone", "block", "rack"))
DOMAINS = ("zone", "block", "rack", "host")
TOPOLOGY = "grove-topology"
CLASSES = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "globalDefault": False,
    }
    for name, value in (("low", 10), ("high", 90), ("urgent", 120))
]
QUEUES: list[Json] = [
    {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"parentQueue": "default-parent-queue", "resources": {"gpu": {"quota": -1, "limit": limit}}},
    }
    for name, limit in (("tight", 24), ("wide", -1))
]
for _queue in QUEUES:
    for _resource in ("cpu", "memory"):
        _queue["spec"]["resources"][_resource] = {"quota": -1, "limit": -1}


SHARED = ("lends", "borrows", "deep-one", "deep-two")
"""Leaf queues that share the cluster: what one does not ask for the others borrow, until it does."""


def shared_queues(dice: Random) -> list[Json]:
    """Two teams, and a department of two, with small quotas and different weights."""
    parents = {"lends": "", "borrows": "", "deep": "", "deep-one": "deep", "deep-two": "deep"}
    found = []
    for name, parent in parents.items():
        gpu = {"quota": dice.choice([0, 4, 8, 16, 24]), "overQuotaWeight": dice.choice([1, 1, 3]), "limit": -1}
        resources: Json = {"gpu": gpu, "cpu": {"quota": -1, "limit": -1}, "memory": {"quota": -1, "limit": -1}}
        spec = {"parentQueue": parent, "resources": resources, "priority": dice.choice([100, 100, 200])}
        found.append({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec})
    return found


def borrowing(dice: Random, gpus: int) -> Json:
    """Gangs of one pod each that take most of so many GPUs for one queue."""
    size = dice.choice([2, 4, 4])
    metadata = {"name": "filler", "labels": {"kai.scheduler/queue": dice.choice(SHARED)}}
    spec: Json = {"replicas": gpus * dice.choice([70, 90, 100]) // 100 // size, "template": _template(dice, size)}
    spec["template"]["spec"].pop("nodeSelector", None)
    spec["selector"] = {"matchLabels": {"app": "w"}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def in_queue(manifests: list[Json], queue: str) -> list[Json]:
    """The workload, sent to a queue."""
    found: Json = deepcopy(manifests[-1])
    if found["kind"] == "PodGroup":
        found["spec"]["queue"] = queue
    else:
        found["metadata"].setdefault("labels", {})["kai.scheduler/queue"] = queue
    return [*manifests[:-1], found]


def nodes(dice: Random) -> str:
    """Racks of one to four hosts, some hosts of fewer GPUs."""
    blocks, racks, hosts = dice.randint(1, 3), dice.randint(1, 3), dice.randint(1, 4)
    return f"""
levels:
- {{name: zone, label: {ZONE}, count: {dice.randint(1, 2)}}}
- {{name: block, label: {BLOCK}, count: {blocks}}}
- {{name: rack, label: {RACK}, count: {racks}}}
- {{name: host, count: {hosts}}}
capacity: {{cpu: 64, memory: 256Gi, pods: 110, {GPU}: {dice.choice([4, 8])}}}
"""


def workload(dice: Random, name: str) -> list[Json]:
    """The manifests of one workload, the last one of which is asked about."""
    make = dice.choice([_set, _set, _set, _graph, _job, _job, _deployment, _stateful_set, _bare_gang])
    return make(dice, name)


def grown(manifests: list[Json]) -> Json | None:
    """The workload with one replica more; None: of a kind that does not grow here."""
    found: Json = deepcopy(manifests[-1])
    spec = found["spec"]
    match found["kind"]:
        case "PodCliqueSet" | "StatefulSet":
            spec["replicas"] += 1
        case "DynamoGraphDeployment":
            worker = spec["components"][1] if "components" in spec else _service(spec["services"])
            worker["replicas"] += 1
        case _:
            return None
    return found


def _service(services: Any) -> Json:
    found: Json = services["Worker"] if isinstance(services, dict) else services[0]
    return found


def _gpus(dice: Random) -> int:
    return dice.choice([1, 2, 4, 4, 8])


def _pod_spec(dice: Random, gpus: int) -> Json:
    container: Json = {"name": "main", "image": "example.com/work:1", "resources": {"limits": {GPU: str(gpus)}}}
    spec: Json = {"containers": [container]}
    if dice.random() < 0.1:
        spec["nodeSelector"] = {ZONE: dice.choice(["z0", "z1", "elsewhere"])}
    return spec


def _constraint(dice: Random, often: float, wider_than: str = "") -> Json:
    if dice.random() >= often:
        return {}
    first = DOMAINS.index(wider_than) if wider_than else 0
    chosen = dice.choice(DOMAINS[first:3] or ("rack",))
    if dice.random() < 0.05:
        chosen = "datacenter"  # a level that the topology lacks
    field = "packDomain" if dice.random() < 0.7 else "preferred" if dice.random() < 0.5 else "required"
    if field == "packDomain":
        return {"topologyConstraint": {"packDomain": chosen}}
    return {"topologyConstraint": {"pack": {field: chosen}}}


def _clique(dice: Random, name: str, wider_than: str) -> Json:
    replicas = dice.choice([1, 1, 2, 3, 4, 6])
    spec: Json = {"roleName": name, "replicas": replicas, "podSpec": _pod_spec(dice, _gpus(dice))}
    if dice.random() < 0.4:
        spec["minAvailable"] = dice.randint(1, replicas)
    return {"name": name, "spec": spec, **_constraint(dice, 0.3, wider_than)}


def _set(dice: Random, name: str) -> list[Json]:
    whole = _constraint(dice, 0.5)
    widest = whole.get("topologyConstraint", {}).get("packDomain", "")
    widest = widest if widest in DOMAINS else ""
    cliques = [_clique(dice, word, widest) for word in ("lead", "work", "aux")[: dice.randint(1, 3)]]
    template: Json = {"cliques": cliques, **whole}
    if len(cliques) > 1 and dice.random() < 0.5:
        replicas = dice.randint(1, 3)
        group = {"name": "grp", "cliqueNames": [cliques[-1]["name"]], "replicas": replicas}
        group["minAvailable"] = dice.randint(1, replicas)
        template["podCliqueScalingGroups"] = [{**group, **_constraint(dice, 0.4, widest)}]
        cliques[-1].pop("topologyConstraint", None)
    if dice.random() < 0.4:
        template["priorityClassName"] = dice.choice(["low", "high", "urgent"])
    labels = {"kai.scheduler/queue": dice.choice(["tight", "wide"])} if dice.random() < 0.2 else {}
    if dice.random() < 0.2:
        template["cliqueStartupType"] = "CliqueStartupTypeInOrder"
    body = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name, "labels": labels}}
    return [{**body, "spec": {"replicas": dice.choice([1, 1, 2]), "template": template}}]


def _graph(dice: Random, name: str) -> list[Json]:
    shape = dice.choice(["beta", "alpha", "list"])
    constraint = {"topologyConstraint": {"packDomain": dice.choice(DOMAINS[:3])}} if dice.random() < 0.6 else {}
    image = "example.com/vllm:1.2.0"
    replicas, gpus = dice.randint(1, 3), _gpus(dice)
    metadata = {"name": name}
    if shape == "beta":
        container = {"name": "main", "image": image, "resources": {"limits": {GPU: str(gpus)}}}
        worker: Json = {"name": "Worker", "type": "worker", "replicas": replicas}
        worker["podTemplate"] = {"spec": {"containers": [container]}}
        if dice.random() < 0.5:
            worker["multinode"] = {"nodeCount": dice.randint(2, 3)}
        front: Json = {"name": "Frontend", "type": "frontend", "podTemplate": {"spec": {"containers": [{**container}]}}}
        front["podTemplate"]["spec"]["containers"][0].pop("resources")
        spec: Json = {"backendFramework": "vllm", "components": [front, worker], **constraint}
        return [
            {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": metadata, "spec": spec}
        ]
    service: Json = {"componentType": "worker", "replicas": replicas, "resources": {"limits": {"gpu": str(gpus)}}}
    service["extraPodSpec"] = {"mainContainer": {"image": image}}
    if dice.random() < 0.5:
        service["multinode"] = {"nodeCount": dice.randint(2, 3)}
    front = {"componentType": "frontend", "replicas": 1, "extraPodSpec": {"mainContainer": {"image": image}}}
    services: Any = {"Worker": service, "Frontend": front}
    if shape == "list":
        services = [{"name": each, **body} for each, body in services.items()]
    spec = {"services": services, **constraint}
    return [_deployed("v1alpha1", metadata, spec)]


def _deployed(version: str, metadata: Json, spec: Json) -> Json:
    kind = {"apiVersion": f"nvidia.com/{version}", "kind": "DynamoGraphDeployment"}
    return {**kind, "metadata": metadata, "spec": spec}


def _notes(dice: Random) -> dict[str, str]:
    if dice.random() < 0.3:
        return {}
    notes = {"kai.scheduler/topology": TOPOLOGY if dice.random() < 0.95 else "nowhere"}
    key = dice.choice(["required", "required", "preferred"])
    return {**notes, f"kai.scheduler/topology-{key}-placement": dice.choice([ZONE, BLOCK, RACK, "rack", "block"])}


def _template(dice: Random, gpus: int) -> Json:
    """Of pods that run for ever, also those of a Job."""
    metadata = {"labels": {"app": "w"}, "annotations": {RUN_SECONDS: "1000000000"}}
    return {"metadata": metadata, "spec": _pod_spec(dice, gpus)}


def _job(dice: Random, name: str) -> list[Json]:
    labels = {"priorityClassName": dice.choice(["low", "high"])} if dice.random() < 0.4 else {}
    spec: Json = {"parallelism": dice.choice([1, 2, 3, 4, 8]), "template": _template(dice, _gpus(dice))}
    spec["template"]["spec"]["restartPolicy"] = "Never"
    if dice.random() < 0.4:
        spec |= {"completions": spec["parallelism"], "completionMode": "Indexed"}
    metadata = {"name": name, "labels": labels, "annotations": _notes(dice)}
    return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}]


def _deployment(dice: Random, name: str) -> list[Json]:
    spec: Json = {"replicas": dice.randint(1, 3), "selector": {"matchLabels": {"app": "w"}}}
    spec["template"] = _template(dice, _gpus(dice))
    return [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}]


def _stateful_set(dice: Random, name: str) -> list[Json]:
    spec: Json = {"replicas": dice.randint(1, 4), "selector": {"matchLabels": {"app": "w"}}, "serviceName": name}
    spec |= {"template": _template(dice, _gpus(dice)), "podManagementPolicy": "Parallel"}
    metadata = {"name": name, "annotations": _notes(dice)}
    return [{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}]


def _bare_gang(dice: Random, name: str) -> list[Json]:
    count, gpus = dice.randint(1, 6), _gpus(dice)
    minimum = dice.randint(1, count) if dice.random() < 0.85 else count + 1
    spec: Json = {"minMember": minimum, "queue": dice.choice(["default-queue", "default-queue", "tight", "missing"])}
    if dice.random() < 0.6:
        level = dice.choice([ZONE, BLOCK, RACK])
        spec["topologyConstraint"] = {
            "topology": TOPOLOGY,
            dice.choice(["required", "preferred"]) + "TopologyLevel": level,
        }
    if dice.random() < 0.4:
        spec["priorityClassName"] = dice.choice(["low", "high", "urgent"])
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    pods = []
    for number in range(count):
        notes = {"pod-group-name": name, "kai.scheduler/skip-podgrouper": "true"}
        metadata = {"name": f"{name}-{number}", "annotations": notes}
        body = {**_pod_spec(dice, gpus), "schedulerName": "kai-scheduler"}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body})
    return [*pods, group]
