"""Pod-grouper and scheduler together: from an annotated Job to bound pods, and one voice about a mistake."""

from __future__ import annotations

from typing import Any

from spinney.core.scheduling.settings import Settings
from spinney.sim.event_loop import Sim, run
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.grouper.grouper_world import CLUSTER_TOPOLOGY, CRDS, RACK, TOPOLOGY, job, placed

Json = dict[str, Any]
NODES = f"""
levels:
- {{name: zone, label: topology.kubernetes.io/zone, count: 2}}
- {{name: rack, label: {RACK}, count: 2}}
- {{name: host, count: 2}}
capacity: {{cpu: 4, memory: 64Gi, pods: 110}}
"""


def _long(manifest: Json) -> Json:
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container |= {"command": ["sleep", "100000"], "resources": {"requests": {"cpu": "2"}}}
    return manifest


def test_k1_k2_an_annotated_job_is_bound_into_one_rack_and_a_mistake_keeps_its_words() -> None:
    async def main(sim: Sim) -> tuple[set[str], set[str]]:
        parts = Parts(nodes=load_nodes(NODES), behaviour=NodeBehaviour(heartbeat_s=0), scheduler=Settings())
        async with World(sim.clock, sim.dice, parts) as world:
            await world.apply(CRDS)
            await world.apply([TOPOLOGY, CLUSTER_TOPOLOGY])
            await world.stack.roles.scheduling.wait()
            right = job("right", 4, annotations=placed(topology="network", required="rack"))
            wrong = job("wrong", 1, annotations=placed(topology="network", required="rak"))
            await world.apply([_long(right), _long(wrong)])
            await world.settle(10)
            pods = await world.list("Pod")
            racks = {each["metadata"]["name"]: each["metadata"]["labels"][RACK] for each in await world.list("Node")}
            return (
                {racks[each["spec"]["nodeName"]] for each in pods if each["metadata"]["name"].startswith("right")},
                {each["status"]["conditions"][0]["reason"] for each in pods if "nodeName" not in each["spec"]},
            )

    racks, reasons = run(main, limit_s=10_000)
    assert len(racks) == 1
    assert reasons == {"PodGrouperWarning"}
