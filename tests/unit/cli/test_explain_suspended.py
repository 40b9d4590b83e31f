"""`spinney explain` of a workload that is suspended: it neither waits nor has it finished."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.api.crds import all_crds
from spinney.cli.options import Screen
from spinney.cli.render.explanation import shown
from spinney.core.view.explanation import WorkloadExplanation
from spinney.drive.apply.write import ANY
from spinney.sim.event_loop import Sim, run
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.workloads import WorkloadNotFound, read_explanation

Json = dict[str, Any]
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}}
OWNED = {"apiVersion": "batch/v1", "kind": "Job", "name": "a"}


def _job(**spec: Any) -> Json:
    metadata = {"name": "a", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": TEMPLATE, **spec}}


def _looked(job: Json, *phases: str) -> WorkloadExplanation:
    """A Job in a gang with pods in these phases."""

    async def main(sim: Sim) -> WorkloadExplanation:
        async with World(sim.clock, sim.dice, Parts(controllers=())) as world:
            await world.apply([each for each in all_crds() if each["spec"]["group"] != "nvidia.com"])
            (made,) = await world.apply(job)
            owner = {"ownerReferences": [{**OWNED, "uid": made["metadata"]["uid"], "controller": True}]}
            group = {"name": "g", "namespace": "default", **owner}
            kind = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
            if phases:
                await world.apply({**kind, "metadata": group, "spec": {"queue": "q", "minMember": 1}})
            for number, phase in enumerate(phases):
                named = {"name": f"p{number}", "namespace": "default", "annotations": {"pod-group-name": "g"}}
                body = {"apiVersion": "v1", "kind": "Pod", "metadata": {**named, **owner}, **TEMPLATE}
                (pod,) = await world.apply(body)
                await world.door.status(world.ref(pod), {"phase": phase}, ANY)
            return await read_explanation(world.client, "default", "a", "")

    return run(main)


def _title(found: WorkloadExplanation) -> str:
    return shown(found, Screen(width=80)).splitlines()[0]


def test_k15_a_suspended_job_whose_pods_have_ended_has_not_finished() -> None:
    assert _title(_looked(_job(suspend=True), "Succeeded")) == "Job default/a is suspended"
    assert _title(_looked(_job(), "Succeeded")) == "Job default/a has finished"


def test_k15_a_suspended_job_without_pods_is_said_to_be() -> None:
    with pytest.raises(WorkloadNotFound, match="Job default/a is suspended and has no pods"):
        _looked(_job(suspend=True))


def test_k15_as_long_as_it_has_pods_they_are_told_of() -> None:
    found = _looked(_job(suspend=True), "Pending")
    assert not found.suspended
    assert "suspended" not in found.to_json()
