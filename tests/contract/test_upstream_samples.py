"""Sets of the shapes of Grove's samples, and KAI's first steps: they become ready, or their pods say why they wait.

Manifests are written anew, and leave out what upstream's leave out: minima, replicas of groups, role names, schedulers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_kit.servers import SERVERS
from contract.operator_stages import BLOCK, RACK, ZONE
from contract.scheduler_stages import GPU, GROUPS, Hall, scheduled
from stack_kit.stage import Stage
from unit.operator.operator_world import condition

Json = dict[str, Any]

NODES = f"""
levels:
- {{name: zone, label: {ZONE}, count: 1}}
- {{name: block, label: {BLOCK}, count: 1}}
- {{name: rack, label: {RACK}, count: 2}}
- {{name: host, short: n, count: 2}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
taints: [{{key: example.com/made-up, value: "true", effect: NoSchedule}}]
"""
TOLERATED = {"key": "example.com/made-up", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
USAGE = {"type": "Utilization", "averageUtilization": 80}
SCALED = {"maxReplicas": 6, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": USAGE}}]}


def clique(name: str, replicas: int, role: str | None = None, **more: Any) -> Json:
    requests = {"requests": {"cpu": "10m", "memory": "32Mi"}}
    container = {"name": name, "image": "web", "resources": requests}
    pod = {"tolerations": [TOLERATED], "containers": [container]}
    spec = {"roleName": name if role is None else role, "replicas": replicas, "podSpec": pod, **more}
    return {"name": name, "spec": {key: value for key, value in spec.items() if value != ""}}


def group(name: str, *cliques: str, **more: Any) -> Json:
    return {"name": name, "cliqueNames": list(cliques), **more}


def podcliqueset(name: str, cliques: list[Json], groups: list[Json] | None = None, **template: Any) -> Json:
    body = {"cliques": cliques, **({"podCliqueScalingGroups": groups} if groups else {}), **template}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "template": body},
    }


EXPLICIT: Json = {"cliqueStartupType": "CliqueStartupTypeExplicit", "terminationDelay": "1m"}
FIRST = clique("a", 3, autoScalingConfig=SCALED)
IN_ORDER = [FIRST, clique("b", 2, startsAfter=["a"]), clique("c", 2, startsAfter=["a"])]
PREFILL = [clique("p-leader", 1), clique("p-worker", 4)]
DECODE = [clique("d-leader", 1), clique("d-worker", 2)]
SETS: dict[str, tuple[Json, int]] = {
    "cliques, a group that scales, a clique that scales": (
        podcliqueset(
            "simple",
            [FIRST, clique("b", 2), clique("c", 2), clique("d", 2)],
            [group("pair", "b", "c", scaleConfig=SCALED)],
        ),
        9,
    ),
    "an order of cliques": (
        podcliqueset("ordered", [*IN_ORDER, clique("d", 2, startsAfter=["b", "c"])], **EXPLICIT),
        9,
    ),
    "an order with a group": (
        podcliqueset(
            "ordered-group",
            [*IN_ORDER, clique("d", 2, startsAfter=["b", "c"]), clique("e", 2, startsAfter=["b", "c"])],
            [group("three", "b", "c", "d", replicas=3, minAvailable=2, scaleConfig=SCALED)],
            **EXPLICIT,
        ),
        3 + 3 * 6 + 2,
    ),
    "one node, aggregated": (podcliqueset("one", [clique("worker", 2)]), 2),
    "one node, disaggregated": (podcliqueset("two", [clique("prefill", 3), clique("decode", 2)]), 5),
    "several nodes, aggregated": (
        podcliqueset(
            "instances",
            [clique("leader", 1), clique("worker", 3)],
            [group("instance", "leader", "worker", replicas=2)],
        ),
        8,
    ),
    "several nodes, disaggregated": (
        podcliqueset(
            "halves",
            [*PREFILL, *DECODE],
            [
                group("prefill", "p-leader", "p-worker", replicas=2),
                group("decode", "d-leader", "d-worker", replicas=1),
            ],
        ),
        13,
    ),
    "a whole pipeline": (
        podcliqueset(
            "pipeline",
            [clique("frontend", 2), clique("encoder", 1), *PREFILL, *DECODE],
            [
                group("prefill", "p-leader", "p-worker", replicas=1),
                group("decode-cluster", "d-leader", "d-worker", replicas=1),
            ],
        ),
        11,
    ),
    "a clique without a role": (
        podcliqueset(
            "names",
            [clique("frontend", 2, role=""), *PREFILL, *DECODE],
            [
                group("prefill", "p-leader", "p-worker", replicas=2),
                group("decode", "d-leader", "d-worker", replicas=1),
            ],
        ),
        15,
    ),
}


@pytest.fixture(scope="module", params=SERVERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Operator, pod-grouper and scheduler, and the controller of Jobs; one cluster for the module."""
    directory: Path = tmp_path_factory.mktemp("upstream-samples")
    with scheduled(request.param, directory, ("job",)) as found:
        yield found


@pytest.fixture
def place(cluster: Stage, unique: str) -> Iterator[Hall]:
    found = Hall(cluster, unique)
    found.build(NODES)
    yield found
    found.close()


@pytest.mark.parametrize("case", SETS)
def test_b4_sets_as_in_grove_s_samples_become_ready(place: Hall, case: str) -> None:
    made, pods = SETS[case]
    name = made["metadata"]["name"]
    place.apply(made)
    running = place.running(f"{name}-", pods)
    assert len(running) == pods

    def available() -> bool:
        found = place.space.get("grove.io/v1alpha1/podcliquesets", name).ok(200)
        return bool(found["status"].get("availableReplicas") == 1)

    place.eventually(available, f"{name} is available")


QUEUE: Json = {resource: {"quota": 0, "limit": -1, "overQuotaWeight": 1} for resource in ("cpu", "gpu", "memory")}
OUTER: Json = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "department"},
    "spec": {"resources": QUEUE},
}
INNER: Json = {
    **OUTER,
    "metadata": {"name": "department-a"},
    "spec": {"parentQueue": "department", "resources": QUEUE},
}


def pod(name: str, resources: Json, **annotations: str) -> Json:
    labels = {"kai.scheduler/queue": "department-a"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "schedulerName": "kai-scheduler",
            "tolerations": [TOLERATED],
            "containers": [{"name": "main", "image": "train", "resources": resources}],
        },
    }


def test_b4_kai_s_first_steps_run_in_queues_without_a_quota_of_their_own(place: Hall) -> None:
    for queue in (OUTER, INNER):
        place.kubectl("apply", "-f", "-", input=json.dumps(queue))
    place.apply(pod("cpu", {"requests": {"cpu": "100m", "memory": "250M"}}))
    place.apply(pod("gpu", {"limits": {GPU: "1"}}))
    worker = pod("", {"limits": {GPU: "1"}})
    template = {"metadata": {"labels": worker["metadata"]["labels"]}, "spec": worker["spec"]}
    template["spec"]["restartPolicy"] = "OnFailure"
    spec = {"parallelism": 2, "completions": 2, "template": template}
    place.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch"}, "spec": spec})
    for name, count in (("cpu", 1), ("gpu", 1), ("batch-", 2)):
        place.running(name, count)


def test_b6_annotations_of_kueue_have_no_effect_yet_and_its_gate_is_waited_for(place: Hall) -> None:
    worker = pod("", {"limits": {GPU: "1"}}, **{"kueue.x-k8s.io/podset-required-topology": RACK})
    template = {"metadata": {"annotations": worker["metadata"]["annotations"]}, "spec": worker["spec"]}
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": 2, "completions": 2, "template": template}
    place.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "plain"}, "spec": spec})
    gated = pod("gated", {"limits": {GPU: "1"}})
    gated["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
    del gated["metadata"]["labels"]
    place.apply(gated)
    place.running("plain-", 2)
    groups = place.space.list(GROUPS)["items"]
    assert not [each for each in groups if (each["spec"].get("topologyConstraint") or {}).get("topology")]
    assert place.bound("gated") == {}
    place.kubectl("patch", "pod", "gated", "--type=merge", "-p", '{"spec":{"schedulingGates":null}}')
    place.running("gated", 1)


@pytest.mark.parametrize(
    ("annotation", "fragment"),
    [({"gpu-fraction": "0.5"}, "gpu-fraction"), ({"gpu-memory": "2000"}, "gpu-memory")],
)
def test_b4_a_pod_that_shares_a_gpu_says_that_this_is_not_done(
    place: Hall, annotation: dict[str, str], fragment: str
) -> None:
    made = pod("shares", {}, **annotation)
    del made["metadata"]["labels"]
    place.apply(made)
    place.tells("shares", fragment)
    assert condition(place.pods("shares")[0], "PodScheduled") == ("False", "Unschedulable")
