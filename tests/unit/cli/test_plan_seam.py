"""The seam for pages: a text in, a forecast out, over a cluster that is read anew each time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import yaml

from kube_apimachinery.system_clock import SystemClock, system_dice
from kube_embedded.base.identity import AUTHENTICATED, Identity
from spinney.api.crds import all_crds
from spinney.api.labels import KAI_TOP_OWNER_METADATA, POD_GROUP_NAME
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.view.plan_result import PlanResult
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.client.paths import ResourcePath
from spinney.sim.stack import Parts
from spinney.sim.transport import InProcessTransport
from spinney.sim.world import World
from spinney.whatif.inputs.manifests import ManifestError
from spinney.whatif.inputs.nodes import load_nodes
from spinney.whatif.request import planner, podcliqueset_of

POD = """
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: research}
spec: {containers: [{name: main, image: work, resources: {limits: {nvidia.com/gpu: "8"}}}]}
"""


def with_cluster(scenario: Callable[[World], Awaitable[None]], nodes: int = 1) -> None:
    async def main() -> None:
        parts = Parts(nodes=load_nodes()[:nodes], controllers=())
        async with World(SystemClock(), system_dice(), parts) as world:
            await world.apply([each for each in all_crds() if each["spec"]["group"] != "nvidia.com"])
            queue: dict[str, Any] = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
            limits = {each: {"quota": -1, "limit": -1} for each in ("gpu", "cpu", "memory")}
            await world.apply({**queue, "metadata": {"name": "default-queue"}, "spec": {"resources": limits}})
            await scenario(world)

    asyncio.run(main())


def test_b1_a_text_of_manifests_is_answered_while_the_loop_goes_on() -> None:
    async def scenario(world: World) -> None:
        plan_text = planner(world.client)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        forecast: PlanResult = await plan_text(POD)
        ticking.cancel()
        assert forecast.fits
        assert forecast.gangs[0].explained.members[0].node == load_nodes()[0]["metadata"]["name"]
        assert ticks > 1

    with_cluster(scenario)


def test_the_cluster_is_read_anew_for_each_text() -> None:
    async def scenario(world: World) -> None:
        plan_text = planner(world.client)
        assert (await plan_text(POD)).fits
        name = load_nodes()[0]["metadata"]["name"]
        await world.nodes.cordon(name)
        assert not (await plan_text(POD)).fits

    with_cluster(scenario)


@pytest.mark.parametrize("text", ["a: [", "- 1", "kind: Pod", "\x00"])
def test_a_text_that_is_no_manifest_is_a_manifest_error(text: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ManifestError):
            await planner(world.client)(text)

    with_cluster(scenario)


def test_a_cluster_that_may_not_be_read_is_a_client_error() -> None:
    async def scenario(world: World) -> None:
        nobody = InProcessTransport(world.server, Identity("nobody", groups=(AUTHENTICATED,)))
        with pytest.raises(ClientError, match="403"):
            await planner(ApiClient(nobody, system_dice()))(POD)

    with_cluster(scenario)


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: default}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: work}]}}
"""


@pytest.mark.parametrize(("kind", "gangs"), [("Complete", 0), ("Failed", 0), ("Suspended", 1)])
def test_b1_a_job_that_has_ended_asks_for_nothing(kind: str, gangs: int) -> None:
    async def scenario(world: World) -> None:
        (body,) = yaml.safe_load_all(JOB)
        await world.apply(body)
        jobs = ResourcePath("batch", "v1", "jobs")
        ref = jobs.ref("train", "default")
        told = {**await world.client.get(ref), "status": {"conditions": [{"type": kind, "status": "True"}]}}

        class Ended(ApiClient):
            async def get(self, asked: Any, *kind: Any) -> Any:
                return told if asked == ref else await super().get(asked, *kind)

        forecast = await planner(Ended(world.client.transport, system_dice()))(JOB)
        assert len(forecast.gangs) == gangs

    with_cluster(scenario)


@pytest.mark.parametrize(("gpus", "fits"), [("8", True), ("9", False)])
def test_b1_a_job_that_waits_is_told_with_the_pods_that_it_has(gpus: str, fits: bool) -> None:
    async def scenario(world: World) -> None:
        (body,) = yaml.safe_load_all(JOB)
        body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
        await world.apply(body)
        job = await world.client.get(ResourcePath("batch", "v1", "jobs").ref("train", "default"))
        owner = f"apiVersion: batch/v1\nkind: Job\nname: train\nuid: {job['metadata']['uid']}\n"
        metadata = {"name": "pg-train", "namespace": "default", "annotations": {KAI_TOP_OWNER_METADATA: owner}}
        group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata}
        await world.apply({**group, "spec": {"minMember": 1, "queue": "default-queue"}})
        named = {"name": "train-x", "namespace": "default", "annotations": {POD_GROUP_NAME: "pg-train"}}
        spec = {**body["spec"]["template"]["spec"], "schedulerName": "kai-scheduler"}
        await world.apply({"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec})
        forecast = await planner(world.client)(yaml.safe_dump(body))
        assert [(gang.name, gang.fits) for gang in forecast.gangs] == [("default/pg-train", fits)]

    with_cluster(scenario)


@pytest.mark.parametrize("metadata", ["{name: 'No Name', namespace: default}", "{name: a, namespace: No Space}"])
@pytest.mark.parametrize("kind", [("v1", "Pod"), ("grove.io/v1alpha1", "PodCliqueSet")])
def test_b1_a_name_that_no_server_takes_is_refused_where_there_is_one(kind: tuple[str, str], metadata: str) -> None:
    spec = "{containers: [{name: main, image: work}]}"
    clique = f"{{name: w, spec: {{roleName: w, replicas: 1, podSpec: {spec}}}}}"
    spec = spec if kind[1] == "Pod" else f"{{replicas: 1, template: {{cliques: [{clique}]}}}}"

    async def scenario(world: World) -> None:
        text = f"apiVersion: {kind[0]}\nkind: {kind[1]}\nmetadata: {metadata}\nspec: {spec}\n"
        forecast = await planner(world.client)(text)
        assert {said.split(":")[1] for one in forecast.workloads for said in one.refusals} == {" Invalid value"}

    with_cluster(scenario)


def test_b1_nothing_but_comments_is_no_manifest() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ManifestError, match="the text: found no manifest, expected at least one"):
            await planner(world.client)("# nothing")

    with_cluster(scenario)


def test_b1_a_namespace_that_is_not_there_is_noted() -> None:
    async def scenario(world: World) -> None:
        plan_text = planner(world.client)
        words = "namespace research does not exist: it has to be made first"
        assert (await plan_text(POD)).notes == (words,)
        made = "apiVersion: v1\nkind: Namespace\nmetadata: {name: research}\n---"
        assert words not in (await plan_text(made + POD)).notes

    with_cluster(scenario)


GRAPH = """
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: graph, namespace: default}
spec:
  components:
  - {name: Front, podTemplate: {spec: {containers: [{name: main, image: work}]}}}
  - {name: Idle, replicas: 0, podTemplate: {spec: {containers: [{name: main, image: work}]}}}
"""


def test_b1_a_component_that_was_scaled_to_none_asks_for_no_pods() -> None:
    async def scenario(world: World) -> None:
        (graph,) = yaml.safe_load_all(GRAPH)
        made = podcliqueset_of({**graph, "metadata": {**graph["metadata"], "uid": "u"}}, DynamoSettings(), True, 0.0)
        assert isinstance(made, dict)
        await world.apply({**made, "metadata": {"name": "graph", "namespace": "default"}})
        forecast = await planner(world.client)(GRAPH)
        assert [member.name for gang in forecast.gangs for member in gang.explained.members] == ["graph-0-front-0"]

    with_cluster(scenario)
