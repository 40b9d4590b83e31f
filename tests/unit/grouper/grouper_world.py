"""A world with a pod-grouper in it, and the workloads that live there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kube_embedded.server.api_server import ApiServer
from spinney.api.crds import all_crds
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.grouping.queue_and_priority import GrouperSettings
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.drive.client.http.transport import Transport
from spinney.drive.grouper.grouper import Grouper
from spinney.sim.event_loop import Sim, run
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World

T = TypeVar("T")
Json = dict[str, Any]
Wrap = Callable[[Transport], Any]

RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"
CRDS = [each for each in all_crds() if each["spec"]["group"] != "nvidia.com"]
TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "network"},
    "spec": {"levels": [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]},
}
CLUSTER_TOPOLOGY = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopology",
    "metadata": {"name": "network"},
    "spec": {"levels": [{"domain": "zone", "key": ZONE}, {"domain": "rack", "key": RACK}]},
}


class GrouperWorld:
    """A world and the pod-grouper that can be stopped and begun anew in it."""

    def __init__(self, world: World, sim: Sim, settings: GrouperSettings) -> None:
        self.world = world
        self.sim = sim
        self._settings = settings
        self._task: asyncio.Task[None] | None = None

    async def begin(self, wrap: Wrap = lambda inner: inner) -> None:
        transport = wrap(self.world.transport("pod-grouper"))
        grouper = Grouper(transport, self.sim.clock, self.sim.dice, self._settings)
        self._task = asyncio.create_task(grouper.run())
        await grouper.ready.wait()

    async def end(self) -> None:
        """Stop it, crashed or not."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()

    async def pause(self, seconds: float = 0.1) -> None:
        await asyncio.sleep(seconds)

    async def settle(self, quiet_s: float = 30.0) -> None:
        await self.world.settle(quiet_s)
        assert self._task is not None
        assert not self._task.done(), self._task

    async def groups(self) -> dict[str, Json]:
        return {each["metadata"]["name"]: each for each in await self.world.list("PodGroup")}

    async def the_group(self) -> Json:
        (found,) = (await self.groups()).values()
        return found

    async def annotate(self, kind: str, name: str, **annotations: str | None) -> None:
        await self.patch(kind, name, {"metadata": {"annotations": {_KEYS[k]: v for k, v in annotations.items()}}})

    async def patch(self, kind: str, name: str, body: Json, sub: str = "") -> None:
        found = await self.world.get(kind, name)
        assert found is not None
        ref = self.world.ref(found)
        written(await self.world.door.merge_patch(ref, body, ANY, subresource=sub))

    async def events(self, kind: str, name: str) -> list[str]:
        found = await self.world.list("Event")
        about = [
            each
            for each in found
            if each["involvedObject"]["kind"] == kind
            and each["involvedObject"]["name"] == name
            and each["reason"] == "PodGrouperWarning"
        ]
        return sorted(each["message"] for each in about)


_KEYS = {
    "topology": "kai.scheduler/topology",
    "required": "kai.scheduler/topology-required-placement",
    "preferred": "kai.scheduler/topology-preferred-placement",
}


def placed(**annotations: str) -> Json:
    """Topology annotations by their short names."""
    return {_KEYS[key]: value for key, value in annotations.items()}


def in_world(
    scenario: Callable[[GrouperWorld], Awaitable[T]],
    settings: GrouperSettings | None = None,
    *,
    controllers: tuple[str, ...] = ("job", "deployment", "replicaset", "statefulset"),
    binds: bool = False,
    seed: int = 0,
    wrap: Wrap = lambda inner: inner,
) -> T:
    async def main(sim: Sim) -> T:
        server = ApiServer(sim.clock, sim.dice, plugins=(OperatorAdmission(AdmissionSettings()),))
        parts = Parts(
            behaviour=NodeBehaviour(heartbeat_s=0), controllers=controllers, binds=(lambda _: True) if binds else None
        )
        async with World(sim.clock, sim.dice, parts, server=server) as world:
            await world.apply(CRDS)
            await world.apply([TOPOLOGY, CLUSTER_TOPOLOGY])
            grown = GrouperWorld(world, sim, settings or GrouperSettings())
            await grown.begin(wrap)
            try:
                return await scenario(grown)
            finally:
                await grown.end()

    return run(main, seed=seed, limit_s=200_000)


def pod(name: str, scheduler: str = "kai-scheduler", **metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": pod_spec(scheduler),
    }


def pod_spec(scheduler: str = "kai-scheduler") -> Json:
    return {
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "train"}],
    }


def job(name: str, parallelism: int = 2, completions: int | None = None, **metadata: Any) -> Json:
    spec = {"parallelism": parallelism, "completions": completions or parallelism, "template": {"spec": pod_spec()}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": spec,
    }
