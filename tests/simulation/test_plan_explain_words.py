"""One story in the same words: by `plan`, by `explain`, in the status, on the pods and in events (K15)."""

from __future__ import annotations

from typing import Any

import pytest

from simulation.plan_trial import foretold, whole_stack
from simulation.trial import hush
from spinney.api.dynamo_conversion import from_list_form
from spinney.sim.event_loop import Sim, run
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import DEFAULT_NODES
from spinney.whatif.workloads import WorkloadNotFound, read_explanation

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
CONTAINER = {"name": "main", "image": "example.com/vllm:1", "resources": {"limits": {GPU: "8"}}}
RACK = {"topologyConstraint": {"packDomain": "rack"}}
SERVICE = {
    "componentType": "worker",
    "replicas": 5,
    "resources": {"limits": {"gpu": "8"}},
    "extraPodSpec": {"mainContainer": {"image": "example.com/vllm:1"}},
}
COMPONENT = {"name": "Worker", "type": "worker", "replicas": 5, "minAvailable": 5}


def graph(version: str, spec: Json, **metadata: Any) -> Json:
    kind = {"apiVersion": f"nvidia.com/{version}", "kind": "DynamoGraphDeployment"}
    return {**kind, "metadata": {"name": "wide", **metadata}, "spec": {**RACK, **spec}}


def clique() -> Json:
    return {"name": "w", "spec": {"roleName": "w", "replicas": 5, "podSpec": {"containers": [CONTAINER]}}}


NOTES = {"kai.scheduler/topology": "grove-topology", "kai.scheduler/topology-required-placement": "rack"}
MANIFESTS: dict[str, Json] = {
    "DynamoGraphDeployment": graph(
        "v1beta1", {"components": [{**COMPONENT, "podTemplate": {"spec": {"containers": [CONTAINER]}}}]}
    ),
    "DynamoGraphDeployment v1alpha1": graph("v1alpha1", {"services": {"Worker": {**SERVICE, "minAvailable": 5}}}),
    "DynamoGraphDeployment list": graph("v1alpha1", {"services": [{"name": "Worker", **SERVICE, "minAvailable": 5}]}),
    "PodCliqueSet": {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "wide"},
        "spec": {"replicas": 1, "template": {**RACK, "cliques": [clique()]}},
    },
    "Job": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "wide", "annotations": NOTES},
        "spec": {"parallelism": 5, "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}},
    },
}


def in_world(scenario: Any) -> Any:
    hush()

    async def main(sim: Sim) -> Any:
        async with whole_stack(sim, DEFAULT_NODES) as world:
            return await scenario(world)

    return run(main, limit_s=100_000)


@pytest.mark.parametrize("name", list(MANIFESTS))
def test_k15_plan_explain_status_pods_and_events_tell_one_story(name: str) -> None:
    manifest = MANIFESTS[name]
    kind = manifest["kind"]

    async def scenario(world: World) -> None:
        planned = (await foretold(world, [manifest])).gangs[0]
        served = from_list_form(manifest) if name.endswith("list") else manifest
        await world.apply([served])
        await world.settle(quiet_s=20)
        gang = (await read_explanation(world.client, "default", "wide", kind)).gangs[0]
        group = await world.get("PodGroup", gang.name.partition("/")[2])
        assert group is not None
        message = group["status"]["schedulingConditions"][-1]["message"]
        assert "\n".join(gang.lines) == message
        assert _unnamed(planned.explained.lines, planned.name) == _unnamed(gang.lines, gang.name)
        pods = [pod for pod in await world.list("Pod") if pod["metadata"]["name"].startswith("wide-")]
        said = [one["message"] for pod in pods for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
        assert (len(pods), set(said)) == (5, {message})
        events = [one["message"] for one in await world.list("Event") if one["involvedObject"]["kind"] == "PodGroup"]
        assert any(message in each or each in message for each in events)

    in_world(scenario)


def _unnamed(lines: tuple[str, ...], name: str) -> list[str]:
    return [line.replace(name, "<gang>") for line in lines]


def test_a_deployment_without_a_set_says_why_it_has_no_gang() -> None:
    manifest = MANIFESTS["DynamoGraphDeployment"]
    notes = {"nvidia.com/kai-scheduler-queue": "nobodys"}
    odd = {**manifest, "metadata": {"name": "wide", "annotations": notes}}

    async def scenario(world: World) -> None:
        planned = await foretold(world, [odd])
        await world.apply([odd])
        await world.settle(quiet_s=20)
        with pytest.raises(WorkloadNotFound, match="queue 'nobodys' not found in cluster") as told:
            await read_explanation(world.client, "default", "wide", "DynamoGraphDeployment")
        assert planned.workloads[0].refusals[0] in str(told.value)

    in_world(scenario)


def test_a_job_that_cannot_be_grouped_says_why_it_has_no_gang() -> None:
    odd = {**MANIFESTS["Job"], "metadata": {"name": "wide", "annotations": {**NOTES, "kai.scheduler/topology": "x"}}}

    async def scenario(world: World) -> None:
        planned = await foretold(world, [odd])
        await world.apply([odd])
        await world.settle(quiet_s=20)
        [told] = (await read_explanation(world.client, "default", "wide", "Job")).gangs
        assert (told.state, told.waits) == ("Mistake", True)
        assert "Requested topology x does not exist" in told.lines[0]
        assert planned.workloads[0].refusals[0] in told.lines[0]

    in_world(scenario)
