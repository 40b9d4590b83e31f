"""The seam for pages: a text in, a forecast out, over a cluster that is read anew each time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from spinney.api.crds import all_crds
from spinney.cli.manifest_files import ManifestError
from spinney.cli.plan_asking import planner
from spinney.core.view.forecast import Forecast
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.serve.apiserver.access.identity import AUTHENTICATED, Identity
from spinney.sim.nodes.describe import load_nodes
from spinney.sim.stack import Parts
from spinney.sim.transport import InProcessTransport
from spinney.sim.world import World

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
        forecast: Forecast = await plan_text(POD)
        ticking.cancel()
        assert forecast.fits
        assert forecast.gangs[0].story.members[0].node == load_nodes()[0]["metadata"]["name"]
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
