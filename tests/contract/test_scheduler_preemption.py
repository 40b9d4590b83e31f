"""Preemption of a rack, the same on the embedded and on a real API server: sets of several priorities, and a budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster_kit.real_programs import programs_of
from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from contract.operator_stages import BLOCK, CONFIGURATION, RACK, ZONE
from spinney.core.scheduling.settings import Settings
from stack_kit.stage import Stage, stage_on
from unit.operator.operator_world import clique, podcliqueset

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
NODES = f"""
levels:
- {{name: zone, label: {ZONE}, count: 1}}
- {{name: block, label: {BLOCK}, count: 1}}
- {{name: rack, label: {RACK}, count: 2}}
- {{name: host, count: 2}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
"""


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    assets = programs_of(request.param)
    directory = tmp_path_factory.mktemp("scheduler-preemption")
    with stage_on(assets, directory, NODES, Settings(), ("disruption",)) as found:
        found.operate(CONFIGURATION)
        cluster = Space(found.server, "")
        for name, value in (("low", 10), ("high", 30)):
            body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            cluster.create("scheduling.k8s.io/v1/priorityclasses", {**body, "value": value}).ok(201)
        yield found


def rackful(name: str, priority: str) -> Json:
    """A set that fills one rack."""
    amounts = {GPU: "8"}
    container = {"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}
    worker = clique("worker", 2, podSpec={"containers": [container]})
    packed: dict[str, Any] = {"topologyConstraint": {"packDomain": "rack"}}
    return podcliqueset(name, [worker], priorityClassName=priority, **packed)


def racks(stage: Stage, pods: list[Json]) -> set[str]:
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in stage.find("Node")}
    return {labels[pod["spec"]["nodeName"]][RACK] for pod in pods}


def protect(stage: Stage, name: str) -> None:
    """Both pods of a set have to stay."""
    selector = {"matchLabels": {"app.kubernetes.io/part-of": name}}
    budget: Json = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}}
    space, collection = Space(stage.server, "default"), "policy/v1/poddisruptionbudgets"
    space.create(collection, {**budget, "spec": {"minAvailable": 2, "selector": selector}}).ok(201)

    def is_counted() -> bool:
        status = space.get(collection, name).ok(200).get("status") or {}
        return bool(status.get("currentHealthy") == 2)

    stage.eventually(is_counted, "the budget is counted")


def test_k10_a_rack_is_cleared_for_a_more_important_set_but_not_one_that_a_budget_protects(stage: Stage) -> None:
    stage.apply(rackful("kept", "low"))
    protected = racks(stage, stage.ready_pods("kept", 2))
    protect(stage, "kept")
    stage.apply(rackful("prey", "low"))
    taken = racks(stage, stage.ready_pods("prey", 2))
    before = stage.uids("Pod", "kept")
    stage.apply(rackful("high", "high"))
    assert racks(stage, stage.ready_pods("high", 2)) == taken != protected
    assert stage.uids("Pod", "kept") == before

    def told() -> list[str]:
        found = [message for reason, message in stage.events("PodGroup", "prey-0") if reason == "Evict"]
        assert len(found) == 2
        return found

    messages = stage.eventually(told, "the victim is told")
    assert all(each.endswith("was preempted by higher priority workload high-0") for each in messages)

    def waits() -> list[Json]:
        pods = [pod for pod in stage.part_of("Pod", "prey") if not pod["metadata"].get("deletionTimestamp")]
        assert len(pods) == 2
        assert not any(pod["spec"].get("nodeName") for pod in pods)
        return pods

    stage.eventually(waits, "the victims are made anew and wait")

    def is_done() -> bool:
        return "spinney.dev/plan" not in stage.get("PodGroup", "high-0")["metadata"]["annotations"]

    stage.eventually(is_done, "the plan is carried out")
