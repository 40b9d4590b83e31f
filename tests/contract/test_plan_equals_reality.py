"""B1: twenty workloads planned against a running stack and then applied, on the embedded server and on a real one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from cluster_kit.server import eventually
from kube_apimachinery.system_clock import SystemClock, system_dice
from simulation.plan_trial import compared_gangs
from simulation.plan_workloads import CLASSES, QUEUES, workload
from spinney.api.dynamo_conversion import from_list_form
from spinney.core.view.plan_result import PlanResult
from spinney.drive.client.api import ApiClient
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.sim.kubernetes.assets import find_or_build_assets
from spinney.whatif.inputs.manifests import Manifest
from spinney.whatif.inputs.snapshot import read_snapshot
from spinney.whatif.request import PlanRequest, prepare_plan
from spinney.whatif.workloads import WorkloadNotFound, read_explanation
from stack_kit.spinney import Spinney, spinney

Json = dict[str, Any]
WORKLOADS = 20
DEADLINE_S = 150.0
NODES = """
levels:
- {name: zone, label: topology.kubernetes.io/zone, count: 2}
- {name: block, label: topology.kubernetes.io/block, count: 2}
- {name: rack, label: topology.kubernetes.io/rack, count: 2}
- {name: host, count: 2}
capacity: {cpu: 64, memory: 256Gi, pods: 110, nvidia.com/gpu: 8}
"""


def certain(manifests: list[Json]) -> list[Json]:
    """Without what a running stack decides by whose pods are there first: two replicas of a set and pods beyond the
    minimum of several cliques may find each other's room taken. Their order is foretold in simulated time only.
    """
    for body in (each["spec"] for each in manifests if each["kind"] == "PodCliqueSet"):
        body["replicas"] = 1
        if len(body["template"]["cliques"]) > 1:
            for clique in body["template"]["cliques"]:
                clique["spec"].pop("minAvailable", None)
    return manifests


def alike(gangs: list[Any], name: str) -> list[Any]:
    """Replicas of one scaling group may change places."""
    scaled = re.compile(rf"\b({name}-0-\w+)-\d+\b")
    told = [
        (
            scaled.sub(r"\1-n", gang),
            fits,
            state,
            tuple((scaled.sub(r"\1-n", group), *rest) for group, *rest in places),
            *others,
        )
        for gang, fits, state, places, *others in gangs
    ]
    return sorted(told)


def applied(stack: Spinney, manifests: list[Json]) -> None:
    served = [
        from_list_form(each) if isinstance((each.get("spec") or {}).get("services"), list) else each
        for each in manifests
    ]
    stack.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump_all(served), check=False)


async def looked(stack: Spinney, question: Any) -> Any:
    transport = connect(find_connection(SystemClock(), kubeconfig=stack.kubeconfig))
    try:
        return await question(ApiClient(transport, system_dice()))
    finally:
        await transport.close()


def planned(stack: Spinney, manifests: list[Json]) -> PlanResult:
    async def plan(client: ApiClient) -> PlanResult:
        given = [Manifest("test", manifest) for manifest in manifests]
        return (await prepare_plan(PlanRequest(given), await read_snapshot(client), client)).answer()

    found: PlanResult = asyncio.run(looked(stack, plan))
    return found


def happened(stack: Spinney, kind: str, name: str) -> Any:
    async def explain(client: ApiClient) -> Any:
        try:
            gangs = (await read_explanation(client, "default", name, kind)).gangs
        except WorkloadNotFound:
            return []
        found = compared_gangs([(any(member.node for member in gang.members), gang) for gang in gangs], kind)
        return alike(found, name)

    return asyncio.run(looked(stack, explain))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [(), pytest.param(("--real",), marks=pytest.mark.real)], ids=["embedded", "real"])
def test_b1_a_plan_against_a_running_stack_says_what_then_happens(options: tuple[str, ...], tmp_path: Path) -> None:
    dice = Random("plan on two servers")
    (tmp_path / "nodes.yaml").write_text(NODES)
    ports = ("--port", "0", "--dashboard-port", "0")
    kubectl = find_or_build_assets().kubectl
    with spinney(tmp_path, *options, *ports, "--nodes", str(tmp_path / "nodes.yaml"), kubectl=kubectl) as stack:
        stack.ready()
        applied(stack, [*CLASSES, *QUEUES])
        for number in range(WORKLOADS):
            name = f"w{number}"
            manifests = certain(workload(dice, name))
            kind = manifests[-1]["kind"]
            forecast = planned(stack, manifests)
            applied(stack, manifests)
            if forecast.workloads[0].refusals:
                continue
            expected = alike(compared_gangs([(gang.fits, gang.explained) for gang in forecast.gangs], kind), name)
            until(expected, partial(happened, stack, kind, name), f"{kind} {name}")
            if dice.random() < 0.6:
                stack.kubectl("delete", "--wait=true", "-f", "-", input=yaml.safe_dump_all(manifests), check=False)
                until([], partial(_left, stack, name), f"pods of {name}")


def shared_queue(name: str, quota: int) -> Json:
    shares: Json = {each: {"quota": -1, "limit": -1} for each in ("cpu", "memory")}
    shares["gpu"] = {"quota": quota, "overQuotaWeight": 1, "limit": -1}
    kind = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
    return {**kind, "metadata": {"name": name}, "spec": {"resources": shares}}


def whole_hosts(name: str, queue: str, pods: int) -> list[Json]:
    """A gang of pods that take a host each."""
    container = {"name": "main", "image": "example.com/work:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec = {"schedulerName": "kai-scheduler", "containers": [container]}
    notes = {"pod-group-name": name, "kai.scheduler/skip-podgrouper": "true"}
    made: list[Json] = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-{at}", "annotations": notes}, "spec": spec}
        for at in range(pods)
    ]
    kind = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": name}}
    return [*made, {**kind, "spec": {"minMember": pods, "queue": queue}}]


def bound(stack: Spinney) -> set[str]:
    found = stack.get("pods", "-n", "default")["items"]
    return {pod["metadata"]["name"] for pod in found if pod["spec"].get("nodeName")}


def told(stack: Spinney, gang: str, about: str) -> list[str]:
    """What a gang is told about something."""
    found = asyncio.run(looked(stack, lambda client: read_explanation(client, "default", gang, "PodGroup")))
    return [line for line in found.gangs[0].lines if about in line]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [(), pytest.param(("--real",), marks=pytest.mark.real)], ids=["embedded", "real"])
def test_q9_a_plan_says_which_pods_of_which_queue_are_reclaimed_and_they_are(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    """Sixteen hosts of which queue a holds all; b is promised half of them, and asks for more at first."""
    refusal = "Queue b takes nothing from other queues: it would hold 80 GPUs of a fair share of 64 GPUs"
    (tmp_path / "nodes.yaml").write_text(NODES)
    ports = ("--port", "0", "--dashboard-port", "0")
    kubectl = find_or_build_assets().kubectl
    with spinney(tmp_path, *options, *ports, "--nodes", str(tmp_path / "nodes.yaml"), kubectl=kubectl) as stack:
        stack.ready()
        applied(stack, [shared_queue("a", 64), shared_queue("b", 64)])
        for number in range(4):
            applied(stack, whole_hosts(f"a{number}", "a", 4))
            until(4 * (number + 1), lambda: len(bound(stack)), f"gang a{number} runs")
        before = bound(stack)
        [large] = planned(stack, whole_hosts("b1", "b", 10)).gangs
        applied(stack, whole_hosts("b1", "b", 10))
        [line] = [line for line in large.explained.lines if refusal in line]
        until([line], partial(told, stack, "b1", refusal), "gang b1 is told what was foretold")
        assert not large.fits and not large.victims
        taker = whole_hosts("b0", "b", 6)
        [gang] = planned(stack, taker).gangs
        assert gang.fits and {victim.queue for victim in gang.victims} == {"a"}
        applied(stack, taker)
        left = before - {victim.pod.partition("/")[2] for victim in gang.victims}
        until(left | {f"b0-{at}" for at in range(6)}, partial(bound, stack), "b has what is its")
        events = stack.get("events", "-n", "default")["items"]
        assert {victim.why for victim in gang.victims} <= {each["message"] for each in events}


def until(expected: Any, look: Callable[[], Any], what: str) -> None:
    """Until it is so; if it never is, what there is instead is told."""
    seen: list[Any] = []

    def check() -> bool:
        seen[:] = [look()]
        return bool(seen[0] == expected)

    try:
        eventually(check, what, DEADLINE_S)
    except AssertionError:
        assert seen[0] == expected, what


def _left(stack: Spinney, name: str) -> list[str]:
    found = stack.get("pods", "-n", "default")["items"]
    return [pod["metadata"]["name"] for pod in found if pod["metadata"]["name"].startswith(f"{name}-")]
