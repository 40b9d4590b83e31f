"""The world as a whole: it repeats by seed, comes to rest, and carries workloads through their lives."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kube_apimachinery.system_clock import SystemClock
from spinney.sim.event_loop import Sim
from spinney.sim.faults import FaultyTransport, Schedule
from spinney.sim.nodes.pod_lifecycle import Timing
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.transport import TracingTransport
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.sim.worlds import NODES, condition, in_world, job, pod, workload


def _traced(seed: int) -> list[str]:
    traces: list[TracingTransport] = []

    def wrap(sim: Sim) -> Any:
        def around(inner: Any) -> Any:
            faulty = FaultyTransport(inner, sim.dice, Schedule(otherwise=0.02))
            traces.append(TracingTransport(faulty, sim.clock))
            return traces[-1]

        return around

    async def scenario(world: World) -> None:
        await world.apply([workload("Deployment", "web", replicas=3), job("once"), pod("alone")])
        await world.settle()
        await world.nodes.lose("r0-h0")
        await world.settle()

    in_world(scenario, seed=seed, wrap=wrap)
    return traces[0].lines


def test_the_same_seed_gives_the_same_run_byte_for_byte() -> None:
    first, second = _traced(11), _traced(11)
    assert len(first) > 100
    assert first == second


def test_another_seed_gives_another_run() -> None:
    assert _traced(11) != _traced(12)


def test_at_rest_nothing_is_written_but_heartbeats() -> None:
    async def scenario(world: World) -> tuple[int, int]:
        await world.apply([workload("Deployment", "web", replicas=3), workload("StatefulSet", "db", replicas=2)])
        await world.settle()
        before, leases = world.writes, []
        world.on_write(lambda collection, event: leases.append(collection))
        await world.settle(quiet_s=600)
        assert set(leases) == {"coordination.k8s.io/leases"}
        return before, world.writes

    before, after = in_world(scenario)
    assert before == after


def test_a_plain_pod_costs_one_bind_and_one_status_write() -> None:
    async def scenario(world: World) -> list[str]:
        await world.settle()
        seen: list[str] = []
        world.on_write(lambda collection, event: seen.append(collection))
        await world.apply(pod("p"))
        await world.settle(quiet_s=10)
        return [collection for collection in seen if collection == "/pods"]

    assert len(in_world(scenario)) == 3


def test_a_deployment_comes_up_and_rolls_over() -> None:
    async def scenario(world: World) -> tuple[dict[str, Any], set[str]]:
        await world.apply(workload("Deployment", "web", replicas=4))
        await world.settle()
        changed = workload("Deployment", "web", replicas=4)
        changed["spec"]["template"]["spec"]["containers"][0]["image"] = "v2"
        await world.apply(changed)
        await world.settle()
        deployment = await world.get("Deployment", "web")
        assert deployment is not None
        images = {each["spec"]["containers"][0]["image"] for each in await world.list("Pod")}
        return deployment, images

    deployment, images = in_world(scenario)
    assert images == {"v2"}
    assert deployment["status"]["availableReplicas"] == 4
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert condition(deployment, "Available") == "True"


def test_recreate_never_runs_old_and_new_together() -> None:
    async def scenario(world: World) -> set[str]:
        first = workload("Deployment", "web", replicas=3, strategy={"type": "Recreate"})
        await world.apply(first)
        await world.settle()
        first["spec"]["template"]["spec"]["containers"][0]["image"] = "v2"
        await world.apply(first)
        together: set[str] = set()
        while not together or {each["spec"]["containers"][0]["image"] for each in await world.list("Pod")} != {"v2"}:
            images = {each["spec"]["containers"][0]["image"] for each in await world.list("Pod")}
            together.add("+".join(sorted(images)))
            await asyncio.sleep(0.05)
        return together

    assert "v1+v2" not in in_world(scenario)


def test_a_statefulset_starts_in_order_with_its_volumes() -> None:
    async def scenario(world: World) -> tuple[list[str], list[str], dict[str, Any] | None]:
        started: list[str] = []

        def seen(collection: str, event: Any) -> None:
            if collection == "/pods" and event.old is None:
                started.append(event.new.name)

        world.on_write(seen)
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await world.apply(workload("StatefulSet", "db", replicas=3, serviceName="db", volumeClaimTemplates=[claim]))
        await world.settle()
        phases = [each["status"]["phase"] for each in await world.list("PersistentVolumeClaim")]
        return started, phases, await world.get("StatefulSet", "db")

    started, phases, statefulset = in_world(scenario)
    assert started == ["db-0", "db-1", "db-2"]
    assert phases == ["Bound"] * 3
    assert statefulset is not None
    assert statefulset["status"]["readyReplicas"] == 3


def test_an_indexed_job_completes() -> None:
    async def scenario(world: World) -> dict[str, Any] | None:
        await world.apply(job("train", completionMode="Indexed", completions=5, parallelism=2))
        await world.settle()
        return await world.get("Job", "train")

    done = in_world(scenario)
    assert done is not None
    assert done["status"]["completedIndexes"] == "0-4"
    assert condition(done, "Complete") == "True"


def test_a_job_whose_pods_crash_fails_after_its_limit() -> None:
    async def scenario(world: World) -> dict[str, Any] | None:
        failing = job("bad", backoffLimit=2)
        failing["spec"]["template"]["metadata"] = {"annotations": {"spinney.dev/sim-fail": "crash"}}
        await world.apply(failing)
        await world.settle()
        return await world.get("Job", "bad")

    failed = in_world(scenario)
    assert failed is not None
    assert condition(failed, "Failed") == "True"
    assert failed["status"]["failed"] == 3


def test_a_disruption_budget_follows_its_pods() -> None:
    async def scenario(world: World) -> list[tuple[int, int]]:
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        }
        await world.apply([workload("Deployment", "web", replicas=3), budget])
        await world.settle()
        seen = []
        for replicas in (3, 2):
            await world.apply(workload("Deployment", "web", replicas=replicas))
            await world.settle()
            status = (await world.get("PodDisruptionBudget", "b") or {})["status"]
            seen.append((status["currentHealthy"], status["disruptionsAllowed"]))
        return seen

    assert in_world(scenario) == [(3, 1), (2, 0)]


@pytest.mark.parametrize("seed", range(5))
def test_after_the_faults_stop_the_world_comes_to_what_was_asked_for(seed: int) -> None:
    transports: list[FaultyTransport] = []

    def wrap(sim: Sim) -> Any:
        def around(inner: Any) -> Any:
            transports.append(FaultyTransport(inner, sim.dice, Schedule(otherwise=0.05)))
            return transports[0]

        return around

    async def scenario(world: World) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        await world.apply([workload("Deployment", "web", replicas=6), job("train", completions=4, parallelism=2)])
        await asyncio.sleep(120)
        transports[0].calm()
        await world.settle(quiet_s=300)
        return await world.get("Deployment", "web"), await world.get("Job", "train")

    deployment, train = in_world(scenario, seed=seed, wrap=wrap)
    assert sum(transports[0].counts.values()) > 10
    assert deployment is not None
    assert deployment["status"]["availableReplicas"] == 6
    assert condition(train, "Complete") == "True"


def test_a_change_at_the_instant_of_a_bookmark_is_not_lost() -> None:
    async def scenario(world: World) -> str:
        await asyncio.sleep(60 - world.clock.monotonic())
        await world.nodes.cordon("r0-h0")
        await asyncio.sleep(1)
        seen = world.stack.views.nodes.get(("", "r0-h0"))
        assert seen is not None
        return str(seen.spec.unschedulable)

    assert in_world(scenario) == "True"


async def test_the_same_world_runs_on_the_real_clock() -> None:
    quick = NodeBehaviour(timing=Timing(start_s=0, init_s=0, finish_s=0, stop_s=0))
    parts = Parts(nodes=load_nodes(NODES), behaviour=quick, binds=lambda scheduler_name: True)
    async with World(SystemClock(), random.Random(1), parts) as world:
        ready = asyncio.Event()

        def seen(collection: str, event: Any) -> None:
            if collection == "/pods" and event.new is not None and b'"phase":"Running"' in event.new.body:
                ready.set()

        world.on_write(seen)
        await world.apply(pod("p"))
        async with asyncio.timeout(10):
            await ready.wait()
        assert condition(await world.get("Pod", "p"), "Ready") == "True"
