"""A pod that a Job keeps until it knows how it ended: the simulated kubelet says so before it takes the pod away."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.sim.worlds import condition, in_world, pod

Json = dict[str, Any]
TRACKED = {"finalizers": ["batch.kubernetes.io/job-tracking"]}
ENDS = {"exitCode": 143, "reason": "Error"}


@pytest.mark.parametrize("grace_s", [None, 0])
def test_a_deleted_pod_that_a_job_tracks_is_reported_as_ended(grace_s: int | None) -> None:
    async def scenario(world: World) -> tuple[Json, Json, Json | None]:
        await world.apply(pod("p", metadata=TRACKED))
        await world.settle()
        running = await world.get("Pod", "p")
        assert running is not None
        await world.delete("Pod", "p", grace_s=grace_s)
        await world.settle()
        ended = await world.get("Pod", "p")
        assert ended is not None
        written(await world.door.merge_patch(world.ref(ended), {"metadata": {"finalizers": None}}, ANY))
        await world.settle()
        return running, ended, await world.get("Pod", "p")

    running, ended, gone = in_world(scenario)
    assert running["status"]["phase"] == "Running"
    assert (ended["status"]["phase"], condition(ended, "Ready")) == ("Failed", "False")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"].items() >= ENDS.items()
    assert gone is None


def test_a_pod_that_ended_before_it_was_deleted_keeps_its_end() -> None:
    async def scenario(world: World) -> Json | None:
        await world.apply(pod("p", metadata=TRACKED, restartPolicy="Never"))
        await world.settle()
        await world.delete("Pod", "p")
        await world.settle()
        return await world.get("Pod", "p")

    kept = in_world(scenario)
    assert kept is not None
    assert kept["status"]["phase"] == "Succeeded"
