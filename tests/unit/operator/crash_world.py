"""A world whose operator crashes at chosen writes, and what must be the same in the end however often it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from spinney.core.expansion.settings import Settings
from spinney.sim.event_loop import Sim, run
from spinney.sim.faults import Crash, CrashPoint, FaultyTransport, Schedule
from spinney.sim.installed_roles import installed_rules
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts
from spinney.sim.world import World
from spinney.whatif.inputs.nodes import load_nodes
from unit.one_writer import OneWriter, writes_as
from unit.operator.operator_world import CRDS

KINDS = (
    "PodCliqueSet",
    "PodClique",
    "PodCliqueScalingGroup",
    "PodGang",
    "PodGroup",
    "Pod",
    "Service",
    "HorizontalPodAutoscaler",
    "ClusterTopology",
    "Topology",
)
Step = Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Play:
    """What is done to a world at rest; the operator may crash from then on."""

    before: Step
    step: Step
    settings: Settings
    nodes: str
    binds: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """Objects made and removed, and how everything looks; `crashes` is how many of the planned ones came about."""

    counts: Counter[str]
    state: list[Any]
    writes: int
    crashes: int


def _is_the_operators(method: str, rest: Mapping[str, Any]) -> bool:
    deletes = method == "DELETE" and b'"Background"' in (rest.get("body") or b"")
    return deletes or writes_as("grove-operator", rest)


def outcome(play: Play, crashes: Sequence[CrashPoint] = ()) -> Outcome:
    """The first crash counts writes from the step on, each further one from the start of the next operator."""

    async def main(sim: Sim) -> Outcome:
        parts = Parts(
            nodes=load_nodes(play.nodes),
            behaviour=NodeBehaviour(heartbeat_s=0),
            controllers=(),
            binds=(lambda scheduler_name: True) if play.binds else None,
            operator=play.settings,
        )
        transports: list[FaultyTransport] = []

        def wrap(inner: Any) -> Any:
            transports.append(FaultyTransport(inner, sim.dice))
            return OneWriter(inner, transports[-1], _is_the_operators)

        counts: Counter[str] = Counter()

        def seen(collection: str, event: Any) -> None:
            told = collection == "/events" and event.new is not None and b"Successful" in event.new.body
            if (event.old is None or event.new is None) and not told:  # what was done may go untold
                counts[f"{'create' if event.old is None else 'delete'} {collection}"] += 1

        rules = (installed_rules(topology=play.settings.topology_enabled),)
        async with World(sim.clock, sim.dice, parts, rules=rules, wrap=wrap) as world:
            await world.apply(CRDS)
            await world.stack.roles.operating.wait()
            await play.before(world)
            await world.settle(quiet_s=10)
            world.on_write(seen)
            start = transports[0].writes
            happened = await _played(world, play.step, wrap, transports, crashes)
            state = [shape(each) for kind in KINDS for each in await world.list(kind)]
            return Outcome(counts, sorted(state, key=str), transports[0].writes - start, happened)

    return run(main, limit_s=20_000)


async def _played(
    world: World, step: Step, wrap: Any, transports: list[FaultyTransport], crashes: Sequence[CrashPoint]
) -> int:
    """How many crashes there were until the world was at rest."""
    left = list(crashes)

    def arm() -> None:
        if left:
            point, faulty = left.pop(0), transports[-1]
            faulty.schedule = Schedule(crash=CrashPoint(faulty.writes + point.write, point.when))

    def next_wrap(inner: Any) -> Any:
        wrapped = wrap(inner)
        arm()
        return wrapped

    arm()
    await step(world)
    happened = 0
    while True:
        try:
            await world.settle(quiet_s=10)
            return happened
        except BaseExceptionGroup as group:
            assert group.split(Crash)[1] is None
            happened += 1
            await world.restart(next_wrap)


def shape(obj: dict[str, Any]) -> Any:
    """What must be the same in the end, however it came about: no uids, versions, times and generated names."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    pod = obj["kind"] == "Pod"
    conditions = sorted((each["type"], each["status"]) for each in status.get("conditions") or [])
    numbers = {
        key: value for key, value in status.items() if isinstance(value, (int, bool)) and key != "observedGeneration"
    }
    spec = {} if pod else deepcopy(obj["spec"])
    for part in spec.get("podgroups") or []:
        part["podReferences"] = len(part["podReferences"])
    for part in ("clusterIP", "clusterIPs"):
        spec.pop(part, None)
    name = metadata["labels"]["grove.io/podclique-pod-index"] if pod else metadata["name"]
    gates = len(obj["spec"].get("schedulingGates") or []) if pod else 0
    affinity = obj["spec"].get("affinity") if pod else None
    image = obj["spec"]["containers"][0]["image"] if pod else ""
    return (
        obj["kind"],
        name,
        metadata.get("labels") or {},
        sorted(metadata.get("finalizers") or []),
        conditions,
        numbers,
        spec,
        status.get("phase"),
        (gates, affinity, image),
    )
