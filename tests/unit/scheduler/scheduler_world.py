"""A world with an operator, a pod-grouper and a scheduler in it, and gangs made by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from spinney.core.expansion.settings import Settings as OperatorSettings
from spinney.core.scheduling.settings import Settings
from spinney.sim.event_loop import Sim, run
from spinney.sim.installed_roles import installed_rules
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.operator.operator_world import CRDS
from unit.operator.topologies import BLOCK, LEVELS, RACK, ZONE

T = TypeVar("T")
Json = dict[str, Any]

GPU = "nvidia.com/gpu"
NODES = f"""
levels:
- {{name: zone, label: {ZONE}, count: 2}}
- {{name: block, label: {BLOCK}, count: 2}}
- {{name: rack, label: {RACK}, count: 2}}
- {{name: host, count: 2}}
capacity: {{cpu: 64, memory: 64Gi, pods: 110, {GPU}: 8}}
"""
TOPOLOGY: Json = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "tree"},
    "spec": {"levels": [{"nodeLabel": key} for key in LEVELS.values()]},
}
QUEUES = [
    {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {
            "parentQueue": parent,
            "resources": {each: {"quota": -1, "limit": -1} for each in ("gpu", "cpu", "memory")},
        },
    }
    for name, parent in (("default-parent-queue", ""), ("default-queue", "default-parent-queue"))
]
"""As the pod-grouper makes them: for worlds without one."""


def in_world(
    scenario: Callable[[World], Awaitable[T]],
    *,
    settings: Settings | None = None,
    operator: OperatorSettings | None = None,
    nodes: str = NODES,
    seed: int = 0,
    wrap: Callable[[Sim], Any] | None = None,
    controllers: tuple[str, ...] = (),
    judged: bool = True,
) -> T:
    """Run a scenario in a fresh world of simulated time, with a scheduler at work and the topology `tree`.

    Everything is as it is installed; not `judged`: what is stored was never seen by our admission rules.
    """

    async def main(sim: Sim) -> T:
        parts = Parts(
            nodes=load_nodes(nodes) if nodes else (),
            behaviour=NodeBehaviour(heartbeat_s=0),
            controllers=controllers,
            operator=operator,
            scheduler=settings or Settings(),
        )
        rules = (installed_rules(),) if judged else ()
        wrapping = {"wrap": wrap(sim)} if wrap is not None else {}
        async with World(sim.clock, sim.dice, parts, rules=rules, **wrapping) as world:
            await world.apply([*CRDS, TOPOLOGY])
            await world.stack.roles.scheduling.wait()
            return await scenario(world)

    return run(main, seed=seed, limit_s=200_000)


def podgroup(name: str, minimum: int = 1, namespace: str = "default", **spec: Any) -> Json:
    """A gang; `required`, `preferred`: levels of the topology `tree` for the whole of it."""
    metadata: Json = {"name": name, "namespace": namespace, "annotations": spec.pop("annotations", {})}
    levels = constraint(spec.pop("required", ""), spec.pop("preferred", ""))
    body: Json = {"minMember": minimum, "queue": "default-queue", **levels, **spec}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": body}


def constraint(required: str = "", preferred: str = "") -> Json:
    levels = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    found = {key: value for key, value in levels.items() if value}
    return {"topologyConstraint": {"topology": "tree", **found}} if found else {}


def pod(name: str, group: str, gpus: int = 8, *, subgroup: str = "", namespace: str = "default", **spec: Any) -> Json:
    metadata: Json = {"name": name, "namespace": namespace, "annotations": {"pod-group-name": group}}
    metadata["annotations"]["kai.scheduler/skip-podgrouper"] = "true"
    if subgroup:
        metadata["labels"] = {"kai.scheduler/subgroup-name": subgroup}
    amounts = {GPU: str(gpus)} if gpus else {}
    containers = [{"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}]
    body = {"schedulerName": "kai-scheduler", "containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def pods(group: str, count: int, gpus: int = 8, **more: Any) -> list[Json]:
    return [pod(f"{group}-{number}", group, gpus, **more) for number in range(count)]


async def bound(world: World, prefix: str = "", namespace: str = "") -> dict[str, str]:
    """Nodes of the pods that have one, by name."""
    found = await world.list("Pod", namespace)
    chosen = [each for each in found if each["metadata"]["name"].startswith(prefix)]
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in chosen if each["spec"].get("nodeName")}


async def domains(world: World, nodes: Iterable[str], level: str = RACK) -> Counter[tuple[str, ...]]:
    """How many of these nodes are in each domain of a level."""
    keys = list(LEVELS.values())
    path = keys[: keys.index(level) + 1]
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in await world.list("Node")}
    return Counter(tuple(labels[node][key] for key in path) for node in nodes)


async def said(world: World, group: str, namespace: str = "default") -> str:
    """What the PodGroup says about not being scheduled; empty if nothing."""
    found = await world.get("PodGroup", group, namespace)
    conditions = ((found or {}).get("status") or {}).get("schedulingConditions") or []
    return conditions[-1]["message"] if conditions else ""


async def plan_of(world: World, group: str, namespace: str = "default") -> str | None:
    found = await world.get("PodGroup", group, namespace)
    assert found is not None
    return (found["metadata"].get("annotations") or {}).get("spinney.dev/plan")
