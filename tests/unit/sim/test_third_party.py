"""Kinds of others, simulated: their pods are made as upstream makes them, and finish (K1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from spinney.sim.controllers.manager import ALL, THIRD_PARTY
from spinney.sim.controllers.third_party import definitions
from spinney.sim.world import World
from unit.operator.topologies import settings
from unit.scheduler.scheduler_world import bound, in_world

Json = dict[str, Any]

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "workloads").glob("*.yaml"))
CONTAINER = {"name": "main", "image": "example.com/train:1"}


def template(run_s: int | None = None) -> Json:
    """A pod that runs for so long; None: for ever."""
    marks = {} if run_s is None else {"annotations": {"spinney.dev/sim-run-seconds": str(run_s)}}
    return {"metadata": marks, "spec": {"schedulerName": "kai-scheduler", "containers": [CONTAINER]}}


def obj(api_version: str, kind: str, **spec: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "it", "namespace": "default"}, "spec": spec}


def play(scenario: Any) -> None:
    async def main(world: World) -> None:
        await world.apply(definitions())
        await world.settle()
        await scenario(world)

    in_world(main, operator=settings(), controllers=(*ALL, *THIRD_PARTY))


async def pods_of(world: World) -> list[str]:
    return sorted(each["metadata"]["name"] for each in await world.list("Pod"))


async def ended(world: World, kind: str) -> list[str]:
    found = await world.get(kind, "it")
    return [each["type"] for each in ((found or {}).get("status") or {}).get("conditions") or ()]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.stem)
def test_k1_every_example_of_a_workload_gets_its_pods_and_they_get_nodes(example: Path) -> None:
    objects = list(yaml.safe_load_all(example.read_text()))

    async def scenario(world: World) -> None:
        await world.apply(objects)
        await world.settle()
        made = await pods_of(world)
        assert made
        assert sorted(await bound(world)) == made

    play(scenario)


@pytest.mark.parametrize("kind", ["JAXJob", "PyTorchJob", "TFJob", "XGBoostJob"])
def test_k1_a_training_job_succeeds_with_its_pods(kind: str) -> None:
    field = {"JAXJob": "jax", "PyTorchJob": "pytorch", "TFJob": "tf", "XGBoostJob": "xgb"}[kind] + "ReplicaSpecs"

    async def scenario(world: World) -> None:
        await world.apply(
            obj("kubeflow.org/v1", kind, **{field: {"Worker": {"replicas": 2, "template": template(60)}}})
        )
        await world.settle()
        assert await pods_of(world) == ["it-worker-0", "it-worker-1"]
        await world.settle(quiet_s=120)
        assert await ended(world, kind) == ["Succeeded"]
        await world.delete(kind, "it")
        await world.settle()
        assert await pods_of(world) == []

    play(scenario)


def test_k1_an_mpi_job_starts_its_launcher_when_asked_and_succeeds_with_it() -> None:
    async def scenario(world: World) -> None:
        roles = {"Launcher": {"template": template(30)}, "Worker": {"replicas": 2, "template": template(1000)}}
        policy = "WaitForWorkersReady"
        await world.apply(obj("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs=roles, launcherCreationPolicy=policy))
        await world.settle(quiet_s=120)
        assert await ended(world, "MPIJob") == ["Succeeded"]
        assert await pods_of(world) == ["it-launcher-0"]  # the workers are ended

    play(scenario)


def test_k1_a_job_set_is_completed_when_its_jobs_are() -> None:
    async def scenario(world: World) -> None:
        once = template(30)
        once["spec"]["restartPolicy"] = "Never"
        job = {"parallelism": 2, "completions": 2, "template": once}
        parts = [{"name": "workers", "replicas": 2, "template": {"spec": job}}]
        await world.apply(obj("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=parts))
        await world.settle(quiet_s=120)
        assert await ended(world, "JobSet") == ["Completed"]
        found = await world.list("Pod")
        assert {each["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] for each in found} == {"workers"}

    play(scenario)


def test_k1_a_ray_job_and_a_knative_service_get_their_pods_through_what_they_make() -> None:
    async def scenario(world: World) -> None:
        groups = [{"groupName": "gpu", "replicas": 2, "template": template()}]
        cluster = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": groups}
        await world.apply(obj("ray.io/v1", "RayJob", rayClusterSpec=cluster))
        knative = obj("serving.knative.dev/v1", "Service", template={"spec": {"containers": [CONTAINER]}})
        await world.apply(knative | {"metadata": {"name": "web", "namespace": "default"}})
        await world.settle()
        assert await pods_of(world) == ["it-gpu-0", "it-gpu-1", "it-head", "web-00001-deployment-0"]

    play(scenario)


def test_k1_replicas_of_a_leader_worker_set_come_and_go() -> None:
    async def scenario(world: World) -> None:
        for replicas, count in ((2, 6), (1, 3)):
            workers = {"size": 3, "workerTemplate": template()}
            body = obj(
                "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", replicas=replicas, leaderWorkerTemplate=workers
            )
            await world.apply(body)
            await world.settle()
            assert len(await bound(world)) == count

    play(scenario)
