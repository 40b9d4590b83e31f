"""From a set to Running pods in the right domains, the same on the embedded and on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster_kit.real_programs import programs_of
from cluster_kit.servers import SERVERS
from contract.operator_stages import BLOCK, CONFIGURATION, RACK, ZONE
from spinney.core.scheduling.settings import Settings
from stack_kit.stage import Stage, stage_on
from unit.operator.operator_world import clique, group, podcliqueset

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
NODES = f"""
levels:
- {{name: zone, label: {ZONE}, count: 2}}
- {{name: block, label: {BLOCK}, count: 2}}
- {{name: rack, label: {RACK}, count: 2}}
- {{name: host, count: 2}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
"""


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    assets = programs_of(request.param)
    with stage_on(assets, tmp_path_factory.mktemp("scheduler-thin"), NODES, Settings()) as found:
        found.operate(CONFIGURATION)
        yield found


def packed(domain: str) -> Json:
    return {"topologyConstraint": {"packDomain": domain}}


def asking(gpus: int) -> Json:
    amounts = {GPU: str(gpus)}
    return {"containers": [{"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}]}


def nested(name: str, workers: int) -> Json:
    """Leader on a host, workers in a rack, both in a block, the whole in a zone."""
    cliques = [
        clique("leader", 1, podSpec=asking(8), **packed("host")),
        clique("worker", workers, podSpec=asking(8), **packed("rack")),
    ]
    groups = [group("grp", ["leader", "worker"], 1, 1, **packed("block"))]
    return podcliqueset(name, cliques, groups, **packed("zone"))


def domains(stage: Stage, pods: list[Json], *keys: str) -> set[tuple[str, ...]]:
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in stage.find("Node")}
    return {tuple(labels[pod["spec"]["nodeName"]][key] for key in keys) for pod in pods}


def test_k3_three_levels_from_apply_to_ready_pods_in_the_right_domains(stage: Stage) -> None:
    stage.apply(nested("fits", 2))
    pods = stage.ready_pods("fits", 3)
    workers = [pod for pod in pods if "worker" in pod["metadata"]["name"]]
    assert len(domains(stage, pods, ZONE, BLOCK)) == 1
    assert len(domains(stage, workers, ZONE, BLOCK, RACK)) == 1
    ranks = sorted(int(pod["metadata"]["annotations"]["spinney.dev/rank"]) for pod in pods)
    assert ranks == [0, 1, 2]

    def is_done() -> bool:
        annotations = stage.get("PodGroup", "fits-0")["metadata"]["annotations"]
        return "spinney.dev/plan" not in annotations and annotations["spinney.dev/epoch"] == "1"

    stage.eventually(is_done, "the plan is carried out")


def test_live4_a_set_that_does_not_fit_waits_with_a_reason_and_runs_when_there_is_room(stage: Stage) -> None:
    stage.apply(nested("late", 3))

    def said() -> str:
        conditions = stage.get("PodGroup", "late-0")["status"]["schedulingConditions"]
        return str(conditions[-1]["message"])

    message = stage.eventually(said, "the group says why it is not scheduled")
    assert "can allocate only 2 of 3 required pods" in message
    assert not any(pod["spec"].get("nodeName") for pod in stage.part_of("Pod", "late"))
    for number in range(4):
        labels = {ZONE: "new", BLOCK: "new", RACK: "new", "kubernetes.io/hostname": f"new-{number}"}
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"new-{number}", "labels": labels}}
        stage.create(node | {"status": {"capacity": amounts, "allocatable": amounts}}).ok(201)
    pods = stage.ready_pods("late", 4)
    assert domains(stage, pods, RACK) == {("new",)}

    def is_quiet() -> bool:
        return not stage.get("PodGroup", "late-0")["status"].get("schedulingConditions")

    stage.eventually(is_quiet, "what was said is taken back")
