"""Crash at every write of the operator: whoever comes after ends where nobody crashed, with the same objects made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest

from spinney.api.crds import all_crds
from spinney.drive.apply.write import ANY
from spinney.sim.faults import Crash, CrashPoint, FaultyTransport, Schedule, When
from spinney.sim.loop import Sim, run
from spinney.sim.nodes.describe import load_nodes
from spinney.sim.nodes.simulated import Habits
from spinney.sim.stack import Parts
from spinney.sim.world import World
from unit.operator.crash_world import OperatorOnly
from unit.operator.operator_world import clique, group, podcliqueset
from unit.operator.topologies import packed, settings, topology

NODES = "levels: [{name: zone, label: topology.kubernetes.io/zone, count: 1}, {name: host, count: 2}]\n"
LEVELS = {"zone": "topology.kubernetes.io/zone", "host": "kubernetes.io/hostname"}
KINDS = (
    "PodCliqueSet",
    "PodClique",
    "PodCliqueScalingGroup",
    "PodGang",
    "PodGroup",
    "Pod",
    "ClusterTopology",
    "Topology",
)
WHOLE = podcliqueset(
    "d",
    [clique("a", autoScalingConfig={"maxReplicas": 2}), clique("w")],
    [group("g", ["w"], replicas=2)],
    cliqueStartupType="CliqueStartupTypeInOrder",
    topologyConstraint=packed("zone"),
)
SMALL = podcliqueset("d", [clique("a"), clique("w")], [group("g", ["w"], replicas=2)])
CRDS = [each for each in all_crds() if each["spec"]["group"] != "nvidia.com"]
Step = Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Outcome:
    counts: Counter[str]
    state: list[Any]
    writes: int
    crashed: bool


async def _create(world: World) -> None:
    await world.apply(WHOLE)


async def _scale(world: World, replicas: int) -> None:
    found = await world.get("PodCliqueScalingGroup", "d-0-g") or {}
    await world.door.scale(world.ref(found), replicas, ANY)


async def _update(world: World) -> None:
    changed = deepcopy(SMALL)
    for each in changed["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["containers"][0]["image"] = "v2"
    await world.apply(changed)


async def _delete(world: World) -> None:
    await world.delete("PodCliqueSet", "d")


async def _small(world: World) -> None:
    await world.apply(SMALL)


async def _topology(world: World) -> None:
    await world.apply(topology("t", LEVELS))


async def _other_levels(world: World) -> None:
    await world.apply(topology("t", {"zone": "topology.kubernetes.io/zone"}))


async def _drop_topology(world: World) -> None:
    await world.delete("ClusterTopology", "t")


SCENARIOS: dict[str, tuple[Step | None, Step]] = {
    "create": (None, _create),
    "scale out": (_small, lambda world: _scale(world, 3)),
    "scale in": (_small, lambda world: _scale(world, 1)),
    "update": (_small, _update),
    "delete": (_small, _delete),
    "topology made": (None, _topology),
    "topology changed": (_topology, _other_levels),
    "topology deleted": (_topology, _drop_topology),
}


def _outcome(scenario: str, crash: CrashPoint | None) -> Outcome:
    before, step = SCENARIOS[scenario]

    async def main(sim: Sim) -> Outcome:
        parts = Parts(
            nodes=load_nodes(NODES),
            habits=Habits(heartbeat_s=0),
            controllers=(),
            binds=lambda scheduler_name: True,
            operator=settings(LEVELS),
        )
        transports: list[FaultyTransport] = []

        def wrap(inner: Any) -> OperatorOnly:
            transports.append(FaultyTransport(inner, sim.dice))
            return OperatorOnly(inner, transports[-1])

        counts: Counter[str] = Counter()

        def seen(collection: str, event: Any) -> None:
            told = collection == "/events" and event.new is not None and b"Successful" in event.new.body
            if (event.old is None or event.new is None) and not told:  # what was done may go untold
                counts[f"{'create' if event.old is None else 'delete'} {collection}"] += 1

        async with World(sim.clock, sim.dice, parts, wrap=wrap) as world:
            await world.apply(CRDS)
            if before is not None:
                await before(world)
            await world.settle(quiet_s=10)
            world.on_write(seen)
            faulty = transports[0]
            start = faulty.writes
            if crash is not None:
                faulty.schedule = Schedule(crash=CrashPoint(start + crash.write, crash.when))
            await step(world)
            crashed = False
            try:
                await world.settle(quiet_s=10)
            except BaseExceptionGroup as group_:
                assert group_.split(Crash)[1] is None
                crashed = True
                await world.restart()
                await world.settle(quiet_s=10)
            state = [_shape(each) for kind in KINDS for each in await world.list(kind)]
            return Outcome(counts, sorted(state, key=str), faulty.writes - start, crashed)

    return run(main, limit_s=10_000)


def _shape(obj: dict[str, Any]) -> Any:
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
    name = metadata["labels"]["grove.io/podclique-pod-index"] if pod else metadata["name"]
    labels = metadata.get("labels") or {}
    return (
        obj["kind"],
        name,
        labels,
        sorted(metadata.get("finalizers") or []),
        conditions,
        numbers,
        spec,
        status.get("phase"),
    )


CALM = {scenario: _outcome(scenario, None) for scenario in SCENARIOS}
POINTS = [(scenario, write) for scenario, calm in CALM.items() for write in range(1, calm.writes + 1)]


@pytest.mark.parametrize(("scenario", "write"), POINTS)
def test_r5_a_crash_at_any_write_changes_nothing_in_the_end(scenario: str, write: int) -> None:
    """Each write has one of the three kinds of crash in turn; neighbouring writes have different ones."""
    when = list(When)[write % 3]
    found, calm = _outcome(scenario, CrashPoint(write, when)), CALM[scenario]
    assert found.crashed or when is When.AFTER
    assert found.state == calm.state
    assert found.counts == calm.counts
