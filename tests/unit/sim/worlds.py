"""A small world for tests, and the manifests that live in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from spinney.sim.event_loop import Sim, run
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes

T = TypeVar("T")
NODES = "levels: [{name: rack, label: topology.kubernetes.io/rack, count: 2}, {name: host, count: 2}]\n"


def in_world(
    scenario: Callable[[World], Awaitable[T]],
    nodes: str = NODES,
    seed: int = 0,
    behaviour: NodeBehaviour | None = None,
    binds: bool = True,
    wrap: Callable[[Sim], Any] | None = None,
) -> T:
    """Run a scenario in a fresh world of simulated time."""

    async def main(sim: Sim) -> T:
        parts = Parts(
            nodes=load_nodes(nodes) if nodes else (),
            behaviour=behaviour or NodeBehaviour(),
            binds=(lambda scheduler_name: True) if binds else None,
        )
        wrapping = {"wrap": wrap(sim)} if wrap is not None else {}
        async with World(sim.clock, sim.dice, parts, **wrapping) as world:
            return await scenario(world)

    return run(main, seed=seed, limit_s=20_000)


def pod(name: str, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    spec.setdefault("containers", [{"name": "main", "image": "serve"}])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": spec,
    }


def workload(kind: str, name: str, api_version: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "v1"}]}}
    body = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": body}


def job(name: str, command: list[str] | None = None, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "work"}
    if command:
        container["command"] = command
    pod_spec = {"restartPolicy": "Never", "containers": [container]}
    metadata = {"name": name, "namespace": "default"}
    body = {"template": {"spec": pod_spec}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}


def condition(obj: dict[str, Any] | None, kind: str) -> str:
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((each["status"] for each in conditions if each["type"] == kind), "")
