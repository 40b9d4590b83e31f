"""A world with an operator in it, and the sets that live there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from spinney.api.crds import all_crds
from spinney.core.expansion.settings import Settings
from spinney.sim.event_loop import Sim, run
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes

T = TypeVar("T")
Json = dict[str, Any]

CRDS = [each for each in all_crds() if each["spec"]["group"] != "nvidia.com"]
NODES = """
levels:
- {name: zone, label: topology.kubernetes.io/zone, count: 2}
- {name: block, label: example.com/block, count: 2}
- {name: rack, label: example.com/rack, count: 2}
- {name: host, count: 2}
"""


def in_world(
    scenario: Callable[[World], Awaitable[T]],
    settings: Settings | None = None,
    *,
    nodes: str = NODES,
    binds: bool = True,
    seed: int = 0,
    wrap: Callable[[Sim], Any] | None = None,
    others: list[Json] | None = None,
) -> T:
    """Run a scenario in a fresh world of simulated time, with our kinds served and an operator at work.

    `others` are definitions of kinds that are not ours, there before ours are.
    """

    async def main(sim: Sim) -> T:
        parts = Parts(
            nodes=load_nodes(nodes) if nodes else (),
            behaviour=NodeBehaviour(heartbeat_s=0),
            controllers=(),
            binds=(lambda scheduler_name: True) if binds else None,
            operator=settings or Settings(),
        )
        wrapping = {"wrap": wrap(sim)} if wrap is not None else {}
        async with World(sim.clock, sim.dice, parts, **wrapping) as world:
            await world.apply([*(others or []), *CRDS])
            return await scenario(world)

    return run(main, seed=seed, limit_s=200_000)


def clique(name: str, replicas: int = 1, minimum: int | None = None, **more: Any) -> Json:
    pod_spec = more.pop("podSpec", {"containers": [{"name": "main", "image": "serve"}]})
    spec: Json = {"roleName": name, "replicas": replicas, "podSpec": pod_spec}
    for key in ("startsAfter", "autoScalingConfig"):
        if key in more:
            spec[key] = more.pop(key)
    spec["minAvailable"] = replicas if minimum is None else minimum
    return {"name": name, "spec": spec, **more}


def group(name: str, cliques: list[str], replicas: int = 1, minimum: int = 1, **more: Any) -> Json:
    return {"name": name, "cliqueNames": cliques, "replicas": replicas, "minAvailable": minimum, **more}


def podcliqueset(
    name: str,
    cliques: list[Json],
    groups: list[Json] | None = None,
    replicas: int = 1,
    metadata: Json | None = None,
    strategy: str = "",
    **template: Any,
) -> Json:
    body: Json = {"cliques": cliques, **template}
    if groups:
        body["podCliqueScalingGroups"] = groups
    spec: Json = {"replicas": replicas, "template": body}
    if strategy:
        spec["updateStrategy"] = {"type": strategy}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": spec,
    }


def condition(obj: Json | None, kind: str) -> tuple[str, str]:
    """Status and reason of a condition; empty where there is none."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return next(((each["status"], each.get("reason", "")) for each in conditions if each["type"] == kind), ("", ""))


def names(objects: list[Json]) -> list[str]:
    return sorted(each["metadata"]["name"] for each in objects)


class Counting:
    """A transport that remembers writes, but for those of nodes to themselves."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.stream = inner.stream
        self.close = inner.close
        self.writes: list[str] = []

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        if method != "GET" and "/nodes" not in path:
            self.writes.append(f"{method} {path} {rest.get('body')}")
        return await self._inner.request(method, path, **rest)


async def writes_at_rest(world: World) -> list[str]:
    """The writes that a fresh operator sends to a settled world, also such that would change nothing."""
    transports: list[Counting] = []

    def counting(inner: Any) -> Counting:
        transports.append(Counting(inner))
        return transports[0]

    await world.restart(counting)
    await world.settle(quiet_s=600)
    return transports[0].writes
